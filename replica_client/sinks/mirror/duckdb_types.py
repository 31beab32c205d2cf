"""Column types of a mirror in DuckDB, and the conversion of values to and from them.

==============================  ==============================================================
column                          type
==============================  ==============================================================
TINYINT, SMALLINT               TINYINT, SMALLINT; unsigned UTINYINT, USMALLINT
MEDIUMINT, INT                  INTEGER; unsigned UINTEGER
BIGINT                          BIGINT; unsigned UBIGINT
YEAR                            USMALLINT
BIT                             UBIGINT
FLOAT, DOUBLE                   FLOAT, DOUBLE
DECIMAL(p,s)                    DECIMAL(p,s); VARCHAR of all digits where p is above 38
DATE                            DATE
TIME                            INTERVAL: TIME goes beyond a day, and below zero
DATETIME, TIMESTAMP             TIMESTAMP; TIMESTAMP in UTC
CHAR, VARCHAR, TEXT, ENUM, SET  VARCHAR
BINARY, VARBINARY, BLOB         BLOB
JSON                            JSON: the document's text
GEOMETRY                        BLOB as MySQL stores it: srid, then well-known binary
VECTOR                          JSON: an array of numbers
UUID, INET4, INET6              VARCHAR
==============================  ==============================================================

DuckDB stores no zero dates and no invalid dates: such a value is an error, or NULL if the options
say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa

from replica_client.errors import SinkError
from replica_client.schema.model import ColumnModel
from replica_client.sinks.mirror.stored_values import BLOBS, StoredTypes, decimal_length

_TYPES: Final = StoredTypes(
    whole={
        "tinyint": ("TINYINT", "UTINYINT"),
        "smallint": ("SMALLINT", "USMALLINT"),
        "mediumint": ("INTEGER", "UINTEGER"),
        "int": ("INTEGER", "UINTEGER"),
        "bigint": ("BIGINT", "UBIGINT"),
        "year": ("USMALLINT", "USMALLINT"),
        "bit": ("UBIGINT", "UBIGINT"),
    },
    others={
        "float": "FLOAT",
        "double": "DOUBLE",
        "decimal": "DECIMAL({length}, {scale})",
        "date": "DATE",
        "time": "INTERVAL",
        "datetime": "TIMESTAMP",
        "timestamp": "TIMESTAMP",
        "json": "JSON",
        "vector": "JSON",
    },
    blob="BLOB",
    text="VARCHAR",
)
_MAX_DIGITS: Final = 38


def duckdb_type(column: ColumnModel) -> str:
    """Return the type of a column."""
    if column.kind == "decimal" and decimal_length(column) > _MAX_DIGITS:
        return _TYPES.text
    return _TYPES.of(column)


def shown(column: ColumnModel, name: str) -> str:
    """Return an expression that selects a column's values in the mirrors' form."""
    kind, digits = column.kind, column.fraction_digits
    if kind in ("datetime", "timestamp"):
        return _cut(f"strftime({name}, '%Y-%m-%d %H:%M:%S.%f')", digits)
    if kind == "time":
        size = f"abs(epoch_us({name}))"
        sign = f"CASE WHEN epoch_us({name}) < 0 THEN '-' ELSE '' END"
        parts = (f"{size} // 3600000000", f"{size} // 60000000 % 60", f"{size} // 1000000 % 60")
        text = f"printf('%02d:%02d:%02d.%06d', {', '.join(parts)}, {size} % 1000000)"
        return f"({sign} || {_cut(text, digits)})"
    if kind == "float":
        # The shortest number that is the same FLOAT, as rows have it.
        return f"CAST(CAST({name} AS VARCHAR) AS DOUBLE)"
    if kind in ("bit", "decimal", "date", "json", "vector") or duckdb_type(column) == "UBIGINT":
        return f"CAST({name} AS VARCHAR)"
    return name


def _cut(text: str, digits: int) -> str:
    """Return an expression that cuts a text with six fraction digits to fewer digits."""
    return text if digits >= 6 else f"left({text}, {digits - 6 - (not digits)})"


def staged_type(column: ColumnModel) -> str:
    """Return the type to which staged values of a column are cast; ``""`` if none is needed."""
    kind = duckdb_type(column)
    return "" if kind in ("VARCHAR", "BLOB", "DOUBLE") else kind


def arrow_rows(columns: Sequence[ColumnModel], rows: Iterable[Sequence[Any]]) -> pa.Table:
    """Return rows as an Arrow table with the columns ``c0``, ``c1`` and so on.

    Raises:
        SinkError: a value does not fit its column.
    """
    values: Iterable[Sequence[Any]] = zip(*rows, strict=True)
    arrays = [_array(column, some) for column, some in zip(columns, values, strict=True)]
    return pa.table(arrays, [f"c{at}" for at in range(len(arrays))])


def _array(column: ColumnModel, values: Sequence[Any]) -> pa.Array:
    kind = column.kind
    try:
        if duckdb_type(column) == "UBIGINT":
            # Values from 9223372036854775808 on arrive as text.
            numbers = [None if value is None else int(value) for value in values]
            return pa.array(numbers, pa.uint64())
        if kind in _TYPES.whole:
            return pa.array(values, pa.int64())
        if kind in ("float", "double"):
            return pa.array(values, pa.float64())
        return pa.array(values, pa.large_binary() if kind in BLOBS else pa.large_string())
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        # The text of the error may contain values.
        raise SinkError(
            f"column {column.name}: a value is no {kind.upper()} ({type(error).__name__})"
        ) from None
