"""Values in the form that mirrors receive and SQLite stores, exact in one storage class per column.

==============================  ====================================================
column                          stored as
==============================  ====================================================
TINYINT … BIGINT, YEAR          INTEGER
BIGINT UNSIGNED, BIT            INTEGER; from 9223372036854775808 on TEXT of the digits
FLOAT, DOUBLE                   REAL; SQLite and DuckDB have one zero
DECIMAL                         TEXT with all its digits
DATE, TIME, DATETIME,           TEXT as MySQL writes it, with all fraction digits;
TIMESTAMP                       TIMESTAMP in UTC
CHAR, VARCHAR, TEXT, ENUM, SET  TEXT
BINARY, VARBINARY, BLOB         BLOB
JSON                            TEXT of the document
GEOMETRY                        BLOB as MySQL stores it: srid, then well-known binary
VECTOR                          TEXT of a JSON array
UUID, INET4, INET6              TEXT
==============================  ====================================================
"""

from __future__ import annotations

from typing import Any, Final

from replica_client.binlog.values.enum_set import EnumValue
from replica_client.binlog.values.geometry import encode_geometry
from replica_client.binlog.values.json_binary import JsonDocument
from replica_client.errors import SinkError
from replica_client.rows.json_values import value_to_json
from replica_client.rows.raw_json import RawJson
from replica_client.schema.model import ColumnModel
from replica_client.sinks.mirror.collector import ValueEncoder

INTEGER_LIMIT: Final = 1 << 63
_INTEGERS: Final = frozenset(("tinyint", "smallint", "mediumint", "int", "bigint", "year"))
REALS: Final = frozenset(("float", "double"))
_GEOMETRIES: Final = frozenset(
    (
        *("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring"),
        *("multipolygon", "geometrycollection", "geomcollection"),
    )
)
BLOBS: Final = _GEOMETRIES | frozenset(
    ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
)


def declared_type(column: ColumnModel) -> str:
    """Return the type in CREATE TABLE; ``""`` if SQLite must not convert values."""
    if column.kind == "bit" or (column.kind == "bigint" and column.unsigned):
        return ""
    if column.kind in _INTEGERS:
        return "INTEGER"
    if column.kind in REALS:
        return "REAL"
    return "BLOB" if column.kind in BLOBS else "TEXT"


def stored_encoder(column: ColumnModel) -> ValueEncoder | None:
    """Return the encoder of a column's values; None if they are stored as they are."""
    kind = column.kind
    if kind == "bit" or (kind == "bigint" and column.unsigned):
        return _large
    if kind in _INTEGERS or kind in REALS:
        return None
    if kind == "decimal":
        return _decimal
    if kind == "enum":
        return _enum
    if kind == "json":
        return _json
    if kind in _GEOMETRIES:
        return encode_geometry
    if kind == "vector":
        return value_to_json
    if kind in ("char", "varchar") or kind in BLOBS or kind.endswith("text"):
        return None
    return str


def one_zero(value: float) -> float:
    """Return a number with ``0.0`` in place of ``-0.0``."""
    return value + 0.0


def _large(value: int) -> int | str:
    return value if value < INTEGER_LIMIT else str(value)


def _decimal(value: Any) -> str:
    return f"{value:f}"


def _enum(value: EnumValue) -> str:
    return str(value.index) if value.label is None else value.label


def _json(value: Any) -> str:
    if isinstance(value, RawJson):
        return str(value)
    if not isinstance(value, JsonDocument):
        raise SinkError(
            "a JSON column was changed in parts of its document; set binlog_row_image=FULL, or "
            "binlog_row_value_options='' on the source"
        )
    return value.text
