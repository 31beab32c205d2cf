"""Conversion of table-map columns to column definitions, and of definitions to SQL types."""

from __future__ import annotations

import re
from typing import Final

from replica_client.constants.column_types import ColumnType
from replica_client.errors import SchemaError
from replica_client.schema.character_sets import BINARY, charset_of_id, max_length
from replica_client.schema.model import ColumnModel, TableModel
from replica_client.schema.quoting import mysql_text
from replica_client.schema.shape import ColumnShape, TableShape

_T = ColumnType
BINARY_COLLATION: Final = 63
_PLAIN: Final = {
    _T.MYSQL_TYPE_TINY: "tinyint",
    _T.MYSQL_TYPE_SHORT: "smallint",
    _T.MYSQL_TYPE_INT24: "mediumint",
    _T.MYSQL_TYPE_LONG: "int",
    _T.MYSQL_TYPE_LONGLONG: "bigint",
    _T.MYSQL_TYPE_FLOAT: "float",
    _T.MYSQL_TYPE_DOUBLE: "double",
    _T.MYSQL_TYPE_DATE: "date",
    _T.MYSQL_TYPE_NEWDATE: "date",
    _T.MYSQL_TYPE_TIME: "time",
    _T.MYSQL_TYPE_TIME2: "time",
    _T.MYSQL_TYPE_DATETIME: "datetime",
    _T.MYSQL_TYPE_DATETIME2: "datetime",
    _T.MYSQL_TYPE_TIMESTAMP: "timestamp",
    _T.MYSQL_TYPE_TIMESTAMP2: "timestamp",
    _T.MYSQL_TYPE_YEAR: "year",
    _T.MYSQL_TYPE_JSON: "json",
}
_VARIABLE: Final = (
    _T.MYSQL_TYPE_VARCHAR,
    _T.MYSQL_TYPE_VAR_STRING,
    _T.MYSQL_TYPE_VARCHAR_COMPRESSED,
)
_BLOBS: Final = (
    _T.MYSQL_TYPE_TINY_BLOB,
    _T.MYSQL_TYPE_BLOB,
    _T.MYSQL_TYPE_MEDIUM_BLOB,
    _T.MYSQL_TYPE_LONG_BLOB,
    _T.MYSQL_TYPE_BLOB_COMPRESSED,
)
_BLOB_SIZES: Final = {0xFF: "tiny", 0xFFFF: "", 0xFFFFFF: "medium"}
_GEOMETRIES: Final = (
    *("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring"),
    *("multipolygon", "geomcollection"),
)
_KIND: Final = re.compile(r"[a-z][a-z0-9]*")
_SIZED: Final = frozenset(("char", "varchar", "binary", "varbinary", "bit", "vector"))


def is_binary(column: ColumnShape) -> bool:
    """Return whether a string or BLOB column holds bytes.

    A column without a known collation counts as binary.
    """
    return column.collation_id in (None, BINARY_COLLATION)


def table_model(shape: TableShape, columns: tuple[ColumnShape, ...] | None = None) -> TableModel:
    """Return the definition of a table, as complete as its table map allows.

    Args:
        shape: shape of the table.
        columns: the columns to include; None for all.
    """
    wanted = shape.columns if columns is None else columns
    key = [shape.columns[at] for at in shape.primary_key]
    return TableModel(
        shape.database,
        shape.table,
        tuple(column_model(column) for column in wanted),
        tuple((column.name, column.primary_key_prefix) for column in key),
    )


def column_model(column: ColumnShape) -> ColumnModel:
    """Return the definition of a column, as complete as its table map allows."""
    kind, length, charset = _kind(column), None, None
    code = column.type_code
    if kind in ("char", "varchar"):
        charset = charset_of_id(column.collation_id)
        length = column.length // max_length(charset or BINARY)
    elif kind.endswith("text") or kind in ("enum", "set"):
        charset = charset_of_id(column.collation_id)
    elif kind in ("binary", "varbinary", "bit", "decimal"):
        length = column.length
    elif kind == "vector":
        length = column.vector_dimension or column.length // 4 or None
    return ColumnModel(
        column.name,
        kind,
        length,
        column.scale,
        column.fraction_digits,
        bool(column.unsigned),
        charset,
        column.labels if code in (_T.MYSQL_TYPE_ENUM, _T.MYSQL_TYPE_SET) else None,
        column.nullable,
        column.visible,
    )


def _kind(column: ColumnShape) -> str:
    code = column.type_code
    if column.logical_type is not None:
        return column.logical_type
    if code in _PLAIN:
        return _PLAIN[_T(code)]
    if code in (_T.MYSQL_TYPE_NEWDECIMAL, _T.MYSQL_TYPE_DECIMAL):
        return "decimal"
    if code in _VARIABLE:
        return "varbinary" if is_binary(column) else "varchar"
    if code == _T.MYSQL_TYPE_STRING:
        return "binary" if is_binary(column) else "char"
    if code in _BLOBS:
        return _BLOB_SIZES.get(column.length, "long") + ("blob" if is_binary(column) else "text")
    if code == _T.MYSQL_TYPE_GEOMETRY:
        geometry = column.geometry_type or 0
        return _GEOMETRIES[geometry] if geometry < len(_GEOMETRIES) else "geometry"
    known = {
        _T.MYSQL_TYPE_ENUM: "enum",
        _T.MYSQL_TYPE_SET: "set",
        _T.MYSQL_TYPE_BIT: "bit",
        _T.MYSQL_TYPE_VECTOR: "vector",
    }
    return known.get(_T(code), "longblob")


def sql_type(column: ColumnModel) -> str:
    """Return the type as ``information_schema.columns.column_type`` writes it.

    Display widths are left out. In DDL the text has the same meaning if the session's ``sql_mode``
    lacks ``NO_BACKSLASH_ESCAPES``.

    Raises:
        SchemaError: the kind is no word.
    """
    if not _KIND.fullmatch(column.kind):
        raise SchemaError(f"column {column.name!r:.80}: {column.kind!r:.80} is no type")
    text = column.kind
    if column.labels is not None:
        labels = (mysql_text(label, backslash_escapes=True) for label in column.labels)
        text += "(" + ",".join(labels) + ")"
    elif column.kind == "decimal":
        text += f"({column.length or 10},{column.scale})"
    elif column.kind in _SIZED and column.length is not None:
        text += f"({column.length})"
    elif column.fraction_digits:
        text += f"({column.fraction_digits})"
    return text + (" unsigned" if column.unsigned else "")


def listed_type(column: ColumnModel) -> str:
    """Return the type as servers list it, with the display width of its definition.

    Raises:
        SchemaError: the kind is no word.
    """
    words = column.type_name.split()
    if column.kind == "geometry" and words:
        return words[0].lower()
    text = sql_type(column)
    if column.display_width is not None:
        width = str(column.display_width)
        if column.display_scale is not None:
            width += f",{column.display_scale}"
        text = text.replace(column.kind, f"{column.kind}({width})", 1)
    if "BOOL" in words or "BOOLEAN" in words:
        text = "tinyint(1)"
    return text + (" zerofill" if "ZEROFILL" in words else "")
