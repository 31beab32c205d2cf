"""Columns of a mirror in DuckDB; their types are in :data:`~replica_client.schema.kinds.TARGETS`.

A DECIMAL of more than 38 digits is VARCHAR. TIMESTAMP is in UTC.
DuckDB stores no zero dates and no invalid dates: such a value is an error, or NULL if the options
say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import pyarrow as pa

from replica_client.errors import SinkError
from replica_client.schema.kinds import Rules, rules
from replica_client.schema.model import ColumnModel, column_type

_MAX_DIGITS: Final = 38


def duckdb_type(column: ColumnModel) -> str:
    """Return the type of a column."""
    if column.kind == "decimal" and (column.length or 0) > _MAX_DIGITS:
        return "VARCHAR"
    return column_type("duckdb", column)


def shown(column: ColumnModel, name: str) -> str:
    """Return an expression that selects a column's values in the mirrors' form."""
    if duckdb_type(column) == "UBIGINT":
        return _text(column, name)
    return _SHOWN[column.kind](column, name)


def _text(_: ColumnModel, name: str) -> str:
    return f"CAST({name} AS VARCHAR)"


def _moment(column: ColumnModel, name: str) -> str:
    return _cut(f"strftime({name}, '%Y-%m-%d %H:%M:%S.%f')", column.fraction_digits)


def _time(column: ColumnModel, name: str) -> str:
    size = f"abs(epoch_us({name}))"
    sign = f"CASE WHEN epoch_us({name}) < 0 THEN '-' ELSE '' END"
    parts = (f"{size} // 3600000000", f"{size} // 60000000 % 60", f"{size} // 1000000 % 60")
    text = f"printf('%02d:%02d:%02d.%06d', {', '.join(parts)}, {size} % 1000000)"
    return f"({sign} || {_cut(text, column.fraction_digits)})"


def _cut(text: str, digits: int) -> str:
    """Return an expression that cuts a text with six fraction digits to fewer digits."""
    return text if digits >= 6 else f"left({text}, {digits - 6 - (not digits)})"


_SHOWN: Final[Rules[Callable[[ColumnModel, str], str]]] = rules(
    "the DuckDB mirror's values",
    {
        "integer year double string enum set bytes spatial address": lambda _, name: name,
        # The shortest number that is the same FLOAT, as rows have it.
        "float": lambda _, name: f"CAST(CAST({name} AS VARCHAR) AS DOUBLE)",
        "bit decimal date json vector": _text,
        "datetime timestamp": _moment,
        "time": _time,
    },
)


def staged_type(column: ColumnModel) -> str:
    """Return the type to which staged values of a column are cast; ``""`` if none is needed."""
    kind = duckdb_type(column)
    return "" if kind in ("VARCHAR", "BLOB", "DOUBLE") else kind


_STAGED: Final = rules(
    "the DuckDB mirror's staging",
    {
        "integer year bit": pa.int64(),
        "real": pa.float64(),
        "bytes spatial": pa.large_binary(),
        "decimal date time datetime timestamp string enum set json vector address": pa.large_string(),
    },
)


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
        return pa.array(values, _STAGED[kind])
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        # The text of the error may contain values.
        raise SinkError(
            f"column {column.name}: a value is no {kind.upper()} ({type(error).__name__})"
        ) from None
