"""Column types and sizes from the type codes and metadata of a TABLE_MAP event."""

from __future__ import annotations

from typing import Final

from replica_client.constants.column_types import ColumnType

_T = ColumnType
_FIXED_SIZES: Final = {
    _T.MYSQL_TYPE_TINY: 1,
    _T.MYSQL_TYPE_SHORT: 2,
    _T.MYSQL_TYPE_INT24: 3,
    _T.MYSQL_TYPE_LONG: 4,
    _T.MYSQL_TYPE_LONGLONG: 8,
    _T.MYSQL_TYPE_FLOAT: 4,
    _T.MYSQL_TYPE_DOUBLE: 8,
    _T.MYSQL_TYPE_YEAR: 1,
}
_BLOBS: Final = frozenset(
    (
        _T.MYSQL_TYPE_TINY_BLOB,
        _T.MYSQL_TYPE_BLOB,
        _T.MYSQL_TYPE_MEDIUM_BLOB,
        _T.MYSQL_TYPE_LONG_BLOB,
        _T.MYSQL_TYPE_BLOB_COMPRESSED,
        _T.MYSQL_TYPE_JSON,
        _T.MYSQL_TYPE_GEOMETRY,
        _T.MYSQL_TYPE_VECTOR,
    )
)
_IN_STRING: Final = frozenset(
    (
        _T.MYSQL_TYPE_ENUM,
        _T.MYSQL_TYPE_SET,
        _T.MYSQL_TYPE_VAR_STRING,
        _T.MYSQL_TYPE_STRING,
    )
)
FRACTION_TYPES: Final = frozenset(
    (_T.MYSQL_TYPE_TIME2, _T.MYSQL_TYPE_DATETIME2, _T.MYSQL_TYPE_TIMESTAMP2)
)
"""Types whose metadata is the number of fraction digits."""


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
    if type_code in (_T.MYSQL_TYPE_STRING, _T.MYSQL_TYPE_VAR_STRING):
        return split_string(type_code, metadata)[0]
    return type_code


def column_length(type_code: int, metadata: int) -> int:
    """Return the length of a column; see :class:`~replica_client.schema.shape.ColumnShape`."""
    if type_code in _FIXED_SIZES:
        return _FIXED_SIZES[ColumnType(type_code)]
    if type_code in (_T.MYSQL_TYPE_VARCHAR, _T.MYSQL_TYPE_VARCHAR_COMPRESSED):
        return metadata
    if type_code in (_T.MYSQL_TYPE_STRING, _T.MYSQL_TYPE_VAR_STRING):
        return split_string(type_code, metadata)[1]
    if type_code in (_T.MYSQL_TYPE_ENUM, _T.MYSQL_TYPE_SET):
        return metadata >> 8
    if type_code == _T.MYSQL_TYPE_NEWDECIMAL:
        return metadata & 0xFF
    if type_code == _T.MYSQL_TYPE_BIT:
        return (metadata & 0xFF) + 8 * (metadata >> 8)
    if type_code in _BLOBS:
        return (1 << 8 * min(metadata, 4)) - 1
    return 0
