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

The ``*_of`` functions take the bytes as one unsigned integer, as the row decoder reads them; the
``decode_*`` functions take exactly the value's bytes. All raise ValueError for bytes that no server
writes, and each ``encode_*`` is the inverse.

Spec: MySQL ``my_time.cc`` (``my_time_packed_to_binary`` and its kin).
"""

# Over 500 lines: the bytes of all current temporal types in one place.

from __future__ import annotations

import cython

from replica_client.errors import EncodeError
from replica_client.protocol.binlog.values.temporal import Date, DateTime, Time, Timestamp

if not cython.compiled:
    from replica_client.protocol.binlog.values.temporal import (
        new_date,
        new_datetime,
        new_time,
        new_timestamp,
    )

# The sign bits; offset binary: smaller numbers are negative.
_TIME2_ZERO = cython.declare(cython.ulonglong, 1 << 23)
_DATETIME2_ZERO = cython.declare(cython.ulonglong, 1 << 39)


NOT_IN_CALENDAR = -(1 << 62)
"""Returned instead of days or microseconds for a value that is not in the calendar."""

_NOT_IN_CALENDAR = cython.declare(cython.longlong, NOT_IN_CALENDAR)
_DAY_MICROSECONDS = cython.declare(cython.longlong, 86_400_000_000)
# Not -1, which signals an exception.
_BAD_FRACTION = cython.declare(cython.int, 1_000_000)


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def _microseconds(fraction: cython.ulonglong, fraction_digits: cython.int) -> cython.int:
    """Return the microseconds of a stored fraction, ``_BAD_FRACTION`` for a second or more."""
    if fraction_digits >= 5:
        return cython.cast(cython.int, fraction) if fraction < 1_000_000 else _BAD_FRACTION
    if fraction_digits >= 3:
        return cython.cast(cython.int, fraction * 100) if fraction < 10_000 else _BAD_FRACTION
    return cython.cast(cython.int, fraction * 10_000) if fraction < 100 else _BAD_FRACTION


def fraction_size(fraction_digits: int) -> int:
    """Return the number of bytes of the fraction of a TIME2, DATETIME2 or TIMESTAMP2.

    Raises:
        ValueError: the number of digits is not 0 to 6.
    """
    if not 0 <= fraction_digits <= 6:
        raise ValueError(f"{fraction_digits} fraction digits; 0 to 6 are possible")
    return (fraction_digits + 1) // 2


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
@cython.cdivision(True)
def _days(year: cython.int, month: cython.int, day: cython.int) -> cython.longlong:
    """Return the days from 1970-01-01 to a day; `NOT_IN_CALENDAR` for an invalid day."""
    if year < 1 or month < 1 or month > 12 or day < 1:
        return _NOT_IN_CALENDAR
    if day > 28:
        last: cython.int = 31
        if month == 2:
            is_leap: cython.bint = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
            last = 29 if is_leap else 28
        elif month in (4, 6, 9, 11):
            last = 30
        if day > last:
            return _NOT_IN_CALENDAR
    # Count years from March, so that the leap day is the last day.
    if month <= 2:
        year -= 1
        month += 12
    of_years: cython.int = year * 365 + year // 4 - year // 100 + year // 400
    return of_years + (153 * (month - 3) + 2) // 5 + day - 1 - 719468


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=False)
def _check_date(packed: cython.uint) -> cython.int:
    if (packed >> 5) & 15 > 12 or packed >> 9 > 9999:
        with cython.gil:
            raise ValueError(f"DATE has month {(packed >> 5) & 15} and year {packed >> 9}")
    return 0


@cython.ccall
def date_of(packed: cython.uint) -> object:
    """Return the `Date` of three little-endian bytes."""
    _check_date(packed)
    return new_date(packed >> 9, (packed >> 5) & 15, packed & 31)


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=True)
def date_days(packed: cython.uint) -> cython.longlong:
    """Return a DATE as days since 1970; `NOT_IN_CALENDAR` for a zero or partial date."""
    _check_date(packed)
    return _days(packed >> 9, (packed >> 5) & 15, packed & 31)


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def _fraction(raw: cython.ulonglong, fraction_digits: cython.int) -> cython.int:
    """Return the microseconds of a value's fraction, ``_BAD_FRACTION`` for a second or more."""
    shift: cython.int = 8 * ((fraction_digits + 1) >> 1)
    if not shift:
        return 0
    mask: cython.ulonglong = (cython.cast(cython.ulonglong, 1) << shift) - 1
    return _microseconds(raw & mask, fraction_digits)


@cython.cfunc
@cython.nogil
@cython.exceptval(0, check=True)
def _time2_magnitude(raw: cython.ulonglong, fraction_digits: cython.int) -> cython.ulonglong:
    """Return a TIME2 without its sign, after checking it."""
    shift: cython.int = 8 * ((fraction_digits + 1) >> 1)
    zero: cython.ulonglong = _TIME2_ZERO << shift
    magnitude: cython.ulonglong = zero - raw if raw < zero else raw - zero
    whole: cython.ulonglong = magnitude >> shift
    minutes: cython.int = (whole >> 6) & 63
    seconds: cython.int = whole & 63
    if (
        minutes > 59
        or seconds > 59
        or whole >= 4_194_304
        or _fraction(magnitude, fraction_digits) == _BAD_FRACTION
    ):
        with cython.gil:
            raise ValueError(f"TIME({fraction_digits}) has minute {minutes}, second {seconds}")
    return magnitude


@cython.ccall
def time2_of(raw: cython.ulonglong, fraction_digits: cython.int) -> object:
    """Return the `Time` of ``3 + fraction_size`` big-endian bytes."""
    shift: cython.int = 8 * ((fraction_digits + 1) >> 1)
    magnitude: cython.ulonglong = _time2_magnitude(raw, fraction_digits)
    whole: cython.ulonglong = magnitude >> shift
    return new_time(
        raw < _TIME2_ZERO << shift,
        cython.cast(cython.int, whole >> 12),
        (whole >> 6) & 63,
        whole & 63,
        _fraction(magnitude, fraction_digits),
        fraction_digits,
    )


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=True)
def time2_microseconds(raw: cython.ulonglong, fraction_digits: cython.int) -> cython.longlong:
    """Return a TIME2 as microseconds, with sign."""
    shift: cython.int = 8 * ((fraction_digits + 1) >> 1)
    magnitude: cython.ulonglong = _time2_magnitude(raw, fraction_digits)
    whole: cython.longlong = magnitude >> shift
    total: cython.longlong = (whole >> 12) * 3600 + ((whole >> 6) & 63) * 60 + (whole & 63)
    total = total * 1_000_000 + _fraction(magnitude, fraction_digits)
    return -total if raw < _TIME2_ZERO << shift else total


@cython.cfunc
@cython.nogil
@cython.exceptval(0, check=True)
@cython.cdivision(True)
def _datetime2_whole(raw: cython.ulonglong, fraction_digits: cython.int) -> cython.ulonglong:
    """Return the packed date and time of a DATETIME2, without fraction, after checking it."""
    whole: cython.ulonglong = raw >> (8 * ((fraction_digits + 1) >> 1))
    if whole < _DATETIME2_ZERO:
        with cython.gil:
            raise ValueError("DATETIME is negative")
    whole -= _DATETIME2_ZERO
    year: cython.int = (whole >> 22) // 13
    hour: cython.int = (whole >> 12) & 31
    minute: cython.int = (whole >> 6) & 63
    second: cython.int = whole & 63
    bad: cython.bint = _fraction(raw, fraction_digits) == _BAD_FRACTION
    if bad or hour > 23 or minute > 59 or second > 59 or year > 9999:
        with cython.gil:
            raise ValueError(f"DATETIME has year {year} and time {hour}:{minute}:{second}")
    return whole


@cython.ccall
@cython.cdivision(True)
def datetime2_of(raw: cython.ulonglong, fraction_digits: cython.int) -> object:
    """Return the `DateTime` of ``5 + fraction_size`` big-endian bytes."""
    whole: cython.ulonglong = _datetime2_whole(raw, fraction_digits)
    year_month: cython.ulonglong = whole >> 22
    return new_datetime(
        cython.cast(cython.int, year_month // 13),
        cython.cast(cython.int, year_month % 13),
        (whole >> 17) & 31,
        (whole >> 12) & 31,
        (whole >> 6) & 63,
        whole & 63,
        _fraction(raw, fraction_digits),
        fraction_digits,
    )


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=True)
@cython.cdivision(True)
def datetime2_microseconds(raw: cython.ulonglong, fraction_digits: cython.int) -> cython.longlong:
    """Return a DATETIME2 as microseconds since 1970, or `NOT_IN_CALENDAR`."""
    whole: cython.ulonglong = _datetime2_whole(raw, fraction_digits)
    year_month: cython.ulonglong = whole >> 22
    days: cython.longlong = _days(
        cython.cast(cython.int, year_month // 13),
        cython.cast(cython.int, year_month % 13),
        (whole >> 17) & 31,
    )
    if days == _NOT_IN_CALENDAR:
        return days
    seconds: cython.longlong = ((whole >> 12) & 31) * 3600 + ((whole >> 6) & 63) * 60
    seconds += (whole & 63) + days * 86_400
    return seconds * 1_000_000 + _fraction(raw, fraction_digits)


@cython.ccall
def timestamp2_of(raw: cython.ulonglong, fraction_digits: cython.int) -> object:
    """Return the `Timestamp` of ``4 + fraction_size`` big-endian bytes; zero for all zero bytes."""
    total: cython.longlong = timestamp2_microseconds(raw, fraction_digits)
    if total == _NOT_IN_CALENDAR:
        return new_timestamp(-1, 0, fraction_digits)
    return new_timestamp(
        total // 1_000_000, cython.cast(cython.int, total % 1_000_000), fraction_digits
    )


@cython.cfunc
@cython.nogil
@cython.exceptval(-1, check=True)
def timestamp2_microseconds(raw: cython.ulonglong, fraction_digits: cython.int) -> cython.longlong:
    """Return a TIMESTAMP2 as microseconds since 1970; `NOT_IN_CALENDAR` for zero."""
    microseconds: cython.int = _fraction(raw, fraction_digits)
    if microseconds == _BAD_FRACTION:
        with cython.gil:
            raise ValueError("TIMESTAMP has a fraction of a second or more")
    if raw == 0:
        return _NOT_IN_CALENDAR
    seconds: cython.longlong = raw >> (8 * ((fraction_digits + 1) >> 1))
    return seconds * 1_000_000 + microseconds


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_padded(
    target: cython.p_uchar, to: cython.Py_ssize_t, number: cython.int, digits: cython.int
) -> cython.Py_ssize_t:
    """Write the last ``digits`` digits of a number; return where they end."""
    at: cython.Py_ssize_t
    for at in range(to + digits - 1, to - 1, -1):
        target[at] = 48 + number % 10
        number //= 10
    return to + digits


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_ymd(
    target: cython.p_uchar,
    to: cython.Py_ssize_t,
    year: cython.int,
    month: cython.int,
    day: cython.int,
) -> cython.Py_ssize_t:
    to = _put_padded(target, to, year, 4)
    target[to] = 45
    to = _put_padded(target, to + 1, month, 2)
    target[to] = 45
    return _put_padded(target, to + 1, day, 2)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_clock(
    target: cython.p_uchar,
    to: cython.Py_ssize_t,
    hour: cython.int,
    minute: cython.int,
    second: cython.int,
    microseconds: cython.int,
    fraction_digits: cython.int,
) -> cython.Py_ssize_t:
    to = _put_padded(target, to, hour, 3 if hour > 99 else 2)
    if hour > 999:
        to = _put_padded(target, to - 3, hour, 4)
    target[to] = 58
    to = _put_padded(target, to + 1, minute, 2)
    target[to] = 58
    to = _put_padded(target, to + 1, second, 2)
    if not fraction_digits:
        return to
    target[to] = 46
    # Digits beyond the column's are cut off.
    _put_padded(target, to + 1, microseconds, 6)
    return to + 1 + fraction_digits


@cython.cfunc
@cython.exceptval(-1, check=False)
def put_date(
    target: cython.p_uchar, to: cython.Py_ssize_t, packed: cython.uint
) -> cython.Py_ssize_t:
    """Write the text of a DATE as :func:`date_of` shows it; return where it ends.

    This and the following functions write up to 32 bytes.
    """
    _check_date(packed)
    return _put_ymd(target, to, packed >> 9, (packed >> 5) & 15, packed & 31)


@cython.cfunc
@cython.exceptval(-1, check=False)
def put_time2(
    target: cython.p_uchar,
    to: cython.Py_ssize_t,
    raw: cython.ulonglong,
    fraction_digits: cython.int,
) -> cython.Py_ssize_t:
    """Write the text of a TIME2 as :func:`time2_of` shows it; return where it ends."""
    shift: cython.int = 8 * ((fraction_digits + 1) >> 1)
    magnitude: cython.ulonglong = _time2_magnitude(raw, fraction_digits)
    whole: cython.ulonglong = magnitude >> shift
    if raw < _TIME2_ZERO << shift:
        target[to] = 45
        to += 1
    return _put_clock(
        target,
        to,
        cython.cast(cython.int, whole >> 12),
        (whole >> 6) & 63,
        whole & 63,
        _fraction(magnitude, fraction_digits),
        fraction_digits,
    )


@cython.cfunc
@cython.cdivision(True)
@cython.exceptval(-1, check=False)
def put_datetime2(
    target: cython.p_uchar,
    to: cython.Py_ssize_t,
    raw: cython.ulonglong,
    fraction_digits: cython.int,
) -> cython.Py_ssize_t:
    """Write the text of a DATETIME2 as :func:`datetime2_of` shows it; return where it ends."""
    whole: cython.ulonglong = _datetime2_whole(raw, fraction_digits)
    year_month: cython.int = cython.cast(cython.int, whole >> 22)
    to = _put_ymd(target, to, year_month // 13, year_month % 13, (whole >> 17) & 31)
    target[to] = 32
    return _put_clock(
        target,
        to + 1,
        (whole >> 12) & 31,
        (whole >> 6) & 63,
        whole & 63,
        _fraction(raw, fraction_digits),
        fraction_digits,
    )


@cython.cfunc
@cython.cdivision(True)
@cython.exceptval(-1, check=False)
def put_timestamp2(
    target: cython.p_uchar,
    to: cython.Py_ssize_t,
    raw: cython.ulonglong,
    fraction_digits: cython.int,
) -> cython.Py_ssize_t:
    """Write the text of a TIMESTAMP2 as :func:`timestamp2_of` shows it; return where it ends."""
    total: cython.longlong = timestamp2_microseconds(raw, fraction_digits)
    if total == _NOT_IN_CALENDAR:
        to = _put_ymd(target, to, 0, 0, 0)
        target[to] = 32
        return _put_clock(target, to + 1, 0, 0, 0, 0, fraction_digits)
    days: cython.longlong = total // _DAY_MICROSECONDS
    to = put_day(target, to, days)
    target[to] = 32
    return put_clock(target, to + 1, total - days * _DAY_MICROSECONDS, fraction_digits)


@cython.cfunc
@cython.cdivision(True)
@cython.exceptval(-1, check=False)
def put_clock(
    target: cython.p_uchar,
    to: cython.Py_ssize_t,
    microseconds: cython.longlong,
    fraction_digits: cython.int,
) -> cython.Py_ssize_t:
    """Write up to 838 hours, minutes and seconds; return where they end."""
    rest: cython.int = cython.cast(cython.int, microseconds // 1_000_000)
    return _put_clock(
        target,
        to,
        rest // 3600,
        rest // 60 % 60,
        rest % 60,
        cython.cast(cython.int, microseconds % 1_000_000),
        fraction_digits,
    )


@cython.cfunc
@cython.cdivision(True)
@cython.exceptval(-1, check=False)
def put_day(
    target: cython.p_uchar, to: cython.Py_ssize_t, days: cython.longlong
) -> cython.Py_ssize_t:
    """Write the date of a day since 1970, in a year up to 9999; return where it ends."""
    packed: cython.uint = packed_day(days)
    return _put_ymd(target, to, packed >> 9, (packed >> 5) & 15, packed & 31)


@cython.cfunc
@cython.cdivision(True)
@cython.exceptval(check=False)
def packed_day(days: cython.longlong) -> cython.uint:
    """Return a day since 1970, from year 1 to 9999, as a DATE stores it."""
    # Years from March have the leap day last: Hinnant, "Low-level date algorithms".
    z: cython.longlong = days + 719468
    era: cython.longlong = z // 146097
    day: cython.longlong = z - era * 146097
    year: cython.longlong = (day - day // 1460 + day // 36524 - day // 146096) // 365
    day -= 365 * year + year // 4 - year // 100
    month: cython.longlong = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5 - 1
    month += 3 if month < 10 else -9
    year += era * 400
    if month <= 2:
        year += 1
    return cython.cast(cython.uint, year << 9 | month << 5 | day)


def decode_date(data: bytes) -> Date:
    """Decode a DATE or NEWDATE of 3 bytes."""
    value: Date = date_of(int.from_bytes(_exact(data, 3), "little"))
    return value


def decode_time2(data: bytes, fraction_digits: int) -> Time:
    """Decode a TIME(n) of ``3 + fraction_size(n)`` bytes."""
    data = _exact(data, 3 + fraction_size(fraction_digits))
    value: Time = time2_of(int.from_bytes(data, "big"), fraction_digits)
    return value


def decode_datetime2(data: bytes, fraction_digits: int) -> DateTime:
    """Decode a DATETIME(n) of ``5 + fraction_size(n)`` bytes."""
    data = _exact(data, 5 + fraction_size(fraction_digits))
    value: DateTime = datetime2_of(int.from_bytes(data, "big"), fraction_digits)
    return value


def decode_timestamp2(data: bytes, fraction_digits: int) -> Timestamp:
    """Decode a TIMESTAMP(n) of ``4 + fraction_size(n)`` bytes."""
    data = _exact(data, 4 + fraction_size(fraction_digits))
    value: Timestamp = timestamp2_of(int.from_bytes(data, "big"), fraction_digits)
    return value


def decode_year(data: bytes) -> int:
    """Decode a YEAR of 1 byte: 0, or 1901 to 2155."""
    code = _exact(data, 1)[0]
    return code + 1900 if code else 0


def encode_date(value: Date) -> bytes:
    """Encode a DATE in 3 bytes."""
    return _bytes(value.year << 9 | value.month << 5 | value.day, 3, "little")


def encode_time2(value: Time, fraction_digits: int) -> bytes:
    """Encode a TIME(n)."""
    size = fraction_size(fraction_digits)
    whole = value.hours << 12 | value.minutes << 6 | value.seconds
    magnitude = whole << (8 * size) | _stored_fraction(value.microseconds, fraction_digits)
    signed = -magnitude if value.negative else magnitude
    return _bytes((_TIME2_ZERO << (8 * size)) + signed, 3 + size, "big")


def encode_datetime2(value: DateTime, fraction_digits: int) -> bytes:
    """Encode a DATETIME(n)."""
    size = fraction_size(fraction_digits)
    date = (value.year * 13 + value.month) << 5 | value.day
    whole = date << 17 | value.hour << 12 | value.minute << 6 | value.second
    raw = (_DATETIME2_ZERO + whole) << (8 * size)
    return _bytes(raw | _stored_fraction(value.microsecond, fraction_digits), 5 + size, "big")


def encode_timestamp2(value: Timestamp, fraction_digits: int) -> bytes:
    """Encode a TIMESTAMP(n)."""
    size = fraction_size(fraction_digits)
    raw = (value.seconds or 0) << (8 * size)
    return _bytes(raw | _stored_fraction(value.microseconds, fraction_digits), 4 + size, "big")


def encode_year(value: int) -> bytes:
    """Encode a YEAR in one byte."""
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
