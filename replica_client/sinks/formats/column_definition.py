"""A column's type as ``information_schema.columns.column_type`` writes it."""

from __future__ import annotations

from replica_client.codec.charsets import charset_of
from replica_client.constants.column_types import ColumnType
from replica_client.schema.character_sets import max_length
from replica_client.schema.shape import ColumnShape

_T = ColumnType
BINARY_COLLATION = 63
_NUMBERS = {
    _T.MYSQL_TYPE_TINY: "tinyint",
    _T.MYSQL_TYPE_SHORT: "smallint",
    _T.MYSQL_TYPE_INT24: "mediumint",
    _T.MYSQL_TYPE_LONG: "int",
    _T.MYSQL_TYPE_LONGLONG: "bigint",
    _T.MYSQL_TYPE_FLOAT: "float",
    _T.MYSQL_TYPE_DOUBLE: "double",
}
_TEMPORALS = {
    _T.MYSQL_TYPE_DATE: "date",
    _T.MYSQL_TYPE_NEWDATE: "date",
    _T.MYSQL_TYPE_TIME: "time",
    _T.MYSQL_TYPE_TIME2: "time",
    _T.MYSQL_TYPE_DATETIME: "datetime",
    _T.MYSQL_TYPE_DATETIME2: "datetime",
    _T.MYSQL_TYPE_TIMESTAMP: "timestamp",
    _T.MYSQL_TYPE_TIMESTAMP2: "timestamp",
}
_GEOMETRIES = (
    "geometry",
    "point",
    "linestring",
    "polygon",
    "multipoint",
    "multilinestring",
    "multipolygon",
    "geomcollection",
)
_VARIABLE = (_T.MYSQL_TYPE_VARCHAR, _T.MYSQL_TYPE_VAR_STRING, _T.MYSQL_TYPE_VARCHAR_COMPRESSED)
_BLOBS = (
    _T.MYSQL_TYPE_TINY_BLOB,
    _T.MYSQL_TYPE_BLOB,
    _T.MYSQL_TYPE_MEDIUM_BLOB,
    _T.MYSQL_TYPE_LONG_BLOB,
    _T.MYSQL_TYPE_BLOB_COMPRESSED,
)
_BLOB_SIZES = {0xFF: "tiny", 0xFFFF: "", 0xFFFFFF: "medium"}


def is_binary(column: ColumnShape) -> bool:
    """Whether a string or BLOB column holds bytes, as far as is known."""
    return column.collation_id in (None, BINARY_COLLATION)


def column_type(column: ColumnShape) -> str:
    """The type in SQL; display widths, which binlogs do not have, are left out."""
    code = column.type_code
    if column.logical_type is not None:
        size = f"({column.length // 4})" if column.logical_type == "vector" else ""
        return column.logical_type + size
    if code in _NUMBERS:
        return _NUMBERS[_T(code)] + (" unsigned" if column.unsigned else "")
    if code in _TEMPORALS:
        digits = f"({column.fraction_digits})" if column.fraction_digits else ""
        return _TEMPORALS[_T(code)] + digits
    if code in (_T.MYSQL_TYPE_NEWDECIMAL, _T.MYSQL_TYPE_DECIMAL):
        unsigned = " unsigned" if column.unsigned else ""
        return f"decimal({column.length},{column.scale}){unsigned}"
    if code in (_T.MYSQL_TYPE_ENUM, _T.MYSQL_TYPE_SET):
        labels = ",".join("'" + label.replace("'", "''") + "'" for label in column.labels or ())
        return ("enum" if code == _T.MYSQL_TYPE_ENUM else "set") + f"({labels})"
    if code in _VARIABLE or code == _T.MYSQL_TYPE_STRING:
        stem = "char" if code == _T.MYSQL_TYPE_STRING else "varchar"
        if is_binary(column):
            return f"{stem.replace('char', 'binary')}({column.length})"
        return f"{stem}({characters(column)})"
    if code in _BLOBS:
        return _BLOB_SIZES.get(column.length, "long") + ("blob" if is_binary(column) else "text")
    if code == _T.MYSQL_TYPE_BIT:
        return f"bit({column.length})"
    if code == _T.MYSQL_TYPE_GEOMETRY:
        geometry = column.geometry_type or 0
        return _GEOMETRIES[geometry] if geometry < len(_GEOMETRIES) else "geometry"
    if code == _T.MYSQL_TYPE_VECTOR:
        dimension = column.vector_dimension
        return "vector" if dimension is None else f"vector({dimension})"
    return {_T.MYSQL_TYPE_YEAR: "year", _T.MYSQL_TYPE_JSON: "json"}.get(_T(code), "longblob")


def characters(column: ColumnShape) -> int:
    """Characters that a CHAR or VARCHAR can have."""
    return column.length // max_length(charset_of(column.collation_id or BINARY_COLLATION).name)
