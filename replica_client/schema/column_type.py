"""Column types and sizes from the type codes and metadata of a TABLE_MAP event."""

from __future__ import annotations

from typing import Final

from replica_client.constants.column_types import (
    LABEL_TYPES,
    PREFIXED_TYPES,
    TYPE_FACTS,
    ColumnType,
    types_of,
)

_T = ColumnType
_WITH_SIZE: Final = types_of("integer", "real", "year")
_STRINGS: Final = types_of("string")
_VARCHARS: Final = types_of("varchar")
_IN_STRING: Final = _STRINGS | LABEL_TYPES


def split_string(type_code: int, metadata: int) -> tuple[int, int]:
    """Return the real type and the length of a column with the type code STRING.

    The metadata is the real type (ENUM, SET or STRING) and the length in bytes. A length of 256 to
    1023 has its two upper bits, inverted, in bits 4 and 5 of the real type, which are set in all
    real types.

    Returns:
        type code and length; for ENUM and SET the length is the size of the number.
    """
    real, length = metadata & 0xFF, metadata >> 8
    if real | 0x30 not in _IN_STRING or (type_code == _T.MYSQL_TYPE_VAR_STRING and not length):
        # Some writers store a plain length for VAR_STRING, as for VARCHAR.
        return type_code, metadata
    length |= ((real & 0x30) ^ 0x30) << 4
    real |= 0x30
    return (real if real != _T.MYSQL_TYPE_VAR_STRING else type_code), length


def real_type(type_code: int, metadata: int) -> int:
    """Return the real type code: ENUM and SET instead of STRING."""
    if type_code in _STRINGS:
        return split_string(type_code, metadata)[0]
    return type_code


def column_length(type_code: int, metadata: int) -> int:
    """Return the length of a column; see :class:`~replica_client.schema.shape.ColumnShape`."""
    if type_code in _WITH_SIZE:
        return TYPE_FACTS[type_code].size
    if type_code in _VARCHARS:
        return metadata
    if type_code in _STRINGS:
        return split_string(type_code, metadata)[1]
    if type_code in LABEL_TYPES:
        return metadata >> 8
    if type_code == _T.MYSQL_TYPE_NEWDECIMAL:
        return metadata & 0xFF
    if type_code == _T.MYSQL_TYPE_BIT:
        return (metadata & 0xFF) + 8 * (metadata >> 8)
    if type_code in PREFIXED_TYPES:
        return (1 << 8 * min(metadata, 4)) - 1
    return 0
