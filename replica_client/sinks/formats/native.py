"""The package's own line formats: native, flat and CloudEvents.

The native format has the lines of ``replica-client changes --json``. A row change::

    {"file": …, "position": …, "event_index": …, "row_index": …, "gtid": …, "timestamp": …,
     "kind": "insert" | "update" | "delete", "database": …, "table": …, "before": …, "after": …}

``json_null`` follows where a JSON column holds the document ``null``: which columns of which image
(:mod:`replica_client.rows.json_values`).

A row of a snapshot has the kind ``snapshot`` and no ``before``. The row contains every change
before its position, and replaces any row with its key. ``row_index`` is its number in the table's
snapshot.

A schema change has ``kind`` such as ``alter_table`` or ``truncate_table`` and ``statement`` in
place of ``before`` and ``after``; a rename also ``new_database`` and ``new_table``. A loss that is
recorded instead of stopping the stream has ``kind`` ``loss``, and ``loss``, ``count`` and
``reason``. Values are those of :mod:`replica_client.rows.json_values`.

The format ``flat`` has what Debezium's ``ExtractNewRecordState`` makes of its envelope.
A value is the row after the change, with ``__deleted`` and the fields of ``add_fields``. A TRUNCATE has no row: it is
written as Debezium's ``t`` event, where schema changes go.

CloudEvents 1.0: the output of another format with the attributes of CloudEvents.

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

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import count
from typing import Any, Final, Literal
from urllib.parse import quote as percent_encoded

import msgspec

from replica_client.errors import ConfigError
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.json_lines import JsonLines
from replica_client.rows.json_values import (
    ByDecoder,
    json_null_columns,
    json_null_member,
    quote,
    value_to_json,
)
from replica_client.schema.history import SchemaChange
from replica_client.schema.shape import ColumnShape, TableShape
from replica_client.sinks.formats.debezium import DebeziumFormat, with_schemas
from replica_client.sinks.formats.debezium_values import DebeziumOptions
from replica_client.sinks.formats.line_format import LineFormat, make_format
from replica_client.sinks.formats.message import (
    KeyChoice,
    KeyWriter,
    Message,
    MessageKind,
    RowWriter,
    delivered_columns,
    numbered_rows,
    unwritable,
)
from replica_client.sinks.protocol import SnapshotRows
from replica_client.sinks.registry import read_options
from replica_client.stream.position.losses import Loss
from replica_client.stream.transactions.transaction import Transaction

_PIECE = 256 << 10
"""Bytes after which a piece is yielded."""


class NativeFormat:
    """The format ``native``; see the module.

    Args:
        keys: the choice of message keys; None: messages have no key.
    """

    def __init__(self, keys: KeyChoice | None = None) -> None:
        self._text = JsonLines()
        self._keys = keys
        self._tables = ByDecoder(self._key_writer)

    def _key_writer(self, rows: RowsOfEvent) -> KeyWriter:
        return self._key_of(rows.shape, delivered_columns(rows))

    def _key_of(self, shape: TableShape, columns: Sequence[ColumnShape]) -> KeyWriter:
        names, unique = (self._keys or KeyChoice()).of(shape)
        return KeyWriter(columns, names, lambda _: value_to_json, space=" ", unique=unique)

    def lines(self, transaction: Transaction) -> Iterator[str]:
        for piece in self.encoded((transaction,)):
            yield from piece.decode().removesuffix("\n").split("\n")

    def messages(self, transaction: Transaction) -> Iterator[Message]:
        text = self._text
        text.take()
        for item in transaction.items:
            if isinstance(item, RowsOfEvent):
                text.rows(item)
                lines = text.take().decode().removesuffix("\n").split("\n")
                yield from self._row_messages(item, lines)
            elif isinstance(item, SchemaChange):
                line = _schema_change(item, transaction)
                kind: MessageKind = "row" if item.kind == "truncate_table" else "schema"
                yield Message(kind, item.database, item.table, None, line)
            else:
                yield Message("schema", item.database, item.table, None, _loss(item))

    def _row_messages(self, rows: RowsOfEvent, lines: list[str]) -> Iterator[Message]:
        shape, writer = rows.shape, self._tables.of(rows)
        database, table = shape.database, shape.table
        if self._keys is None:
            for line in lines:
                yield Message("row", database, table, None, line)
            return
        for line, (index, before, after) in zip(lines, numbered_rows(rows), strict=True):
            key, gone = writer.of_change(before, after)
            yield Message("row", database, table, key, line, gone, (), rows, index)

    def snapshot(self, rows: SnapshotRows) -> Iterator[Message]:
        shape, low = rows.shape, rows.low
        database, table = shape.database, shape.table
        writer = RowWriter(rows.columns, lambda _: value_to_json, " ")
        names = [column.name for column in rows.columns]
        key = self._key_of(shape, rows.columns)
        head = f'{{"file": {quote(low.file)}, "position": {low.offset}, "event_index": 0, "row_index": '
        middle = (
            f', "gtid": "", "timestamp": {rows.timestamp}, "kind": "snapshot", "database": {quote(database)}, '
            f'"table": {quote(table)}, "before": null, "after": '
        )
        for number, row in zip(rows.numbers, rows.rows, strict=True):
            text = writer.text(row)
            nulls = json_null_member((), json_null_columns(names, row, text))
            line = f"{head}{number}{middle}{text}{nulls}}}"
            yield Message(
                "row", database, table, None if self._keys is None else key.text(row), line
            )

    def encoded(self, transactions: Iterable[Transaction]) -> Iterator[bytes | bytearray]:
        """Yield the lines of transactions in UTF-8 with line ends, in pieces of many lines.

        Raises:
            BinlogDecodeError: a row cannot be decoded.
        """
        text = self._text
        # Drop output that an earlier caller abandoned.
        text.take()
        for transaction in transactions:
            for item in transaction.items:
                if isinstance(item, RowsOfEvent):
                    text.rows(item)
                elif isinstance(item, SchemaChange):
                    text.line(_schema_change(item, transaction))
                else:
                    text.line(_loss(item))
                if text.used >= _PIECE:
                    yield text.take()
        if text.used:
            yield text.take()


def _schema_change(change: SchemaChange, transaction: Transaction) -> str:
    renamed = ""
    database, table = change.name_after
    if (database, table) != (change.database, change.table):
        renamed = f', "new_database": {quote(database)}, "new_table": {quote(table)}'
    return (
        f'{{"file": {quote(change.file)}, "position": {change.position}, '
        f'"event_index": {change.event_index}, "row_index": 0, "gtid": {quote(transaction.gtid)}, '
        f'"timestamp": {transaction.timestamp}, "kind": "{change.kind}", '
        f'"database": {quote(change.database)}, "table": {quote(change.table)}{renamed}, '
        f'"statement": {quote(change.statement)}}}'
    )


def _loss(loss: Loss) -> str:
    count = "null" if loss.count is None else str(loss.count)
    return (
        f'{{"file": {quote(loss.file)}, "position": {loss.position}, '
        f'"event_index": {loss.event_index}, "row_index": 0, "gtid": {quote(loss.gtid)}, '
        f'"timestamp": {loss.timestamp}, "kind": "loss", "database": {quote(loss.database)}, '
        f'"table": {quote(loss.table)}, "loss": "{loss.kind}", "count": {count}, '
        f'"reason": {quote(loss.reason)}}}'
    )


_ROOT: Final = frozenset(("op", "ts_ms", "ts_us", "ts_ns"))
_OF_TRANSACTION: Final = frozenset(("id", "total_order", "data_collection_order"))
_PREFIX: Final = "__"
_DELETED: Final = "__deleted"


class FlatOptions(DebeziumOptions, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of the format: those of ``debezium``, and of Debezium's transform.

    Attributes:
        add_fields: fields of the envelope to add, such as ``op``, ``table`` or ``source.ts_ms``: they become ``__op``,
            ``__table`` and ``__source_ts_ms``.
        delete_handling: ``rewrite``: a deleted row, with ``"__deleted":"true"``, and a tombstone where the sink writes
            them; ``tombstone``: the tombstone alone, for the sink ``kafka``; ``drop``: nothing.
    """

    add_fields: tuple[str, ...] = ()
    delete_handling: Literal["rewrite", "tombstone", "drop"] = "rewrite"


class _Envelope(msgspec.Struct):
    before: msgspec.Raw
    after: msgspec.Raw
    source: dict[str, Any]
    op: str
    ts_ms: int
    ts_us: int
    ts_ns: int
    transaction: dict[str, Any] | None = None


class FlatFormat:
    """The format ``flat``.

    Args:
        options: what the user chose.
        keys: of messages; None: they have none.

    Raises:
        ConfigError: an option is wrong.
    """

    def __init__(self, options: FlatOptions, keys: KeyChoice | None = None) -> None:
        if options.delete_handling == "tombstone" and keys is None:
            raise ConfigError(
                "format_options: delete_handling = 'tombstone' needs a sink that writes tombstones: kafka"
            )
        self._options = options
        self._envelopes = DebeziumFormat(options, keys, apart=options.schemas_enable)
        self._decode = msgspec.json.Decoder(_Envelope).decode
        self._fields = tuple(map(_reference, options.add_fields))

    @classmethod
    def of(cls, options: Mapping[str, object], keys: KeyChoice | None = None) -> FlatFormat:
        """Build the format from a table of the configuration.

        Raises:
            ConfigError: an option is wrong.
        """
        return cls(read_options(FlatOptions, options, "format_options"), keys)

    def lines(self, transaction: Transaction) -> Iterator[str]:
        for message in self.messages(transaction):
            yield message.value

    def messages(self, transaction: Transaction) -> Iterator[Message]:
        return self._flat(self._envelopes.messages(transaction))

    def snapshot(self, rows: SnapshotRows) -> Iterator[Message]:
        return self._flat(self._envelopes.snapshot(rows))

    def _flat(self, messages: Iterator[Message]) -> Iterator[Message]:
        described = self._options.schemas_enable
        for message in messages:
            made: Message | None = message
            if message.kind == "row":
                made = self._flat_row(message)
            if made is not None:
                yield with_schemas(made) if described and made.value else made

    def _flat_row(self, message: Message) -> Message | None:
        """Return the flat form of a row; None for nothing, a value of ``""`` for a tombstone alone."""
        envelope = self._decode(message.value)
        if envelope.op == "t":
            return message._replace(kind="schema")
        handling, is_delete = self._options.delete_handling, envelope.op == "d"
        if is_delete and handling == "drop":
            return None
        if is_delete and handling == "tombstone":
            if message.gone is None:
                raise unwritable(
                    message,
                    f"{message.database}.{message.table}: a DELETE without a unique key has no tombstone: set "
                    "delete_handling to 'rewrite' or 'drop'",
                )
            return message._replace(value="")
        row = bytes(envelope.before if is_delete else envelope.after).decode()
        added = [] if handling != "rewrite" else [f'"{_DELETED}":"{str(is_delete).lower()}"']
        added += [
            f"{json.dumps(name)}:{msgspec.json.encode(_field(envelope, *path)).decode()}"
            for name, *path in self._fields
        ]
        parts = [part for part in (row[1:-1], *added) if part]
        key, value = message.schemas
        schema = _flat_schema(value, handling == "rewrite", self._fields) if value else ""
        return message._replace(value=f"{{{','.join(parts)}}}", schemas=(key, schema))


def _reference(text: str) -> tuple[str, str, str]:
    """Return the name of an added field, the block of the envelope it is in, and its name there."""
    block, point, field = text.strip().rpartition(".")
    if not field or block not in ("", "source", "transaction"):
        raise ConfigError(
            f"format_options: add_fields: {text!r} is not a field, source.FIELD or transaction.FIELD"
        )
    if point:
        return f"{_PREFIX}{block}_{field}", block, field
    if field not in _ROOT:
        block = "transaction" if field in _OF_TRANSACTION else "source"
    return f"{_PREFIX}{field}", block, field


def _field(envelope: _Envelope, block: str, field: str) -> Any:
    if not block:
        return getattr(envelope, field)
    return (getattr(envelope, block) or {}).get(field)


@lru_cache(maxsize=4096)
def _flat_schema(text: str, deleted: bool, added: tuple[tuple[str, str, str], ...]) -> str:
    """Return the schema of flat rows for the schema of their envelope."""
    members = {one["field"]: one for one in json.loads(text)["fields"]}
    fields = list(members["after"]["fields"])
    if deleted:
        fields.append({"type": "string", "optional": True, "field": _DELETED})
    for name, block, field in added:
        there = members[block]["fields"] if block else members.values()
        known = next((one for one in there if one["field"] == field), {"type": "string"})
        fields.append({**known, "optional": True, "field": name})
    schema = {
        "type": "struct",
        "fields": fields,
        "optional": False,
        "name": members["after"]["name"],
    }
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))


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
