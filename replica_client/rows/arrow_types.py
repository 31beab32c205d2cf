"""Arrow types of columns, and the memory of record batches.

A value that its Arrow type cannot hold is null there, and its text is in the batch's ``_lossless``
column. Such values are zero and partial dates, and differences to a JSON document whose before
image the source did not log.
"""

from __future__ import annotations

import datetime
import os
from array import array
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import accumulate
from typing import Any

import pyarrow as pa

from replica_client.protocol.binlog.event import DecodeOptions
from replica_client.protocol.binlog.values.decimal import decimal_exists
from replica_client.protocol.binlog.values.temporal import Date, DateTime, Time, Timestamp
from replica_client.protocol.binlog.values.value_types import EnumValue, Geometry
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.column_types import ColumnType
from replica_client.schema.kinds import KINDS, Rules, rules, target_type
from replica_client.schema.shape import ColumnShape, kind_of

_EPOCH_ORDINAL = datetime.date(1970, 1, 1).toordinal()
_MAX_DECIMAL128 = 38
GEOMETRY_TYPE = pa.struct([pa.field("wkb", pa.binary()), pa.field("srid", pa.uint32())])
_NAMED = {
    "timestamp[us, UTC]": pa.timestamp("us", "UTC"),
    "dictionary<int32, string>": pa.dictionary(pa.int32(), pa.string()),
    "struct<wkb: binary, srid: uint32>": GEOMETRY_TYPE,
    "struct<wkb: binary, srid: int64>": pa.struct([("wkb", pa.binary()), ("srid", pa.int64())]),
    "list<float>": pa.list_(pa.float32()),
    "decimal(20,0)": pa.decimal128(20, 0),
}


def arrow_type(text: str) -> pa.DataType:
    """Return the Arrow type that :data:`~replica_client.schema.kinds.TARGETS` names."""
    return _NAMED[text] if text in _NAMED else pa.type_for_alias(text)


@dataclass(frozen=True, slots=True)
class ArrowColumn:
    """The Arrow type of a column and its conversion.

    Attributes:
        type: the Arrow type.
        convert: turns a value that is neither None nor absent into what ``pa.array`` takes for it;
            None for a value that the type cannot hold.
    """

    type: pa.DataType
    convert: Callable[[Any], Any]


def _same(value: Any) -> Any:
    return value


def _days(value: Any) -> int | None:
    if isinstance(value, Date):
        try:
            value = value.to_python()
        except ValueError:
            return None
    return int(value.toordinal()) - _EPOCH_ORDINAL


def _microseconds(value: Any) -> int | None:
    if isinstance(value, Timestamp):
        seconds = value.seconds
        return None if seconds is None else seconds * 1_000_000 + value.microseconds
    if isinstance(value, DateTime):
        try:
            value = value.to_python()
        except ValueError:
            return None
    since: datetime.timedelta = value - datetime.datetime(1970, 1, 1, tzinfo=value.tzinfo)
    return since // datetime.timedelta(microseconds=1)


def _duration(value: Any) -> int:
    if isinstance(value, Time):
        return int(value.total_microseconds)
    return int(value // datetime.timedelta(microseconds=1))


def _geometry(value: Geometry) -> dict[str, Any]:
    return {"wkb": value.wkb, "srid": value.srid}


def _enum(value: EnumValue) -> str:
    return str(value.index) if value.label is None else value.label


def _json(value: Any) -> str | None:
    if isinstance(value, str):
        return str(value)  # RawJson, in the text of a server's SELECT
    # Differences to a document that is not in the binlog are a tuple.
    return None if isinstance(value, tuple) else str(value.text)


def arrow_column(column: ColumnShape, options: DecodeOptions | None = None) -> ArrowColumn:
    """Return the Arrow type of a column, with the conversion of its values.

    The types are in :data:`~replica_client.schema.kinds.TARGETS`. A DECIMAL of more than 38 digits
    is decimal256; text is binary if its bytes may be invalid.
    """
    kind = kind_of(column)
    form = KINDS[kind].form
    if form == "decimal":
        return _decimal(column)
    if form in ("string", "bytes"):
        is_text = form == "string" and (options is None or options.invalid_text != "bytes")
        return ArrowColumn(pa.string() if is_text else pa.binary(), _same)
    text = target_type("arrow", kind, unsigned=column.unsigned)
    return ArrowColumn(arrow_type(text), _CONVERSIONS[kind])


def _decimal(column: ColumnShape) -> ArrowColumn:
    if column.type_code == ColumnType.MYSQL_TYPE_DECIMAL:
        return ArrowColumn(pa.string(), lambda value: format(Decimal(value), "f"))
    if not decimal_exists(column.length, column.scale):
        return ArrowColumn(pa.string(), str)
    kind = pa.decimal256 if column.length > _MAX_DECIMAL128 else pa.decimal128
    return ArrowColumn(kind(column.length, column.scale), _same)


_CONVERSIONS: Rules[Callable[[Any], Any]] = rules(
    "Arrow's values",
    {
        "integer year bit real decimal string bytes": _same,
        "date": _days,
        "time": _duration,
        "datetime timestamp": _microseconds,
        "enum": _enum,
        "set address": str,
        "json": _json,
        "spatial": _geometry,
        "vector": list,
    },
)


@lru_cache(maxsize=1)
def _pool() -> Any:
    """Return the memory pool that the environment names, else jemalloc if PyArrow has it.

    Batches are allocated and freed in a few sizes. PyArrow's other default, mimalloc, spreads them
    over three times their size before it reuses memory, and the first use of a page is expensive.
    """
    if "ARROW_DEFAULT_MEMORY_POOL" not in os.environ:
        try:
            return pa.jemalloc_memory_pool()
        except NotImplementedError:
            pass
    return pa.default_memory_pool()


def allocate(size: int) -> Any:
    """Return a resizable buffer of ``size`` bytes with undefined contents."""
    return pa.allocate_buffer(size, memory_pool=_pool(), resizable=True)


def number_array(numbers: Sequence[int]) -> pa.Array:
    """Return an array of ``int32`` without nulls.

    ``pyarrow.array`` of a list would import pandas where it is installed: 0.45 s and 55 MB.
    """
    buffer = pa.py_buffer(array("i", numbers))
    return pa.Array.from_buffers(pa.int32(), len(numbers), [None, buffer], 0)


def text_array(texts: Sequence[bytes]) -> pa.Array:
    """Return an array of ``string`` without nulls, also from bytes that are not UTF-8."""
    offsets = array("i", accumulate(map(len, texts), initial=0))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(texts))]
    return pa.Array.from_buffers(pa.string(), len(texts), buffers, 0)
