"""Conditions as tests of row images, so that changes that do not meet them are not decoded.

:mod:`replica_client.rows.conditions` has the rules. A change that passes a screen is decoded and
tested by the rules; a rejected one certainly does not meet the condition. In rejected changes,
values of other columns are not read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from functools import partial
from typing import TypeAlias

from replica_client.errors import ReplicaClientError
from replica_client.rows.change import RowsOfEvent, passing_changes
from replica_client.rows.column_ops import ColumnOp, ColumnReader, column_op
from replica_client.rows.conditions import ConditionColumns, value_outcome
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
from replica_client.rows.stored_ranges import (
    KINDS,
    decimal_ranges,
    float_literals,
    json_texts,
    negative_zero,
    numbers_between,
    temporal_ranges,
)
from replica_client.rows.stored_tests import (
    DecimalTest,
    FloatTest,
    JsonTest,
    TableTest,
    TemporalTest,
)
from replica_client.rows.where import (
    And,
    Condition,
    IsNull,
    Not,
    OneOf,
    Operator,
    Or,
    Value,
)
from replica_client.schema.shape import TableShape

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
