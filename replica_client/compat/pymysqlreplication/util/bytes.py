"""Integers, lengths and values at the front of bytes, as MySQL's JSON documents hold them."""

from __future__ import annotations

import datetime
import decimal
import struct

from replica_client.protocol.binlog.values.decimal import (
    decimal_size as _decimal_size,
    decode_decimal as _packed_decimal,
)

__all__ = [
    "datetime",
    "decimal",
    "decode_count",
    "decode_datetime",
    "decode_decimal",
    "decode_time",
    "decode_uint",
    "decode_variable_length",
    "is_data_short",
    "length_encoded_int",
    "parse_decimal_from_bytes",
    "parse_double",
    "parse_int16",
    "parse_int32",
    "parse_int64",
    "parse_string",
    "parse_uint16",
    "parse_uint24",
    "parse_uint32",
    "parse_uint64",
    "struct",
]

_LENGTHS = {0xFC: 2, 0xFD: 3, 0xFE: 8}


def is_data_short(data: bytes, expected: int) -> bool:
    """Return whether there are fewer bytes than expected."""
    return len(data) < expected


def _number(data: bytes, size: int, signed: bool = False) -> int:
    if len(data) < size:
        raise struct.error(f"an integer of {size} bytes in {len(data)}")
    return int.from_bytes(data[:size], "little", signed=signed)


def parse_int16(data: bytes) -> int:
    """Return the signed integer in the first 2 bytes."""
    return _number(data, 2, True)


def parse_uint16(data: bytes) -> int:
    """Return the unsigned integer in the first 2 bytes."""
    return _number(data, 2)


def parse_uint24(data: bytes) -> int:
    """Return the unsigned integer in the first 3 bytes."""
    return _number(data, 3)


def parse_int32(data: bytes) -> int:
    """Return the signed integer in the first 4 bytes."""
    return _number(data, 4, True)


def parse_uint32(data: bytes) -> int:
    """Return the unsigned integer in the first 4 bytes."""
    return _number(data, 4)


def parse_int64(data: bytes) -> int:
    """Return the signed integer in the first 8 bytes."""
    return _number(data, 8, True)


def parse_uint64(data: bytes) -> int:
    """Return the unsigned integer in the first 8 bytes."""
    return _number(data, 8)


def parse_double(data: bytes) -> float:
    """Return the double in the first 8 bytes."""
    found: float = struct.unpack_from("<d", data)[0]
    return found


def decode_count(data: bytes, is_small: bool) -> int:
    """Return a count of a JSON container: 2 bytes in a small one, 4 in a large one."""
    return _number(data, 2 if is_small else 4)


def decode_uint(data: bytes) -> int:
    """Return the unsigned integer in the first 2 bytes, or 0 where there are fewer."""
    return 0 if len(data) < 2 else _number(data, 2)


def decode_variable_length(data: bytes) -> tuple[int, int]:
    """Return a length with 7 bits in each byte, and how many bytes it takes: at most 5."""
    length = 0
    for at, byte in enumerate(data[:5]):
        length |= (byte & 0x7F) << 7 * at
        if not byte & 0x80:
            return length, at + 1
    return 0, 0


def length_encoded_int(data: bytes) -> tuple[int | None, bool, int]:
    """Return a length-encoded integer, whether it is NULL, and how many bytes it takes."""
    if not data:
        return 0, True, 1
    first = data[0]
    if first == 0xFB:
        return None, True, 1
    size = _LENGTHS.get(first)
    if size is None:
        return first, False, 1
    return _number(data[1:], size), False, 1 + size


def parse_string(n: int, length: int, data: bytes) -> bytes:
    """Return ``length`` bytes after the ``n`` bytes of their length."""
    return data[n : n + length]


def parse_decimal_from_bytes(raw_decimal: bytes, precision: int, decimals: int) -> decimal.Decimal:
    """Return the value of a packed DECIMAL."""
    size = _decimal_size(precision, decimals)
    return _packed_decimal(raw_decimal[:size], precision, decimals)


def decode_decimal(data: bytes) -> decimal.Decimal:
    """Return the value of a packed DECIMAL after a byte of precision and a byte of scale."""
    return parse_decimal_from_bytes(data[2:], data[0], data[1])


def _packed_time(data: bytes) -> tuple[int, int]:
    packed = _number(data, 8, True)
    return packed >> 24, packed & 0xFFFFFF


def decode_time(data: bytes) -> datetime.time | datetime.timedelta:
    """Return a TIME of a JSON document, as a timedelta where it is not a time of day."""
    negative = _number(data, 8, True) < 0
    packed = abs(_number(data, 8, True))
    value, micros = packed >> 24, packed & 0xFFFFFF
    hour, minute, second = value >> 12 & 0x3FF, value >> 6 & 0x3F, value & 0x3F
    if not negative and hour < 24:
        return datetime.time(hour, minute, second, micros)
    found = datetime.timedelta(hours=hour, minutes=minute, seconds=second, microseconds=micros)
    return -found if negative else found


def decode_datetime(data: bytes) -> datetime.datetime | str:
    """Return a DATE, DATETIME or TIMESTAMP of a JSON document, as text where Python has no such day."""
    value, micros = _packed_time(data)
    if not value:
        return "0000-00-00 00:00:00"
    year, month = divmod(value >> 22 & 0x1FFFF, 13)
    day, hour = value >> 17 & 0x1F, value >> 12 & 0x1F
    minute, second = value >> 6 & 0x3F, value & 0x3F
    try:
        return datetime.datetime(year, month, day, hour, minute, second, micros)  # noqa: DTZ001
    except ValueError:
        return f"{year:04d}-{month:02d}-{day:02d} {hour:02d}:{minute:02d}:{second:02d}"
