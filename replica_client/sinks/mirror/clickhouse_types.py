"""Columns of a mirror in ClickHouse; their types are in :data:`~replica_client.schema.kinds.TARGETS`.

Bytes and geometries are a String of the bytes, a geometry as MySQL stores it. TIMESTAMP is in UTC.
Columns that are not of the primary key are Nullable. ClickHouse stores no zero dates and no invalid
dates, and its releases differ in the range of years: such a value is an error, or NULL if the
options say so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from replica_client.schema.kinds import Rules, rules
from replica_client.schema.model import ColumnModel, TableModel, column_type
from replica_client.sinks.mirror.stored_values import INTEGER_LIMIT

VERSION: Final = "_replica_client_version"
DELETED: Final = "_replica_client_deleted"
ROW: Final = "_replica_client_row"
NUMBER: Final = "_replica_client_number"

_NULL: Final = "\\N"
_ESCAPES: Final = str.maketrans(
    {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\0": "\\0", "\b": "\\b", "\f": "\\f"}
)
# Bytes as text of ASCII only.
_BYTES: Final = {code: f"\\x{code:02X}" for code in (*range(32), 92, *range(127, 256))}


def quoted(name: str) -> str:
    """Return a name as SQL."""
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def literal(text: str) -> str:
    """Return a text as SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def key_columns(model: TableModel) -> list[str]:
    """Return the names of the columns that identify a table's rows."""
    return [name for name, _ in model.primary_key] or [ROW, NUMBER]


def column_list(model: TableModel) -> str:
    """Return the column list of CREATE TABLE.

    ``SELECT *`` leaves out the mirror's own columns.
    """
    key = {name for name, _ in model.primary_key}
    columns = []
    for column in model.columns:
        kind = column_type("clickhouse", column)
        columns.append(
            f"{quoted(column.name)} {kind if column.name in key else f'Nullable({kind})'}"
        )
    own = {VERSION: "UInt64", DELETED: "UInt8"}
    if not key:
        own |= {ROW: "UInt128", NUMBER: "UInt64"}
    columns += [f"{name} {kind} MATERIALIZED 0" for name, kind in own.items()]
    return ", ".join(columns)


def key_types(model: TableModel) -> list[str]:
    """Return the types of the columns of :func:`key_columns`."""
    types = {column.name: column_type("clickhouse", column) for column in model.columns}
    return [types[name] for name, _ in model.primary_key] or ["UInt128", "UInt64"]


def shown(column: ColumnModel, name: str) -> str:
    """Return an expression that selects a column's values, for :func:`value_decoder`."""
    return _SHOWN[column.kind].format(name=name, scale=column.scale)


_SHOWN: Final = rules(
    "the ClickHouse mirror's expressions",
    {
        "integer year bit time string enum set json vector address": "{name}",
        "real": "tuple(toString({name}), 1)",
        "decimal": "toDecimalString({name}, {scale})",
        "date datetime timestamp": "toString({name})",
        "bytes spatial": "tuple(hex({name}))",
    },
)


def value_decoder(kind: str) -> Callable[[Any], Any] | None:
    """Return the function that converts a JSON value to the mirrors' form; None if not needed."""
    if kind.startswith("Tuple("):
        return _bytes if kind.count(",") == 0 else _real
    if "Int64" in kind:
        return _whole
    return int if "Int128" in kind else None


def _bytes(value: list[str | None]) -> bytes | None:
    return None if value[0] is None else bytes.fromhex(value[0])


def _real(value: list[Any]) -> float | None:
    return None if value[0] is None else float(value[0])


def _whole(value: int | str) -> int | str:
    number = int(value)
    return number if number < INTEGER_LIMIT else str(number)


def texts(column: ColumnModel, values: Sequence[Any]) -> list[str]:
    """Return values as TabSeparated fields."""
    write = _TEXTS[column.kind]
    return [_NULL if value is None else write(value) for value in values]


def _escaped(value: str) -> str:
    return value.translate(_ESCAPES)


_TEXTS: Final[Rules[Callable[[Any], str]]] = rules(
    "the ClickHouse mirror's values",
    {
        "integer year bit decimal date time datetime timestamp": str,
        "real": repr,
        "string enum set json vector address": _escaped,
        "bytes spatial": lambda value: bytes(value).decode("latin-1").translate(_BYTES),
    },
)
