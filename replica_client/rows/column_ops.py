"""The operation with which the row decoder reads each column."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from enum import IntEnum
from functools import partial
from typing import Any, Final

from replica_client.errors import ColumnDecodeError
from replica_client.protocol.binlog.event import DecodeOptions
from replica_client.protocol.binlog.values import temporal_legacy as legacy
from replica_client.protocol.binlog.values.decimal import decimal_size, decode_old_decimal
from replica_client.protocol.binlog.values.json_binary import JsonDocument
from replica_client.protocol.binlog.values.strings import (
    BINARY_COLLATION,
    char_function,
    decode_compressed,
    is_utf8,
    text_function,
)
from replica_client.protocol.binlog.values.temporal_storage import fraction_size
from replica_client.protocol.binlog.values.value_types import (
    EnumValue,
    SetValue,
    decode_geometry,
    decode_inet4,
    decode_inet6,
    decode_uuid,
    decode_vector,
    enum_value,
    enum_values,
    set_value,
)
from replica_client.protocol.codec.charsets import UnknownCollationError
from replica_client.protocol.codec.compression import SizedCache
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.column_types import (
    BLOB_TYPES,
    CHARACTER_TYPES,
    INTEGER_TYPES,
    PREFIXED_TYPES,
    TYPE_FACTS,
    ColumnType,
)
from replica_client.schema.kinds import KINDS, kind_name
from replica_client.schema.shape import ColumnShape


def known_enum(
    name: str, values: Sequence[EnumValue], unknown: Container[int], index: int
) -> EnumValue:
    """Return the ENUM value of an index.

    Args:
        name: of the column.
        values: all values of the column, built once and not for each row.
        unknown: indexes of unknown labels.
        index: of the value.

    Raises:
        ColumnDecodeError: its label is unknown.
        ValueError: the index is beyond the labels.
    """
    if index in unknown:
        raise _unknown_label(name, index)
    return enum_value(index, values)


def known_set(name: str, labels: Sequence[str], unknown: Iterable[int], bits: int) -> SetValue:
    """Return the SET value of a bitmap.

    Raises:
        ColumnDecodeError: one of its labels is unknown.
        ValueError: a bit is beyond the labels.
    """
    for index in unknown:
        if bits >> (index - 1) & 1:
            raise _unknown_label(name, index)
    return set_value(bits, labels)


def _unknown_label(name: str, index: int) -> ColumnDecodeError:
    return ColumnDecodeError(
        f"label {index} of column {name} is not known: listings of the source show '?' for a character that they "
        "cannot hold, or a character set on its way into the table is not known or lacks it; set "
        "binlog_row_metadata=FULL on the source, or read from where the table was defined"
    )


_T = ColumnType


class ColumnOp(IntEnum):
    """Operations of the row decoder."""

    UNKNOWN = 0
    """Not readable; ``convert`` is the reason."""
    SIGNED = 1
    UNSIGNED = 2
    FLOAT = 3
    DOUBLE = 4
    DECIMAL = 5
    DATE = 6
    TIME = 7
    DATETIME = 8
    TIMESTAMP = 9
    YEAR = 10
    BIT = 11
    ENUM = 12
    SET = 13
    UTF8 = 14
    """Text in UTF-8; ``convert`` decodes invalid bytes."""
    UTF8_CHAR = 15
    """As UTF8, without trailing spaces."""
    BYTES = 16
    BINARY = 17
    """Bytes, padded with zero bytes to ``length``."""
    CONVERT = 18
    """``convert`` decodes the bytes."""
    NULL = 19
    JSON = 20
    """A document, kept as bytes."""


@dataclass(slots=True)
class ColumnReader:
    """The operation and parameters to read a column.

    Attributes:
        op: the operation.
        size: bytes of a value of fixed size.
        prefix: bytes of the length before a value of variable size; 0 for fixed sizes.
        precision: of a DECIMAL.
        digits: scale of a DECIMAL, fraction digits of temporal types.
        length: bytes to which a BINARY is padded.
        convert: function from bytes to the value; for UNKNOWN the reason.
        enumeration: all values of an ENUM.
        labels: the labels of a SET.
        is_json: whether a partial update can hold differences of it.
        is_temporal: whether values have ``to_python()``.
    """

    op: ColumnOp
    size: int = 0
    prefix: int = 0
    precision: int = 0
    digits: int = 0
    length: int = 0
    convert: Callable[[bytes], Any] | str | None = None
    enumeration: tuple[EnumValue, ...] | None = None
    labels: tuple[str, ...] | None = None
    is_json: bool = False
    is_temporal: bool = False


_SIMPLE: Final = {
    _T.MYSQL_TYPE_FLOAT: ColumnOp.FLOAT,
    _T.MYSQL_TYPE_DOUBLE: ColumnOp.DOUBLE,
    _T.MYSQL_TYPE_YEAR: ColumnOp.YEAR,
    _T.MYSQL_TYPE_NULL: ColumnOp.NULL,
}
_TEMPORAL: Final = {
    _T.MYSQL_TYPE_TIME2: ColumnOp.TIME,
    _T.MYSQL_TYPE_DATETIME2: ColumnOp.DATETIME,
    _T.MYSQL_TYPE_TIMESTAMP2: ColumnOp.TIMESTAMP,
}
_Decoder = Callable[..., Any]
_OLD_TEMPORAL: Final[dict[int, tuple[_Decoder, _Decoder, tuple[int, ...]]]] = {
    _T.MYSQL_TYPE_TIME: (
        legacy.decode_old_time,
        legacy.decode_hires_time,
        legacy.HIRES_TIME_SIZES,
    ),
    _T.MYSQL_TYPE_DATETIME: (
        legacy.decode_old_datetime,
        legacy.decode_hires_datetime,
        legacy.HIRES_DATETIME_SIZES,
    ),
    _T.MYSQL_TYPE_TIMESTAMP: (
        legacy.decode_old_timestamp,
        legacy.decode_hires_timestamp,
        legacy.HIRES_TIMESTAMP_SIZES,
    ),
}
_DECODERS: Final[dict[str, Callable[[bytes], Any]]] = {
    "uuid": decode_uuid,
    "inet4": decode_inet4,
    "inet6": decode_inet6,
    "vector": decode_vector,
    "spatial": decode_geometry,
}
"""Decoders of kinds, or of forms, whose values no operation reads."""
_ENUM_SIZES = (1, 2)
_SET_SIZES = (1, 2, 3, 4, 8)


# Keys are ids of the columns and options, which the entry keeps alive.
_KNOWN: SizedCache[
    tuple[int, int], tuple[Sequence[ColumnShape], DecodeOptions, tuple[ColumnReader, ...]]
] = SizedCache(256)
_COLUMN_SIZE: Final = 256


def column_readers(
    columns: tuple[ColumnShape, ...], options: DecodeOptions
) -> tuple[ColumnReader, ...]:
    """Return the reader of each column; tables with equal columns share them."""
    key = (id(columns), id(options))
    known = _KNOWN.get(key)
    if known is None:
        readers = tuple(column_op(column, options) for column in columns)
        known = (columns, options, readers)
        _KNOWN.put(key, known, _COLUMN_SIZE * len(columns))
    return known[2]


def column_op(column: ColumnShape, options: DecodeOptions) -> ColumnReader:
    """Return the reader of a column: UNKNOWN with the reason if it cannot be read."""
    try:
        return _reader(column, options)
    except (ValueError, UnknownCollationError) as error:
        return ColumnReader(ColumnOp.UNKNOWN, convert=str(error))


def _reader(column: ColumnShape, options: DecodeOptions) -> ColumnReader:
    code, metadata = column.type_code, column.metadata
    if code in INTEGER_TYPES:
        op = ColumnOp.UNSIGNED if column.unsigned else ColumnOp.SIGNED
        return ColumnReader(op, column.length)
    if code in _SIMPLE:
        return ColumnReader(_SIMPLE[ColumnType(code)], TYPE_FACTS[code].size)
    if code == _T.MYSQL_TYPE_NEWDECIMAL:
        size = decimal_size(column.length, column.scale)
        return ColumnReader(ColumnOp.DECIMAL, size, precision=column.length, digits=column.scale)
    if code in (_T.MYSQL_TYPE_DATE, _T.MYSQL_TYPE_NEWDATE):
        return ColumnReader(ColumnOp.DATE, 3, is_temporal=True)
    if code in _TEMPORAL:
        digits = column.fraction_digits
        size = TYPE_FACTS[code].size + fraction_size(digits)
        return ColumnReader(_TEMPORAL[ColumnType(code)], size, digits=digits, is_temporal=True)
    if code in _OLD_TEMPORAL:
        return _old_temporal(column)
    if code == _T.MYSQL_TYPE_BIT:
        if not 1 <= column.length <= 64:
            raise ValueError(f"BIT({column.length}) does not exist")
        return ColumnReader(ColumnOp.BIT, (column.length + 7) >> 3)
    if code == _T.MYSQL_TYPE_ENUM:
        enumeration = None if column.labels is None else enum_values(column.labels)
        size = _one_of(column.length, _ENUM_SIZES, "ENUM")
        if column.unknown_labels:
            unknown = frozenset(column.unknown_labels)
            convert = partial(_known_enum, column.name, enumeration or enum_values(()), unknown)
            return ColumnReader(ColumnOp.CONVERT, size, convert=convert)
        return ColumnReader(ColumnOp.ENUM, size, enumeration=enumeration)
    if code == _T.MYSQL_TYPE_SET:
        size = _one_of(column.length, _SET_SIZES, "SET")
        if column.unknown_labels:
            return ColumnReader(ColumnOp.CONVERT, size, convert=partial(_known_set, column))
        return ColumnReader(ColumnOp.SET, size, labels=column.labels)
    if code == _T.MYSQL_TYPE_DECIMAL:
        if not column.length:
            raise ValueError("an old DECIMAL's size is not in the binlog; its definition is needed")
        return ColumnReader(ColumnOp.CONVERT, column.length, convert=decode_old_decimal)
    if code == _T.MYSQL_TYPE_JSON:
        prefix = _length_size(metadata)
        return ColumnReader(ColumnOp.JSON, prefix=prefix, convert=JsonDocument, is_json=True)
    if code == _T.MYSQL_TYPE_TYPED_ARRAY:
        # Values of a multi-valued index: stored as a JSON array.
        return ColumnReader(ColumnOp.JSON, prefix=4, convert=JsonDocument)
    if code in PREFIXED_TYPES - BLOB_TYPES:
        kind = kind_name(code, binary=True, length=0)
        return ColumnReader(
            ColumnOp.CONVERT, prefix=_length_size(metadata), convert=decoder_of(kind)
        )
    return _string(column, options)


def decoder_of(kind: str) -> Callable[[bytes], Any]:
    """Return the decoder of a kind whose values no operation reads."""
    return _DECODERS.get(kind) or _DECODERS[KINDS[kind].form]


def _known_enum(
    name: str, values: Sequence[EnumValue], unknown: frozenset[int], data: bytes
) -> EnumValue:
    return known_enum(name, values, unknown, int.from_bytes(data, "little"))


def _known_set(column: ColumnShape, data: bytes) -> SetValue:
    bits = int.from_bytes(data, "little")
    return known_set(column.name, column.labels or (), column.unknown_labels, bits)


def _string(column: ColumnShape, options: DecodeOptions) -> ColumnReader:
    code = column.type_code
    if code in BLOB_TYPES:
        prefix = _length_size(column.metadata)
    elif code in CHARACTER_TYPES:
        prefix = 2 if column.length > 255 else 1
    else:
        raise ValueError(f"column type {code} is not known")
    if column.logical_type is not None:
        convert = decoder_of(column.logical_type)
        return ColumnReader(ColumnOp.CONVERT, prefix=prefix, convert=convert)
    collation, policy = column.collation_id, options.invalid_text
    is_char = code == _T.MYSQL_TYPE_STRING
    text = char_function(collation, policy) if is_char else text_function(collation, policy)
    if code in (_T.MYSQL_TYPE_BLOB_COMPRESSED, _T.MYSQL_TYPE_VARCHAR_COMPRESSED):
        inflate = partial(decode_compressed, max_size=options.max_uncompressed_size)
        if text is None:
            return ColumnReader(ColumnOp.CONVERT, prefix=prefix, convert=inflate)
        decode = text
        return ColumnReader(
            ColumnOp.CONVERT, prefix=prefix, convert=lambda data: decode(inflate(data))
        )
    if text is None:
        if is_char and collation == BINARY_COLLATION:
            return ColumnReader(ColumnOp.BINARY, prefix=prefix, length=column.length)
        return ColumnReader(ColumnOp.BYTES, prefix=prefix)
    if collation is not None and is_utf8(collation):
        op = ColumnOp.UTF8_CHAR if is_char else ColumnOp.UTF8
        return ColumnReader(op, prefix=prefix, convert=text)
    return ColumnReader(ColumnOp.CONVERT, prefix=prefix, convert=text)


def _old_temporal(column: ColumnShape) -> ColumnReader:
    plain, hires, sizes = _OLD_TEMPORAL[column.type_code]
    digits = column.fraction_digits
    if not 0 <= digits < len(sizes):
        raise ValueError(f"{digits} fraction digits; 0 to 6 are possible")
    convert = partial(hires, fraction_digits=digits) if digits else plain
    return ColumnReader(ColumnOp.CONVERT, sizes[digits], convert=convert, is_temporal=True)


def _length_size(size: int) -> int:
    """Return the size of the length prefix of a BLOB, if it is valid."""
    if not 1 <= size <= 4:
        raise ValueError(f"a length of {size} bytes")
    return size


def _one_of(size: int, sizes: tuple[int, ...], what: str) -> int:
    if size not in sizes:
        raise ValueError(f"{what} of {size} bytes")
    return size
