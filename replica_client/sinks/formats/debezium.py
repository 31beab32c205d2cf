"""Debezium's envelope as schema-less JSON, one change event value per line.

Facts: Debezium's documentation of its MySQL connector, "Data change events", "Data type mappings",
"Transaction metadata" and "Schema change topic", and the connector's options of the same names. What
differs, and why:

- Keys, headers and tombstones are those of :meth:`DebeziumFormat.messages`, for sinks that have them; a line is
  a value.
- TRUNCATE is a ``t`` event (as with Debezium's ``skipped.operations=none``): a consumer that does not
  know of it holds wrong rows. Schema changes are lines of their own, as in the schema change topic.
- BIGINT UNSIGNED is the number itself; TIME can be negative.
- Columns that the row image left out (``binlog_row_image`` is not FULL) are left out.
- ``source.version`` is ours.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from replica_client._version import __version__
from replica_client.readers.transaction import Transaction
from replica_client.rows.by_decoder import ByDecoder
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.json_values import quote
from replica_client.schema.history import SchemaChange
from replica_client.schema.shape import ColumnShape
from replica_client.sinks.formats.debezium_schema import schema_change_members
from replica_client.sinks.formats.debezium_values import (
    BinaryMode,
    DecimalMode,
    debezium_writer,
)
from replica_client.sinks.formats.message import KeyChoice, KeyWriter, Message
from replica_client.sinks.formats.row_text import RowWriter, array, delivered_columns, numbered_rows
from replica_client.sinks.sink_options import read_options

_OPERATIONS = {"insert": "c", "update": "u", "delete": "d"}
_NEW_KEY, _OLD_KEY = "__debezium.newkey", "__debezium.oldkey"


class DebeziumOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of Debezium's connector, with ``_`` for ``.``.

    Attributes:
        topic_prefix: the connector's logical name, ``source.name``.
        connector: ``source.connector``.
        decimal_handling_mode: ``precise``: base64 of the unscaled number, big-endian, in two's
            complement; ``string``; ``double``.
        binary_handling_mode: ``bytes`` and ``base64`` (the same in JSON), ``base64-url-safe``, ``hex``.
        provide_transaction_metadata: fill ``transaction``, and write BEGIN and END lines.
        include_schema_changes: write schema changes.
    """

    topic_prefix: str = "replica_client"
    connector: Literal["mysql", "mariadb"] = "mysql"
    decimal_handling_mode: DecimalMode = "precise"
    binary_handling_mode: BinaryMode = "bytes"
    provide_transaction_metadata: bool = False
    include_schema_changes: bool = True


class _Table(msgspec.Struct, frozen=True):
    writer: RowWriter
    key: KeyWriter
    row_key: KeyWriter
    """Of the primary key: what an update does to it makes a delete and an insert of it."""


class DebeziumFormat:
    """See the module.

    Args:
        options: how values are written.
        keys: of messages; None: they have none.
    """

    def __init__(self, options: DebeziumOptions, keys: KeyChoice | None = None) -> None:
        self._options = options
        self._keys = keys
        self._tables = ByDecoder(self._table)
        self._total = 0
        self._orders: Counter[str] = Counter()

    @classmethod
    def of(cls, options: Mapping[str, object], keys: KeyChoice | None = None) -> DebeziumFormat:
        """Make it from a table of the configuration.

        Raises:
            ConfigError: an option is wrong.
        """
        return cls(read_options(DebeziumOptions, options, "format_options"), keys)

    def _table(self, rows: RowsOfEvent) -> _Table:
        options, shape, columns = self._options, rows.shape, delivered_columns(rows)

        def writer_of(column: ColumnShape) -> Any:
            return debezium_writer(
                column, options.decimal_handling_mode, options.binary_handling_mode
            )

        primary = [shape.columns[at].name for at in shape.primary_key]
        row_key = KeyWriter(columns, primary, writer_of)
        names, unique = (primary, True) if self._keys is None else self._keys.of(rows)
        key = row_key if unique else KeyWriter(columns, names, writer_of, unique=False)
        return _Table(RowWriter(columns, writer_of), key, row_key)

    def lines(self, transaction: Transaction) -> Iterator[str]:
        """See :class:`~replica_client.sinks.formats.line_format.LineFormat`."""
        for message in self.messages(transaction):
            yield message.value

    def messages(self, transaction: Transaction) -> Iterator[Message]:
        """See :class:`~replica_client.sinks.formats.line_format.LineFormat`."""
        metadata = self._options.provide_transaction_metadata and bool(
            transaction.rows or transaction.part
        )
        if not transaction.part:
            self._total, self._orders = 0, Counter()
            if metadata:
                yield self._boundary(transaction, "BEGIN")
        for item in transaction.items:
            if isinstance(item, RowsOfEvent):
                yield from self._rows(item, transaction)
            elif isinstance(item, SchemaChange):
                if item.kind == "truncate_table":
                    yield self._truncate(item, transaction)
                elif self._options.include_schema_changes:
                    yield self._schema_change(item, transaction)
        if metadata and transaction.complete:
            yield self._boundary(transaction, "END")

    def _rows(self, rows: RowsOfEvent, transaction: Transaction) -> Iterator[Message]:
        table, event = self._tables.of(rows), rows.event
        shape, text = rows.shape, table.writer.text
        collection = f"{shape.database}.{shape.table}"
        head, tail = self._source(
            transaction,
            event.file,
            event.position,
            event.header.server_id,
            shape.database,
            shape.table,
            event.header.timestamp,
        )
        kind, keyed = event.body.kind, self._keys is not None
        database, name = shape.database, shape.table
        for index, before, after in numbered_rows(rows):
            source = f"{head}{index}{tail}"
            key, gone = table.key.of_change(before, after) if keyed else (None, None)
            headers: tuple[tuple[str, str], ...] = ()
            if kind == "update" and table.row_key.is_changed(before, after):
                value = self._event("d", text(before), "null", source, transaction, collection)
                old = table.key.text(before) if keyed else None
                if key is not None and old is not None:
                    headers = ((_NEW_KEY, key),)
                yield Message("row", database, name, old, value, gone, headers, rows, index)
                value = self._event("c", "null", text(after), source, transaction, collection)
                if key is not None and old is not None:
                    headers = ((_OLD_KEY, old),)
                gone = None
            else:
                value = self._event(
                    _OPERATIONS[kind], text(before), text(after), source, transaction, collection
                )
            yield Message("row", database, name, key, value, gone, headers, rows, index)

    def _event(
        self,
        operation: str,
        before: str,
        after: str,
        source: str,
        transaction: Transaction,
        collection: str,
    ) -> str:
        block = "null"
        if self._options.provide_transaction_metadata:
            self._total += 1
            self._orders[collection] += 1
            block = (
                f'{{"id":{quote(_id(transaction))},"total_order":{self._total},'
                f'"data_collection_order":{self._orders[collection]}}}'
            )
        return (
            f'{{"before":{before},"after":{after},"source":{source},"transaction":{block},'
            f'"op":"{operation}",{_now()}}}'
        )

    def _source(
        self,
        transaction: Transaction,
        file: str,
        position: int,
        server_id: int,
        database: str,
        table: str,
        timestamp: int,
    ) -> tuple[str, str]:
        """The ``source`` block up to the row's number, and behind it."""
        micros = transaction.commit_timestamp_us
        if micros is None:
            micros = timestamp * 1_000_000
        options = self._options
        gtid = quote(transaction.gtid) if transaction.gtid else "null"
        thread = "null" if transaction.thread_id is None else transaction.thread_id
        head = (
            f'{{"version":{quote(__version__)},"connector":"{options.connector}",'
            f'"name":{quote(options.topic_prefix)},"ts_ms":{micros // 1000},"snapshot":"false",'
            f'"db":{quote(database)},"sequence":null,"ts_us":{micros},"ts_ns":{micros * 1000},'
            f'"table":{quote(table) if table else "null"},"server_id":{server_id},"gtid":{gtid},'
            f'"file":{quote(file)},"pos":{position},"row":'
        )
        return head, f',"thread":{thread},"query":null}}'

    def _change_source(self, change: SchemaChange, transaction: Transaction) -> str:
        position = (change.file, change.position, 0, change.database, change.table)
        head, tail = self._source(transaction, *position, transaction.timestamp)
        return f"{head}0{tail}"

    def _truncate(self, change: SchemaChange, transaction: Transaction) -> Message:
        collection = f"{change.database}.{change.table}"
        source = self._change_source(change, transaction)
        value = self._event("t", "null", "null", source, transaction, collection)
        return Message("row", change.database, change.table, None, value)

    def _schema_change(self, change: SchemaChange, transaction: Transaction) -> Message:
        source = self._change_source(change, transaction)
        value = f'{{"source":{source},{_now()},{schema_change_members(change)}}}'
        key = f'{{"databaseName":{quote(change.database)}}}'
        return Message("schema", change.database, change.table, key, value)

    def _boundary(self, transaction: Transaction, status: str) -> Message:
        counts = collections = "null"
        timestamp = transaction.timestamp
        if status == "BEGIN" and transaction.rows:
            # Not that of a part's end.
            timestamp = transaction.rows[0].event.header.timestamp
        if status == "END":
            counts = str(self._total)
            collections = array(
                f'{{"data_collection":{quote(name)},"event_count":{count}}}'
                for name, count in self._orders.items()
            )
        name = quote(_id(transaction))
        value = (
            f'{{"status":"{status}","id":{name},"ts_ms":{timestamp * 1000},"event_count":{counts},'
            f'"data_collections":{collections}}}'
        )
        return Message("transaction", "", "", f'{{"id":{name}}}', value)


def _id(transaction: Transaction) -> str:
    """The GTID; without GTIDs ``file=…,pos=…`` of the transaction's start."""
    start = transaction.start
    return transaction.gtid or f"file={start.file},pos={start.offset}"


def _now() -> str:
    nanos = time.time_ns()
    return f'"ts_ms":{nanos // 1_000_000},"ts_us":{nanos // 1000},"ts_ns":{nanos}'
