"""CloudEvents 1.0: the output of another format with the attributes of CloudEvents.

==================  ==========================================================================================
attribute           is
==================  ==========================================================================================
``id``              the transaction (GTID, or file and offset), ``:``, and the event's number in it; of a row of a
                    snapshot the name of its chunk and its number. Stable if the event is sent again
``source``          the option
``type``            ``PREFIX.row`` (also TRUNCATE), ``PREFIX.schema`` or ``PREFIX.transaction``
``subject``         ``DATABASE.TABLE``; absent if the event belongs to no table
``time``            when the transaction was committed on the source; of a snapshot when the row was read
``partitionkey``    the key of the row, if the sink has keys
``data``            the output of the format ``data``
==================  ==========================================================================================

Structured events are JSON with all attributes. Binary events have only the data as value and the
attributes as headers ``ce_…``: for sinks with headers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Final, Literal
from urllib.parse import quote as percent_encoded

import msgspec

from replica_client.errors import ConfigError
from replica_client.rows.json_values import quote
from replica_client.sinks.formats.line_format import LineFormat, make_format
from replica_client.sinks.formats.message import KeyChoice, Message
from replica_client.sinks.protocol import SnapshotRows
from replica_client.sinks.registry import read_options
from replica_client.stream.transactions.transaction import Transaction

STRUCTURED: Final = "application/cloudevents+json; charset=UTF-8"
BATCH: Final = "application/cloudevents-batch+json; charset=UTF-8"
_JSON: Final = "application/json"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class CloudEventsOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of the format ``cloudevents``.

    Attributes:
        data: the format of an event's data.
        data_options: options of that format.
        source: attribute ``source``, a URI reference; must differ for each source of changes.
        type_prefix: first part of the attribute ``type``.
        mode: ``structured``: an event is one JSON text; ``binary``: attributes are headers, for the
            sink ``kafka``.
    """

    data: Literal["native", "debezium", "maxwell", "canal"] = "native"
    data_options: dict[str, Any] = {}
    source: str = "/replica_client"
    type_prefix: str = "replica_client"
    mode: Literal["structured", "binary"] = "structured"


class CloudEventsFormat:
    """The format ``cloudevents``; see the module.

    Args:
        options: what the user chose.
        keys: the choice of message keys; None: messages have no key.

    Raises:
        ConfigError: an option is wrong.
    """

    def __init__(self, options: CloudEventsOptions, keys: KeyChoice | None = None) -> None:
        for name in ("source", "type_prefix"):
            text = getattr(options, name)
            if not text or not text.isascii() or not text.isprintable() or " " in text:
                raise ConfigError(
                    f"format_options: {name}: it must be printable ASCII without blanks"
                )
        self._inner: LineFormat = make_format(options.data, options.data_options, keys)
        self._options = options
        self._binary = options.mode == "binary"
        self._numbers = count(1)

    @classmethod
    def of(cls, options: Mapping[str, object], keys: KeyChoice | None = None) -> CloudEventsFormat:
        """Build the format from a table of the configuration.

        Raises:
            ConfigError: an option is wrong.
        """
        return cls(read_options(CloudEventsOptions, options, "format_options"), keys)

    def lines(self, transaction: Transaction) -> Iterator[str]:
        for message in self.messages(transaction):
            yield message.value

    def messages(self, transaction: Transaction) -> Iterator[Message]:
        if not transaction.part:
            self._numbers = count(1)
        start = transaction.start
        name = transaction.gtid or f"{percent_encoded(start.file)}:{start.offset}"
        yield from self._events(
            self._inner.messages(transaction), name, transaction.commit_us, self._numbers
        )

    def snapshot(self, rows: SnapshotRows) -> Iterator[Message]:
        micros = rows.timestamp * 1_000_000
        yield from self._events(self._inner.snapshot(rows), rows.name, micros, count(1))

    def _events(
        self, messages: Iterable[Message], name: str, micros: int, numbers: Iterator[int]
    ) -> Iterator[Message]:
        options, at = self._options, _rfc3339(micros)
        for message in messages:
            attributes = {
                "specversion": "1.0",
                "id": f"{name}:{next(numbers)}",
                "source": options.source,
                "type": f"{options.type_prefix}.{message.kind}",
                "time": at,
            }
            if message.table:
                attributes["subject"] = f"{message.database}.{message.table}"
            elif message.database:
                attributes["subject"] = message.database
            if message.key is not None:
                attributes["partitionkey"] = message.key
            if self._binary:
                headers = [(f"ce_{key}", text) for key, text in attributes.items()]
                own = (("content-type", _JSON), *headers)
                yield message._replace(headers=message.headers + own)
                continue
            members = ",".join(f'"{key}":{quote(text)}' for key, text in attributes.items())
            yield message._replace(
                value=f'{{{members},"datacontenttype":"{_JSON}","data":{message.value}}}',
                headers=(*message.headers, ("content-type", STRUCTURED)),
            )


def _rfc3339(micros: int) -> str:
    return (_EPOCH + timedelta(microseconds=micros)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
