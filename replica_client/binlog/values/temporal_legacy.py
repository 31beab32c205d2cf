"""TIME, DATETIME and TIMESTAMP as MySQL before 5.6 and MariaDB before 10.1 write them.

MariaDB still does where ``mysql56_temporal_format`` is OFF, and every server does in tables made
that long ago. Without fraction digits:

==============  =====================================================================
TIME            3 bytes little-endian, signed: the decimal number hhmmss
DATETIME        8 bytes little-endian: the decimal number YYYYMMDDhhmmss
TIMESTAMP       4 bytes little-endian: seconds since 1970, 0 is the zero timestamp
==============  =====================================================================

With n fraction digits (MariaDB only), all big-endian, in units of 10**-n seconds:

==============  =====================================================================
TIME(n)         4, 4, 5, 5, 5, 6 bytes: the span plus 838:59:59 plus one second
DATETIME(n)     6, 6, 7, 7, 7, 8 bytes: year, month (base 13), day (base 32), hour
                (base 24), minute, second (base 60) and the fraction as one number
TIMESTAMP(n)    4 bytes seconds, then 1, 1, 2, 2, 3, 3 bytes of fraction
==============  =====================================================================

The ``*_of`` functions take the bytes as one integer; the ``decode_*`` functions take exactly the
value's bytes. All raise ValueError for bytes that no server writes; ``encode_*`` is the inverse.

Spec: MySQL 5.5 and MariaDB ``field.cc`` (``Field_time``, ``Field_time_hires`` and their kin).
"""

from __future__ import annotations

import cython

from replica_client.binlog.values.temporal import DateTime, Time, Timestamp
from replica_client.errors import EncodeError

if cython.compiled:
    from cython.cimports.replica_client.binlog.values.temporal import (
        new_datetime,
        new_time,
        new_timestamp,
    )
else:
    from replica_client.binlog.values.temporal import new_datetime, new_time, new_timestamp

HIRES_TIME_SIZES = (3, 4, 4, 5, 5, 5, 6)
"""Bytes of a MariaDB high-resolution TIME by fraction digits."""

HIRES_DATETIME_SIZES = (8, 6, 6, 7, 7, 7, 8)
"""Bytes of a MariaDB high-resolution DATETIME by fraction digits."""

HIRES_TIMESTAMP_SIZES = (4, 5, 5, 6, 6, 7, 7)
"""Bytes of a MariaDB high-resolution TIMESTAMP by fraction digits."""

_TIME_OFFSET_SECONDS = cython.declare(cython.ulonglong, 839 * 3600)


@cython.cfunc
def _power(digits: cython.int) -> cython.ulonglong:
    power: cython.ulonglong = 1
    for _ in range(digits):
        power *= 10
    return power


@cython.ccall
def old_time_of(number: cython.int) -> object:
    """The `Time` of the signed number hhmmss."""
    negative: cython.bint = number < 0
    magnitude: cython.int = -number if negative else number
    minutes: cython.int = magnitude // 100 % 100
    seconds: cython.int = magnitude % 100
    if minutes > 59 or seconds > 59:
        raise ValueError(f"TIME has minute {minutes}, second {seconds}")
    return new_time(negative, magnitude // 10000, minutes, seconds, 0, 0)


@cython.ccall
def old_datetime_of(number: cython.ulonglong) -> object:
    """The `DateTime` of the number YYYYMMDDhhmmss."""
    if number > 99_991_231_235_959:
        raise ValueError("DATETIME is beyond the year 9999")
    date: cython.int = number // 1_000_000
    time: cython.int = number % 1_000_000
    month: cython.int = date // 100 % 100
    day: cython.int = date % 100
    hour: cython.int = time // 10000
    minute: cython.int = time // 100 % 100
    second: cython.int = time % 100
    if month > 12 or day > 31 or hour > 23 or minute > 59 or second > 59:
        raise ValueError(f"DATETIME has month {month}, day {day}, time {hour}:{minute}:{second}")
    return new_datetime(date // 10000, month, day, hour, minute, second, 0, 0)


@cython.ccall
def old_timestamp_of(seconds: cython.uint) -> object:
    """The `Timestamp` of a number of seconds; 0 is the zero timestamp."""
    since: cython.longlong = seconds
    return new_timestamp(since if since else -1, 0, 0)


@cython.ccall
def hires_time_of(raw: cython.ulonglong, fraction_digits: cython.int) -> object:
    """The `Time` of a MariaDB high-resolution TIME(n)."""
    unit: cython.ulonglong = _power(fraction_digits)
    zero: cython.ulonglong = _TIME_OFFSET_SECONDS * unit
    negative: cython.bint = raw < zero
    magnitude: cython.ulonglong = zero - raw if negative else raw - zero
    if magnitude >= zero:
        raise ValueError("TIME is out of range")
    whole: cython.int = magnitude // unit
    microseconds: cython.int = magnitude % unit * _power(6 - fraction_digits)
    return new_time(
        negative, whole // 3600, whole // 60 % 60, whole % 60, microseconds, fraction_digits
    )


@cython.ccall
def hires_datetime_of(raw: cython.ulonglong, fraction_digits: cython.int) -> object:
    """The `DateTime` of a MariaDB high-resolution DATETIME(n)."""
    unit: cython.ulonglong = _power(fraction_digits)
    microsecond: cython.int = raw % unit * _power(6 - fraction_digits)
    whole: cython.ulonglong = raw // unit
    time: cython.int = whole % 86400
    days: cython.ulonglong = whole // 86400
    if days >= 10000 * 13 * 32:
        raise ValueError("DATETIME is beyond the year 9999")
    date: cython.int = days
    return new_datetime(
        date // 416,
        date // 32 % 13,
        date % 32,
        time // 3600,
        time // 60 % 60,
        time % 60,
        microsecond,
        fraction_digits,
    )


@cython.ccall
def hires_timestamp_of(raw: cython.ulonglong, fraction_digits: cython.int) -> object:
    """The `Timestamp` of a MariaDB high-resolution TIMESTAMP(n); all zero is the zero timestamp."""
    shift: cython.int = 8 * ((fraction_digits + 1) >> 1)
    mask: cython.ulonglong = (cython.cast(cython.ulonglong, 1) << shift) - 1
    fraction: cython.ulonglong = raw & mask
    if fraction >= _power(fraction_digits):
        raise ValueError("TIMESTAMP has a fraction of a second or more")
    seconds: cython.longlong = raw >> shift
    microseconds: cython.int = fraction * _power(6 - fraction_digits)
    return new_timestamp(seconds if raw else -1, microseconds, fraction_digits)


def decode_old_time(data: bytes) -> Time:
    """A TIME of 3 bytes."""
    value: Time = old_time_of(int.from_bytes(_exact(data, 3), "little", signed=True))
    return value


def decode_old_datetime(data: bytes) -> DateTime:
    """A DATETIME of 8 bytes."""
    value: DateTime = old_datetime_of(int.from_bytes(_exact(data, 8), "little"))
    return value


def decode_old_timestamp(data: bytes) -> Timestamp:
    """A TIMESTAMP of 4 bytes."""
    value: Timestamp = old_timestamp_of(int.from_bytes(_exact(data, 4), "little"))
    return value


def decode_hires_time(data: bytes, fraction_digits: int) -> Time:
    """A MariaDB TIME(n), n from 1 to 6."""
    data = _exact(data, HIRES_TIME_SIZES[_digits(fraction_digits)])
    value: Time = hires_time_of(int.from_bytes(data, "big"), fraction_digits)
    return value


def decode_hires_datetime(data: bytes, fraction_digits: int) -> DateTime:
    """A MariaDB DATETIME(n), n from 1 to 6."""
    data = _exact(data, HIRES_DATETIME_SIZES[_digits(fraction_digits)])
    value: DateTime = hires_datetime_of(int.from_bytes(data, "big"), fraction_digits)
    return value


def decode_hires_timestamp(data: bytes, fraction_digits: int) -> Timestamp:
    """A MariaDB TIMESTAMP(n), n from 1 to 6."""
    data = _exact(data, HIRES_TIMESTAMP_SIZES[_digits(fraction_digits)])
    value: Timestamp = hires_timestamp_of(int.from_bytes(data, "big"), fraction_digits)
    return value


def encode_old_time(value: Time) -> bytes:
    """The 3 bytes of a TIME."""
    number = (value.hours * 100 + value.minutes) * 100 + value.seconds
    return _bytes(-number if value.negative else number, 3, "little", signed=True)


def encode_old_datetime(value: DateTime) -> bytes:
    """The 8 bytes of a DATETIME."""
    date = (value.year * 100 + value.month) * 100 + value.day
    time = (value.hour * 100 + value.minute) * 100 + value.second
    return _bytes(date * 1_000_000 + time, 8, "little")


def encode_old_timestamp(value: Timestamp) -> bytes:
    """The 4 bytes of a TIMESTAMP."""
    return _bytes(value.seconds or 0, 4, "little")


def encode_hires_time(value: Time, fraction_digits: int) -> bytes:
    """The bytes of a MariaDB TIME(n)."""
    span = value.total_microseconds + _TIME_OFFSET_SECONDS * 1_000_000
    return _bytes(
        span // 10 ** (6 - _digits(fraction_digits)), HIRES_TIME_SIZES[fraction_digits], "big"
    )


def encode_hires_datetime(value: DateTime, fraction_digits: int) -> bytes:
    """The bytes of a MariaDB DATETIME(n)."""
    date = (value.year * 13 + value.month) * 32 + value.day
    seconds = ((date * 24 + value.hour) * 60 + value.minute) * 60 + value.second
    number = (seconds * 1_000_000 + value.microsecond) // 10 ** (6 - _digits(fraction_digits))
    return _bytes(number, HIRES_DATETIME_SIZES[fraction_digits], "big")


def encode_hires_timestamp(value: Timestamp, fraction_digits: int) -> bytes:
    """The bytes of a MariaDB TIMESTAMP(n)."""
    size = HIRES_TIMESTAMP_SIZES[_digits(fraction_digits)]
    fraction = value.microseconds // 10 ** (6 - fraction_digits)
    return _bytes((value.seconds or 0) << (8 * (size - 4)) | fraction, size, "big")


def _exact(data: bytes, size: int) -> bytes:
    if len(data) != size:
        raise ValueError(f"{len(data)} bytes, must be {size}")
    return data


def _digits(fraction_digits: int) -> int:
    if not 1 <= fraction_digits <= 6:
        raise ValueError(f"{fraction_digits} fraction digits; 1 to 6 are possible")
    return fraction_digits


def _bytes(value: int, size: int, order: str, signed: bool = False) -> bytes:
    try:
        return value.to_bytes(size, "big" if order == "big" else "little", signed=signed)
    except OverflowError as error:
        raise EncodeError(f"a value does not fit into {size} bytes") from error
