"""The types of columns in the lake, and the conversion of JSON values of the change log.

The types are in :data:`~replica_client.schema.kinds.TARGETS`. BIT(64) is decimal(20,0), and a DECIMAL
of more than 38 digits a string.

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

from replica_client.errors import SinkError
from replica_client.lake.partial_images import PARTIAL_DOCUMENTS
from replica_client.protocol.binlog.values.json_diff import JSON_DIFF
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.rows.arrow_types import arrow_type
from replica_client.schema.kinds import (
    BYTE_KINDS,
    KINDS,
    TARGETS,
    TEXT_KINDS,
    Rules,
    rules,
    target_type,
)
from replica_client.schema.model import ColumnModel

LOSSLESS: Final = "_lossless"
LOSSLESS_TYPE: Final = pa.map_(pa.string(), pa.string())

_BIG: Final = pa.decimal128(20, 0)
_MAX_DECIMAL: Final = 38
_ORDERED: Final = (pa.types.is_integer, pa.types.is_string, pa.types.is_date)
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")

Values = list[Any]
Lossless = dict[int, dict[str, str]]
_Make = Callable[[str, pa.DataType], "LakeColumn"]


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
    form = KINDS[kind].form if kind in KINDS else None
    if form == "decimal" and (column.length or 0) > _MAX_DECIMAL:
        return _plain(name, pa.string(), str)
    if form == "decimal":
        return _cast(name, pa.decimal128(column.length or 10, column.scale))
    if form == "bit" and (column.length or 1) > 63:
        return _plain(name, _BIG, int)
    if kind in TEXT_KINDS and column.charset == "binary":
        kind = BYTE_KINDS.get(kind, "blob")
    text = target_type("lake", kind, unsigned=column.unsigned)
    return _COLUMNS[kind](name, arrow_type(text))


def _of(decoded: Any, to_arrow: Callable[[Values, Lossless], pa.Array] | None = None) -> _Make:
    """Return a function that makes a column from its name and type."""
    if to_arrow is None:
        return lambda name, type_: _plain(name, type_, decoded)
    return lambda name, type_: LakeColumn(name, type_, decoded, to_arrow)


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
    return pa.array(decoded, arrow_type(TARGETS["lake"]["geometry"]))


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


_COLUMNS: Final[Rules[_Make]] = rules(
    "the lake's values",
    {
        "integer year bit": _of(int),
        "real": _of(float),
        "decimal": _cast,
        "date datetime timestamp": _temporal,
        "string time address": _of(str),
        "bytes": _of(dict[str, str] | None, _binaries),
        "enum set": _of(str | int | None, _labels),
        "json": _of(msgspec.Raw, _documents),
        "spatial": _of(dict[str, str | int] | None, _geometries),
        "vector": _of(list[float]),
    },
)


def _is_date(text: str) -> bool:
    if not _DATE.match(text):
        return False
    try:
        pa.array([text[:10]], pa.string()).cast(pa.date32())
    except pa.ArrowInvalid:
        return False
    return True
