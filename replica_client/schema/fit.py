"""Compare a column of a table map with a column definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from replica_client.constants.column_types import ColumnType
from replica_client.schema.character_sets import charset_of_id, max_length
from replica_client.schema.model import TEXT_KINDS, ColumnModel
from replica_client.schema.shape import ColumnShape

_T = ColumnType
TYPE_CODES: Final[dict[str, tuple[int, ...]]] = {
    "tinyint": (_T.MYSQL_TYPE_TINY,),
    "smallint": (_T.MYSQL_TYPE_SHORT,),
    "mediumint": (_T.MYSQL_TYPE_INT24,),
    "int": (_T.MYSQL_TYPE_LONG,),
    "bigint": (_T.MYSQL_TYPE_LONGLONG,),
    "float": (_T.MYSQL_TYPE_FLOAT,),
    "double": (_T.MYSQL_TYPE_DOUBLE,),
    "decimal": (_T.MYSQL_TYPE_NEWDECIMAL, _T.MYSQL_TYPE_DECIMAL),
    "bit": (_T.MYSQL_TYPE_BIT,),
    "year": (_T.MYSQL_TYPE_YEAR,),
    "date": (_T.MYSQL_TYPE_DATE, _T.MYSQL_TYPE_NEWDATE),
    "time": (_T.MYSQL_TYPE_TIME2, _T.MYSQL_TYPE_TIME),
    "datetime": (_T.MYSQL_TYPE_DATETIME2, _T.MYSQL_TYPE_DATETIME),
    "timestamp": (_T.MYSQL_TYPE_TIMESTAMP2, _T.MYSQL_TYPE_TIMESTAMP),
    "char": (_T.MYSQL_TYPE_STRING,),
    "binary": (_T.MYSQL_TYPE_STRING,),
    "varchar": (_T.MYSQL_TYPE_VARCHAR, _T.MYSQL_TYPE_VARCHAR_COMPRESSED),
    "varbinary": (_T.MYSQL_TYPE_VARCHAR, _T.MYSQL_TYPE_VARCHAR_COMPRESSED),
    "enum": (_T.MYSQL_TYPE_ENUM,),
    "set": (_T.MYSQL_TYPE_SET,),
    "json": (_T.MYSQL_TYPE_JSON,),
    "geometry": (_T.MYSQL_TYPE_GEOMETRY,),
    "vector": (_T.MYSQL_TYPE_VECTOR, _T.MYSQL_TYPE_VARCHAR, _T.MYSQL_TYPE_STRING),
    "uuid": (_T.MYSQL_TYPE_STRING,),
    "inet4": (_T.MYSQL_TYPE_STRING,),
    "inet6": (_T.MYSQL_TYPE_STRING,),
    **dict.fromkeys(
        (
            *("tinytext", "text", "mediumtext", "longtext"),
            *("tinyblob", "blob", "mediumblob", "longblob"),
        ),
        (_T.MYSQL_TYPE_BLOB, _T.MYSQL_TYPE_BLOB_COMPRESSED),
    ),
}
"""The type codes that a kind can have in a table map; current servers write the first."""
_BLOB_SIZES: Final = {"tiny": 1, "": 2, "medium": 3, "long": 4}
NUMBER_KINDS: Final = frozenset(
    ("tinyint", "smallint", "mediumint", "int", "bigint", "float", "double", "decimal")
)
"""Kinds that can be unsigned."""
_FIXED_LENGTHS: Final = {"uuid": 16, "inet4": 4, "inet6": 16}
_WIDTHS: Final = (1, 2, 3, 4)


def misfit(shape: ColumnShape, model: ColumnModel) -> str:
    """Return why a table map's column does not fit a definition; ``""`` when it does."""
    if shape.type_code not in TYPE_CODES.get(model.kind, ()):
        return f"type {_type_name(shape.type_code)} is not {model.kind}"
    if shape.resolved and shape.name.lower() != model.name.lower():
        return f"name {shape.name!r} is not {model.name!r}"
    if model.nullable is not None and shape.nullable != model.nullable:
        return f"it can{'' if shape.nullable else 'not'} be NULL"
    if (
        model.kind in NUMBER_KINDS
        and shape.unsigned is not None
        and shape.unsigned != model.unsigned
    ):
        return "it is " + ("unsigned" if shape.unsigned else "signed")
    if _labels_differ(shape, model):
        return "its labels differ"
    if model.kind in TEXT_KINDS and shape.collation_id is not None and model.charset is not None:
        charset = charset_of_id(shape.collation_id)
        if charset is not None and charset != model.charset:
            return f"its character set is {charset}"
    return _size_misfit(shape, model)


def _labels_differ(shape: ColumnShape, model: ColumnModel) -> bool:
    if shape.labels is None or model.labels is None:
        return False
    if not model.unknown_labels:
        return shape.labels != model.labels
    unknown = frozenset(model.unknown_labels)
    pairs = zip(shape.labels, model.labels, strict=False)
    return len(shape.labels) != len(model.labels) or any(
        one != other and at not in unknown for at, (one, other) in enumerate(pairs, 1)
    )


def _type_name(code: int) -> str:
    try:
        return ColumnType(code).name.removeprefix("MYSQL_TYPE_")
    except ValueError:
        return str(code)


def _size_misfit(shape: ColumnShape, model: ColumnModel) -> str:
    check = _CHECKS.get(model.kind)
    if check is None or check(shape, model):
        return ""
    return f"size {shape.length} (metadata {shape.metadata}) is not that of {model.kind}"


def _string(shape: ColumnShape, model: ColumnModel) -> bool:
    length = model.length or 0
    # A compressed column has one more byte, for its header.
    size = shape.length - (shape.type_code == _T.MYSQL_TYPE_VARCHAR_COMPRESSED)
    if model.kind in ("binary", "varbinary"):
        return size == length
    if model.charset is None:
        return size in [length * width for width in _WIDTHS]
    return size == length * max_length(model.charset)


def _blob(shape: ColumnShape, model: ColumnModel) -> bool:
    prefix = model.kind.removesuffix("text").removesuffix("blob")
    return shape.metadata == _BLOB_SIZES[prefix]


def _decimal(shape: ColumnShape, model: ColumnModel) -> bool:
    if shape.type_code == _T.MYSQL_TYPE_DECIMAL:
        return True
    return (shape.length, shape.scale) == (model.length, model.scale)


def _labelled(shape: ColumnShape, model: ColumnModel) -> bool:
    if model.labels is None:
        return True
    count = len(model.labels)
    if model.kind == "enum":
        return shape.length == (1 if count < 256 else 2)
    size = (count + 7) // 8
    return shape.length == (size if size <= 4 else 8)


def _temporal(shape: ColumnShape, model: ColumnModel) -> bool:
    old = (_T.MYSQL_TYPE_TIME, _T.MYSQL_TYPE_DATETIME, _T.MYSQL_TYPE_TIMESTAMP)
    return shape.type_code in old or shape.metadata == model.fraction_digits


def _vector(shape: ColumnShape, model: ColumnModel) -> bool:
    return shape.type_code == _T.MYSQL_TYPE_VECTOR or shape.length == 4 * (model.length or 0)


_Check = Callable[[ColumnShape, ColumnModel], bool]
_CHECKS: Final[dict[str, _Check]] = {
    **dict.fromkeys(("char", "binary", "varchar", "varbinary"), _string),
    **dict.fromkeys((prefix + "text" for prefix in _BLOB_SIZES), _blob),
    **dict.fromkeys((prefix + "blob" for prefix in _BLOB_SIZES), _blob),
    **dict.fromkeys(("enum", "set"), _labelled),
    **dict.fromkeys(("time", "datetime", "timestamp"), _temporal),
    **dict.fromkeys(
        _FIXED_LENGTHS, lambda shape, model: shape.length == _FIXED_LENGTHS[model.kind]
    ),
    "decimal": _decimal,
    "bit": lambda shape, model: shape.length == model.length,
    "vector": _vector,
}
