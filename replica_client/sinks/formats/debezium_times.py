"""Times as Debezium's MySQL connector writes them, by ``time.precision.mode``.

==============================  ==================  ====================  ==============================
mode                            DATE                TIME                  DATETIME
==============================  ==================  ====================  ==============================
``adaptive_time_microseconds``  days                microseconds          milliseconds; microseconds with
                                                                          more than 3 fraction digits
``connect``                     days                milliseconds          milliseconds
``isostring``                   ``2024-02-29Z``     ``12:34:56.789Z``     ``2024-02-29T23:59:59Z``
``microseconds``                days                microseconds          microseconds
``nanoseconds``                 days                nanoseconds           nanoseconds
==============================  ==================  ====================  ==============================

Days and times are since 1970-01-01 00:00, as if a DATETIME were in UTC; a TIMESTAMP is text in
every mode. Zero dates and invalid dates are null if the column can be NULL, else 1970-01-01.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any, Literal

from replica_client.binlog.values.temporal import Date, DateTime, Time, Timestamp
from replica_client.constants.column_types import ColumnType
from replica_client.rows.json_values import quote
from replica_client.schema.shape import ColumnShape
from replica_client.sinks.formats.row_text import ValueWriter

TimeMode = Literal[
    "adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds"
]

_T = ColumnType
DATES = (_T.MYSQL_TYPE_DATE, _T.MYSQL_TYPE_NEWDATE)
TIMES = (_T.MYSQL_TYPE_TIME, _T.MYSQL_TYPE_TIME2)
DATETIMES = (_T.MYSQL_TYPE_DATETIME, _T.MYSQL_TYPE_DATETIME2)
TIMESTAMPS = (_T.MYSQL_TYPE_TIMESTAMP, _T.MYSQL_TYPE_TIMESTAMP2)
_EPOCH = datetime.datetime.fromordinal(datetime.date(1970, 1, 1).toordinal())
_DAYS = datetime.date(1970, 1, 1).toordinal()
_MICROSECOND = datetime.timedelta(microseconds=1)
_MINUTE, _HOUR = 60, 3600


def time_writer(column: ColumnShape, mode: TimeMode) -> ValueWriter | None:
    """Return the function that writes a column's values; None if the column holds no times."""
    code, optional = column.type_code, column.nullable
    if code in DATES:
        return _either(_iso_date if mode == "isostring" else _days, optional)
    if code in TIMES:
        return _iso_time if mode == "isostring" else _time(mode)
    if code in DATETIMES:
        if mode == "isostring":
            return _either(_iso_datetime, optional)
        return _either(_datetime(datetime_unit(column, mode)), optional)
    if code in TIMESTAMPS:
        instead = "null" if optional else '"1970-01-01T00:00:00Z"'
        return lambda value: _timestamp(value, instead)
    return None


def datetime_unit(column: ColumnShape, mode: TimeMode) -> int:
    """Return the number of units per second in which a DATETIME is written."""
    units = {"connect": 1_000, "microseconds": 1_000_000, "nanoseconds": 1_000_000_000}
    return units.get(mode, 1_000 if column.fraction_digits <= 3 else 1_000_000)


def _either(write: Callable[[Any], str], optional: bool) -> ValueWriter:
    """Return a writer of dates or datetimes.

    It writes null or 1970-01-01 for values that no calendar has.
    """
    missing = "null" if optional else write(_EPOCH)

    def written(value: Any) -> str:
        if isinstance(value, (Date, DateTime)):
            try:
                value = value.to_python()
            except ValueError:
                return missing
        return write(value)

    return written


def _days(value: Any) -> str:
    return str(value.toordinal() - _DAYS)


def _iso_date(value: Any) -> str:
    return f'"{value.year:04d}-{value.month:02d}-{value.day:02d}Z"'


def _datetime(unit: int) -> Callable[[Any], str]:
    def write(value: Any) -> str:
        micros = (value - _EPOCH) // _MICROSECOND
        return str(micros * unit // 1_000_000)

    return write


def _iso_datetime(value: Any) -> str:
    seconds = f"{value.hour:02d}:{value.minute:02d}:{value.second:02d}"
    day = f"{value.year:04d}-{value.month:02d}-{value.day:02d}"
    return f'"{day}T{seconds}{_fraction(value.microsecond)}Z"'


def _micros(value: Any) -> int:
    micros: int = value.total_microseconds if isinstance(value, Time) else value // _MICROSECOND
    return micros


def _time(mode: TimeMode) -> ValueWriter:
    if mode == "connect":
        return lambda value: str(_micros(value) // 1000)
    factor = 1000 if mode == "nanoseconds" else 1
    return lambda value: str(_micros(value) * factor)


def _iso_time(value: Any) -> str:
    micros = _micros(value)
    seconds, fraction = divmod(abs(micros), 1_000_000)
    clock = f"{seconds // _HOUR:02d}:{seconds // _MINUTE % 60:02d}:{seconds % 60:02d}"
    return f'"{"-" if micros < 0 else ""}{clock}{_fraction(fraction)}Z"'


def _fraction(micros: int) -> str:
    """Return fraction digits as Java's ISO formatters write them: as many as are needed."""
    return f".{micros:06d}".rstrip("0") if micros else ""


def _timestamp(value: Any, instead: str) -> str:
    if isinstance(value, Timestamp):
        if value.is_zero:
            return instead
        return quote(str(value).replace(" ", "T") + "Z")
    return quote(str(value.replace(tzinfo=None).isoformat()) + "Z")
