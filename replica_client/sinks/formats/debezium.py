"""Debezium's envelope as JSON, one change event value per line.

Facts: Debezium's documentation of its MySQL connector, "Data change events", "Data type mappings",
"Transaction metadata" and "Schema change topic", the connector's options of the same names, and the
output of the engine (``scripts/proofs/debezium`` compares with it). The documentation ("From
Debezium") lists the differences and their reasons.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from replica_client._version import __version__
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.protocol.gtid import MariadbGtidSet
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.json_values import ByDecoder, quote
from replica_client.schema.history import SchemaChange
from replica_client.schema.left_out import shape_of
from replica_client.schema.shape import ColumnShape, TableShape
from replica_client.sinks.formats.debezium_connect import (
    envelope_schema,
    is_published,
    key_schema,
    name_after,
    schema_change_members,
    schema_change_schemas,
    statement_members,
    transaction_schemas,
    with_schema,
)
from replica_client.sinks.formats.debezium_values import (
    STRING_WRITERS,
    DebeziumOptions,
    debezium_writer,
    default_value,
)
from replica_client.sinks.formats.message import (
    NEW_KEY,
    KeyChoice,
    KeyWriter,
    Message,
    RowWriter,
    array,
    delivered_columns,
    numbered_rows,
    row_message,
)
from replica_client.sinks.protocol import SnapshotRows
from replica_client.sinks.registry import read_options
from replica_client.stream.transactions.transaction import Transaction

_OPERATIONS = {"insert": "c", "update": "u", "delete": "d"}
_OLD_KEY = "__debezium.oldkey"


class _Table(msgspec.Struct, frozen=True):
    writer: RowWriter
    key: KeyWriter
    row_key: KeyWriter
    """Writer of the primary key: an update that changes it is written as delete and insert."""
    schemas: tuple[str, str]
    """Schemas of keys and of values; ``""`` for none."""


class DebeziumFormat:
    """The format ``debezium``; see the module.

    Args:
        options: how values are written.
        keys: the choice of message keys; None: messages have no key.
        apart: whether schemas are attributes of messages instead of parts of their texts.

    Raises:
        ConfigError: options contradict each other.
    """

    def __init__(
        self, options: DebeziumOptions, keys: KeyChoice | None = None, *, apart: bool = False
    ) -> None:
        self._options, self._apart = options, apart
        self._described = options.schemas_enable or apart
        self._modes = options.modes(described=self._described)
        self._skipped = options.skipped()
        self._keys = keys
        self._connector: str = options.connector or "mysql"
        self._knows_connector = bool(options.connector)
        self._tables = ByDecoder(self._table)
        self._total = 0
        self._orders: Counter[str] = Counter()

    @classmethod
    def of(
        cls, options: Mapping[str, object], keys: KeyChoice | None = None, *, apart: bool = False
    ) -> DebeziumFormat:
        """Build the format from a table of the configuration.

        Raises:
            ConfigError: an option is wrong.
        """
        return cls(read_options(DebeziumOptions, options, "format_options"), keys, apart=apart)

    def _learn_connector(self, flavor: ServerFlavor) -> None:
        """Take the kind of the source, for the names in messages and schemas."""
        self._knows_connector = True
        if flavor != self._connector:
            self._connector = str(flavor)
            self._tables = ByDecoder(self._table)

    def _table(self, rows: RowsOfEvent) -> _Table:
        return self._table_of(rows.shape, delivered_columns(rows))

    def _table_of(self, shape: TableShape, columns: Sequence[ColumnShape]) -> _Table:
        primary = [shape.columns[at].name for at in shape.primary_key]
        row_key = KeyWriter(columns, primary, self._writer_of)
        names, unique = (primary, True) if self._keys is None else self._keys.of(shape)
        key = row_key if unique else KeyWriter(columns, names, self._writer_of, unique=False)
        schemas = "", ""
        if self._described:
            topic = f"{self._options.topic_prefix}.{shape.database}.{shape.table}"
            keyed = [columns[at] for at in key.indexes]
            of_value = envelope_schema(topic, self._connector, columns, self._modes)
            schemas = key_schema(topic, keyed, self._modes), of_value
        nulls = self._default_of if self._options.replace_null_with_default else None
        writer = RowWriter(columns, self._writer_of, null_of=nulls, of_strings=STRING_WRITERS)
        return _Table(writer, key, row_key, schemas)

    def _writer_of(self, column: ColumnShape) -> Any:
        return debezium_writer(column, self._modes)

    def _default_of(self, column: ColumnShape) -> str:
        default = default_value(column)
        return "null" if default is None else str(self._writer_of(column)(default))

    def lines(self, transaction: Transaction) -> Iterator[str]:
        for message in self.messages(transaction):
            yield message.value

    def messages(self, transaction: Transaction) -> Iterator[Message]:
        return self._described_messages(self._messages(transaction))

    def snapshot(self, rows: SnapshotRows) -> Iterator[Message]:
        return self._described_messages(self._snapshot(rows))

    def _described_messages(self, messages: Iterator[Message]) -> Iterator[Message]:
        """Return the messages, with schemas in their texts if the options ask for it."""
        return messages if self._apart or not self._described else map(with_schemas, messages)

    def _messages(self, transaction: Transaction) -> Iterator[Message]:
        if not self._knows_connector:
            gtids = transaction.position.gtid_set
            # A stream from a position in a file has no set at first; a GTID of MySQL has a UUID and a colon.
            is_mariadb = isinstance(gtids, MariadbGtidSet) or (
                gtids is None and bool(transaction.gtid) and ":" not in transaction.gtid
            )
            if gtids is not None or transaction.gtid:
                self._learn_connector(ServerFlavor.MARIADB if is_mariadb else ServerFlavor.MYSQL)
        metadata = self._options.provide_transaction_metadata and bool(
            transaction.rows or transaction.part
        )
        if not transaction.part:
            self._total, self._orders = 0, Counter()
            if metadata:
                yield self._boundary(transaction, "BEGIN")
        if self._options.include_schema_changes:
            yield from self._other_statements(transaction)
        by_statement: dict[int, list[SchemaChange]] = {}
        for change in transaction.schema_changes:
            by_statement.setdefault(change.event_index, []).append(change)
        for item in transaction.items:
            if isinstance(item, RowsOfEvent):
                yield from self._rows(item, transaction)
            elif isinstance(item, SchemaChange):
                if item.kind == "truncate_table":
                    if "t" not in self._skipped:
                        yield self._truncate(item, transaction)
                elif self._options.include_schema_changes:
                    others = by_statement[item.event_index]
                    yield self._schema_change(item, others, transaction)
        if metadata and transaction.complete:
            yield self._boundary(transaction, "END")

    def _snapshot(self, rows: SnapshotRows) -> Iterator[Message]:
        if not self._knows_connector:
            self._learn_connector(rows.flavor)
        shape, low = rows.shape, rows.low
        table = self._table_of(shape, rows.columns)
        database, name = shape.database, shape.table
        coordinates, names = (low.file, low.offset, 0), (database, quote(name))
        final, schemas = len(rows.rows) - 1, table.schemas
        for at, row in enumerate(rows.rows):
            mark = _snapshot_mark(rows, begins=at == 0, ends=at == final)
            head, tail = self._source_block("", coordinates, names, rows.timestamp * 10**6, mark)
            text = table.writer.text(row)
            value = f'{{"before":null,"after":{text},"source":{head}0{tail},"transaction":null,"op":"r",{_now()}}}'
            key = None if self._keys is None else table.key.text(row)
            yield Message("row", database, name, key, value, schemas=schemas)

    def _rows(self, rows: RowsOfEvent, transaction: Transaction) -> Iterator[Message]:
        table = self._tables.of(rows)
        shape, text = rows.shape, table.writer.text
        collection = f"{shape.database}.{shape.table}"
        micros = _commit_micros(transaction, rows.timestamp)
        coordinates = (rows.file, rows.position, rows.server_id)
        names = (shape.database, quote(shape.table))
        head, tail = self._source(transaction, coordinates, names, micros, transaction.thread_id)
        kind, keyed = rows.kind, self._keys is not None
        if _OPERATIONS[kind] in self._skipped:
            return
        database, name, schemas = shape.database, shape.table, table.schemas
        operation, now = _OPERATIONS[kind], _now()
        is_update, key_changed = kind == "update", table.row_key.is_changed
        for index, before, after in numbered_rows(rows):
            source = f"{head}{index}{tail}"
            key, gone = table.key.of_change(before, after) if keyed else (None, None)
            headers: tuple[tuple[str, str], ...] = ()
            if is_update and key_changed(before, after):
                old = table.key.text(before) if keyed else None
                if key is not None and old is not None:
                    headers = ((NEW_KEY, key),)
                block = self._block(transaction, collection)
                value = _event("d", text(before), "null", source, block, now)
                yield row_message(database, name, old, value, gone, headers, rows, index, schemas)
                block = self._block(transaction, collection)
                value = _event("c", "null", text(after), source, block, now)
                if key is not None and old is not None:
                    headers = ((_OLD_KEY, old),)
                gone = None
            else:
                block = self._block(transaction, collection)
                value = _event(operation, text(before), text(after), source, block, now)
            yield row_message(database, name, key, value, gone, headers, rows, index, schemas)

    def _block(self, transaction: Transaction, collection: str) -> str:
        """Return the ``transaction`` block of the next row; ``null`` without the option for it."""
        if not self._options.provide_transaction_metadata:
            return "null"
        self._total += 1
        self._orders[collection] += 1
        return (
            f'{{"id":{quote(_id(transaction))},"total_order":{self._total},'
            f'"data_collection_order":{self._orders[collection]}}}'
        )

    def _source(
        self,
        transaction: Transaction,
        coordinates: tuple[str, int, int],
        names: tuple[str, str],
        micros: int,
        thread_id: int | None,
    ) -> tuple[str, str]:
        """Return the ``source`` block in two parts: up to the row's number, and after it.

        Args:
            transaction: the transaction of the event.
            coordinates: file, offset and server id of the event.
            names: the database's name, and the table's name as JSON.
            micros: time of the commit, in microseconds since 1970.
            thread_id: thread of the session; None: unknown.
        """
        return self._source_block(transaction.gtid, coordinates, names, micros, "false", thread_id)

    def _source_block(
        self,
        gtid: str,
        coordinates: tuple[str, int, int],
        names: tuple[str, str],
        micros: int,
        snapshot: str,
        thread_id: int | None = None,
    ) -> tuple[str, str]:
        options, (file, position, server_id), (database, table) = self._options, coordinates, names
        gtid = quote(gtid) if gtid else "null"
        thread = "null" if thread_id is None else thread_id
        head = (
            f'{{"version":{quote(__version__)},"connector":"{self._connector}",'
            f'"name":{quote(options.topic_prefix)},"ts_ms":{micros // 1000},"snapshot":"{snapshot}",'
            f'"db":{quote(database)},"sequence":null,"ts_us":{micros},"ts_ns":{micros * 1000},'
            f'"table":{table},"server_id":{server_id},"gtid":{gtid},'
            f'"file":{quote(file)},"pos":{position},"row":'
        )
        return head, f',"thread":{thread},"query":null}}'

    def _statement_source(
        self, transaction: Transaction, coordinates: tuple[str, int, int], database: str, table: str
    ) -> str:
        """Return the ``source`` block of a statement.

        As in Debezium, its time is in whole milliseconds, and only a statement in a transaction
        with rows has a thread.
        """
        micros = _commit_micros(transaction, transaction.timestamp) // 1000 * 1000
        thread = transaction.thread_id if transaction.rows else None
        head, tail = self._source(transaction, coordinates, (database, table), micros, thread)
        return f"{head}0{tail}"

    def _truncate(self, change: SchemaChange, transaction: Transaction) -> Message:
        collection = f"{change.database}.{change.table}"
        coordinates = (change.file, change.position, change.server_id)
        source = self._statement_source(
            transaction, coordinates, change.database, quote(change.table)
        )
        value = _event("t", "null", "null", source, "null", _now())
        schema = ""
        if self._described and change.after is not None:
            flavor = ServerFlavor(self._connector)
            columns = shape_of(change.after, flavor).columns
            topic = f"{self._options.topic_prefix}.{collection}"
            schema = envelope_schema(topic, self._connector, columns, self._modes)
        return Message("row", change.database, change.table, None, value, schemas=("", schema))

    def _schema_change(
        self, change: SchemaChange, others: Sequence[SchemaChange], transaction: Transaction
    ) -> Message:
        tables = '""' if change.kind == "alter_database" else "null"
        if change.table:
            tables = quote(",".join(dict.fromkeys(map(name_after, others))))
        comments = self._options.include_schema_comments
        members = schema_change_members(change, others, comments=comments)
        coordinates = (change.file, change.position, change.server_id)
        source = self._statement_source(transaction, coordinates, change.database, tables)
        return self._of_statement(source, members, change.database, change.table)

    def _other_statements(self, transaction: Transaction) -> Iterator[Message]:
        """Yield messages of statements on indexes.

        They change no table's shape, but Debezium publishes them.
        """
        if not transaction.statements:
            return
        known = {change.event_index for change in transaction.schema_changes}
        for one in transaction.statements:
            if one.event_index in known or not is_published(one):
                continue
            coordinates = (one.file, one.position, one.server_id)
            source = self._statement_source(transaction, coordinates, one.database, '""')
            yield self._of_statement(source, statement_members(one), one.database, "")

    def _of_statement(self, source: str, members: str, database: str, table: str) -> Message:
        # Debezium writes this time in milliseconds only.
        value = f'{{"source":{source},"ts_ms":{time.time_ns() // 1_000_000},{members}}}'
        key = f'{{"databaseName":{quote(database)}}}'
        schemas = "", ""
        if self._described:
            schemas = _schema_change_schemas(self._connector)
        return Message("schema", database, table, key, value, schemas=schemas)

    def _boundary(self, transaction: Transaction, status: str) -> Message:
        counts = collections = "null"
        timestamp = transaction.timestamp
        if status == "BEGIN" and transaction.rows:
            # In a part of a transaction, its timestamp is that of the part's end.
            timestamp = transaction.rows[0].event.header.timestamp
        if status == "END":
            counts = str(self._total)
            collections = array(
                f'{{"data_collection":{quote(name)},"event_count":{count}}}'
                for name, count in self._orders.items()
            )
        name = quote(_id(transaction))
        value = (
            f'{{"status":"{status}","id":{name},"event_count":{counts},'
            f'"data_collections":{collections},"ts_ms":{_commit_micros(transaction, timestamp) // 1000}}}'
        )
        key = f'{{"id":{name}}}'
        schemas = _transaction_schemas() if self._described else ("", "")
        return Message("transaction", "", "", key, value, schemas=schemas)


_schema_change_schemas = lru_cache(schema_change_schemas)
_transaction_schemas = lru_cache(transaction_schemas)


def _snapshot_mark(rows: SnapshotRows, *, begins: bool, ends: bool) -> str:
    """Return the ``source.snapshot`` of a row, as Debezium's engine writes it.

    ``begins`` and ``ends`` mark the first and the last of the rows.
    """
    if rows.request and not rows.blocking:
        return "incremental"
    if ends and rows.ends:
        return "last" if rows.last else "last_in_data_collection"
    if begins and rows.begins:
        return "first" if rows.first else "first_in_data_collection"
    return "true"


def with_schemas(message: Message) -> Message:
    """Return the message with schemas around value and keys; as in Debezium, keys in headers have none."""
    of_key, of_value = message.schemas

    def wrapped(key: str | None) -> str | None:
        return with_schema(of_key, key) if key is not None and of_key else key

    return message._replace(
        key=wrapped(message.key),
        value=with_schema(of_value, message.value) if of_value else message.value,
        gone=wrapped(message.gone),
    )


def _commit_micros(transaction: Transaction, timestamp: int) -> int:
    micros = transaction.commit_timestamp_us
    return timestamp * 1_000_000 if micros is None else micros


def _id(transaction: Transaction) -> str:
    """Return the transaction's GTID; without GTIDs ``file=…,pos=…`` of its start."""
    start = transaction.start
    return transaction.gtid or f"file={start.file},pos={start.offset}"


def _event(operation: str, before: str, after: str, source: str, block: str, now: str) -> str:
    return (
        f'{{"before":{before},"after":{after},"source":{source},"transaction":{block},'
        f'"op":"{operation}",{now}}}'
    )


def _now() -> str:
    nanos = time.time_ns()
    return f'"ts_ms":{nanos // 1_000_000},"ts_us":{nanos // 1000},"ts_ns":{nanos}'
