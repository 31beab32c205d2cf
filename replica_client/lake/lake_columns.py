"""The types of columns in the lake, and the conversion of JSON values of the change log.

===============================  ===================================================
column                           Arrow, and Delta
===============================  ===================================================
TINYINT … BIGINT                 int8 … int64; unsigned: the next larger one
BIGINT UNSIGNED, BIT(64)         decimal(20,0)
YEAR, BIT                        int32, int64
FLOAT, DOUBLE                    float, double
DECIMAL                          decimal; string from 39 digits on
DATE                             date
TIME                             string, MySQL's own text
DATETIME                         timestamp without time zone
TIMESTAMP                        timestamp
CHAR, VARCHAR, TEXT, JSON        string
ENUM, SET, UUID, INET4, INET6    string
BINARY, VARBINARY, BLOB          binary
GEOMETRY                         struct<wkb: binary, srid: long>
VECTOR                           array<float>
===============================  ===================================================

Dates that Arrow cannot hold (``0000-00-00``, ``2026-02-00``) are null, and their text is in the
row's ``_lossless`` map.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from replica_client.errors import SchemaError, SinkError
from replica_client.lake.partial_documents import JSON_DIFF, PARTIAL_DOCUMENTS
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.schema.model import TEXT_KINDS, ColumnModel

LOSSLESS: Final = "_lossless"
LOSSLESS_TYPE: Final = pa.map_(pa.string(), pa.string())

_BIG: Final = pa.decimal128(20, 0)
_INTEGERS: Final = {
    "tinyint": (pa.int8(), pa.int16()),
    "smallint": (pa.int16(), pa.int32()),
    "mediumint": (pa.int32(), pa.int32()),
    "int": (pa.int32(), pa.int64()),
    "bigint": (pa.int64(), _BIG),
}
_GEOMETRY: Final = pa.struct([("wkb", pa.binary()), ("srid", pa.int64())])
_GEOMETRIES: Final = frozenset(
    (
        *("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring"),
        *("multipolygon", "geometrycollection", "geomcollection"),
    )
)
BINARY_KINDS: Final = frozenset(
    ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
)
"""Kinds of columns whose values are always bytes."""

_AS_TEXT: Final = frozenset(("time", "uuid", "inet4", "inet6"))
_TEMPORAL: Final = {
    "date": pa.date32(),
    "datetime": pa.timestamp("us"),
    "timestamp": pa.timestamp("us", "UTC"),
}
_MAX_DECIMAL: Final = 38
_ORDERED: Final = (pa.types.is_integer, pa.types.is_string, pa.types.is_date)
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")

Values = list[Any]
Lossless = dict[int, dict[str, str]]


@dataclass(frozen=True, slots=True)
class LakeColumn:
    """A column of a state table.

    Attributes:
        name: the source's name of the column.
        type: its Arrow type.
        decoded: the type as which msgspec decodes its JSON values.
        to_arrow: converts the decoded values to an Arrow array.
    """

    name: str
    type: pa.DataType
    decoded: Any
    to_arrow: Callable[[Values, Lossless], pa.Array]

    @property
    def is_ordered(self) -> bool:
        """Whether the column's least and greatest value say which keys a file may hold."""
        return self.type == _BIG or any(test(self.type) for test in _ORDERED)


def lake_column(column: ColumnModel) -> LakeColumn:
    """Return the lake's form of a column.

    Raises:
        SchemaError: the kind of the column is not known.
    """
    name, kind = column.name, column.kind
    if kind in _INTEGERS:
        return _plain(name, _INTEGERS[kind][column.unsigned], int)
    if kind == "bit":
        return _plain(name, _BIG if (column.length or 1) > 63 else pa.int64(), int)
    if kind == "year":
        return _plain(name, pa.int32(), int)
    if kind in ("float", "double"):
        return _plain(name, pa.float32() if kind == "float" else pa.float64(), float)
    if kind == "decimal":
        digits = column.length or 10
        if digits > _MAX_DECIMAL:
            return _plain(name, pa.string(), str)
        return _cast(name, pa.decimal128(digits, column.scale))
    if kind in _TEMPORAL:
        return _temporal(name, _TEMPORAL[kind])
    if kind == "json":
        return LakeColumn(name, pa.string(), msgspec.Raw, _documents)
    if kind in BINARY_KINDS or (kind in TEXT_KINDS and column.charset == "binary"):
        return LakeColumn(name, pa.binary(), dict[str, str] | None, _binaries)
    if kind in ("enum", "set"):
        return LakeColumn(name, pa.string(), str | int | None, _labels)
    if kind in TEXT_KINDS or kind in _AS_TEXT:
        return _plain(name, pa.string(), str)
    if kind in _GEOMETRIES:
        return LakeColumn(name, _GEOMETRY, dict[str, str | int] | None, _geometries)
    if kind == "vector":
        return _plain(name, pa.list_(pa.float32()), list[float])
    raise SchemaError(f"column {name} has the type {kind}, which a state table does not know")


def _plain(name: str, type_: pa.DataType, decoded: Any) -> LakeColumn:
    return LakeColumn(name, type_, decoded | None, lambda values, _: pa.array(values, type_))


def _cast(name: str, type_: pa.DataType) -> LakeColumn:
    return LakeColumn(
        name, type_, str | None, lambda values, _: pa.array(values, pa.string()).cast(type_)
    )


def _documents(values: Values, _: Lossless) -> pa.Array:
    texts = [None if value is None else bytes(value).decode() for value in values]
    for text in texts:
        if text is not None and text.startswith(JSON_DIFF):
            raise SinkError(PARTIAL_DOCUMENTS)
    return pa.array(texts, pa.string())


def _binaries(values: Values, _: Lossless) -> pa.Array:
    decoded = [None if value is None else b64decode(value["$binary"]) for value in values]
    return pa.array(decoded, pa.binary())


def _labels(values: Values, _: Lossless) -> pa.Array:
    return pa.array([None if value is None else str(value) for value in values], pa.string())


def _geometries(values: Values, _: Lossless) -> pa.Array:
    decoded = [
        None if value is None else {"wkb": b64decode(value["$wkb"]), "srid": value["srid"]}
        for value in values
    ]
    return pa.array(decoded, _GEOMETRY)


def _temporal(name: str, type_: pa.DataType) -> LakeColumn:
    naive = pa.timestamp("us") if pa.types.is_timestamp(type_) else type_

    def to_arrow(values: Values, lossless: Lossless) -> pa.Array:
        texts = pa.array(values, pa.string())
        try:
            found = texts.cast(naive)
        except pa.ArrowInvalid:
            kept: Values = []
            for at, text in enumerate(values):
                if text is not None and not _is_date(text):
                    lossless.setdefault(at, {})[name] = text
                    text = None
                kept.append(text)
            found = pa.array(kept, pa.string()).cast(naive)
        if naive != type_:
            found = pc.assume_timezone(found, "UTC")
        return found

    return LakeColumn(name, type_, str | None, to_arrow)


def _is_date(text: str) -> bool:
    if not _DATE.match(text):
        return False
    try:
        pa.array([text[:10]], pa.string()).cast(pa.date32())
    except pa.ArrowInvalid:
        return False
    return True
