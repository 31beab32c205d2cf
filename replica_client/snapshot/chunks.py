"""Chunks: the rows of a range, and the binlog positions between which they were read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from replica_client.binlog.values.strings import TextPolicy
from replica_client.codec.quick_dataclass import dataclass
from replica_client.position.position import Position
from replica_client.rows.row import Row, row_class
from replica_client.rows.text_columns import TextColumns
from replica_client.schema.model import TableModel
from replica_client.schema.quoting import mysql_names
from replica_client.snapshot.column_selects import selected
from replica_client.snapshot.ranges import KeyRange, condition, key_names, table_name
from replica_client.snapshot.watermarks import Locking, Window, begin_between, log_end
from replica_client.transport.connection import SourceConnection

ROWS_AT_ONCE = 2000
COLUMN_ROWS = 32768
COLUMN_SIZE = 16 << 20


@dataclass(frozen=True, slots=True)
class Chunk:
    """A range that was read.

    Attributes:
        table: its table, as it was defined.
        range: the range of rows.
        window: the binlog positions between which the rows were read.
        rows: the rows, with the values that the stream would have.
    """

    table: TableModel
    range: KeyRange
    window: Window
    rows: Sequence[Row]


@dataclass(frozen=True, slots=True)
class ColumnsOfChunk:
    """Rows of a chunk as columns.

    Attributes:
        texts: the bytes that the server sent.
        value: converts the bytes of a column to the value that the stream would have.
    """

    texts: TextColumns
    value: Callable[[int, bytes], Any]


class ChunkReading:
    """A chunk that is being read; its rows come in lists.

    Attributes:
        window: the binlog positions between which the rows are read.
    """

    def __init__(
        self,
        connection: SourceConnection,
        table: TableModel,
        part: KeyRange,
        window: Window,
        *,
        where: str = "",
        ordered: bool = False,
        invalid_text: TextPolicy = "strict",
    ) -> None:
        self.window = window
        self._connection = connection
        self._table = table
        name = f"{table.database}.{table.name}"
        self._ways = [
            selected(column, invalid_text, name) for column in table.columns if not column.hidden
        ]
        names = ", ".join(way.expression for way in self._ways)
        self._sql = f"SELECT {names} FROM {table_name(table)}{condition(table, part, where)}"
        if ordered and table.primary_key:
            self._sql += f" ORDER BY {mysql_names(key_names(table))}"

    async def rows(self, size: int = ROWS_AT_ONCE) -> AsyncIterator[list[Row]]:
        """Yield the rows in lists, as they arrive.

        Raises:
            ServerError: the source refuses, for example because the table was altered.
            TransportError: the connection failed.
        """
        make = row_class(tuple(c.name for c in self._table.columns if not c.hidden))
        converters = [way.convert for way in self._ways]
        async for found in self._connection.stream(self._sql, size=size):
            yield [
                make(
                    value if value is None or convert is None else convert(value)
                    for value, convert in zip(row, converters, strict=True)
                )
                for row in found
            ]

    async def columns(
        self, allocate: Callable[[int], Any], rows: int = COLUMN_ROWS, size: int = COLUMN_SIZE
    ) -> AsyncIterator[ColumnsOfChunk]:
        """Yield the rows as columns of bytes, as they arrive.

        Args:
            allocate: see :class:`~replica_client.rows.text_columns.TextColumns`.
            rows: maximum number of rows at once.
            size: bytes after which no more rows are added.

        Raises:
            ServerError: the source refuses, for example because the table was altered.
            TransportError: the connection failed.
            ProtocolError: the server's answer is malformed.
        """

        def value(column: int, data: bytes) -> Any:
            found, convert = stream.value(column, data), self._ways[column].convert
            return found if convert is None else convert(found)

        async with self._connection.row_stream(self._sql) as stream:
            taken = TextColumns(len(self._ways), rows, size, allocate)
            async for payloads in stream.payloads():
                at = 0
                while (at := taken.add(payloads, at)) < len(payloads):
                    yield ColumnsOfChunk(taken, value)
                    taken = TextColumns(len(self._ways), rows, size, allocate)
            if taken.count:
                yield ColumnsOfChunk(taken, value)


async def _named(connection: SourceConnection, table: TableModel) -> Position:
    """Pin the table's name and definition until the transaction ends; return a position after them.

    The transaction's state of the rows may be older: RENAME exchanges names in it, too, and some
    servers alter definitions so.
    """
    await connection.query(f"SELECT 1 FROM {table_name(table)} LIMIT 0", columns=1)
    return await log_end(connection)


@asynccontextmanager
async def reading(
    connection: SourceConnection,
    table: TableModel,
    part: KeyRange | None = None,
    *,
    locking: Locking = "never",
    where: str = "",
    ordered: bool = False,
    invalid_text: TextPolicy = "strict",
) -> AsyncIterator[ChunkReading]:
    """Open a reading of a range of a table in one consistent state.

    The caller applies the rows as if each had been inserted at ``window.low``, and then every
    change of the stream from there on: the stream wins. Tables without a primary key allow that
    only when the window is exact, or no change of the table is in it. The rows certainly fit the
    definition only when the stream has no statement that renames or alters the table before
    ``window.named``.

    Args:
        connection: connection to the source, without a transaction.
        table: the current definition of the table.
        part: the range; None: all rows.
        locking: see :data:`~replica_client.snapshot.watermarks.Locking`.
        where: SQL condition on the rows.
        ordered: whether the rows come in the order of the primary key.
        invalid_text: the rule for bytes that are not text of their character set, as in the stream.

    Raises:
        ServerError: the source refuses, for example because the table was dropped.
        TransportError: the connection failed.
    """
    window = await begin_between(connection, locking)
    window = replace(window, named=await _named(connection, table))
    yield ChunkReading(
        connection,
        table,
        part or KeyRange(),
        window,
        where=where,
        ordered=ordered,
        invalid_text=invalid_text,
    )
    await connection.query("ROLLBACK")


async def read_chunk(
    connection: SourceConnection,
    table: TableModel,
    part: KeyRange | None = None,
    *,
    locking: Locking = "never",
) -> Chunk:
    """Read a range into memory; see :func:`reading`."""
    rows: list[Row] = []
    async with reading(connection, table, part, locking=locking) as found:
        async for some in found.rows():
            rows += some
    return Chunk(table, part or KeyRange(), found.window, rows)
