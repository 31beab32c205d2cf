# cython: boundscheck=False, wraparound=False
"""Row images as the dicts of python-mysql-replication and asyncmy: builtin types, None for a missing value.

This module is compiled where that is possible (Cython's pure Python mode) and runs as it stands everywhere
else.
"""

# Over 500 lines: one compiled class, whose methods share C fields that no other module may reach
# at this speed.

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

import cython

from replica_client.errors import BinlogDecodeError
from replica_client.protocol.binlog.values.json_encoder import JsonOpaque
from replica_client.protocol.binlog.values.temporal_storage import NOT_IN_CALENDAR
from replica_client.rows.column_ops import ColumnOp
from replica_client.rows.special_values import ABSENT

if cython.compiled:
    # Not in the .pxd: the functions below would be defined twice.
    from cython.cimports.cpython.datetime import (
        date_new,
        datetime_new,
        import_datetime,
        timedelta_new,
    )

    import_datetime()
else:
    from replica_client.protocol.binlog.values.json_reader import decode_json_bytes
    from replica_client.protocol.binlog.values.temporal import (
        Date,
        DateTime,
        Temporal,
        Time,
        Timestamp,
    )
    from replica_client.protocol.binlog.values.temporal_storage import (
        date_days,
        datetime2_microseconds,
        packed_day,
        time2_microseconds,
        timestamp2_microseconds,
    )
    from replica_client.protocol.codec.memory import load_be, load_le
    from replica_client.rows.image import Column, Cursor, Plan, RowImageDecoder
    from replica_client.rows.tuples import value_at

    def date_new(year: int, month: int, day: int) -> date:
        """Return a date."""
        return date(year, month, day)

    def datetime_new(*fields: Any) -> datetime:
        """Return a date and time."""
        return datetime(*fields)  # noqa: DTZ001

    def timedelta_new(days: int, seconds: int, microseconds: int) -> timedelta:
        """Return a duration."""
        return timedelta(days, seconds, microseconds)


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


class NoValue(Exception):
    """A converter's word that a value is None; its argument says why."""


def document_value(data: bytes) -> Any:
    """Return a JSON document's value: bytes for text, ``datetime`` types for temporals, Decimal.

    Raises:
        ColumnDecodeError: the bytes are not a document.
    """
    return decode_json_bytes(data, _scalar)


def _scalar(value: Any) -> Any:
    """Return the Python value of a document's value that is not a container."""
    if type(value) is str:
        return value.encode()
    if isinstance(value, Temporal):
        return _temporal(value)
    if type(value) is JsonOpaque:
        return value.data
    return value


def _temporal(value: Any) -> Any:
    """Return the Python value of a document's temporal: DATE as a datetime, TIME within a day as a time."""
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


# How a column's value is made: of the object that the decoder gives, or of its bytes at once.
_GENERAL = cython.declare(cython.int, 0)
_AS_READ = cython.declare(cython.int, 20)
_UNREADABLE = cython.declare(cython.int, 21)
_DIRECT = {
    (DATE, ColumnOp.DATE),
    (DATETIME, ColumnOp.DATETIME),
    (TIMESTAMP, ColumnOp.TIMESTAMP),
    (TIME, ColumnOp.TIME),
    (ENUM, ColumnOp.ENUM),
    (SET, ColumnOp.SET),
    (BIT, ColumnOp.BIT),
    (JSON, ColumnOp.JSON),
}
_MAX_KNOWN = 4096
_NOT_IN_CALENDAR = cython.declare(cython.longlong, NOT_IN_CALENDAR)
_DAY_MICROSECONDS = cython.declare(cython.longlong, 86_400_000_000)


@cython.cfunc
@cython.cdivision(True)
def _moment(microseconds: cython.longlong) -> object:
    """Return the date and time at microseconds since 1970, from year 1 to 9999."""
    days: cython.longlong = microseconds // _DAY_MICROSECONDS
    rest: cython.longlong = microseconds - days * _DAY_MICROSECONDS
    if rest < 0:
        # Division in C goes towards zero.
        days -= 1
        rest += _DAY_MICROSECONDS
    packed: cython.uint = packed_day(days)
    seconds: cython.longlong = rest // 1_000_000
    return datetime_new(
        packed >> 9,
        (packed >> 5) & 15,
        packed & 31,
        cython.cast(cython.int, seconds // 3600),
        cython.cast(cython.int, seconds // 60 % 60),
        cython.cast(cython.int, seconds % 60),
        cython.cast(cython.int, rest % 1_000_000),
        None,
    )


@cython.final
@cython.cclass
class RowDicts:
    """Makes dicts of the rows of a table.

    Args:
        decoder: of the table.
        names: of the columns, in order.
        ops: what to do with the values of each: one of this module's numbers.
        arguments: the pattern of BIT; a function for CALL, which may raise :class:`NoValue`; why a DATE or
            DATETIME is None when Python cannot hold it.
        sources: whether rows have ``none_sources``.
    """

    def __init__(
        self,
        decoder: RowImageDecoder,
        names: tuple[str, ...],
        ops: tuple[int, ...],
        arguments: tuple[Any, ...],
        sources: bool = True,
    ) -> None:
        self._decoder = decoder
        self._names = names
        self._ops = bytes(ops)
        self._arguments = arguments
        self._sources = sources
        self._blank: dict[str, Any] = dict.fromkeys(names)
        self._ways = bytes([self._way(at) for at in range(len(names))])
        # By column: values of numbers that were met.
        self._known: list[dict[int, Any]] = [{} for _ in names]

    def _way(self, at: int) -> int:
        column: Column = cython.cast(Column, self._decoder._columns[at])
        op: cython.int = self._ops[at]
        if column.op == ColumnOp.UNKNOWN:
            return int(_UNREADABLE)
        if op == _KEEP:
            return int(_AS_READ)
        return int(op if (op, column.op) in _DIRECT else _GENERAL)

    def rows(
        self,
        kind: str,
        columns_before: bytes,
        columns_after: bytes | None,
        data: bytes,
        start: int,
        end: int,
    ) -> list[dict[str, Any]]:
        """Return the rows of an event that is not partial.

        Args:
            kind: ``insert``, ``update`` or ``delete``.
            columns_before: bitmap of the columns in the before images; of an insert the only one.
            columns_after: bitmap of the columns in the after images of an update.
            data: holds the row images.
            start: offset of the first one.
            end: offset after the last one.

        Raises:
            ColumnDecodeError: bytes that are not values of their columns.
        """
        cursor: Cursor = Cursor(data, start, end)
        before, after = self._decoder._plans_of(kind, columns_before, columns_after)
        first: Plan | None = before
        second: Plan | None = after
        found: list[dict[str, Any]] = []
        if first is not None and second is not None:
            while cursor.offset < cursor.end:
                found.append(self._update(cursor, first, second))
            return found
        plan: Plan = cython.cast(Plan, second if first is None else first)
        while cursor.offset < cursor.end:
            sources: dict[str, str] | None = {} if self._sources else None
            values: dict[str, Any] = self._image(cursor, plan, sources)
            if sources is None:
                found.append({"values": values})
            else:
                found.append({"values": values, "none_sources": sources})
        return found

    @cython.cfunc
    def _update(self, cursor: Cursor, first: Plan, second: Plan) -> dict[str, Any]:
        if not self._sources:
            old: dict[str, Any] = self._image(cursor, first, None)
            return {"before_values": old, "after_values": self._image(cursor, second, None)}
        before_sources: dict[str, str] = {}
        after_sources: dict[str, str] = {}
        before: dict[str, Any] = self._image(cursor, first, before_sources)
        after: dict[str, Any] = self._image(cursor, second, after_sources)
        return {
            "before_values": before,
            "before_none_sources": before_sources,
            "after_values": after,
            "after_none_sources": after_sources,
        }

    @cython.cfunc
    def _image(self, cursor: Cursor, plan: Plan, reasons: Any) -> dict[str, Any]:
        """Read the next row image."""
        sources: dict[str, Any] | None = reasons
        data: cython.p_const_uchar = cursor.data
        names: tuple[Any, ...] = self._names
        found: dict[str, Any] = self._blank.copy()
        column: Column = cython.cast(Column, None)
        offset: cython.Py_ssize_t = cursor.offset + plan.null_size
        end: cython.Py_ssize_t = cursor.end
        nulls: cython.Py_ssize_t = cursor.offset
        length: cython.Py_ssize_t
        at: cython.Py_ssize_t
        i: cython.Py_ssize_t
        missing: cython.Py_ssize_t
        columns: list[Any] = plan.columns
        if offset > end:
            raise self._decoder._no_null_bits(nulls - cursor.start)
        if sources is not None:
            for missing in plan.missing:
                sources[names[missing]] = ABSENT_SOURCE
        fault: cython.bint = False
        try:
            for i in range(len(columns)):
                column = cython.cast(Column, columns[i])
                at = column.target
                if data[nulls + (i >> 3)] >> (i & 7) & 1:
                    if sources is not None:
                        sources[names[at]] = NULL_SOURCE
                    continue
                length = column.size
                if column.prefix:
                    if column.prefix > end - offset:
                        fault = True
                        break
                    length = cython.cast(cython.Py_ssize_t, load_le(data, offset, column.prefix))
                    offset += column.prefix
                if length > end - offset or length < 0:
                    fault = True
                    break
                try:
                    found[names[at]] = self._value(column, cursor.data, offset, length)
                except NoValue as reason:
                    if sources is not None:
                        sources[names[at]] = reason.args[0]
                offset += length
        except (ValueError, OverflowError, LookupError, BinlogDecodeError) as error:
            raise self._decoder._failure(column, offset - cursor.start, error) from error
        if fault:
            raise self._decoder._cut_off(column, offset - cursor.start)
        cursor.offset = offset
        return found

    @cython.cfunc
    def _value(
        self, column: Column, source: bytes, offset: cython.Py_ssize_t, length: cython.Py_ssize_t
    ) -> object:
        """Return the value of ``length`` bytes at ``offset``; the caller has checked the bounds."""
        data: cython.p_const_uchar = source
        ways: cython.p_const_uchar = self._ways
        way: cython.int = ways[column.target]
        if way == _AS_READ:
            value: object = self._decoder._value(column, data, offset, length)
            if value is None:
                raise NoValue(NULL_SOURCE)
            return value
        if way == _DATETIME:
            return self._of_microseconds(
                column, datetime2_microseconds(load_be(data, offset, column.size), column.digits)
            )
        if way == _TIMESTAMP:
            return self._of_microseconds(
                column, timestamp2_microseconds(load_be(data, offset, column.size), column.digits)
            )
        if way == _DATE:
            packed: cython.uint = cython.cast(cython.uint, load_le(data, offset, 3))
            if date_days(packed) == _NOT_IN_CALENDAR:
                raise NoValue(self._arguments[column.target])
            return date_new(packed >> 9, (packed >> 5) & 15, packed & 31)
        if way == _TIME:
            duration: cython.longlong = time2_microseconds(
                load_be(data, offset, column.size), column.digits
            )
            seconds: cython.longlong = duration // 1_000_000
            return timedelta_new(
                0,
                cython.cast(cython.int, seconds),
                cython.cast(cython.int, duration - seconds * 1_000_000),
            )
        if way in (_ENUM, _SET):
            return self._of_number(column, load_le(data, offset, column.size), data, offset, length)
        if way == _BIT:
            return self._of_number(column, load_be(data, offset, column.size), data, offset, length)
        if way == _JSON:
            return decode_json_bytes(source[offset : offset + length], _scalar)
        if way == _UNREADABLE:
            raise BinlogDecodeError(str(column.convert))
        return self._general(column, data, offset, length)

    @cython.cfunc
    def _general(
        self,
        column: Column,
        data: cython.p_const_uchar,
        offset: cython.Py_ssize_t,
        length: cython.Py_ssize_t,
    ) -> object:
        op: cython.int = self._ops[column.target]
        value: object = self._decoder._value(column, data, offset, length)
        return self._converted(op, value, self._arguments[column.target])

    @cython.cfunc
    def _of_microseconds(self, column: Column, microseconds: cython.longlong) -> object:
        if microseconds == _NOT_IN_CALENDAR:
            raise NoValue(self._arguments[column.target])
        return _moment(microseconds)

    @cython.cfunc
    def _of_number(
        self,
        column: Column,
        number: cython.ulonglong,
        data: cython.p_const_uchar,
        offset: cython.Py_ssize_t,
        length: cython.Py_ssize_t,
    ) -> object:
        """Return a value of ENUM, SET or BIT. Values are cached, because few different ones occur."""
        known: dict[int, Any] = cython.cast(dict, self._known[column.target])
        value: object = known.get(number)
        if value is None:
            value = self._general(column, data, offset, length)
            if len(known) < _MAX_KNOWN:
                known[number] = value
        # Each row has a set of its own.
        return set(value) if type(value) is set else value

    # Images that the decoder made rows of: those of partial updates.

    def of_two(self, pairs: list[Any]) -> list[dict[str, Any]]:
        """Return the rows of an update: ``before_values``, ``after_values`` and their ``none_sources``."""
        found: list[dict[str, Any]] = []
        for pair in pairs:
            before_sources: dict[str, str] = {}
            after_sources: dict[str, str] = {}
            before = self._values(value_at(pair, 0), before_sources)
            after = self._values(value_at(pair, 1), after_sources)
            row = {"before_values": before, "after_values": after}
            if self._sources:
                row = {
                    "before_values": before,
                    "before_none_sources": before_sources,
                    "after_values": after,
                    "after_none_sources": after_sources,
                }
            found.append(row)
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
            return decode_json_bytes(value.data, _scalar)
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
