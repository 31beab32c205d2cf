"""Debezium's envelope as schema-less JSON, one change event value per line.

Facts: Debezium's documentation of its MySQL connector, "Data change events", "Data type mappings",
"Transaction metadata" and "Schema change topic", and the connector's options of the same names. What
differs, and why:

- There are no keys, headers and tombstones: a line is a value.
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
from replica_client.rows.absent import ABSENT
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
from replica_client.sinks.formats.row_text import RowWriter, array, delivered_columns, numbered_rows
from replica_client.sinks.sink_options import read_options

_OPERATIONS = {"insert": "c", "update": "u", "delete": "d"}


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
    key: tuple[int, ...]


class DebeziumFormat:
    """See the module.

    Args:
        options: how values are written.
    """

    def __init__(self, options: DebeziumOptions) -> None:
        self._options = options
        self._tables = ByDecoder(self._table)
        self._total = 0
        self._orders: Counter[str] = Counter()

    @classmethod
    def of(cls, options: Mapping[str, object]) -> DebeziumFormat:
        """Make it from a table of the configuration.

        Raises:
            ConfigError: an option is wrong.
        """
        return cls(read_options(DebeziumOptions, options, "format_options"))

    def _table(self, rows: RowsOfEvent) -> _Table:
        options, shape, columns = self._options, rows.shape, delivered_columns(rows)

        def writer_of(column: ColumnShape) -> Any:
            return debezium_writer(
                column, options.decimal_handling_mode, options.binary_handling_mode
            )

        names = [column.name for column in columns]
        key = [shape.columns[at].name for at in shape.primary_key]
        at = tuple(names.index(name) for name in key) if set(key) <= set(names) else ()
        return _Table(RowWriter(columns, writer_of), at)

    def lines(self, transaction: Transaction) -> Iterator[str]:
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

    def _rows(self, rows: RowsOfEvent, transaction: Transaction) -> Iterator[str]:
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
        kind = event.body.kind
        for index, before, after in numbered_rows(rows):
            source = f"{head}{index}{tail}"
            if kind == "update" and _key_changed(table.key, before, after):
                yield self._event("d", text(before), "null", source, transaction, collection)
                yield self._event("c", "null", text(after), source, transaction, collection)
            else:
                yield self._event(
                    _OPERATIONS[kind], text(before), text(after), source, transaction, collection
                )

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

    def _truncate(self, change: SchemaChange, transaction: Transaction) -> str:
        collection = f"{change.database}.{change.table}"
        source = self._change_source(change, transaction)
        return self._event("t", "null", "null", source, transaction, collection)

    def _schema_change(self, change: SchemaChange, transaction: Transaction) -> str:
        source = self._change_source(change, transaction)
        return f'{{"source":{source},{_now()},{schema_change_members(change)}}}'

    def _boundary(self, transaction: Transaction, status: str) -> str:
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
        return (
            f'{{"status":"{status}","id":{quote(_id(transaction))},'
            f'"ts_ms":{timestamp * 1000},"event_count":{counts},'
            f'"data_collections":{collections}}}'
        )


def _id(transaction: Transaction) -> str:
    """The GTID; without GTIDs ``file=…,pos=…`` of the transaction's start."""
    start = transaction.start
    return transaction.gtid or f"file={start.file},pos={start.offset}"


def _key_changed(key: tuple[int, ...], before: tuple[Any, ...], after: tuple[Any, ...]) -> bool:
    # A key column that the after image left out did not change.
    return any(before[at] != after[at] and after[at] is not ABSENT for at in key)


def _now() -> str:
    nanos = time.time_ns()
    return f'"ts_ms":{nanos // 1_000_000},"ts_us":{nanos // 1000},"ts_ns":{nanos}'
