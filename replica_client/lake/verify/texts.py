"""A value as bytes that the source's SQL and the lake make alike: what checksums are made of.

Where the two are not alike for a value (a layout of DOUBLE that we do not know), rows are compared
that need not be; equality is never decided by it.
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any, Final

from replica_client.binlog.values.double_text import double_text
from replica_client.schema.model import TEXT_KINDS, ColumnModel
from replica_client.schema.quoting import mysql_name

_BINARIES: Final = frozenset(
    ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "vector")
)
_INTEGERS: Final = frozenset(("tinyint", "smallint", "mediumint", "int", "bigint"))


def sql_text(column: ColumnModel) -> str:
    """An expression for the value's bytes; NULL for NULL."""
    name, kind = mysql_name(column.name), column.kind
    if kind in _BINARIES or (kind in TEXT_KINDS and column.charset == "binary"):
        return name
    if kind in TEXT_KINDS or kind == "json":
        return f"CAST(CONVERT({name} USING utf8mb4) AS BINARY)"
    if kind == "bit":
        return f"CAST(CAST({name} AS UNSIGNED) AS BINARY)"
    if kind in ("float", "double"):
        return f"CAST({name} * 1e0 AS BINARY)"
    if kind == "year":
        return f"CAST({name} + 0 AS BINARY)"
    if kind in _INTEGERS or kind in (
        "decimal", "date", "time", "datetime", "timestamp", "uuid", "inet4", "inet6",
    ):  # fmt: skip
        return f"CAST(CAST({name} AS CHAR) AS BINARY)"
    return f"CAST({name} AS BINARY)"  # a geometry


def sql_row(columns: list[str]) -> str:
    """The bytes of a row, of its values' expressions: lengths tell them apart, and NULL from all else."""
    parts = (f"IFNULL(CONCAT(LENGTH({text}), ':', {text}), '-')" for text in columns)
    return f"CONCAT({', '.join(parts)})"


def row_bytes(texts: list[bytes | None]) -> bytes:
    """The same of bytes."""
    return b"".join(b"-" if text is None else b"%d:%b" % (len(text), text) for text in texts)


def lake_text(column: ColumnModel) -> Callable[[Any], bytes]:
    """Makes the value's bytes of what the lake has, which is not None."""
    kind = column.kind
    if kind in ("float", "double"):
        return _double
    if kind in ("datetime", "timestamp"):
        return partial(_moment, column.fraction_digits)
    if kind == "vector":
        return lambda value: struct.pack(f"<{len(value)}f", *value)
    if kind not in TEXT_KINDS and kind not in _INTEGERS:
        return _any
    return lambda value: value if isinstance(value, bytes) else str(value).encode()


def _any(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, Decimal):
        return format(value, "f").encode()
    if isinstance(value, dict):
        return bytes(value["srid"].to_bytes(4, "little") + value["wkb"])
    if isinstance(value, datetime.date):
        return value.isoformat().encode()
    return str(value).encode()


def _double(value: float) -> bytes:
    return double_text(value).removesuffix(".0").encode()


def _moment(digits: int, value: datetime.datetime) -> bytes:
    text = value.strftime("%Y-%m-%d %H:%M:%S").rjust(19, "0")
    fraction = f".{value.microsecond:06d}"[: digits + 1] if digits else ""
    return (text + fraction).encode()
