"""Column types of a mirror in ClickHouse, and the conversion of values to and from them.

==============================  ==============================================================
column                          type
==============================  ==============================================================
TINYINT, SMALLINT               Int8, Int16; unsigned UInt8, UInt16
MEDIUMINT, INT                  Int32; unsigned UInt32
BIGINT                          Int64; unsigned UInt64
YEAR                            UInt16
BIT                             UInt64
FLOAT, DOUBLE                   Float32, Float64
DECIMAL(p,s)                    Decimal(p,s), up to all 65 digits
DATE                            Date32
DATETIME(n), TIMESTAMP(n)       DateTime64(n, 'UTC'); a DATETIME's text is that of the source
TIME                            String as MySQL writes it: it goes beyond a day, and below zero
CHAR, VARCHAR, TEXT, ENUM, SET  String
BINARY, VARBINARY, BLOB         String of the bytes
JSON, VECTOR                    String: the document's text; an array of numbers
GEOMETRY                        String of the bytes as MySQL stores it: srid, then well-known binary
UUID, INET4, INET6              String
==============================  ==============================================================

Columns that are not of the primary key are Nullable. ClickHouse stores no zero dates and no invalid
dates, and its releases differ in the range of years: such a value is an error, or NULL if the
options say so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from replica_client.schema.model import ColumnModel, TableModel
from replica_client.sinks.mirror.stored_values import BLOBS, INTEGER_LIMIT, StoredTypes

VERSION: Final = "_replica_client_version"
DELETED: Final = "_replica_client_deleted"
ROW: Final = "_replica_client_row"
NUMBER: Final = "_replica_client_number"

_TYPES: Final = StoredTypes(
    whole={
        "tinyint": ("Int8", "UInt8"),
        "smallint": ("Int16", "UInt16"),
        "mediumint": ("Int32", "UInt32"),
        "int": ("Int32", "UInt32"),
        "bigint": ("Int64", "UInt64"),
        "year": ("UInt16", "UInt16"),
        "bit": ("UInt64", "UInt64"),
    },
    others={
        "float": "Float32",
        "double": "Float64",
        "decimal": "Decimal({length}, {scale})",
        "date": "Date32",
        "datetime": "DateTime64({digits}, 'UTC')",
        "timestamp": "DateTime64({digits}, 'UTC')",
    },
    blob="String",
    text="String",
)
_NULL: Final = "\\N"
_ESCAPES: Final = str.maketrans(
    {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\0": "\\0", "\b": "\\b", "\f": "\\f"}
)
# Bytes as text of ASCII only.
_BYTES: Final = {code: f"\\x{code:02X}" for code in (*range(32), 92, *range(127, 256))}
_PLAIN: Final = frozenset(("decimal", "date", "datetime", "timestamp", "time", "bit"))


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
        kind = _TYPES.of(column)
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
    types = {column.name: _TYPES.of(column) for column in model.columns}
    return [types[name] for name, _ in model.primary_key] or ["UInt128", "UInt64"]


def shown(column: ColumnModel, name: str) -> str:
    """Return an expression that selects a column's values, for :func:`value_decoder`."""
    kind = column.kind
    if kind in BLOBS:
        return f"tuple(hex({name}))"
    if kind in ("float", "double"):
        return f"tuple(toString({name}), 1)"
    if kind == "decimal":
        return f"toDecimalString({name}, {column.scale})"
    return f"toString({name})" if kind in ("date", "datetime", "timestamp") else name


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
    kind = column.kind
    if kind in BLOBS:
        return [
            _NULL if value is None else bytes(value).decode("latin-1").translate(_BYTES)
            for value in values
        ]
    if kind in _TYPES.whole or kind in _PLAIN:
        return [_NULL if value is None else str(value) for value in values]
    if kind in ("float", "double"):
        return [_NULL if value is None else repr(value) for value in values]
    return [_NULL if value is None else value.translate(_ESCAPES) for value in values]
