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

from replica_client.protocol.binlog.context import DecodeOptions
from replica_client.protocol.binlog.values.binary_types import Geometry
from replica_client.protocol.binlog.values.decimal import decimal_exists
from replica_client.protocol.binlog.values.enum_set import EnumValue
from replica_client.protocol.binlog.values.temporal import Date, DateTime, Time, Timestamp
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.column_types import ColumnType
from replica_client.schema.shape import ColumnShape

_T = ColumnType
_EPOCH_ORDINAL = datetime.date(1970, 1, 1).toordinal()
_MAX_DECIMAL128 = 38
_BINARY_COLLATION = 63

_INTEGERS = {
    _T.MYSQL_TYPE_TINY: (pa.int8(), pa.uint8()),
    _T.MYSQL_TYPE_SHORT: (pa.int16(), pa.uint16()),
    _T.MYSQL_TYPE_INT24: (pa.int32(), pa.uint32()),
    _T.MYSQL_TYPE_LONG: (pa.int32(), pa.uint32()),
    _T.MYSQL_TYPE_LONGLONG: (pa.int64(), pa.uint64()),
}
_DATES = frozenset((_T.MYSQL_TYPE_DATE, _T.MYSQL_TYPE_NEWDATE))
_TIMES = frozenset((_T.MYSQL_TYPE_TIME, _T.MYSQL_TYPE_TIME2))
_DATETIMES = frozenset((_T.MYSQL_TYPE_DATETIME, _T.MYSQL_TYPE_DATETIME2))
_TIMESTAMPS = frozenset((_T.MYSQL_TYPE_TIMESTAMP, _T.MYSQL_TYPE_TIMESTAMP2))
_STRINGS = frozenset(
    (
        _T.MYSQL_TYPE_VARCHAR,
        _T.MYSQL_TYPE_VAR_STRING,
        _T.MYSQL_TYPE_STRING,
        _T.MYSQL_TYPE_TINY_BLOB,
        _T.MYSQL_TYPE_BLOB,
        _T.MYSQL_TYPE_MEDIUM_BLOB,
        _T.MYSQL_TYPE_LONG_BLOB,
        _T.MYSQL_TYPE_BLOB_COMPRESSED,
        _T.MYSQL_TYPE_VARCHAR_COMPRESSED,
    )
)
GEOMETRY_TYPE = pa.struct([pa.field("wkb", pa.binary()), pa.field("srid", pa.uint32())])


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

    ==========================  =====================================================
    column                      Arrow
    ==========================  =====================================================
    TINYINT … BIGINT            int8 … int64, uint8 … uint64
    YEAR                        uint16
    BIT                         uint64
    FLOAT, DOUBLE               float32, float64
    DECIMAL                     decimal128, from 39 digits on decimal256
    DATE                        date32
    TIME                        duration[us]
    DATETIME                    timestamp[us]
    TIMESTAMP                   timestamp[us, UTC]
    CHAR, VARCHAR, TEXT, JSON   string
    ENUM, SET                   dictionary<int32, string>
    BINARY, VARBINARY, BLOB     binary
    GEOMETRY                    struct<wkb: binary, srid: uint32>
    VECTOR                      list<float32>
    UUID, INET4, INET6          string
    ==========================  =====================================================
    """
    code = column.type_code
    if code in _INTEGERS:
        return ArrowColumn(_INTEGERS[ColumnType(code)][bool(column.unsigned)], _same)
    if column.logical_type == "vector" or code == _T.MYSQL_TYPE_VECTOR:
        return ArrowColumn(pa.list_(pa.float32()), list)
    if column.logical_type is not None:
        return ArrowColumn(pa.string(), str)
    if code in _STRINGS:
        bytes_wanted = column.collation_id in (None, _BINARY_COLLATION) or (
            options is not None and options.invalid_text == "bytes"
        )
        return ArrowColumn(pa.binary() if bytes_wanted else pa.string(), _same)
    if code == _T.MYSQL_TYPE_NEWDECIMAL and decimal_exists(column.length, column.scale):
        wide = column.length > _MAX_DECIMAL128
        kind = pa.decimal256 if wide else pa.decimal128
        return ArrowColumn(kind(column.length, column.scale), _same)
    if code in _DATES:
        return ArrowColumn(pa.date32(), _days)
    if code in _TIMES:
        return ArrowColumn(pa.duration("us"), _duration)
    if code in _DATETIMES:
        return ArrowColumn(pa.timestamp("us"), _microseconds)
    if code in _TIMESTAMPS:
        return ArrowColumn(pa.timestamp("us", "UTC"), _microseconds)
    if code == _T.MYSQL_TYPE_ENUM:
        return ArrowColumn(pa.dictionary(pa.int32(), pa.string()), _enum)
    if code == _T.MYSQL_TYPE_SET:
        return ArrowColumn(pa.dictionary(pa.int32(), pa.string()), str)
    if code == _T.MYSQL_TYPE_JSON:
        return ArrowColumn(pa.string(), _json)
    if code == _T.MYSQL_TYPE_GEOMETRY:
        return ArrowColumn(GEOMETRY_TYPE, _geometry)
    if code == _T.MYSQL_TYPE_FLOAT:
        return ArrowColumn(pa.float32(), _same)
    if code == _T.MYSQL_TYPE_DOUBLE:
        return ArrowColumn(pa.float64(), _same)
    if code == _T.MYSQL_TYPE_YEAR:
        return ArrowColumn(pa.uint16(), _same)
    if code == _T.MYSQL_TYPE_BIT:
        return ArrowColumn(pa.uint64(), _same)
    if code == _T.MYSQL_TYPE_DECIMAL:
        return ArrowColumn(pa.string(), lambda value: format(Decimal(value), "f"))
    return ArrowColumn(pa.string(), str)


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
