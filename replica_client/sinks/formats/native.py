"""The native format: the lines of ``replica-client changes --json``.

A row change::

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
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

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
from replica_client.sinks.formats.message import KeyChoice, KeyWriter, Message, MessageKind
from replica_client.sinks.formats.row_text import RowWriter, delivered_columns, numbered_rows
from replica_client.sinks.protocol import SnapshotRows
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
