"""How many bytes a column's value has in a row image."""

from __future__ import annotations

from collections.abc import Callable

from replica_client.errors import ColumnDecodeError, ShortBufferError
from replica_client.protocol.constants.column_types import (
    LABEL_TYPES,
    PREFIXED_TYPES,
    TYPE_FACTS,
    ColumnType,
)

_T = ColumnType
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
    facts = TYPE_FACTS.get(code)
    if facts is None:
        raise ColumnDecodeError(f"a row image cannot have a column of type {code}")
    if facts.size:
        return facts.size + ((metadata + 1) // 2 if facts.family == "fraction" else 0)
    if code == _T.MYSQL_TYPE_NULL:
        return 0
    if code == _T.MYSQL_TYPE_NEWDECIMAL:
        return _decimal(metadata & 0xFF, metadata >> 8)
    if code == _T.MYSQL_TYPE_BIT:
        return (metadata >> 8) + (1 if metadata & 0xFF else 0)
    if facts.family == "label":
        return metadata >> 8
    if facts.family == "string":
        real, length = metadata & 0xFF, metadata >> 8
        if real in LABEL_TYPES:
            return length
        if not metadata:
            # Early 5.1 wrote no metadata; its strings were shorter than 256 bytes.
            return _prefixed(view, 1)
        # Two bits of a length above 255 are kept, inverted, in the real type's byte.
        if real & 0x30 != 0x30:
            length |= ((real & 0x30) ^ 0x30) << 4
        return _prefixed(view, 1 if length < 256 else 2)
    if facts.family == "varchar":
        return _prefixed(view, 1 if metadata < 256 else 2)
    if code in PREFIXED_TYPES:
        return _prefixed(view, metadata)
    raise ColumnDecodeError(f"a row image cannot have a column of type {code}")


def _prefixed(view: Callable[[int], bytes], size: int) -> int:
    data = view(size)
    if len(data) < size:
        raise ShortBufferError(0, size, len(data), "length of a value")
    return size + int.from_bytes(data, "little")
