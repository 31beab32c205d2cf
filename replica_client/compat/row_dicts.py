# cython: boundscheck=False, wraparound=False
"""Row images as the dicts of python-mysql-replication and asyncmy: builtin types, None for what is not there.

This module is compiled where that is possible (Cython's pure Python mode) and runs as it stands everywhere
else.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import cython

from replica_client.binlog.values.json_opaque import JsonOpaque
from replica_client.rows.absent import ABSENT

if cython.compiled:
    from cython.cimports.replica_client.binlog.values.json_reader import decode_json_value
    from cython.cimports.replica_client.binlog.values.temporal import (
        Date,
        DateTime,
        Temporal,
        Time,
        Timestamp,
    )
    from cython.cimports.replica_client.rows.tuples import value_at
else:
    from replica_client.binlog.values.json_reader import decode_json_value
    from replica_client.binlog.values.temporal import Date, DateTime, Temporal, Time, Timestamp
    from replica_client.rows.tuples import value_at

KEEP = 0
DATE = 1
DATETIME = 2
TIMESTAMP = 3
TIME = 4
ENUM = 5
SET = 6
BIT = 7
JSON = 8
GEOMETRY = 9
CALL = 10

_KEEP = cython.declare(cython.int, KEEP)
_DATE = cython.declare(cython.int, DATE)
_DATETIME = cython.declare(cython.int, DATETIME)
_TIMESTAMP = cython.declare(cython.int, TIMESTAMP)
_TIME = cython.declare(cython.int, TIME)
_ENUM = cython.declare(cython.int, ENUM)
_SET = cython.declare(cython.int, SET)
_BIT = cython.declare(cython.int, BIT)
_JSON = cython.declare(cython.int, JSON)
_GEOMETRY = cython.declare(cython.int, GEOMETRY)

_absent = cython.declare(object, ABSENT)
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001
_DAY = timedelta(days=1)

NULL_SOURCE = "null"
ABSENT_SOURCE = "cols bitmap"
EMPTY_SET_SOURCE = "empty set"
DIFF_SOURCE = "same with before values"


class NoValue(Exception):
    """A converter's word that a value is None; its argument says why."""


def bytes_of(value: Any) -> Any:
    """A JSON document's value with bytes for text."""
    return _as_bytes(value)


@cython.cfunc
def _as_bytes(value: Any) -> object:
    kind = type(value)
    if kind is str:
        text: str = value
        return text.encode()
    if kind is dict:
        members: dict[str, Any] = value
        found: dict[bytes, Any] = {}
        name: str
        for name, item in members.items():
            found[name.encode()] = _as_bytes(item)
        return found
    if kind is list:
        items: list[Any] = value
        return [_as_bytes(item) for item in items]
    if isinstance(value, Temporal):
        return _temporal(value)
    if kind is JsonOpaque:
        return value.data
    return value


def _temporal(value: Any) -> Any:
    """A date or time of a document: DATE is a datetime, TIME of a day a time."""
    try:
        found = value.to_python()
    except ValueError:
        return str(value)
    if isinstance(found, timedelta):
        if timedelta() <= found < _DAY:
            return (_EPOCH + found).time()
        return found
    if not isinstance(found, datetime):
        return datetime(found.year, found.month, found.day)  # noqa: DTZ001
    return found


@cython.final
@cython.cclass
class RowDicts:
    """Makes dicts of the rows of a table.

    Args:
        names: of the columns, in order.
        ops: what to do with the values of each: one of this module's numbers.
        arguments: digits of BIT; a function for CALL, which may raise :class:`NoValue`; why a DATE or
            DATETIME is None when Python cannot hold it.
    """

    def __init__(
        self, names: tuple[str, ...], ops: tuple[int, ...], arguments: tuple[Any, ...]
    ) -> None:
        self._names = names
        self._ops = bytes(ops)
        self._arguments = arguments
        self._blank: dict[str, Any] = dict.fromkeys(names)

    def values(self, row: Any) -> tuple[dict[str, Any], dict[str, str]]:
        """A row's values, and why those are None that are."""
        sources: dict[str, str] = {}
        found: dict[str, Any] = self._values(row, sources)
        return found, sources

    def of_one(self, pairs: list[Any], at: int) -> list[dict[str, Any]]:
        """The rows of an event with one image: ``values`` and ``none_sources``."""
        found: list[dict[str, Any]] = []
        place: cython.Py_ssize_t = at
        for pair in pairs:
            sources: dict[str, str] = {}
            values = self._values(value_at(pair, place), sources)
            found.append({"values": values, "none_sources": sources})
        return found

    def of_two(self, pairs: list[Any]) -> list[dict[str, Any]]:
        """The rows of an update: ``before_values``, ``after_values`` and their ``none_sources``."""
        found: list[dict[str, Any]] = []
        for pair in pairs:
            before_sources: dict[str, str] = {}
            after_sources: dict[str, str] = {}
            before = self._values(value_at(pair, 0), before_sources)
            after = self._values(value_at(pair, 1), after_sources)
            found.append(
                {
                    "before_values": before,
                    "before_none_sources": before_sources,
                    "after_values": after,
                    "after_none_sources": after_sources,
                }
            )
        return found

    def plain(self, row: Any) -> dict[str, Any]:
        """A row's values alone."""
        sources: dict[str, str] = {}
        found: dict[str, Any] = self._values(row, sources)
        return found

    @cython.cfunc
    def _values(self, row: Any, reasons: Any) -> object:
        sources: dict[str, Any] = reasons
        names: tuple[Any, ...] = self._names
        ops: cython.p_const_uchar = self._ops
        found: dict[str, Any] = self._blank.copy()
        at: cython.Py_ssize_t
        op: cython.int
        for at in range(len(names)):
            value: object = value_at(row, at)
            if value is None:
                sources[names[at]] = NULL_SOURCE
                continue
            if value is _absent:
                sources[names[at]] = ABSENT_SOURCE
                continue
            op = ops[at]
            if op == _KEEP:
                found[names[at]] = value
                continue
            try:
                found[names[at]] = self._converted(op, value, self._arguments[at])
            except NoValue as reason:
                sources[names[at]] = reason.args[0]
        return found

    @cython.cfunc
    def _converted(self, op: cython.int, value: Any, argument: Any) -> object:
        if op == _DATETIME:
            return self._datetime(value, argument)
        if op == _TIMESTAMP:
            return self._timestamp(value, argument)
        if op == _DATE:
            return self._date(value, argument)
        if op == _TIME:
            return self._time(value)
        if op == _ENUM:
            return value.index if value.label is None else value.label
        if op == _SET:
            return _set_of(value)
        if op == _BIT:
            pattern: str = argument
            return format(value, pattern)
        if op == _JSON:
            return _as_bytes(decode_json_value(value.data))
        if op == _GEOMETRY:
            return int(value.srid).to_bytes(4, "little") + value.wkb
        return argument(value)

    @cython.cfunc
    def _datetime(self, value: object, reason: object) -> object:
        day: DateTime = cython.cast(DateTime, value)
        if not day.month or not day.day or not day.year:
            raise NoValue(reason)
        try:
            return datetime(  # noqa: DTZ001
                day.year, day.month, day.day, day.hour, day.minute, day.second, day.microsecond
            )
        except ValueError:
            raise NoValue(reason) from None

    @cython.cfunc
    def _timestamp(self, value: object, reason: object) -> object:
        instant: Timestamp = cython.cast(Timestamp, value)
        if instant._seconds < 0:
            raise NoValue(reason)
        return _EPOCH + timedelta(0, instant._seconds, instant.microseconds)

    @cython.cfunc
    def _date(self, value: object, reason: object) -> object:
        day: Date = cython.cast(Date, value)
        if not day.month or not day.day or not day.year:
            raise NoValue(reason)
        try:
            return day.to_python()
        except ValueError:
            raise NoValue(reason) from None

    @cython.cfunc
    def _time(self, value: object) -> object:
        time: Time = cython.cast(Time, value)
        seconds: cython.int = (time.hours * 60 + time.minutes) * 60 + time.seconds
        if time.negative:
            return timedelta(0, -seconds, -time.microseconds)
        return timedelta(0, seconds, time.microseconds)


def _set_of(value: Any) -> object:
    if not value.bits:
        raise NoValue(EMPTY_SET_SOURCE)
    return value.bits if value.labels is None else set(value.labels)
