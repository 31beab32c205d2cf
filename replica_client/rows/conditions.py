"""Evaluation of conditions of :mod:`replica_client.rows.where` on row changes.

A change matches if its row after or its row before the change meets the condition. As in SQL, a
test of NULL is neither true nor false, and only a true condition matches.

=============================  ====================================================================
column                         literal
=============================  ====================================================================
integers, YEAR, BIT, DECIMAL   number, compared exactly; TRUE and FALSE are 1 and 0
FLOAT, DOUBLE                  number, read as a double; infinite where none reaches it
CHAR, VARCHAR, TEXT            text: equal where every character is; less and greater by code points,
                               whatever the column's collation
BINARY, VARBINARY, BLOB        text, as its bytes in UTF-8
ENUM, SET                      text: the label, the labels joined with commas; ``=``, ``!=`` and IN
DATE, DATETIME, TIMESTAMP      text: ``2026-11-20``, ``2026-11-20 08:00:00.5``; TIMESTAMP in UTC
TIME                           text: ``-12:34:56.5``
JSON                           number, text, TRUE, FALSE: a document that is that; ``=``, ``!=`` and IN
MariaDB UUID, INET4, INET6     text
=============================  ====================================================================

Other columns can be tested for NULL. A row from before a column was added, or after it was dropped,
does not match a test of the column, nor the test's negation. A literal of another kind than the
column, a column that no table has, and a test of a column that the row image left out are errors,
so that no change is skipped silently.
"""

from __future__ import annotations

import json
import logging
import math
import operator
import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

from replica_client.errors import ConfigError, DataLossError
from replica_client.protocol.binlog.values.json_binary import JsonDocument
from replica_client.protocol.binlog.values.json_lookup import is_container
from replica_client.protocol.binlog.values.temporal import Date, DateTime, Temporal, Time, Timestamp
from replica_client.protocol.binlog.values.value_types import EnumValue, SetValue
from replica_client.protocol.codec.printable import did_you_mean
from replica_client.rows.row import Row
from replica_client.rows.row_change import Change
from replica_client.rows.special_values import ABSENT, RawJson
from replica_client.rows.where import (
    And,
    Comparison,
    Condition,
    IsNull,
    Not,
    OneOf,
    Or,
    Value,
    columns_of,
)
from replica_client.schema.shape import TableShape

_LOG = logging.getLogger("replica_client.rows")
_COMPARE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_EQUALITY: Final = ("=", "!=")
_DATE: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?", re.ASCII
)
_TIME: Final = re.compile(r"(-?)(\d{1,3}):([0-5]\d):([0-5]\d)(?:\.(\d{1,6}))?", re.ASCII)


def is_equal(column: str, value: Any, literal: Value) -> bool:
    """Return whether a column's value equals a literal; NULL never does.

    Raises:
        ConfigError: the literal is of another kind than the column.
    """
    return value is not None and _compared(column, value, "=", literal)


class ConditionColumns:
    """Columns of conditions that no table read so far has: misspelt, if that stays so to the end.

    Args:
        columns: names in the conditions.
    """

    def __init__(self, columns: Iterable[str]) -> None:
        self._asked = frozenset(columns)
        self._missing = set(self._asked)
        self._names: set[str] = set()

    def saw(self, shape: TableShape) -> None:
        """Record the columns of a table that was read."""
        if self._missing:
            self._missing.difference_update(shape.column_names)
            self._names.update(shape.column_names)

    def lacks(self, shape: TableShape) -> bool:
        """Return whether a table with known column names lacks a column of the conditions."""
        return shape.names_resolved and not self._asked.issubset(shape.column_names)

    def check(self) -> None:
        """Refuse a column that none of the tables had.

        Raises:
            ConfigError: the message has the column and the nearest name.
        """
        if self._names:
            for name in sorted(self._missing):
                hint = did_you_mean(name, self._names)
                raise ConfigError(f"there is no column {name!r} in any table that was read; {hint}")


class _Undecided:
    """The outcome of a test of a column that the row image left out."""

    def __init__(self, column: str) -> None:
        self.column = column


# True, False, None for SQL's unknown, or undecided.
_Outcome = bool | None | _Undecided


def matches(condition: Condition, change: Change) -> bool:
    """Return whether a change meets a condition.

    A test of a column that the row's table does not have (yet, or any more) is not met; see
    :class:`ConditionColumns`.

    Raises:
        ConfigError: the table's column names are unknown, or the literal is of another kind than
            the column.
        DataLossError: the row images left out a column that decides.
    """
    undecided: _Undecided | None = None
    # A change built without a table has no shape.
    resolved = change.shape is not None and change.shape.names_resolved
    try:
        for row in (change.after, change.before):
            if row is None:
                continue
            outcome = _outcome(condition, row, resolved)
            if outcome is True:
                return True
            if isinstance(outcome, _Undecided):
                undecided = outcome
    except ConfigError as error:
        raise ConfigError(f"where, table {change.database}.{change.table}: {error}") from None
    if undecided is not None:
        raise DataLossError(
            f"file {change.file}, position {change.offset}: the row image of {change.database}."
            f"{change.table} left out column {undecided.column!r}, so that --where cannot be decided; set"
            " binlog_row_image=FULL on the source, or ask for columns that are always there"
        )
    return False


def row_matches(condition: Condition, row: Row, database: str, table: str) -> bool:
    """Return whether one row meets a condition.

    A test of a column that the row does not have is not met, and that is logged once.

    Raises:
        ConfigError: the literal is of another kind than the column.
        DataLossError: the row image left out a column that decides.
    """
    try:
        outcome = _outcome(condition, row, True)
    except ConfigError as error:
        raise ConfigError(f"where, table {database}.{table}: {error}") from None
    if outcome is None:
        for name in columns_of(condition):
            if name not in row.columns:
                _tell_missing(database, table, name)
    if isinstance(outcome, _Undecided):
        raise DataLossError(
            f"the row image of {database}.{table} left out column {outcome.column!r}, so that the condition cannot be "
            "decided; set binlog_row_image=FULL on the source"
        )
    return outcome is True


@lru_cache(1000)
def _tell_missing(database: str, table: str, column: str) -> None:
    _LOG.warning(
        "where: rows of %s.%s have no column %r, and do not match", database, table, column
    )


def _outcome(condition: Condition, row: Row, resolved: bool) -> _Outcome:
    if isinstance(condition, Or):
        return _joined(condition.parts, row, True, resolved)
    if isinstance(condition, And):
        return _joined(condition.parts, row, False, resolved)
    if isinstance(condition, Not):
        outcome = _outcome(condition.part, row, resolved)
        return not outcome if isinstance(outcome, bool) else outcome
    try:
        value = row[condition.column]
    except KeyError:
        if resolved:
            return None  # the row is older than the column, or the column was dropped
        raise ConfigError(
            f"there is no column {condition.column!r}, only {', '.join(row.columns)};"
            " choose tables that have it"
        ) from None
    return _Undecided(condition.column) if value is ABSENT else value_outcome(condition, value)


def value_outcome(test: Comparison | OneOf | IsNull, value: Any) -> bool | None:
    """Return whether a column's value passes a test; None for SQL's unknown.

    Raises:
        ConfigError: a literal is of another kind than the column.
    """
    if isinstance(test, IsNull):
        return value is None
    if value is None:
        return None
    if isinstance(test, OneOf):
        return any(_compared(test.column, value, "=", one) for one in test.values)
    return _compared(test.column, value, test.operator, test.value)


def _joined(parts: tuple[Condition, ...], row: Row, decisive: bool, resolved: bool) -> _Outcome:
    """Evaluate OR, which one true part decides, or AND, which a false one does."""
    found: _Outcome = not decisive
    for part in parts:
        outcome = _outcome(part, row, resolved)
        if outcome is decisive:
            return decisive
        if isinstance(outcome, _Undecided) or (
            outcome is None and not isinstance(found, _Undecided)
        ):
            found = outcome
    return found


def _compared(column: str, value: Any, sign: str, literal: Value) -> bool:
    left, right = _alike(column, value, sign, literal)
    return bool(_COMPARE[sign](left, right))


def _alike(column: str, value: Any, sign: str, literal: Value) -> tuple[Any, Any]:
    """Convert the value and the literal to a comparable pair."""
    if isinstance(value, JsonDocument | RawJson):
        if sign in _EQUALITY:
            return _json(value, literal)
    elif isinstance(value, (EnumValue, SetValue)):
        known = value.label if isinstance(value, EnumValue) else value.labels
        if known is None:
            raise ConfigError(f"the labels of column {column!r} are not known")
        if isinstance(literal, str) and sign in _EQUALITY:
            return str(value), literal
    elif isinstance(literal, str):
        if isinstance(value, str):
            return value, literal
        if isinstance(value, bytes):
            return value, literal.encode()
        if isinstance(value, Temporal):
            return value, temporal_literal(column, value, literal)
    elif isinstance(literal, bytes):
        if isinstance(value, bytes):
            return value, literal
    elif isinstance(value, float):
        return value, as_double(literal)
    elif isinstance(value, (int, Decimal)):
        return value, literal
    kind = (
        "text"
        if isinstance(literal, str)
        else "bytes"
        if isinstance(literal, bytes)
        else "a number"
    )
    shown = "a JSON document" if isinstance(value, JsonDocument | RawJson) else type(value).__name__
    raise ConfigError(f"column {column!r} is {shown}, which {sign} does not compare with {kind}")


def _json(document: JsonDocument | RawJson, literal: Value) -> tuple[Any, Any]:
    # No literal equals an object or an array.
    if isinstance(document, RawJson):
        if document.lstrip()[:1] in ("{", "["):
            return (), literal
        value = json.loads(document)
    elif is_container(document.data):
        return (), literal
    else:
        value = document.value
    # In Python True equals 1; in JSON it does not.
    if isinstance(value, bool) is not isinstance(literal, bool):
        return (), literal
    return (
        (value, as_double(literal))
        if isinstance(value, float) and not isinstance(literal, (str, bytes))
        else (value, literal)
    )


def as_double(literal: int | Decimal) -> float:
    """Return a number as a double; infinite if it exceeds the range."""
    try:
        return float(literal)
    except OverflowError:
        return -math.inf if literal < 0 else math.inf


def temporal_literal(column: str, value: Temporal, text: str) -> Temporal:
    """Parse a text as a value of a temporal column.

    Args:
        column: its name.
        value: one of its values, for their type.
        text: of the literal.

    Raises:
        ConfigError: the text is no such value.
    """
    pattern = _TIME if isinstance(value, Time) else _DATE
    match = pattern.fullmatch(text.strip())
    if match is None:
        form = "-hh:mm:ss.ffffff" if pattern is _TIME else "YYYY-MM-DD hh:mm:ss.ffffff"
        raise ConfigError(f"column {column!r}: {text!r} is not of the form {form}")
    if isinstance(value, Time):
        sign, hours, minutes, seconds, fraction = match.groups()
        micros = int((fraction or "").ljust(6, "0"))
        return Time(sign == "-", int(hours), int(minutes), int(seconds), micros)
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    micros = int((match.group(7) or "").ljust(6, "0"))
    if isinstance(value, Date):
        if hour or minute or second or micros:
            raise ConfigError(f"column {column!r} is a date: {text!r} has a time of day")
        return Date(year, month, day)
    found = DateTime(year, month, day, hour, minute, second, micros)
    return _instant(column, text, found) if isinstance(value, Timestamp) else found


def _instant(column: str, text: str, moment: DateTime) -> Timestamp:
    if moment.is_zero:
        return Timestamp(None)
    try:
        whole = moment.to_python()
    except ValueError as error:
        raise ConfigError(f"column {column!r}: {text!r} is not a date or time: {error}") from None
    seconds = (whole.toordinal() - _EPOCH_DAY) * 86400
    seconds += whole.hour * 3600 + whole.minute * 60 + whole.second
    if seconds < 0:
        raise ConfigError(f"column {column!r}: {text!r} is before 1970, which no TIMESTAMP is")
    return Timestamp(seconds, whole.microsecond)


_EPOCH_DAY: Final = 719_163  # date(1970, 1, 1).toordinal()
