"""Dates and times as the servers store them: also zero, partial and negative ones.

=============  ================================================================  ================
type           column types                                                      ``to_python()``
=============  ================================================================  ================
`Date`         DATE                                                              ``date``
`Time`         TIME, -838:59:59.999999 to 838:59:59.999999                       ``timedelta``
`DateTime`     DATETIME, no time zone                                            ``datetime``
`Timestamp`    TIMESTAMP, an instant in UTC                                      aware ``datetime``
=============  ================================================================  ================

Values are immutable, ordered and hashable. ``str()`` is MySQL's own text with all fraction digits
of the column. Values that differ only in the number of fraction digits are equal, as in SQL.

A value compares with its own type and with the :mod:`datetime` type in the table above:
``change.after["created"] >= datetime(2026, 1, 1)``. Equal values have equal hashes. As in Python, a
``Date`` never equals a ``DateTime``, an instant (``Timestamp``, aware ``datetime``) never equals a
date and time without a time zone, and ordering them raises TypeError. Zero and partial dates, which
:mod:`datetime` cannot hold, equal none of its values. They are before all later days, as in SQL,
and the zero timestamp is before every instant.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the same types with and without Cython installed
    from replica_client import _cython as cython
else:
    import cython


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_SECOND = 1_000_000


def _fraction(microseconds: int, digits: int) -> str:
    return f".{microseconds:06d}"[: digits + 1] if digits else ""


@cython.cclass
class Temporal:
    """The base of the four types: comparison, hash, pickling."""

    __slots__ = ()

    def _rank(self) -> int:
        raise NotImplementedError

    def _fields(self) -> tuple[Any, ...]:
        raise NotImplementedError

    def to_python(self) -> Any:
        """Return the value as a :mod:`datetime` type.

        Raises:
            ValueError: that type cannot hold the value.
        """
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._fields()))})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._fields()

    def _beside(self, other: Any) -> tuple[Any, Any] | None:
        """Return comparable forms of this and a :mod:`datetime` value; None if there are none."""
        raise NotImplementedError

    def _pair(self, other: Any) -> tuple[Any, Any] | None:
        if type(self) is type(other):
            return self._rank(), other._rank()
        return self._beside(other)

    def __hash__(self) -> int:
        try:
            return hash(self.to_python())
        except (ValueError, OverflowError):
            return hash((type(self).__name__, self._rank()))

    def __eq__(self, other: object) -> bool:
        pair = self._pair(other)
        return NotImplemented if pair is None else bool(pair[0] == pair[1])

    def __ne__(self, other: object) -> bool:
        pair = self._pair(other)
        return NotImplemented if pair is None else bool(pair[0] != pair[1])

    def __lt__(self, other: Any) -> bool:
        pair = self._pair(other)
        return NotImplemented if pair is None else bool(pair[0] < pair[1])

    def __le__(self, other: Any) -> bool:
        pair = self._pair(other)
        return NotImplemented if pair is None else bool(pair[0] <= pair[1])

    def __gt__(self, other: Any) -> bool:
        pair = self._pair(other)
        return NotImplemented if pair is None else bool(pair[0] > pair[1])

    def __ge__(self, other: Any) -> bool:
        pair = self._pair(other)
        return NotImplemented if pair is None else bool(pair[0] >= pair[1])


@cython.final
@cython.cclass
class Date(Temporal):
    """A DATE; also ``0000-00-00`` and dates with a zero month or day.

    Attributes:
        year: 0 to 9999.
        month: 0 to 12.
        day: 0 to 31.

    Examples:
        >>> date = rc.Date(2026, 2, 0)
        >>> str(date), date.is_zero
        ('2026-02-00', False)
        >>> rc.Date(2026, 11, 20).to_python()
        datetime.date(2026, 11, 20)
    """

    __slots__ = ("day", "month", "year")

    def __init__(self, year: cython.int, month: cython.int, day: cython.int) -> None:
        self.year = year
        self.month = month
        self.day = day

    @property
    def is_zero(self) -> bool:
        """Whether the date is ``0000-00-00``."""
        return not (self.year or self.month or self.day)

    def to_python(self) -> datetime.date:
        """Return the date as a :class:`datetime.date`.

        Raises:
            ValueError: a zero or partial date, or a day that its month does not have.
        """
        return datetime.date(self.year, self.month, self.day)

    def __str__(self) -> str:
        return f"{self.year:04d}-{self.month:02d}-{self.day:02d}"

    def _rank(self) -> int:
        return int((self.year * 13 + self.month) * 32 + self.day)

    def _beside(self, other: Any) -> tuple[Any, Any] | None:
        if not isinstance(other, datetime.date) or isinstance(other, datetime.datetime):
            return None
        return self._rank(), (other.year * 13 + other.month) * 32 + other.day

    def _fields(self) -> tuple[Any, ...]:
        return self.year, self.month, self.day


@cython.final
@cython.cclass
class Time(Temporal):
    """A TIME: a signed duration, not a time of day.

    Attributes:
        negative: whether the duration is below zero.
        hours: 0 to 838.
        minutes: 0 to 59.
        seconds: 0 to 59.
        microseconds: 0 to 999999.
        fraction_digits: digits after the point that the column has, 0 to 6.

    Examples:
        >>> time = rc.Time(True, 838, 59, 59)
        >>> str(time)
        '-838:59:59'
    """

    __slots__ = ("fraction_digits", "hours", "microseconds", "minutes", "negative", "seconds")

    def __init__(
        self,
        negative: cython.bint,
        hours: cython.int,
        minutes: cython.int,
        seconds: cython.int,
        microseconds: cython.int = 0,
        fraction_digits: cython.int = 0,
    ) -> None:
        self.negative = negative
        self.hours = hours
        self.minutes = minutes
        self.seconds = seconds
        self.microseconds = microseconds
        self.fraction_digits = fraction_digits

    @property
    def total_microseconds(self) -> int:
        """The duration in microseconds, with its sign."""
        seconds: cython.longlong = self.hours
        seconds = (seconds * 60 + self.minutes) * 60 + self.seconds
        total: cython.longlong = seconds * 1_000_000 + self.microseconds
        return int(-total if self.negative else total)

    def to_python(self) -> datetime.timedelta:
        """Return the duration as a :class:`datetime.timedelta`, which holds every TIME."""
        return datetime.timedelta(microseconds=self.total_microseconds)

    def __str__(self) -> str:
        sign = "-" if self.negative else ""
        fraction = _fraction(self.microseconds, self.fraction_digits)
        return f"{sign}{self.hours:02d}:{self.minutes:02d}:{self.seconds:02d}{fraction}"

    def _rank(self) -> int:
        total: int = self.total_microseconds
        return total

    def _beside(self, other: Any) -> tuple[Any, Any] | None:
        return (self.to_python(), other) if isinstance(other, datetime.timedelta) else None

    def _fields(self) -> tuple[Any, ...]:
        return (
            bool(self.negative),
            self.hours,
            self.minutes,
            self.seconds,
            self.microseconds,
            self.fraction_digits,
        )


@cython.final
@cython.cclass
class DateTime(Temporal):
    """A DATETIME, without a time zone; also zero and partial dates.

    Attributes:
        year: 0 to 9999.
        month: 0 to 12.
        day: 0 to 31.
        hour: 0 to 23.
        minute: 0 to 59.
        second: 0 to 59.
        microsecond: 0 to 999999.
        fraction_digits: digits after the point that the column has, 0 to 6.

    Examples:
        >>> moment = rc.DateTime(2026, 11, 20, 8, 30, 0, 120000, 3)
        >>> str(moment)
        '2026-11-20 08:30:00.120'
    """

    __slots__ = (
        "day",
        "fraction_digits",
        "hour",
        "microsecond",
        "minute",
        "month",
        "second",
        "year",
    )

    def __init__(
        self,
        year: cython.int,
        month: cython.int,
        day: cython.int,
        hour: cython.int = 0,
        minute: cython.int = 0,
        second: cython.int = 0,
        microsecond: cython.int = 0,
        fraction_digits: cython.int = 0,
    ) -> None:
        self.year = year
        self.month = month
        self.day = day
        self.hour = hour
        self.minute = minute
        self.second = second
        self.microsecond = microsecond
        self.fraction_digits = fraction_digits

    @property
    def is_zero(self) -> bool:
        """Whether the value is ``0000-00-00 00:00:00``."""
        return self._rank() == 0

    def to_python(self) -> datetime.datetime:
        """Return the date and time as a naive :class:`datetime.datetime`.

        Raises:
            ValueError: a zero or partial date, or a day that its month does not have.
        """
        return datetime.datetime(  # noqa: DTZ001
            self.year,
            self.month,
            self.day,
            self.hour,
            self.minute,
            self.second,
            self.microsecond,
        )

    def __str__(self) -> str:
        return (
            f"{self.year:04d}-{self.month:02d}-{self.day:02d}"
            f" {self.hour:02d}:{self.minute:02d}:{self.second:02d}"
            f"{_fraction(self.microsecond, self.fraction_digits)}"
        )

    def _rank(self) -> int:
        rank: cython.longlong = (self.year * 13 + self.month) * 32 + self.day
        rank = ((rank * 24 + self.hour) * 60 + self.minute) * 60 + self.second
        return int(rank * 1_000_000 + self.microsecond)

    def _beside(self, other: Any) -> tuple[Any, Any] | None:
        if not isinstance(other, datetime.datetime):
            return None
        try:
            return self.to_python(), other
        except ValueError:
            if other.utcoffset() is not None:
                return None
        value: DateTime = DateTime(
            other.year, other.month, other.day, other.hour, other.minute, other.second
        )
        # Days that Python has and days that it lacks never coincide: microseconds do not matter.
        return self._rank(), value._rank()

    def _fields(self) -> tuple[Any, ...]:
        return (
            self.year,
            self.month,
            self.day,
            self.hour,
            self.minute,
            self.second,
            self.microsecond,
            self.fraction_digits,
        )


@cython.final
@cython.cclass
class Timestamp(Temporal):
    """A TIMESTAMP: an instant in UTC, whatever time zone the server has.

    Args:
        seconds: since 1970-01-01 00:00:00 UTC; None is the zero timestamp.
        microseconds: 0 to 999999.
        fraction_digits: digits after the point that the column has, 0 to 6.

    Examples:
        >>> str(rc.Timestamp(1793524200, 25000, 3))
        '2026-11-01 09:10:00.025'
        >>> str(rc.Timestamp(None))
        '0000-00-00 00:00:00'
    """

    __slots__ = ("_seconds", "fraction_digits", "microseconds")

    def __init__(
        self,
        seconds: int | None,
        microseconds: cython.int = 0,
        fraction_digits: cython.int = 0,
    ) -> None:
        self._seconds = -1 if seconds is None else seconds
        self.microseconds = microseconds
        self.fraction_digits = fraction_digits

    @property
    def seconds(self) -> int | None:
        """Seconds since 1970-01-01 00:00:00 UTC; None for the zero timestamp."""
        return None if self._seconds < 0 else self._seconds

    @property
    def is_zero(self) -> bool:
        """Whether the value is ``0000-00-00 00:00:00``."""
        return self._seconds < 0

    def to_python(self) -> datetime.datetime:
        """Return the instant as a :class:`datetime.datetime` in UTC.

        Raises:
            ValueError: the zero timestamp.
        """
        if self._seconds < 0:
            raise ValueError("the zero timestamp is not a point in time")
        return _EPOCH + datetime.timedelta(seconds=self._seconds, microseconds=self.microseconds)

    def __str__(self) -> str:
        fraction = _fraction(self.microseconds, self.fraction_digits)
        if self._seconds < 0:
            return f"0000-00-00 00:00:00{fraction}"
        return f"{_EPOCH + datetime.timedelta(seconds=self._seconds):%Y-%m-%d %H:%M:%S}{fraction}"

    def _rank(self) -> int:
        rank: cython.longlong = self._seconds
        return int(rank * 1_000_000 + self.microseconds)

    def _beside(self, other: Any) -> tuple[Any, Any] | None:
        if not isinstance(other, datetime.datetime):
            return None
        if self._seconds < 0:
            return None if other.utcoffset() is None else (0, 1)
        return self.to_python(), other

    def _fields(self) -> tuple[Any, ...]:
        return self.seconds, self.microseconds, self.fraction_digits


def _assign_once(self: Any, name: str, value: Any) -> None:
    if hasattr(self, name):
        raise AttributeError(f"{type(self).__name__}.{name} cannot be changed")
    object.__setattr__(self, name, value)


if not cython.compiled:  # compiled, the attributes are read-only anyway
    Temporal.__setattr__ = _assign_once  # type: ignore[method-assign]


@cython.cfunc
def new_date(year: cython.int, month: cython.int, day: cython.int) -> Date:
    """Return a `Date`; the compiled form parses no arguments."""
    if not cython.compiled:
        return Date(year, month, day)
    date: Date = Date.__new__(Date)
    date.year = year
    date.month = month
    date.day = day
    return date


@cython.cfunc
def new_time(
    negative: cython.bint,
    hours: cython.int,
    minutes: cython.int,
    seconds: cython.int,
    microseconds: cython.int,
    fraction_digits: cython.int,
) -> Time:
    """Return a `Time`; the compiled form parses no arguments."""
    if not cython.compiled:
        return Time(bool(negative), hours, minutes, seconds, microseconds, fraction_digits)
    time: Time = Time.__new__(Time)
    time.negative = negative
    time.hours = hours
    time.minutes = minutes
    time.seconds = seconds
    time.microseconds = microseconds
    time.fraction_digits = fraction_digits
    return time


@cython.cfunc
def new_datetime(
    year: cython.int,
    month: cython.int,
    day: cython.int,
    hour: cython.int,
    minute: cython.int,
    second: cython.int,
    microsecond: cython.int,
    fraction_digits: cython.int,
) -> DateTime:
    """Return a `DateTime`; the compiled form parses no arguments."""
    if not cython.compiled:
        return DateTime(year, month, day, hour, minute, second, microsecond, fraction_digits)
    value: DateTime = DateTime.__new__(DateTime)
    value.year = year
    value.month = month
    value.day = day
    value.hour = hour
    value.minute = minute
    value.second = second
    value.microsecond = microsecond
    value.fraction_digits = fraction_digits
    return value


@cython.cfunc
def new_timestamp(
    seconds: cython.longlong, microseconds: cython.int, fraction_digits: cython.int
) -> Timestamp:
    """Return a `Timestamp`, the zero timestamp for -1; the compiled form parses no arguments."""
    if not cython.compiled:
        return Timestamp(None if seconds < 0 else seconds, microseconds, fraction_digits)
    value: Timestamp = Timestamp.__new__(Timestamp)
    value._seconds = seconds
    value.microseconds = microseconds
    value.fraction_digits = fraction_digits
    return value
