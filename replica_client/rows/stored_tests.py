# cython: boundscheck=False, wraparound=False, cdivision=True
"""Tests of DECIMAL, temporal, ENUM, FLOAT, DOUBLE and JSON columns on the bytes of row images.

DATE, TIME, DATETIME, TIMESTAMP and DECIMAL are stored so that bytes sort as values do, so they are
compared with the bytes of the literal. Invalid bytes and a negative zero are left to the rules. So
are a FLOAT that equals the literal rounded to 4 bytes, where only the shortest decimal decides, and
a JSON document that is a number.

This module is compiled where that is possible and runs as it stands everywhere else.
:mod:`replica_client.rows.screens` computes the ranges.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import cython

from replica_client.protocol.binlog.values.json_layout import LITERAL, STRING

if cython.compiled:
    from cython.cimports.libc.string import memcpy
else:
    from replica_client.protocol.binlog.values.decimal import decimal_fits
    from replica_client.protocol.codec.memory import load_be, load_le, longs, same_bytes, utf8_ok
    from replica_client.rows.image import Column, RowImageDecoder
    from replica_client.rows.image_tests import ValueTest
    from replica_client.rows.image_values import ImageValues

from replica_client.rows.image_tests import EQUAL, GREATER, LESS, LESS_OR_EQUAL

DATE, TIME, DATETIME, TIMESTAMP = 0, 1, 2, 3
"""Kinds of temporal columns, in the format of MySQL 5.6 and MariaDB 10.1 and later."""

_FALSE = cython.declare(cython.int, 0)
_TRUE = cython.declare(cython.int, 1)
_DATE = cython.declare(cython.int, DATE)
_TIME = cython.declare(cython.int, TIME)
_DATETIME = cython.declare(cython.int, DATETIME)
_TIME_ZERO = cython.declare(cython.ulonglong, 1 << 23)
_DATETIME_ZERO = cython.declare(cython.ulonglong, 1 << 39)
_BIAS = cython.declare(cython.ulonglong, 1 << 63)
_NOT_KNOWN = cython.declare(cython.int, 255)
_SIGN = cython.declare(cython.int, 0x80)
_EQUAL = cython.declare(cython.int, EQUAL)
_LESS = cython.declare(cython.int, LESS)
_LESS_OR_EQUAL = cython.declare(cython.int, LESS_OR_EQUAL)
_GREATER = cython.declare(cython.int, GREATER)
_LITERAL = cython.declare(cython.int, LITERAL)
_STRING = cython.declare(cython.int, STRING)
_FLOAT_STRUCT = struct.Struct("<f")
_DOUBLE_STRUCT = struct.Struct("<d")


@cython.final
@cython.cclass
class TemporalTest(ValueTest):
    """A test whether a temporal value is in one of several ranges.

    Args:
        slot, decoder, column, ask: as of :class:`~replica_client.rows.image_tests.ValueTest`.
        kind: the column's type.
        digits: of its fraction.
        ranges: the first and the last value of each, as the bytes' unsigned number minus ``BIAS``.
        negated: whether it must be in none.
    """

    def __init__(
        self,
        slot: int,
        decoder: RowImageDecoder,
        column: Column,
        ask: Callable[[Any], bool | None],
        kind: int,
        digits: int,
        ranges: list[tuple[int, int]],
        negated: bool,
    ) -> None:
        ValueTest.__init__(self, slot, decoder, column, ask)
        self._kind = kind
        self._shift = 8 * ((digits + 1) // 2)
        self._fraction_limit = 100 ** ((digits + 1) // 2)
        self._negated = negated
        self._count = len(ranges)
        self._memory = bytearray(16 * max(self._count, 1))
        self._bounds: Any = longs(self._memory)
        i: cython.Py_ssize_t
        for i in range(self._count):
            self._bounds[2 * i], self._bounds[2 * i + 1] = ranges[i]

    @cython.cfunc
    @cython.exceptval(check=False)
    def _is_valid(self, raw: cython.ulonglong) -> cython.bint:
        """Return whether the number of the bytes is a value of the type."""
        if self._kind == _DATE:
            return (raw >> 5) & 15 <= 12 and raw >> 9 <= 9999
        whole: cython.ulonglong = raw
        if self._kind == _TIME:
            zero: cython.ulonglong = _TIME_ZERO << self._shift
            whole = zero - raw if raw < zero else raw - zero
        elif self._kind == _DATETIME:
            if raw < _DATETIME_ZERO << self._shift:
                return False
            whole = raw - (_DATETIME_ZERO << self._shift)
        fraction: cython.ulonglong = whole & ((cython.cast(cython.ulonglong, 1) << self._shift) - 1)
        if fraction >= self._fraction_limit and self._shift:
            return False
        whole >>= self._shift
        if self._kind == _TIME:
            return whole < 4_194_304 and (whole >> 6) & 63 <= 59 and whole & 63 <= 59
        if self._kind == _DATETIME:
            return (
                (whole >> 12) & 31 <= 23
                and (whole >> 6) & 63 <= 59
                and whole & 63 <= 59
                and (whole >> 22) // 13 <= 9999
            )
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _of_value(self, values: ImageValues, at: cython.Py_ssize_t) -> cython.int:
        data: cython.p_const_uchar = values.data
        size: cython.Py_ssize_t = values.sizes[self._slot]
        width: cython.int = cython.cast(cython.int, size)
        raw: cython.ulonglong
        if self._kind == _DATE:
            raw = load_le(data, at, width)
        else:
            raw = load_be(data, at, width)
        if not self._is_valid(raw):
            return self._by_value(values)
        number: cython.longlong = cython.cast(cython.longlong, raw - _BIAS)
        bounds: cython.p_longlong = self._bounds
        found: cython.bint = False
        i: cython.Py_ssize_t
        for i in range(self._count):
            if bounds[2 * i] <= number <= bounds[2 * i + 1]:
                found = True
                break
        return _TRUE if found != self._negated else _FALSE


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _order(
    data: cython.p_const_uchar,
    at: cython.Py_ssize_t,
    other: cython.p_const_uchar,
    size: cython.Py_ssize_t,
) -> cython.int:
    """Compare bytes: return -1 if they are less than others, 0 if equal, 1 if greater."""
    i: cython.Py_ssize_t
    for i in range(size):
        if data[at + i] != other[i]:
            return 1 if data[at + i] > other[i] else -1
    return 0


@cython.final
@cython.cclass
class DecimalTest(ValueTest):
    """A test whether a DECIMAL is in one of several ranges.

    Args:
        slot, decoder, column, ask: as of :class:`~replica_client.rows.image_tests.ValueTest`.
        precision, scale: of the column.
        ranges: the first and the last number of each, in the column's encoding.
        negative_zero: the bytes of a negative zero, which equals zero.
        negated: whether it must be in none.
    """

    def __init__(
        self,
        slot: int,
        decoder: RowImageDecoder,
        column: Column,
        ask: Callable[[Any], bool | None],
        precision: int,
        scale: int,
        ranges: list[tuple[bytes, bytes]],
        negative_zero: bytes,
        negated: bool,
    ) -> None:
        ValueTest.__init__(self, slot, decoder, column, ask)
        self._precision = precision
        self._scale = scale
        self._ranges = [bound for both in ranges for bound in both]
        self._negative_zero = negative_zero
        self._negated = negated

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _of_value(self, values: ImageValues, at: cython.Py_ssize_t) -> cython.int:
        data: cython.p_const_uchar = values.data
        size: cython.Py_ssize_t = values.sizes[self._slot]
        if not decimal_fits(data, at, self._precision, self._scale):
            return self._by_value(values)
        if data[at] < _SIGN and not _order(data, at, self._negative_zero, size):
            return self._by_value(values)
        found: cython.bint = False
        low: bytes
        high: bytes
        i: cython.Py_ssize_t
        for i in range(0, len(self._ranges), 2):
            low, high = self._ranges[i], self._ranges[i + 1]
            if _order(data, at, low, size) >= 0 and _order(data, at, high, size) <= 0:
                found = True
                break
        return _TRUE if found != self._negated else _FALSE


@cython.final
@cython.cclass
class TableTest(ValueTest):
    """A test of a column with values of one or two bytes: the rules are asked once for each value.

    Args:
        slot, decoder, column, ask: as of :class:`~replica_client.rows.image_tests.ValueTest`.
        size: bytes of a value.
    """

    def __init__(
        self,
        slot: int,
        decoder: RowImageDecoder,
        column: Column,
        ask: Callable[[Any], bool | None],
        size: int,
    ) -> None:
        ValueTest.__init__(self, slot, decoder, column, ask)
        self._outcomes = bytearray(b"\xff") * (1 << 8 * size)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _of_value(self, values: ImageValues, at: cython.Py_ssize_t) -> cython.int:
        data: cython.p_const_uchar = values.data
        size: cython.Py_ssize_t = values.sizes[self._slot]
        number: cython.Py_ssize_t = cython.cast(
            cython.Py_ssize_t, load_le(data, at, cython.cast(cython.int, size))
        )
        outcomes: bytearray = self._outcomes
        known: cython.int = outcomes[number]
        if known == _NOT_KNOWN:
            known = self._of_bytes(data[at : at + size])
            outcomes[number] = known
        return known


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _number_at(
    data: cython.p_const_uchar, at: cython.Py_ssize_t, size: cython.Py_ssize_t
) -> cython.double:
    """Read the FLOAT of 4 bytes or the DOUBLE of 8, unrounded."""
    if cython.compiled:
        bits: cython.ulonglong = load_le(data, at, cython.cast(cython.int, size))
        single: cython.float = 0
        double: cython.double = 0
        if size == 4:
            low: cython.uint = cython.cast(cython.uint, bits)
            memcpy(cython.address(single), cython.address(low), 4)
            return single
        memcpy(cython.address(double), cython.address(bits), 8)
        return double
    form = _FLOAT_STRUCT if size == 4 else _DOUBLE_STRUCT
    return form.unpack_from(data, at)[0]


@cython.final
@cython.cclass
class FloatTest(ValueTest):
    """A test whether a FLOAT or a DOUBLE compares with one of several literals.

    Args:
        slot, decoder, column, ask: as of :class:`~replica_client.rows.image_tests.ValueTest`.
        literals: as numbers of the column's size.
        sign: the comparison, of :mod:`~replica_client.rows.image_tests`.
        negated: whether none may match.
        is_single: whether it is a FLOAT. Its value is the shortest decimal, which compares with the
            literal like the FLOAT with the rounded literal; if these are equal, the rules decide.
    """

    def __init__(
        self,
        slot: int,
        decoder: RowImageDecoder,
        column: Column,
        ask: Callable[[Any], bool | None],
        literals: list[float],
        sign: int,
        negated: bool,
        is_single: bool,
    ) -> None:
        ValueTest.__init__(self, slot, decoder, column, ask)
        self._literals = literals
        self._sign = sign
        self._negated = negated
        self._is_single = is_single

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _of_value(self, values: ImageValues, at: cython.Py_ssize_t) -> cython.int:
        number: cython.double = _number_at(values.data, at, values.sizes[self._slot])
        other: cython.double
        found: cython.bint = False
        sign: cython.int = self._sign
        i: cython.Py_ssize_t
        for i in range(len(self._literals)):
            other = self._literals[i]
            if self._is_single and not (number < other or number > other):
                return self._by_value(values)
            if sign == _EQUAL:
                found = number == other
            elif sign == _LESS:
                found = number < other
            elif sign == _LESS_OR_EQUAL:
                found = number <= other
            elif sign == _GREATER:
                found = number > other
            else:
                found = number >= other
            if found:
                break
        return _TRUE if found != self._negated else _FALSE


@cython.final
@cython.cclass
class JsonTest(ValueTest):
    """A test whether a JSON document is one of several texts; numbers are left to the rules.

    Args:
        slot, decoder, column, ask: as of :class:`~replica_client.rows.image_tests.ValueTest`.
        texts: in UTF-8.
        negated: whether it must be none of them.
    """

    def __init__(
        self,
        slot: int,
        decoder: RowImageDecoder,
        column: Column,
        ask: Callable[[Any], bool | None],
        texts: list[bytes],
        negated: bool,
    ) -> None:
        ValueTest.__init__(self, slot, decoder, column, ask)
        self._texts = texts
        self._negated = negated

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _of_value(self, values: ImageValues, at: cython.Py_ssize_t) -> cython.int:
        data: cython.p_const_uchar = values.data
        size: cython.Py_ssize_t = values.sizes[self._slot]
        length: cython.Py_ssize_t
        found: cython.bint = False
        text: bytes
        if size and data[at] >= _LITERAL:
            # A longer text has a length prefix of several bytes.
            if data[at] != _STRING or size < 2 or data[at + 1] >= 0x80:
                return self._by_value(values)
            length = data[at + 1]
            at += 2
            if length > size - 2 or not utf8_ok(data, at, length):
                return self._by_value(values)
            for text in self._texts:
                if len(text) == length and same_bytes(data, at, text, 0, length):
                    found = True
                    break
        return _TRUE if found != self._negated else _FALSE
