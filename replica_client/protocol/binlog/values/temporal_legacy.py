"""TIME, DATETIME and TIMESTAMP as MySQL before 5.6 and MariaDB before 10.1 write them.

MariaDB still does so if ``mysql56_temporal_format`` is OFF, and every server does for tables made
by such old versions. Without fraction digits:

==============  =====================================================================
TIME            3 bytes little-endian, signed: the decimal number hhmmss
DATETIME        8 bytes little-endian: the decimal number YYYYMMDDhhmmss
TIMESTAMP       4 bytes little-endian: seconds since 1970, 0 is the zero timestamp
==============  =====================================================================

With n fraction digits (MariaDB only), all big-endian, in units of 10**-n seconds:

==============  =====================================================================
TIME(n)         4, 4, 5, 5, 5, 6 bytes: The duration plus 838:59:59 plus one second
DATETIME(n)     6, 6, 7, 7, 7, 8 bytes: year, month (base 13), day (base 32), hour
                (base 24), minute, second (base 60) and the fraction as one number
TIMESTAMP(n)    4 bytes seconds, then 1, 1, 2, 2, 3, 3 bytes of fraction
==============  =====================================================================

Every ``decode_*`` takes exactly the value's bytes and raises ValueError for bytes that no server
writes; each ``encode_*`` is the inverse.

Spec: MySQL 5.5 and MariaDB ``field.cc`` (``Field_time``, ``Field_time_hires`` and their kin).
"""

from __future__ import annotations

from replica_client.errors import EncodeError
from replica_client.protocol.binlog.values.temporal import DateTime, Time, Timestamp

HIRES_TIME_SIZES = (3, 4, 4, 5, 5, 5, 6)
"""Bytes of a MariaDB high-resolution TIME by fraction digits."""

HIRES_DATETIME_SIZES = (8, 6, 6, 7, 7, 7, 8)
"""Bytes of a MariaDB high-resolution DATETIME by fraction digits."""

HIRES_TIMESTAMP_SIZES = (4, 5, 5, 6, 6, 7, 7)
"""Bytes of a MariaDB high-resolution TIMESTAMP by fraction digits."""

_TIME_OFFSET_SECONDS = 839 * 3600
_SECOND = 1_000_000


def decode_old_time(data: bytes) -> Time:
    """Decode a TIME of 3 bytes."""
    number = int.from_bytes(_exact(data, 3), "little", signed=True)
    hours, rest = divmod(abs(number), 10000)
    minutes, seconds = divmod(rest, 100)
    if minutes > 59 or seconds > 59:
        raise ValueError(f"TIME has minute {minutes}, second {seconds}")
    return Time(number < 0, hours, minutes, seconds)


def decode_old_datetime(data: bytes) -> DateTime:
    """Decode a DATETIME of 8 bytes."""
    date, time = divmod(int.from_bytes(_exact(data, 8), "little"), 1_000_000)
    year, month, day = date // 10000, date // 100 % 100, date % 100
    hour, minute, second = time // 10000, time // 100 % 100, time % 100
    if year > 9999 or month > 12 or day > 31 or hour > 23 or minute > 59 or second > 59:
        raise ValueError(f"DATETIME has year {year} and time {hour}:{minute}:{second}")
    return DateTime(year, month, day, hour, minute, second)


def decode_old_timestamp(data: bytes) -> Timestamp:
    """Decode a TIMESTAMP of 4 bytes."""
    return Timestamp(int.from_bytes(_exact(data, 4), "little") or None)


def decode_hires_time(data: bytes, fraction_digits: int) -> Time:
    """Decode a MariaDB TIME(n), n from 1 to 6."""
    data = _exact(data, HIRES_TIME_SIZES[_digits(fraction_digits)])
    unit = 10 ** (6 - fraction_digits)
    duration = int.from_bytes(data, "big") * unit - _TIME_OFFSET_SECONDS * _SECOND
    whole, microseconds = divmod(abs(duration), _SECOND)
    if whole >= _TIME_OFFSET_SECONDS:
        raise ValueError("TIME is out of range")
    minutes, seconds = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return Time(duration < 0, hours, minutes, seconds, microseconds, fraction_digits)


def decode_hires_datetime(data: bytes, fraction_digits: int) -> DateTime:
    """Decode a MariaDB DATETIME(n), n from 1 to 6."""
    data = _exact(data, HIRES_DATETIME_SIZES[_digits(fraction_digits)])
    number = int.from_bytes(data, "big") * 10 ** (6 - fraction_digits)
    whole, microsecond = divmod(number, _SECOND)
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    months, day = divmod(days, 32)
    year, month = divmod(months, 13)
    if year > 9999:
        raise ValueError("DATETIME is beyond the year 9999")
    return DateTime(year, month, day, hour, minute, second, microsecond, fraction_digits)


def decode_hires_timestamp(data: bytes, fraction_digits: int) -> Timestamp:
    """Decode a MariaDB TIMESTAMP(n), n from 1 to 6; all zero is the zero timestamp."""
    data = _exact(data, HIRES_TIMESTAMP_SIZES[_digits(fraction_digits)])
    seconds, fraction = int.from_bytes(data[:4], "big"), int.from_bytes(data[4:], "big")
    microseconds = fraction * 10 ** (6 - fraction_digits)
    if microseconds >= _SECOND:
        raise ValueError("TIMESTAMP has a fraction of a second or more")
    return Timestamp(seconds if any(data) else None, microseconds, fraction_digits)


def encode_old_time(value: Time) -> bytes:
    """Encode a TIME in 3 bytes."""
    number = (value.hours * 100 + value.minutes) * 100 + value.seconds
    return _bytes(-number if value.negative else number, 3, "little", signed=True)


def encode_old_datetime(value: DateTime) -> bytes:
    """Encode a DATETIME in 8 bytes."""
    date = (value.year * 100 + value.month) * 100 + value.day
    time = (value.hour * 100 + value.minute) * 100 + value.second
    return _bytes(date * 1_000_000 + time, 8, "little")


def encode_old_timestamp(value: Timestamp) -> bytes:
    """Encode a TIMESTAMP in 4 bytes."""
    return _bytes(value.seconds or 0, 4, "little")


def encode_hires_time(value: Time, fraction_digits: int) -> bytes:
    """Encode a MariaDB TIME(n)."""
    duration = value.total_microseconds + _TIME_OFFSET_SECONDS * 1_000_000
    return _bytes(
        duration // 10 ** (6 - _digits(fraction_digits)), HIRES_TIME_SIZES[fraction_digits], "big"
    )


def encode_hires_datetime(value: DateTime, fraction_digits: int) -> bytes:
    """Encode a MariaDB DATETIME(n)."""
    date = (value.year * 13 + value.month) * 32 + value.day
    seconds = ((date * 24 + value.hour) * 60 + value.minute) * 60 + value.second
    number = (seconds * 1_000_000 + value.microsecond) // 10 ** (6 - _digits(fraction_digits))
    return _bytes(number, HIRES_DATETIME_SIZES[fraction_digits], "big")


def encode_hires_timestamp(value: Timestamp, fraction_digits: int) -> bytes:
    """Encode a MariaDB TIMESTAMP(n)."""
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
