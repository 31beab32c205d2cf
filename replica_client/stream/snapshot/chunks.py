"""Chunks of a table: key ranges, their rows, and the positions between which they were read."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal
from typing import Any, Self

from replica_client.protocol.binlog.values.strings import TextPolicy
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.position import Position
from replica_client.rows.row import Row, row_class
from replica_client.rows.text_columns import TextColumns
from replica_client.schema.kinds import DATES
from replica_client.schema.model import TableModel
from replica_client.schema.names import mysql_name, mysql_names, mysql_table, mysql_value
from replica_client.stream.snapshot.column_selects import RANGED_KINDS, selected
from replica_client.stream.snapshot.watermarks import Locking, Window, begin_between, log_end
from replica_client.stream.transport.connection import SourceConnection

Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The rows of a table with ``after < key <= upto``.

    Attributes:
        after: lower bound; None: from the first row.
        upto: upper bound; None: to the last row.
    """

    after: Key | None = None
    upto: Key | None = None

    def to_json(self) -> list[Any]:
        """Return the range as JSON values."""
        return [_key_json(self.after), _key_json(self.upto)]

    @classmethod
    def from_json(cls, value: list[Any]) -> Self:
        """Return the range from the JSON values of :meth:`to_json`."""
        return cls(_json_key(value[0]), _json_key(value[1]))


def can_be_cut(table: TableModel) -> bool:
    """Return whether a table has a key that can be split into ranges."""
    kinds = {column.name: column.kind for column in table.columns}
    return bool(table.primary_key) and all(
        kinds.get(name) in RANGED_KINDS for name, _ in table.primary_key
    )


async def key_ranges(
    connection: SourceConnection,
    table: TableModel,
    rows: int,
    *,
    after: Key | None = None,
    where: str = "",
) -> AsyncGenerator[KeyRange, None]:
    """Yield ranges of about ``rows`` rows each, in order, that together cover every row.

    Args:
        connection: connection to the source.
        table: the table.
        rows: number of rows of a range.
        after: key after which the first range begins; None: with the first row.
        where: SQL condition on the rows that are counted.
    """
    if can_be_cut(table):
        key = key_names(table)
        bounds = ", ".join(_bound(table, name) for name in key)
        order = mysql_names(key)
        while True:
            wanted = condition(table, KeyRange(after), where)
            found = await connection.query(
                f"SELECT {bounds} FROM {table_name(table)}{wanted} "
                f"ORDER BY {order} LIMIT 2 OFFSET {rows - 1}"
            )
            if len(found) < 2:
                break  # the last range has the remaining rows, and is not empty unless the table is
            upto = tuple(found[0])
            yield KeyRange(after, upto)
            after = upto
    yield KeyRange(after)


def key_names(table: TableModel) -> list[str]:
    """Return the names of the primary key's columns."""
    return [name for name, _ in table.primary_key]


def table_name(table: TableModel) -> str:
    """Return the table's name in SQL."""
    return mysql_table(table.database, table.name)


def condition(table: TableModel, part: KeyRange, where: str = "") -> str:
    """Return the WHERE clause of a range and an additional condition; empty for all rows."""
    clauses = [
        _compare(key_names(table), bound, sign)
        for bound, sign in ((part.after, ">"), (part.upto, "<="))
        if bound is not None
    ]
    if where:
        clauses.append(f"({where}\n)")
    return f" WHERE {' AND '.join(clauses)}" if clauses else ""


def _compare(names: list[str], bound: Key, sign: str) -> str:
    """Return ``(a, b) > (x, y)`` in a form for which servers use the key."""
    name, value = mysql_name(names[0]), mysql_value(bound[0])
    if len(names) == 1:
        return f"{name} {sign} {value}"
    rest, strict = _compare(names[1:], bound[1:], sign), sign[0]
    return (
        f"({name} {strict}= {value} AND ({name} {strict} {value} OR ({name} = {value} AND {rest})))"
    )


def _bound(table: TableModel, name: str) -> str:
    column = next(column for column in table.columns if column.name == name)
    if column.kind in DATES:
        return f"CAST({mysql_name(name)} AS CHAR)"
    return f"{mysql_name(name)} + 0" if column.kind == "year" else mysql_name(name)


def _key_json(key: Key | None) -> list[Any] | None:
    if key is None:
        return None
    return [
        {"hex": value.hex()} if isinstance(value, bytes)
        else {"decimal": str(value)} if isinstance(value, Decimal) else value
        for value in key
    ]  # fmt: skip


def _json_key(value: list[Any] | None) -> Key | None:
    if value is None:
        return None
    return tuple(
        (bytes.fromhex(one["hex"]) if "hex" in one else Decimal(one["decimal"]))
        if isinstance(one, dict)
        else one
        for one in value
    )


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
        locking: see :data:`~replica_client.stream.snapshot.watermarks.Locking`.
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
