"""How many bytes a column's value has in a row image."""

from __future__ import annotations

from collections.abc import Callable

from replica_client.constants.column_types import ColumnType
from replica_client.errors import ColumnDecodeError, ShortBufferError

_T = ColumnType
_FIXED: dict[int, int] = {
    _T.MYSQL_TYPE_NULL: 0,
    _T.MYSQL_TYPE_TINY: 1,
    _T.MYSQL_TYPE_YEAR: 1,
    _T.MYSQL_TYPE_SHORT: 2,
    _T.MYSQL_TYPE_INT24: 3,
    _T.MYSQL_TYPE_DATE: 3,
    _T.MYSQL_TYPE_NEWDATE: 3,
    _T.MYSQL_TYPE_TIME: 3,
    _T.MYSQL_TYPE_LONG: 4,
    _T.MYSQL_TYPE_FLOAT: 4,
    _T.MYSQL_TYPE_TIMESTAMP: 4,
    _T.MYSQL_TYPE_LONGLONG: 8,
    _T.MYSQL_TYPE_DOUBLE: 8,
    _T.MYSQL_TYPE_DATETIME: 8,
}
_FRACTION: dict[int, int] = {
    _T.MYSQL_TYPE_TIME2: 3,
    _T.MYSQL_TYPE_TIMESTAMP2: 4,
    _T.MYSQL_TYPE_DATETIME2: 5,
}
_LENGTH_BY_METADATA = frozenset(
    (
        _T.MYSQL_TYPE_TINY_BLOB,
        _T.MYSQL_TYPE_MEDIUM_BLOB,
        _T.MYSQL_TYPE_LONG_BLOB,
        _T.MYSQL_TYPE_BLOB,
        _T.MYSQL_TYPE_BLOB_COMPRESSED,
        _T.MYSQL_TYPE_GEOMETRY,
        _T.MYSQL_TYPE_JSON,
        _T.MYSQL_TYPE_VECTOR,
    )
)
_VARIABLE = frozenset((_T.MYSQL_TYPE_VARCHAR, _T.MYSQL_TYPE_VARCHAR_COMPRESSED))
_DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


def is_json(code: int) -> bool:
    """Whether a column may be updated partially."""
    return code == _T.MYSQL_TYPE_JSON


def _decimal(precision: int, scale: int) -> int:
    whole, part = precision - scale, scale
    return whole // 9 * 4 + _DIGIT_BYTES[whole % 9] + part // 9 * 4 + _DIGIT_BYTES[part % 9]


def column_size(view: Callable[[int], bytes], code: int, metadata: int) -> int:
    """Bytes of the value that begins here, its own length included.

    Args:
        view: gives the next bytes.
        code: the column's type as the table map has it.
        metadata: the column's, as ``TableMapEvent.column_metadata``.

    Raises:
        ShortBufferError: the bytes end in the value's length.
        ColumnDecodeError: a type that row images do not have.
    """
    if code in _FIXED:
        return _FIXED[code]
    if code in _FRACTION:
        return _FRACTION[code] + (metadata + 1) // 2
    if code == _T.MYSQL_TYPE_NEWDECIMAL:
        return _decimal(metadata & 0xFF, metadata >> 8)
    if code == _T.MYSQL_TYPE_BIT:
        return (metadata >> 8) + (1 if metadata & 0xFF else 0)
    if code in (_T.MYSQL_TYPE_ENUM, _T.MYSQL_TYPE_SET):
        return metadata >> 8
    if code in (_T.MYSQL_TYPE_STRING, _T.MYSQL_TYPE_VAR_STRING):
        real, length = metadata & 0xFF, metadata >> 8
        if real in (_T.MYSQL_TYPE_ENUM, _T.MYSQL_TYPE_SET):
            return length
        if not metadata:
            # Early 5.1 wrote no metadata; its strings were shorter than 256 bytes.
            return _prefixed(view, 1)
        # Two bits of a length above 255 are kept, inverted, in the real type's byte.
        if real & 0x30 != 0x30:
            length |= ((real & 0x30) ^ 0x30) << 4
        return _prefixed(view, 1 if length < 256 else 2)
    if code in _VARIABLE:
        return _prefixed(view, 1 if metadata < 256 else 2)
    if code in _LENGTH_BY_METADATA:
        return _prefixed(view, metadata)
    raise ColumnDecodeError(f"a row image cannot have a column of type {code}")


def _prefixed(view: Callable[[int], bytes], size: int) -> int:
    data = view(size)
    if len(data) < size:
        raise ShortBufferError(0, size, len(data), "length of a value")
    return size + int.from_bytes(data, "little")
