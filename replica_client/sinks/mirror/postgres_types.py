"""Column types of a mirror in PostgreSQL, and the conversion of values to and from them.

==============================  ==============================================================
column                          type
==============================  ==============================================================
TINYINT, SMALLINT, YEAR         smallint; unsigned integer
MEDIUMINT, INT                  integer; INT UNSIGNED bigint
BIGINT                          bigint; unsigned numeric(20)
BIT                             numeric(20)
FLOAT, DOUBLE                   real, double precision
DECIMAL(p,s)                    numeric(p,s)
DATE                            date
TIME                            interval(n): TIME goes beyond a day, and below zero
DATETIME, TIMESTAMP             timestamp(n); TIMESTAMP in UTC
CHAR, VARCHAR, TEXT, ENUM, SET  text with the collation C, so that different keys stay different
BINARY, VARBINARY, BLOB         bytea
JSON                            json: the document's text
GEOMETRY                        bytea as MySQL stores it: srid, then well-known binary
VECTOR                          json: an array of numbers
UUID, INET4, INET6              text
==============================  ==============================================================

PostgreSQL stores no zero dates, no invalid dates, and no text with a character U+0000: such a value
is an error, or NULL if the options say so.
"""

from __future__ import annotations

from typing import Final

from replica_client.schema.model import ColumnModel
from replica_client.sinks.mirror.stored_values import StoredTypes

_TYPES: Final = StoredTypes(
    whole={
        "tinyint": ("smallint", "smallint"),
        "smallint": ("smallint", "integer"),
        "mediumint": ("integer", "integer"),
        "int": ("integer", "bigint"),
        "bigint": ("bigint", "numeric(20)"),
        "year": ("smallint", "smallint"),
        "bit": ("numeric(20)", "numeric(20)"),
    },
    others={
        "float": "real",
        "double": "double precision",
        "decimal": "numeric({length},{scale})",
        "date": "date",
        "time": "interval({digits})",
        "datetime": "timestamp({digits})",
        "timestamp": "timestamp({digits})",
        "json": "json",
        "vector": "json",
    },
    blob="bytea",
    text='text COLLATE "C"',
)


def postgres_type(column: ColumnModel) -> str:
    """Return the type of a column."""
    return _TYPES.of(column)


def cast_type(column: ColumnModel) -> str:
    """Return the type without a collation, for a CAST."""
    return postgres_type(column).partition(" COLLATE")[0]


def shown(column: ColumnModel, name: str) -> str:
    """Return an expression that selects a column's values in the mirrors' form."""
    kind, digits = column.kind, column.fraction_digits
    if kind in ("datetime", "timestamp"):
        return _fraction(f"to_char({name}, 'YYYY-MM-DD HH24:MI:SS", digits)
    if kind == "time":
        sign = f"CASE WHEN {name} < interval '0' THEN '-' ELSE '' END"
        size = f"(CASE WHEN {name} < interval '0' THEN -{name} ELSE {name} END)"
        hours = f"floor(extract(epoch from {size}) / 3600)::int"
        zero = f"CASE WHEN {hours} < 10 THEN '0' ELSE '' END"
        rest = _fraction(f"to_char({size}, ':MI:SS", digits)
        return f"({sign} || {zero} || {hours}::text || {rest})"
    if kind in ("bigint", "bit", "decimal") and cast_type(column).startswith("numeric"):
        return f"{name}::text"
    if kind in ("date", "json", "vector"):
        return f"{name}::text"
    return name


def _fraction(text: str, digits: int) -> str:
    if not digits:
        return text + "')"
    return text + ".US')" if digits >= 6 else f"left({text}.US'), {digits - 6})"
