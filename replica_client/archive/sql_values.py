"""SQL of undo and redo: values, and the rows that it expects on a server.

The session has ``SET NAMES utf8mb4``, ``time_zone = '+00:00'`` and a ``sql_mode`` without
restrictions on dates. Text is written with the bytes of the row image and the column's character
set, so that no conversion can change it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from decimal import Decimal
from hashlib import blake2b
from struct import Struct
from typing import Any, Final, NamedTuple, Self

from replica_client.errors import DataLossError
from replica_client.protocol.binlog.values.binary_types import (
    Geometry,
    encode_geometry,
    encode_vector,
)
from replica_client.protocol.binlog.values.enum_set import EnumValue, SetValue
from replica_client.protocol.binlog.values.json_binary import JsonDocument
from replica_client.protocol.binlog.values.strings import BINARY_COLLATION
from replica_client.protocol.binlog.values.temporal import Date, DateTime, Temporal, Time
from replica_client.protocol.constants.column_types import LABEL_TYPES, ColumnType
from replica_client.schema.character_sets import UTF8MB3, charset_of_id
from replica_client.schema.left_out import TEXT_CODES
from replica_client.schema.names import mysql_name, mysql_value
from replica_client.schema.shape import ColumnShape, TableShape
from replica_client.stream.transport.connection import SourceConnection
from replica_client.stream.transport.url import parse_url

_FLOAT: Final = Struct("<f")
_READABLE: Final = frozenset(("ascii", "latin1", UTF8MB3, "utf8mb4"))


def with_bytes(shape: TableShape) -> TableShape:
    """Return the shape with texts decoded as the bytes of row images."""
    return replace(shape, columns=tuple(map(_with_bytes, shape.columns)))


def _with_bytes(column: ColumnShape) -> ColumnShape:
    if column.type_code not in TEXT_CODES or column.logical_type is not None:
        return column
    if column.type_code in LABEL_TYPES:
        return replace(column, labels=None, unknown_labels=())
    if column.type_code == ColumnType.MYSQL_TYPE_STRING and not _is_binary(column):
        # CHAR decoded as bytes is not padded, unlike BINARY.
        return replace(
            column, type_code=ColumnType.MYSQL_TYPE_VARCHAR, collation_id=BINARY_COLLATION
        )
    return replace(column, collation_id=BINARY_COLLATION)


def _is_binary(column: ColumnShape) -> bool:
    return column.collation_id == BINARY_COLLATION


def value_sql(column: ColumnShape, value: Any) -> str:
    """Return a SQL expression for a value, to be stored in its column.

    Args:
        column: the column, as the binlog and the schema history describe it.
        value: the value, decoded with the shape of :func:`with_bytes`.

    Raises:
        DataLossError: SQL has no expression for the value.
    """
    if value is None:
        return "NULL"
    if isinstance(value, EnumValue):
        return str(value.index)
    if isinstance(value, SetValue):
        return str(value.bits)
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, (int, Decimal)):
        return mysql_value(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, bytes):
        return _bytes_sql(column, value)
    if isinstance(value, str):
        return mysql_value(value)
    if isinstance(value, Temporal):
        return f"'{value}'"
    if isinstance(value, JsonDocument):
        return _json_sql(column, value)
    if isinstance(value, Geometry):
        return f"x'{encode_geometry(value).hex()}'"
    if isinstance(value, tuple) and all(isinstance(one, float) for one in value):
        return f"x'{encode_vector(value).hex()}'"
    raise DataLossError(
        f"column {column.name!r}: a {type(value).__name__} cannot be written as SQL"
    )


def _bytes_sql(column: ColumnShape, value: bytes) -> str:
    charset = charset_of_id(column.collation_id)
    if charset is None or charset == "binary":
        return f"x'{value.hex()}'"
    if charset in _READABLE and value.isascii():
        text = value.decode("ascii")
        if text.isprintable() and not set(text) & {"'", "\\"}:
            return f"'{text}'"
    name = "utf8mb4" if charset == UTF8MB3 else charset
    return f"_{name} x'{value.hex()}'"


def _json_sql(column: ColumnShape, document: JsonDocument) -> str:
    value = document.value
    if _is_plain(value):
        return _parsed(document.text)
    return _json_expression(column, value)


def _is_plain(value: Any) -> bool:
    """Return whether JSON text keeps the type of each part of a value."""
    if isinstance(value, dict):
        return all(map(_is_plain, value.values()))
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (bool, int, float, str))


def _parsed(text: str) -> str:
    return f"CAST({mysql_value(text)} AS JSON)"


def _json_expression(column: ColumnShape, value: Any) -> str:
    """Return a SQL expression for a document with values that JSON text has no syntax for."""
    if isinstance(value, dict):
        members = (
            f"{mysql_value(key)}, {_json_expression(column, one)}" for key, one in value.items()
        )
        return f"JSON_OBJECT({', '.join(members)})"
    if isinstance(value, list):
        return f"JSON_ARRAY({', '.join(_json_expression(column, one) for one in value)})"
    if _is_plain(value):
        return _parsed(json.dumps(value, ensure_ascii=False))
    if isinstance(value, Decimal):
        _, digits, exponent = value.as_tuple()
        scale = max(0, -int(exponent))
        precision = max(len(digits), scale, 1)
        return f"CAST(CAST('{value:f}' AS DECIMAL({precision},{scale})) AS JSON)"
    kinds = {Date: "DATE", DateTime: "DATETIME(6)", Time: "TIME(6)"}
    kind = kinds.get(type(value))
    if kind is not None:
        return f"CAST(CAST('{value}' AS {kind}) AS JSON)"
    raise DataLossError(
        f"column {column.name!r}: a JSON document has a {type(value).__name__}, which SQL cannot write"
    )


def condition_sql(column: ColumnShape, value: Any, *, is_key: bool) -> str:
    """Return a SQL condition that a column has a value.

    Args:
        column: see :func:`value_sql`.
        value: see :func:`value_sql`.
        is_key: whether the column is part of the primary key: then the condition can use its index.
    """
    name = mysql_name(column.name)
    if value is None:
        return f"{name} IS NULL"
    if isinstance(value, float) and column.type_code == ColumnType.MYSQL_TYPE_FLOAT:
        # The server compares doubles, and the shortest text of a FLOAT is another double.
        return f"{name} = {_FLOAT.unpack(_FLOAT.pack(value))[0]!r}"
    sql = value_sql(column, value)
    if is_key and column.type_code not in LABEL_TYPES:
        return f"{name} = {sql}"
    if column.type_code in (*LABEL_TYPES, ColumnType.MYSQL_TYPE_BIT, ColumnType.MYSQL_TYPE_YEAR):
        return f"{name} + 0 = {sql}"
    if isinstance(value, Geometry):
        return f"HEX({name}) = '{encode_geometry(value).hex().upper()}'"
    if isinstance(value, bytes) and not _is_binary(column):
        # Compare bytes: a collation would find other texts equal.
        return f"CAST({name} AS BINARY) = x'{value.hex()}'"
    return f"{name} = {sql}"


_AT_ONCE: Final = 100


class ExpectedRow(NamedTuple):
    """The rows of a table that a statement expects.

    Attributes:
        table: its name in SQL.
        there: condition on the key of a row that must exist; None: no row must.
        exact: condition on all columns of that row.
        free: condition on a key that no row may have; None: no key must be free.
    """

    table: str
    there: str | None
    exact: str | None
    free: str | None

    def to_text(self) -> str:
        """Return the expectation as JSON."""
        return json.dumps(self)

    @classmethod
    def of_text(cls, text: str) -> Self:
        """Return the expectation from the text of :meth:`to_text`."""
        return cls(*json.loads(text))


class Conflict(NamedTuple):
    """A row that differs from what a script expects.

    Attributes:
        table: its name in SQL.
        row: condition that identifies the row.
        what: ``gone``, ``changed`` or ``there``: the row has the key of a row that the script adds.
    """

    table: str
    row: str
    what: str


async def conflicts(
    expected: Iterator[ExpectedRow], url: str, session: tuple[str, ...]
) -> AsyncIterator[Conflict]:
    """Yield the rows of a server that differ from what a script expects; nothing is written.

    A row that several statements change is checked for the first of them. 8 bytes are kept for each
    row.

    Args:
        expected: expectations of the statements, in their order.
        url: URL of the server.
        session: statements that the script begins with.

    Raises:
        ServerError: the server refuses a query, for example because a table's columns differ.
        TransportError: the server cannot be reached.
    """
    async with await SourceConnection.open(parse_url(url)) as connection:
        for statement in session:
            await connection.query(statement)
        await connection.query("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        await connection.query("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        waiting: list[ExpectedRow] = []
        for one in _first_looks(expected):
            waiting.append(one)
            if len(waiting) == _AT_ONCE:
                for conflict in await _look(connection, waiting):
                    yield conflict
                waiting = []
        for conflict in await _look(connection, waiting):
            yield conflict
        await connection.query("ROLLBACK")


def _first_looks(expected: Iterator[ExpectedRow]) -> Iterator[ExpectedRow]:
    """Yield the expectations on rows that no earlier statement has changed."""
    seen: set[bytes] = set()

    def is_new(table: str, condition: str | None) -> bool:
        if condition is None:
            return False
        digest = blake2b(f"{table} {condition}".encode(), digest_size=8).digest()
        if digest in seen:
            return False
        seen.add(digest)
        return True

    for one in expected:
        there, free = is_new(one.table, one.there), is_new(one.table, one.free)
        if there or free:
            yield ExpectedRow(
                one.table, one.there if there else None, one.exact, one.free if free else None
            )


async def _look(connection: SourceConnection, rows: list[ExpectedRow]) -> list[Conflict]:
    parts = []
    for number, one in enumerate(rows):
        there = _exists(one.table, one.there)
        exact = _exists(one.table, None if one.there is None else one.exact)
        parts.append(f"SELECT {number}, {there}, {exact}, {_exists(one.table, one.free)}")
    if not parts:
        return []
    found = []
    for number, there, exact, taken in await connection.query(" UNION ALL ".join(parts), columns=4):
        one = rows[int(number)]
        if one.there is not None and not int(exact):
            found.append(Conflict(one.table, one.there, "changed" if int(there) else "gone"))
        if one.free is not None and int(taken):
            found.append(Conflict(one.table, one.free, "there"))
    return found


def _exists(table: str, condition: str | None) -> str:
    if condition is None:
        return "0"
    return f"EXISTS (SELECT 1 FROM {table} WHERE {condition})"  # noqa: S608 - values are quoted where it was made
