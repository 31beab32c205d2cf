"""Rows as flat JSON objects: what Debezium's ``ExtractNewRecordState`` makes of its envelope.

A value is the row after the change, with ``__deleted`` and the fields of ``add_fields``. A TRUNCATE has no row: it is
written as Debezium's ``t`` event, where schema changes go.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, Literal

import msgspec

from replica_client.errors import ConfigError
from replica_client.sinks.formats.debezium import DebeziumFormat, with_schemas
from replica_client.sinks.formats.debezium_values import DebeziumOptions
from replica_client.sinks.formats.message import KeyChoice, Message, unwritable
from replica_client.sinks.protocol import SnapshotRows
from replica_client.sinks.registry import read_options
from replica_client.stream.transactions.transaction import Transaction

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
