"""SQL of undo and redo: values, and conditions on them.

The session has ``SET NAMES utf8mb4``, ``time_zone = '+00:00'`` and a ``sql_mode`` without
restrictions on dates. Text is written with the bytes of the row image and the column's character
set, so that no conversion can change it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from math import copysign
from struct import Struct
from typing import Any, Final

from replica_client.errors import DataLossError
from replica_client.protocol.binlog.values.json_binary import JsonDocument
from replica_client.protocol.binlog.values.strings import BINARY_COLLATION
from replica_client.protocol.binlog.values.temporal import Date, DateTime, Temporal, Time
from replica_client.protocol.binlog.values.value_types import (
    EnumValue,
    Geometry,
    SetValue,
    encode_geometry,
    encode_vector,
)
from replica_client.protocol.constants.column_types import LABEL_TYPES, ColumnType
from replica_client.schema.character_sets import UTF8MB3, charset_of_id
from replica_client.schema.left_out import TEXT_CODES
from replica_client.schema.names import mysql_name, mysql_value
from replica_client.schema.shape import ColumnShape, TableShape

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
        # -0.0 would be a DECIMAL, which has no negative zero.
        return "-0e0" if value == 0 and copysign(1, value) < 0 else repr(value)
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
    if isinstance(value, SetValue):
        # A sum takes the bits of 64 members for a signed number.
        return f"CAST({name} AS UNSIGNED) = {sql}"
    if column.type_code in (*LABEL_TYPES, ColumnType.MYSQL_TYPE_BIT, ColumnType.MYSQL_TYPE_YEAR):
        return f"{name} + 0 = {sql}"
    if isinstance(value, Geometry):
        return f"HEX({name}) = '{encode_geometry(value).hex().upper()}'"
    if isinstance(value, bytes) and not _is_binary(column):
        # Compare bytes: a collation would find other texts equal.
        return f"CAST({name} AS BINARY) = x'{value.hex()}'"
    return f"{name} = {sql}"
