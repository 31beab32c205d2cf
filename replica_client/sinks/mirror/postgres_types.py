"""Columns of a mirror in PostgreSQL; their types are in :data:`~replica_client.schema.kinds.TARGETS`.

The collation of text is C, so that different keys stay different. TIMESTAMP is in UTC.
PostgreSQL stores no zero dates, no invalid dates, and no text with a character U+0000: such a value
is an error, or NULL if the options say so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from replica_client.schema.kinds import Rules, rules
from replica_client.schema.model import ColumnModel, column_type


def postgres_type(column: ColumnModel) -> str:
    """Return the type of a column."""
    return column_type("postgres", column)


def cast_type(column: ColumnModel) -> str:
    """Return the type without a collation, for a CAST."""
    return postgres_type(column).partition(" COLLATE")[0]


def shown(column: ColumnModel, name: str) -> str:
    """Return an expression that selects a column's values in the mirrors' form."""
    is_numeric = cast_type(column).startswith("numeric")
    return _text(column, name) if is_numeric else _SHOWN[column.kind](column, name)


def _text(_: ColumnModel, name: str) -> str:
    return f"{name}::text"


def _moment(column: ColumnModel, name: str) -> str:
    return _fraction(f"to_char({name}, 'YYYY-MM-DD HH24:MI:SS", column.fraction_digits)


def _time(column: ColumnModel, name: str) -> str:
    sign = f"CASE WHEN {name} < interval '0' THEN '-' ELSE '' END"
    size = f"(CASE WHEN {name} < interval '0' THEN -{name} ELSE {name} END)"
    hours = f"floor(extract(epoch from {size}) / 3600)::int"
    zero = f"CASE WHEN {hours} < 10 THEN '0' ELSE '' END"
    rest = _fraction(f"to_char({size}, ':MI:SS", column.fraction_digits)
    return f"({sign} || {zero} || {hours}::text || {rest})"


def _fraction(text: str, digits: int) -> str:
    if not digits:
        return text + "')"
    return text + ".US')" if digits >= 6 else f"left({text}.US'), {digits - 6})"


_SHOWN: Final[Rules[Callable[[ColumnModel, str], str]]] = rules(
    "the PostgreSQL mirror's values",
    {
        "integer year bit real decimal string enum set bytes spatial address": lambda _, name: name,
        "date json vector": _text,
        "datetime timestamp": _moment,
        "time": _time,
    },
)
