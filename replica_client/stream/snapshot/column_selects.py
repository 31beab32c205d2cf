"""SELECT statements of a copy: columns and conditions.

A plain SELECT is not enough: it prints FLOAT with six digits, drivers read dates without their
fraction digits or refuse zero dates, and of ENUM and SET it returns the labels only.

A condition of :mod:`replica_client.rows.where` compares values exactly; a server compares by
collations, sql_mode and its own conversions. For numbers both agree. So the tests of numbers go to
the server, which then sends fewer rows, and the rows that arrive are tested again. A test that
cannot go to the server is left out where that only lets more rows through.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import cache, partial
from typing import Any, Final

from replica_client.errors import ColumnDecodeError, MalformedPacketError
from replica_client.protocol.binlog.values.numbers import decode_float, encode_float
from replica_client.protocol.binlog.values.strings import TextPolicy, char_function, text_function
from replica_client.protocol.binlog.values.temporal import Date, DateTime, Time, Timestamp
from replica_client.protocol.binlog.values.value_types import (
    EnumValue,
    SetValue,
    enum_value,
    enum_values,
    set_value,
)
from replica_client.protocol.codec.charsets import text_decoder
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.rows.column_ops import decoder_of, known_enum, known_set
from replica_client.rows.special_values import RawJson
from replica_client.rows.where import And, Comparison, Condition, IsNull, Not, OneOf, Or, Value
from replica_client.schema.character_sets import representative_id
from replica_client.schema.kinds import BYTES, DATES, EXACT_NUMBERS, SIZED, STRINGS, Rules, rules
from replica_client.schema.model import ColumnModel
from replica_client.schema.names import mysql_name, mysql_value

_EPOCH_DAYS: Final = 719163
RANGED_KINDS: Final = EXACT_NUMBERS | DATES | SIZED & {*STRINGS, *BYTES}
"""Kinds of key columns whose values can be exact bounds of a range."""


@dataclass(frozen=True, slots=True)
class SelectedColumn:
    """A column in a SELECT.

    Attributes:
        expression: its SQL.
        convert: converts the driver's value, which is not None; None: no conversion is needed.
    """

    expression: str
    convert: Callable[[Any], Any] | None = None


def sent_as_bytes(column: ColumnModel) -> bool:
    """Return whether a text column is selected as bytes of its own character set.

    A server that converts text for the connection writes ``?`` for bytes that its character set
    does not have. The stream has a rule for them (``invalid_text``), which needs the bytes.
    """
    charset = column.charset
    if column.kind not in STRINGS or charset is None:
        return False
    return charset != "binary" and _lacks_characters(charset)


@cache
def _lacks_characters(charset: str) -> bool:
    """Return whether some bytes are not text in a character set that the server converts."""
    if charset.startswith("utf8"):
        return False
    decode = text_decoder(representative_id(charset), "strict")
    try:
        for byte in range(256):
            decode(bytes((byte,)))
    except UnicodeDecodeError:
        return True
    return False


def _decoded(column: ColumnModel, table: str, policy: TextPolicy) -> Callable[[Any], Any]:
    """Return a function that decodes text by the stream's rule."""
    assert column.charset is not None
    function = char_function if column.kind == "char" else text_function
    decode = function(representative_id(column.charset), policy)
    assert decode is not None

    def text(value: Any) -> Any:
        try:
            return decode(value)
        except UnicodeDecodeError as error:
            raise ColumnDecodeError(
                f"{table} column {column.name}, in a copy: {error}; invalid_text 'replace' puts U+FFFD there, "
                "'bytes' gives its bytes"
            ) from None

    return text


def _single(value: Any) -> float:
    return decode_float(encode_float(float(value)))


def _json(value: Any) -> RawJson:
    return RawJson(value.decode("utf-8") if isinstance(value, bytes) else value)


def _text(value: Any) -> str:
    return value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)


def _parts(text: str) -> tuple[int, int, int, int, int, int, int]:
    try:
        fraction = (text[20:] + "000000")[:6]
        return (
            int(text[0:4]), int(text[5:7]), int(text[8:10]),
            int(text[11:13]), int(text[14:16]), int(text[17:19]), int(fraction),
        )  # fmt: skip
    except ValueError:
        raise MalformedPacketError(f"the server gave {text!r:.40} for a date") from None


def _date(value: Any) -> Date:
    text = _text(value)
    try:
        return Date(int(text[0:4]), int(text[5:7]), int(text[8:10]))
    except ValueError:
        raise MalformedPacketError(f"the server gave {text!r:.40} for a date") from None


def _datetime(digits: int, value: Any) -> DateTime:
    return DateTime(*_parts(_text(value)), digits)


def _timestamp(digits: int, value: Any) -> Timestamp:
    year, month, day, hour, minute, second, microsecond = _parts(_text(value))
    if not (year or month or day):
        return Timestamp(None, 0, digits)
    days = Date(year, month, day).to_python().toordinal() - _EPOCH_DAYS
    return Timestamp(days * 86400 + hour * 3600 + minute * 60 + second, microsecond, digits)


def _time(digits: int, value: Any) -> Time:
    text = _text(value)
    negative = text.startswith("-")
    try:
        hours, minutes, rest = text.removeprefix("-").split(":")
        seconds, _, fraction = rest.partition(".")
        microseconds = int((fraction + "000000")[:6])
        return Time(negative, int(hours), int(minutes), int(seconds), microseconds, digits)
    except ValueError:
        raise MalformedPacketError(f"the server gave {text!r:.40} for a time") from None


def _as_text(convert: Callable[[int, Any], Any], name: str, column: ColumnModel) -> SelectedColumn:
    return SelectedColumn(f"CAST({name} AS CHAR)", partial(convert, column.fraction_digits))


def _labels(name: str, column: ColumnModel) -> SelectedColumn:
    names, unknown = column.labels or (), frozenset(column.unknown_labels)
    value: Callable[[int], EnumValue | SetValue]
    if column.kind == "enum" and unknown:
        value = partial(known_enum, column.name, enum_values(names), unknown)
    elif column.kind == "enum":
        values = enum_values(column.labels) if column.labels is not None else None
        value = lambda number: enum_value(number, values)  # noqa: E731
    elif unknown:
        value = partial(known_set, column.name, names, column.unknown_labels)
    else:
        value = lambda number: set_value(number, column.labels)  # noqa: E731
    return SelectedColumn(f"CAST({name} AS UNSIGNED)", lambda found: value(int(found)))


_SELECTED: Final[Rules[Callable[[str, ColumnModel], SelectedColumn]]] = rules(
    "a copy's values",
    {
        "integer": lambda name, _: SelectedColumn(name, int),
        "year": lambda name, _: SelectedColumn(f"{name} + 0", int),
        "bit": lambda name, _: SelectedColumn(f"CAST({name} AS UNSIGNED)", int),
        "double": lambda name, _: SelectedColumn(f"{name} * 1e0", float),
        "float": lambda name, _: SelectedColumn(f"{name} * 1e0", _single),
        "date": lambda name, _: SelectedColumn(f"CAST({name} AS CHAR)", _date),
        "time": partial(_as_text, _time),
        "datetime": partial(_as_text, _datetime),
        "timestamp": partial(_as_text, _timestamp),
        "decimal string bytes address": lambda name, _: SelectedColumn(name),
        "enum set": _labels,
        "json": lambda name, _: SelectedColumn(name, _json),
        "spatial vector": lambda name, column: SelectedColumn(name, decoder_of(column.kind)),
    },
)


def selected(
    column: ColumnModel, invalid_text: TextPolicy = "strict", table: str = ""
) -> SelectedColumn:
    """Return the expression and the conversion of a column.

    Args:
        column: its definition.
        invalid_text: see :class:`~replica_client.protocol.binlog.event.DecodeOptions`.
        table: ``database.table``, for errors.
    """
    name, kind = mysql_name(column.name), column.kind
    if sent_as_bytes(column):
        return SelectedColumn(f"CAST({name} AS BINARY)", _decoded(column, table, invalid_text))
    return _SELECTED[kind](name, column)


_MAX_DIGITS: Final = 60
"""Maximum digits of a literal: servers have exact numbers of 65 digits."""


def exact_sql(condition: Condition, columns: Mapping[str, str]) -> str | None:
    """Return SQL that is true for every row that meets the condition; None where there is none.

    Args:
        condition: the condition on rows.
        columns: number columns: the source's name by the condition's.
    """
    if isinstance(condition, And):
        parts = [exact_sql(part, columns) for part in condition.parts]
        return " AND ".join(f"({part})" for part in parts if part is not None) or None
    if isinstance(condition, Or):
        parts = [exact_sql(part, columns) for part in condition.parts]
        given = [part for part in parts if part is not None]
        return " OR ".join(f"({part})" for part in given) if len(given) == len(parts) else None
    if isinstance(condition, Not):
        # A test may not be left out below NOT: that would reject rows that meet the condition.
        part = exact_sql(condition.part, columns) if _is_whole(condition.part, columns) else None
        return None if part is None else f"NOT ({part})"
    return _test(condition, columns) if _is_whole(condition, columns) else None


def _is_whole(condition: Condition, columns: Mapping[str, str]) -> bool:
    """Return whether the SQL expresses all of a condition."""
    if isinstance(condition, And | Or):
        return all(_is_whole(part, columns) for part in condition.parts)
    if isinstance(condition, Not):
        return _is_whole(condition.part, columns)
    if condition.column not in columns:
        return False
    if isinstance(condition, IsNull):
        return True
    values = condition.values if isinstance(condition, OneOf) else (condition.value,)
    return all(map(_is_exact, values))


def _is_exact(value: Value) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return False
    return (
        len(f"{value:f}" if abs(Decimal(value).adjusted()) < _MAX_DIGITS else "?" * 99)
        < _MAX_DIGITS
    )


def _test(test: Comparison | OneOf | IsNull, columns: Mapping[str, str]) -> str:
    name = mysql_name(columns[test.column])
    if isinstance(test, IsNull):
        return f"{name} IS NULL"
    if isinstance(test, OneOf):
        return f"{name} IN ({', '.join(map(_number, test.values))})"
    return f"{name} {test.operator} {_number(test.value)}"


def _number(value: Value) -> str:
    assert isinstance(value, int | Decimal)
    return mysql_value(value)
