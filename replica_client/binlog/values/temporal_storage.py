"""DATE, TIME, DATETIME, TIMESTAMP and YEAR as MySQL 5.6+ and MariaDB 10.1+ write them.

====================  ==================================================================
DATE, NEWDATE         3 bytes little-endian: year << 9 | month << 5 | day
TIME2(n)              3 + f bytes big-endian: sign, 1 reserved, hour 10, minute 6,
                      second 6 bits, then the fraction; offset binary
DATETIME2(n)          5 + f bytes big-endian: sign, year * 13 + month 17, day 5, hour 5,
                      minute 6, second 6 bits, then the fraction
TIMESTAMP2(n)         4 bytes big-endian: unsigned seconds since 1970, then f bytes of fraction
YEAR                  1 byte: year - 1900; 0 is year 0
====================  ==================================================================

The fraction has f = (n + 1) // 2 bytes and counts 100ths, 10000ths or millionths of a second.

The ``*_of`` functions take the bytes as one unsigned integer (the row decoder reads it so), the
``decode_*`` functions take exactly the value's bytes. All raise ValueError for bytes that no server
writes, and each ``encode_*`` is the inverse.

Spec: MySQL ``my_time.cc`` (``my_time_packed_to_binary`` and its kin).
"""

from __future__ import annotations

import cython

from replica_client.binlog.values.temporal import Date, DateTime, Time, Timestamp
from replica_client.errors import EncodeError

if cython.compiled:
    from cython.cimports.replica_client.binlog.values.temporal import (
        new_date,
        new_datetime,
        new_time,
        new_timestamp,
    )
else:
    from replica_client.binlog.values.temporal import (
        new_date,
        new_datetime,
        new_time,
        new_timestamp,
    )

# The sign bits; offset binary: what is below is negative.
_TIME2_ZERO = cython.declare(cython.ulonglong, 1 << 23)
_DATETIME2_ZERO = cython.declare(cython.ulonglong, 1 << 39)


@cython.cfunc
def _microseconds(fraction: cython.ulonglong, fraction_digits: cython.int) -> cython.int:
    """Microseconds of a stored fraction; -1 when it is a whole second or more."""
    if fraction_digits >= 5:
        return cython.cast(cython.int, fraction) if fraction < 1_000_000 else -1
    if fraction_digits >= 3:
        return cython.cast(cython.int, fraction * 100) if fraction < 10_000 else -1
    return cython.cast(cython.int, fraction * 10_000) if fraction < 100 else -1


def fraction_size(fraction_digits: int) -> int:
    """Bytes that the fraction of a TIME2, DATETIME2 or TIMESTAMP2 has.

    Raises:
        ValueError: more than six digits, or fewer than none.
    """
    if not 0 <= fraction_digits <= 6:
        raise ValueError(f"{fraction_digits} fraction digits; 0 to 6 are possible")
    return (fraction_digits + 1) // 2


@cython.ccall
def date_of(packed: cython.uint) -> object:
    """The `Date` of three little-endian bytes."""
    month: cython.uint = (packed >> 5) & 15
    year: cython.uint = packed >> 9
    if month > 12 or year > 9999:
        raise ValueError(f"DATE has month {month} and year {year}")
    return new_date(year, month, packed & 31)


@cython.ccall
def time2_of(raw: cython.ulonglong, fraction_digits: cython.int) -> object:
    """The `Time` of ``3 + fraction_size`` big-endian bytes."""
    shift: cython.int = 8 * ((fraction_digits + 1) >> 1)
    zero: cython.ulonglong = _TIME2_ZERO << shift
    negative: cython.bint = raw < zero
    magnitude: cython.ulonglong = zero - raw if negative else raw - zero
    mask: cython.ulonglong = (cython.cast(cython.ulonglong, 1) << shift) - 1
    microseconds: cython.int = 0
    if shift:
        microseconds = _microseconds(magnitude & mask, fraction_digits)
    whole: cython.ulonglong = magnitude >> shift
    minutes: cython.int = (whole >> 6) & 63
    seconds: cython.int = whole & 63
    if microseconds < 0 or minutes > 59 or seconds > 59 or whole >= 4_194_304:
        raise ValueError(f"TIME({fraction_digits}) has minute {minutes}, second {seconds}")
    hours: cython.int = whole >> 12
    return new_time(negative, hours, minutes, seconds, microseconds, fraction_digits)


@cython.ccall
def datetime2_of(raw: cython.ulonglong, fraction_digits: cython.int) -> object:
    """The `DateTime` of ``5 + fraction_size`` big-endian bytes."""
    shift: cython.int = 8 * ((fraction_digits + 1) >> 1)
    mask: cython.ulonglong = (cython.cast(cython.ulonglong, 1) << shift) - 1
    microsecond: cython.int = 0
    if shift:
        microsecond = _microseconds(raw & mask, fraction_digits)
    whole: cython.ulonglong = raw >> shift
    if whole < _DATETIME2_ZERO:
        raise ValueError("DATETIME is negative")
    whole -= _DATETIME2_ZERO
    year_month: cython.ulonglong = whole >> 22
    year: cython.int = year_month // 13
    hour: cython.int = (whole >> 12) & 31
    minute: cython.int = (whole >> 6) & 63
    second: cython.int = whole & 63
    if microsecond < 0 or hour > 23 or minute > 59 or second > 59 or year > 9999:
        raise ValueError(f"DATETIME has year {year} and time {hour}:{minute}:{second}")
    month: cython.int = year_month % 13
    day: cython.int = (whole >> 17) & 31
    return new_datetime(year, month, day, hour, minute, second, microsecond, fraction_digits)


@cython.ccall
def timestamp2_of(raw: cython.ulonglong, fraction_digits: cython.int) -> object:
    """The `Timestamp` of ``4 + fraction_size`` big-endian bytes; all zero is the zero timestamp."""
    shift: cython.int = 8 * ((fraction_digits + 1) >> 1)
    mask: cython.ulonglong = (cython.cast(cython.ulonglong, 1) << shift) - 1
    microseconds: cython.int = 0
    if shift:
        microseconds = _microseconds(raw & mask, fraction_digits)
    if microseconds < 0:
        raise ValueError("TIMESTAMP has a fraction of a second or more")
    seconds: cython.longlong = raw >> shift
    if raw == 0:
        seconds = -1
    return new_timestamp(seconds, microseconds, fraction_digits)


def decode_date(data: bytes) -> Date:
    """A DATE or NEWDATE of 3 bytes."""
    value: Date = date_of(int.from_bytes(_exact(data, 3), "little"))
    return value


def decode_time2(data: bytes, fraction_digits: int) -> Time:
    """A TIME(n) of ``3 + fraction_size(n)`` bytes."""
    data = _exact(data, 3 + fraction_size(fraction_digits))
    value: Time = time2_of(int.from_bytes(data, "big"), fraction_digits)
    return value


def decode_datetime2(data: bytes, fraction_digits: int) -> DateTime:
    """A DATETIME(n) of ``5 + fraction_size(n)`` bytes."""
    data = _exact(data, 5 + fraction_size(fraction_digits))
    value: DateTime = datetime2_of(int.from_bytes(data, "big"), fraction_digits)
    return value


def decode_timestamp2(data: bytes, fraction_digits: int) -> Timestamp:
    """A TIMESTAMP(n) of ``4 + fraction_size(n)`` bytes."""
    data = _exact(data, 4 + fraction_size(fraction_digits))
    value: Timestamp = timestamp2_of(int.from_bytes(data, "big"), fraction_digits)
    return value


def decode_year(data: bytes) -> int:
    """A YEAR of 1 byte: 0, or 1901 to 2155."""
    code = _exact(data, 1)[0]
    return code + 1900 if code else 0


def encode_date(value: Date) -> bytes:
    """The 3 bytes of a DATE."""
    return _bytes(value.year << 9 | value.month << 5 | value.day, 3, "little")


def encode_time2(value: Time, fraction_digits: int) -> bytes:
    """The bytes of a TIME(n)."""
    size = fraction_size(fraction_digits)
    whole = value.hours << 12 | value.minutes << 6 | value.seconds
    magnitude = whole << (8 * size) | _stored_fraction(value.microseconds, fraction_digits)
    signed = -magnitude if value.negative else magnitude
    return _bytes((_TIME2_ZERO << (8 * size)) + signed, 3 + size, "big")


def encode_datetime2(value: DateTime, fraction_digits: int) -> bytes:
    """The bytes of a DATETIME(n)."""
    size = fraction_size(fraction_digits)
    date = (value.year * 13 + value.month) << 5 | value.day
    whole = date << 17 | value.hour << 12 | value.minute << 6 | value.second
    raw = (_DATETIME2_ZERO + whole) << (8 * size)
    return _bytes(raw | _stored_fraction(value.microsecond, fraction_digits), 5 + size, "big")


def encode_timestamp2(value: Timestamp, fraction_digits: int) -> bytes:
    """The bytes of a TIMESTAMP(n)."""
    size = fraction_size(fraction_digits)
    raw = (value.seconds or 0) << (8 * size)
    return _bytes(raw | _stored_fraction(value.microseconds, fraction_digits), 4 + size, "big")


def encode_year(value: int) -> bytes:
    """The byte of a YEAR."""
    if value and not 1901 <= value <= 2155:
        raise EncodeError(f"YEAR cannot hold {value}")
    return bytes((value - 1900 if value else 0,))


def _exact(data: bytes, size: int) -> bytes:
    if len(data) != size:
        raise ValueError(f"{len(data)} bytes, must be {size}")
    return data


def _stored_fraction(microseconds: int, fraction_digits: int) -> int:
    unit: int = 10 ** (6 - 2 * fraction_size(fraction_digits))
    if not 0 <= microseconds < 1_000_000 or microseconds % 10 ** (6 - fraction_digits):
        raise EncodeError(f"{microseconds} microseconds do not fit {fraction_digits} digits")
    return microseconds // unit


def _bytes(value: int, size: int, order: str) -> bytes:
    try:
        return value.to_bytes(size, "big" if order == "big" else "little")
    except OverflowError as error:
        raise EncodeError(f"a value does not fit into {size} bytes") from error
