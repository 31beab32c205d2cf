"""Conditions as tests of row images, so that changes that cannot meet them are not decoded.

:mod:`replica_client.rows.conditions` has the rules. A change that passes a screen is decoded and
tested by the rules; a rejected one certainly does not meet the condition. In rejected changes,
values of other columns are not read.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Final, TypeAlias

from replica_client.errors import ConfigError, EncodeError, ReplicaClientError
from replica_client.protocol.binlog.values.decimal import encode_decimal
from replica_client.protocol.binlog.values.temporal import Date, DateTime, Temporal, Time, Timestamp
from replica_client.protocol.binlog.values.temporal_storage import (
    encode_date,
    encode_datetime2,
    encode_time2,
    encode_timestamp2,
    fraction_size,
)
from replica_client.rows.change import RowsOfEvent, passing_changes
from replica_client.rows.column_ops import ColumnOp, ColumnReader, column_op
from replica_client.rows.conditions import (
    ConditionColumns,
    as_double,
    temporal_literal,
    value_outcome,
)
from replica_client.rows.image import RowImageDecoder
from replica_client.rows.image_tests import (
    ASCII,
    BIAS,
    BIG_ENDIAN,
    BYTES,
    EQUAL,
    FALSE,
    GREATER,
    GREATER_OR_EQUAL,
    LESS,
    LESS_OR_EQUAL,
    SIGNED,
    TRUE,
    UNSIGNED,
    UTF8,
    YEAR,
    BytesTest,
    ImageTest,
    JoinedTest,
    NotTest,
    NullTest,
    NumberTest,
    ValueTest,
)
from replica_client.rows.row_change import Change
from replica_client.rows.row_screen import EITHER, RowScreen
from replica_client.rows.stored_tests import (
    DATE,
    DATETIME,
    TIME,
    TIMESTAMP,
    DecimalTest,
    FloatTest,
    JsonTest,
    TableTest,
    TemporalTest,
)
from replica_client.rows.where import And, Condition, IsNull, Not, OneOf, Operator, Or, Value
from replica_client.schema.shape import TableShape

_MAX_EXPONENT: Final = 200
"""Longer literals are not converted to numbers."""
KINDS: Final = {
    ColumnOp.DATE: DATE,
    ColumnOp.TIME: TIME,
    ColumnOp.DATETIME: DATETIME,
    ColumnOp.TIMESTAMP: TIMESTAMP,
}
"""Kinds of temporal columns."""
_SAMPLES: Final[dict[ColumnOp, Temporal]] = {
    ColumnOp.DATE: Date(0, 0, 0),
    ColumnOp.TIME: Time(False, 0, 0, 0),
    ColumnOp.DATETIME: DateTime(0, 0, 0, 0, 0, 0),
    ColumnOp.TIMESTAMP: Timestamp(None),
}


def numbers_between(
    low: int, high: int, sign: Operator, first: int, last: int
) -> tuple[int, int] | None:
    """Return the range of integers that compare with a number.

    Args:
        low: the greatest integer that is not above the number.
        high: the least integer that is not below it; equal to ``low`` if the number is an integer.
        sign: the comparison; ``!=`` gives the equal ones.
        first: the least integer allowed.
        last: the greatest integer allowed.

    Returns:
        The first and the last; None if there are none.
    """
    if sign in ("=", "!="):
        first, last = max(first, high), min(last, low)
    elif sign in ("<", "<="):
        last = min(last, high - 1 if sign == "<" else low)
    else:
        first = max(first, low + 1 if sign == ">" else high)
    return (first, last) if first <= last else None


def decimal_ranges(
    reader: ColumnReader, literals: tuple[Value, ...], sign: Operator
) -> list[tuple[bytes, bytes]] | None:
    """Return ranges of a DECIMAL's bytes that match a literal; None if only the rules decide."""
    found = []
    most = 10**reader.precision - 1
    for one in literals:
        if isinstance(one, Decimal) and (
            not one.is_finite() or (one and abs(one.adjusted()) > _MAX_EXPONENT)
        ):
            return None
        if not isinstance(one, (int, Decimal)) or len(str(one)) > _MAX_EXPONENT:
            return None
        number = Fraction(one) * 10**reader.digits
        between = numbers_between(math.floor(number), math.ceil(number), sign, -most, most)
        if between is not None:
            found.append((_decimal(reader, between[0]), _decimal(reader, between[1])))
    return found


def negative_zero(reader: ColumnReader) -> bytes:
    """Return the bytes of a negative zero in a DECIMAL column."""
    return bytes(byte ^ 0xFF for byte in _decimal(reader, 0))


def _decimal(reader: ColumnReader, number: int) -> bytes:
    digits = tuple(map(int, str(abs(number))))
    value = Decimal((int(number < 0), digits, -reader.digits))
    return encode_decimal(value, reader.precision, reader.digits)


def float_literals(reader: ColumnReader, literals: tuple[Value, ...]) -> list[float] | None:
    """Return literals as numbers of a FLOAT or DOUBLE column; None if only the rules decide."""
    found = []
    for one in literals:
        if isinstance(one, (str, bytes)):
            return None
        number = as_double(one)
        found.append(_single(number) if reader.op == ColumnOp.FLOAT else number)
    return found


def _single(number: float) -> float:
    """Round a number to a 4-byte float."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


def json_texts(literals: tuple[Value, ...], sign: Operator) -> list[bytes] | None:
    """Return the literals that are JSON texts, in UTF-8; None if only the rules decide."""
    if sign not in ("=", "!=") or any(isinstance(one, bytes) for one in literals):
        return None
    texts = [one for one in literals if isinstance(one, str)]
    # No document contains a lone surrogate.
    return [one.encode() for one in texts if not any("\ud800" <= part <= "\udfff" for part in one)]


def temporal_ranges(
    column: str, reader: ColumnReader, literals: tuple[Value, ...], sign: Operator
) -> list[tuple[int, int]] | None:
    """Return ranges of a temporal column's numbers that match a literal; None as above."""
    found = []
    last = (1 << 8 * reader.size) - 1
    for one in literals:
        if not isinstance(one, str):
            return None
        try:
            value = temporal_literal(column, _SAMPLES[reader.op], one)
            low, high = _numbers(value, reader.digits)
        except (ConfigError, EncodeError):
            return None
        between = numbers_between(low, high, sign, 0, last)
        if between is not None:
            found.append((between[0] - (1 << 63), between[1] - (1 << 63)))
    return found


def _numbers(value: Temporal, digits: int) -> tuple[int, int]:
    """Return the nearest numbers of a column's bytes at or below, and at or above a value.

    Raises:
        EncodeError: the column cannot hold such a value.
    """
    if isinstance(value, Date):
        if value.month > 12 or value.day > 31:
            raise EncodeError("no such month or day")
        number = int.from_bytes(encode_date(value), "little")
        return number, number
    size = fraction_size(digits)
    unit: int = 10 ** (6 - 2 * size)
    if isinstance(value, Time):
        whole = Time(False, value.hours, value.minutes, value.seconds)
        zero = 1 << (23 + 8 * size)
        # Truncate the magnitude's fraction to the column's digits.
        distance = int.from_bytes(encode_time2(whole, 0), "big") - (1 << 23) << (8 * size)
        distance += value.microseconds // unit
        more = int(value.microseconds % unit > 0)
        if value.negative:
            return zero - distance - more, zero - distance
        return zero + distance, zero + distance + more
    if isinstance(value, DateTime):
        if (
            value.month > 12
            or value.day > 31
            or value.hour > 23
            or value.minute > 59
            or value.second > 59
        ):
            raise EncodeError("no such moment")
        at = DateTime(value.year, value.month, value.day, value.hour, value.minute, value.second)
        raw, micros = encode_datetime2(at, 0), value.microsecond
    else:
        assert isinstance(value, Timestamp)
        if value.seconds is None:
            return 0, 0
        raw, micros = encode_timestamp2(Timestamp(value.seconds), 0), value.microseconds
    low = (int.from_bytes(raw, "big") << (8 * size)) + micros // unit
    # All-zero bytes are the zero timestamp, which sorts before 1970.
    is_first = isinstance(value, Timestamp) and not low
    return low, low + int(micros % unit > 0 or is_first)


Wanted: TypeAlias = tuple[Condition, int]
"""A condition, and the image that must meet it (see :mod:`~replica_client.rows.row_screen`)."""

_MAX_SCREENS = 4096
_FORMS = {
    ColumnOp.SIGNED: SIGNED,
    ColumnOp.UNSIGNED: UNSIGNED,
    ColumnOp.BIT: BIG_ENDIAN,
    ColumnOp.YEAR: YEAR,
}
_SIGNS: dict[Operator, int] = {
    "=": EQUAL,
    "!=": EQUAL,
    "<": LESS,
    "<=": LESS_OR_EQUAL,
    ">": GREATER,
    ">=": GREATER_OR_EQUAL,
}
_ALL_ASCII = bytes(range(128))
_PERHAPS_NONE = (ColumnOp.UNKNOWN, ColumnOp.CONVERT, ColumnOp.NULL)


class Screens:
    """The screens of one query, by table.

    Args:
        wanted: returns the conditions for changes of a table, in the order of their evaluation;
            None if every change must be decoded.
    """

    def __init__(self, wanted: Callable[[TableShape], Sequence[Wanted] | None]) -> None:
        self._wanted = wanted
        # Keep decoders alive, so that their ids are not reused.
        self._screens: dict[tuple[int, int], RowScreen | None] = {}
        self._decoders: list[RowImageDecoder] = []

    def changes(self, rows: RowsOfEvent) -> Iterator[Change]:
        """Return the changes of an event that may meet the conditions, decoded one by one.

        Raises:
            BinlogDecodeError: the event does not fit the table, as for the rows themselves.
        """
        return passing_changes(rows, self._screen(rows, rows.decoder))

    def changes_by(self, rows: RowsOfEvent, decoder: RowImageDecoder) -> Iterator[Change]:
        """Return the changes that may meet the conditions, as another decoder decodes them.

        There may be others than in :meth:`changes`.

        Raises:
            BinlogDecodeError: as of :meth:`changes`.
        """
        other = RowsOfEvent(
            rows.event, rows.shape, decoder, rows.event_index, rows.first_row, rows.gtid
        )
        return passing_changes(other, self._screen(rows, decoder))

    def _screen(self, rows: RowsOfEvent, decoder: RowImageDecoder) -> RowScreen | None:
        """Return the screen for a decoder's images, with values as the rows' own decodes them."""
        numbers = id(rows.decoder), id(decoder)
        if numbers not in self._screens:
            if len(self._screens) >= _MAX_SCREENS:
                self._screens.clear()
                self._decoders.clear()
            self._screens[numbers] = self._made(rows.shape, rows.decoder, decoder)
            self._decoders += (rows.decoder, decoder)
        return self._screens[numbers]

    def _made(
        self, shape: TableShape, asked: RowImageDecoder, decoder: RowImageDecoder
    ) -> RowScreen | None:
        wanted = self._wanted(shape)
        if not wanted:
            return None
        maker = _TestMaker(asked)
        tests = [(maker.test(condition), image) for condition, image in wanted]
        return RowScreen(decoder, maker.slots, tests)


def condition_screens(condition: Condition, columns: ConditionColumns | None = None) -> Screens:
    """Return the screens of a condition that the before or after row of a change must meet.

    Args:
        condition: the condition.
        columns: records the columns of the tables.
    """

    def wanted(shape: TableShape) -> list[Wanted]:
        if columns is not None:
            columns.saw(shape)
        return [(condition, EITHER)]

    return Screens(wanted)


class _TestMaker:
    """A builder of tests of one decoder's images.

    Attributes:
        slots: of the tested columns, by column index.
    """

    def __init__(self, decoder: RowImageDecoder) -> None:
        self._decoder = decoder
        self.slots: dict[int, int] = {}

    def test(self, condition: Condition) -> ImageTest:
        """Return the test of a condition."""
        if isinstance(condition, (And, Or)):
            parts = [self.test(part) for part in condition.parts]
            return JoinedTest(parts, FALSE if isinstance(condition, And) else TRUE)
        if isinstance(condition, Not):
            return NotTest(self.test(condition.part))
        shape, name = self._decoder.shape, condition.column
        if name not in self._decoder.column_names or shape.column_names.count(name) != 1:
            return ImageTest()
        at = shape.column_names.index(name)
        reader = column_op(shape.columns[at], self._decoder.options)
        as_python = reader.is_temporal and self._decoder.options.temporals == "python"
        slot = self.slots.setdefault(at, len(self.slots))
        column = self._decoder.column(at)
        ask = partial(value_outcome, condition)
        if isinstance(condition, IsNull):
            never_none = reader.op not in _PERHAPS_NONE and not as_python
            return (NullTest if never_none else ValueTest)(slot, self._decoder, column, ask)
        literals = condition.values if isinstance(condition, OneOf) else (condition.value,)
        sign: Operator = "=" if isinstance(condition, OneOf) else condition.operator
        if reader.op in (ColumnOp.ENUM, ColumnOp.SET) and reader.size <= 2:
            return TableTest(slot, self._decoder, column, ask, reader.size)
        if reader.op == ColumnOp.DECIMAL:
            numbers = decimal_ranges(reader, literals, sign)
            if numbers is not None:
                zero, size = negative_zero(reader), (reader.precision, reader.digits)
                return DecimalTest(
                    slot, self._decoder, column, ask, *size, numbers, zero, sign == "!="
                )
        if reader.op in KINDS and not as_python:
            moments = temporal_ranges(name, reader, literals, sign)
            if moments is not None:
                kind = KINDS[reader.op]
                return TemporalTest(
                    slot, self._decoder, column, ask, kind, reader.digits, moments, sign == "!="
                )
        if reader.op in (ColumnOp.FLOAT, ColumnOp.DOUBLE):
            floats = float_literals(reader, literals)
            if floats is not None:
                single = reader.op == ColumnOp.FLOAT
                how = (floats, _SIGNS[sign], sign == "!=", single)
                return FloatTest(slot, self._decoder, column, ask, *how)
        if reader.op == ColumnOp.JSON:
            texts = json_texts(literals, sign)
            if texts is not None:
                return JsonTest(slot, self._decoder, column, ask, texts, sign == "!=")
        form = _FORMS.get(reader.op)
        if form is not None and all(map(_is_exact, literals)):
            ranges = [found for one in literals for found in _range(one, sign, form)]
            return NumberTest(slot, self._decoder, column, ask, form, ranges, sign == "!=")
        checked = _checked(reader)
        known = None if checked is None else _encoded(literals, is_text=checked != BYTES)
        if known is None or checked is None:
            return ValueTest(slot, self._decoder, column, ask)
        trims = reader.op == ColumnOp.UTF8_CHAR or (
            checked == ASCII and _text_of(reader, b" ") == ""
        )
        return BytesTest(
            slot,
            self._decoder,
            column,
            ask,
            known,
            _SIGNS[sign],
            sign == "!=",
            checked,
            trims,
            reader.length if reader.op == ColumnOp.BINARY else -1,
        )


def _checked(reader: ColumnReader) -> int | None:
    """Return the strings of a column that are compared in place; None: none."""
    if reader.op in (ColumnOp.BYTES, ColumnOp.BINARY):
        return BYTES
    if reader.op in (ColumnOp.UTF8, ColumnOp.UTF8_CHAR):
        return UTF8
    # Another character set that contains ASCII: values in ASCII are compared in place.
    is_ascii = reader.op == ColumnOp.CONVERT and _text_of(reader, _ALL_ASCII) == _ALL_ASCII.decode()
    return ASCII if is_ascii and reader.prefix else None


def _text_of(reader: ColumnReader, data: bytes) -> str | None:
    """Decode bytes by the column's function; return None if they are no text."""
    try:
        found = reader.convert(data) if callable(reader.convert) else None
    except (ReplicaClientError, ValueError, OverflowError, LookupError):
        return None
    return found if isinstance(found, str) else None


def _is_exact(literal: Value) -> bool:
    return isinstance(literal, int) or (isinstance(literal, Decimal) and literal.is_finite())


def _range(literal: Value, sign: Operator, form: int) -> Iterable[tuple[int, int]]:
    """Yield the range of integers that compare with a number, for :class:`NumberTest`, if any."""
    assert isinstance(literal, (int, Decimal))
    bias = BIAS if form in (UNSIGNED, BIG_ENDIAN) else 0
    first, last = -BIAS + bias, BIAS - 1 + bias
    between = numbers_between(math.floor(literal), math.ceil(literal), sign, first, last)
    if between is not None:
        yield between[0] - bias, between[1] - bias


def _encoded(literals: Sequence[Value], *, is_text: bool) -> list[bytes] | None:
    """Encode literals like a string column's values; return None if only the rules decide."""
    found = []
    for one in literals:
        if isinstance(one, bytes) and not is_text:
            found.append(one)
        elif isinstance(one, str):
            try:
                found.append(one.encode())
            except UnicodeEncodeError:
                return None
        else:
            return None
    return found
