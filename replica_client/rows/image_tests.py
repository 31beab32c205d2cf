# cython: boundscheck=False, wraparound=False, cdivision=True
"""Tests of columns on the bytes of row images.

A test returns TRUE, FALSE or NULL if :mod:`replica_client.rows.conditions` has that result for the
decoded row, and UNSURE if only the decoded row decides, or the result is an error. Numbers, texts
and bytes are compared in place. Values of other columns are decoded and tested by the rules
themselves, once for all rows with the same bytes.

This module is compiled where that is possible and runs as it stands everywhere else.
:mod:`replica_client.rows.screens` builds the tests of a condition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cython

from replica_client.errors import ReplicaClientError
from replica_client.rows.image_values import ABSENT_OFFSET

if not cython.compiled:
    from replica_client.protocol.codec.memory import (
        load_be,
        load_le,
        load_signed,
        longs,
        same_bytes,
        utf8_ok,
    )
    from replica_client.rows.image import Column, RowImageDecoder
    from replica_client.rows.image_values import ImageValues

FALSE, TRUE, NULL, UNSURE = 0, 1, 2, 3
SIGNED, UNSIGNED, BIG_ENDIAN, YEAR = 0, 1, 2, 3
"""Formats of an integer in an image."""
EQUAL, LESS, LESS_OR_EQUAL, GREATER, GREATER_OR_EQUAL = 0, 1, 2, 3, 4
BYTES, UTF8, ASCII = 0, 1, 2
"""Strings that are compared in place: all, those valid in UTF-8, or those in ASCII."""
BIAS = 1 << 63
"""Subtracted from unsigned numbers, so that they compare as signed ones."""

_FALSE = cython.declare(cython.int, FALSE)
_TRUE = cython.declare(cython.int, TRUE)
_NULL = cython.declare(cython.int, NULL)
_UNSURE = cython.declare(cython.int, UNSURE)
_ABSENT_OFFSET = cython.declare(cython.longlong, ABSENT_OFFSET)
_SIGNED = cython.declare(cython.int, SIGNED)
_UNSIGNED = cython.declare(cython.int, UNSIGNED)
_BIG_ENDIAN = cython.declare(cython.int, BIG_ENDIAN)
_EQUAL = cython.declare(cython.int, EQUAL)
_LESS = cython.declare(cython.int, LESS)
_LESS_OR_EQUAL = cython.declare(cython.int, LESS_OR_EQUAL)
_GREATER = cython.declare(cython.int, GREATER)
_UTF8 = cython.declare(cython.int, UTF8)
_ASCII = cython.declare(cython.int, ASCII)
_HIGH_BITS = cython.declare(cython.ulonglong, 0x8080808080808080)
_BIAS = cython.declare(cython.ulonglong, BIAS)
_SPACE = cython.declare(cython.int, 0x20)
# Maximum number of cached outcomes, and maximum bytes of a value with one.
_MAX_KEPT = cython.declare(cython.Py_ssize_t, 1 << 16)
_MAX_SIZE = cython.declare(cython.Py_ssize_t, 64)
_FAULTS = (ReplicaClientError, ValueError, OverflowError, LookupError, TypeError, ArithmeticError)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_ascii(
    data: cython.p_const_uchar, at: cython.Py_ssize_t, size: cython.Py_ssize_t
) -> cython.bint:
    end: cython.Py_ssize_t = at + size
    bits: cython.ulonglong = 0
    while end - at >= 8:
        bits |= load_le(data, at, 8)
        at += 8
    while at < end:
        bits |= data[at]
        at += 1
    return not bits & _HIGH_BITS


@cython.cclass
class ImageTest:
    """A test of an image; this base class leaves every decision to the decoded row."""

    def __init__(self) -> None:
        pass

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _outcome(self, values: ImageValues) -> cython.int:
        """Return the outcome for the image with these values."""
        return _UNSURE


@cython.final
@cython.cclass
class JoinedTest(ImageTest):
    """AND or OR of tests.

    Args:
        parts: in order.
        decisive: the outcome of a part that decides: TRUE of an OR, FALSE of an AND.
    """

    def __init__(self, parts: list[ImageTest], decisive: int) -> None:
        self._parts = parts
        self._decisive = decisive

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _outcome(self, values: ImageValues) -> cython.int:
        found: cython.int = 1 - self._decisive
        outcome: cython.int
        part: ImageTest
        for part in self._parts:
            outcome = part._outcome(values)
            # Stop at an unsure part: it may be an error, which comes before later parts.
            if outcome == self._decisive or outcome == _UNSURE:
                return outcome
            if outcome == _NULL:
                found = outcome
        return found


@cython.final
@cython.cclass
class NotTest(ImageTest):
    """The negation of a test."""

    def __init__(self, part: ImageTest) -> None:
        self._part = part

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _outcome(self, values: ImageValues) -> cython.int:
        outcome: cython.int = self._part._outcome(values)
        return 1 - outcome if outcome <= _TRUE else outcome


@cython.cclass
class ValueTest(ImageTest):
    """A test of one column, decided by the rules themselves.

    Args:
        slot: of the column.
        decoder: of the images.
        column: the tested column.
        ask: returns True, False or None for a value.
    """

    def __init__(
        self,
        slot: int,
        decoder: RowImageDecoder,
        column: Column,
        ask: Callable[[Any], bool | None],
    ) -> None:
        self._slot = slot
        self._decoder = decoder
        self._column = column
        self._ask: Any = ask
        self._known: dict[bytes, int] = {}
        self._for_null = self._asked(None)

    def _asked(self, value: Any) -> int:
        try:
            found = self._ask(value)
        except _FAULTS:
            return UNSURE
        return NULL if found is None else TRUE if found else FALSE

    def _of_bytes(self, raw: bytes) -> int:
        """Return the outcome for a value that is not NULL, from its bytes."""
        data: cython.p_const_uchar = raw
        try:
            value = self._decoder._value(self._column, data, 0, len(raw))
            if self._column.as_python:
                value = value.to_python()
        except _FAULTS:
            return UNSURE
        return self._asked(value)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _by_value(self, values: ImageValues) -> cython.int:
        at: cython.Py_ssize_t = values.offsets[self._slot]
        size: cython.Py_ssize_t = values.sizes[self._slot]
        raw: bytes = values.data[at : at + size]
        known = self._known.get(raw)
        if known is None:
            known = self._of_bytes(raw)
            if size <= _MAX_SIZE:
                if len(self._known) >= _MAX_KEPT:
                    self._known.clear()
                self._known[raw] = known
        return known

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _of_value(self, values: ImageValues, at: cython.Py_ssize_t) -> cython.int:
        """Return the outcome for a value that is present and not NULL."""
        return self._by_value(values)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _outcome(self, values: ImageValues) -> cython.int:
        at: cython.longlong = values.offsets[self._slot]
        if at >= 0:
            return self._of_value(values, cython.cast(cython.Py_ssize_t, at))
        return _UNSURE if at == _ABSENT_OFFSET else self._for_null


@cython.final
@cython.cclass
class NullTest(ValueTest):
    """IS NULL, for a column whose values are never None."""

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _of_value(self, values: ImageValues, at: cython.Py_ssize_t) -> cython.int:
        return _FALSE


@cython.final
@cython.cclass
class NumberTest(ValueTest):
    """A test whether an integer is in one of several ranges.

    Args:
        slot, decoder, column, ask: as of :class:`ValueTest`.
        form: format of the integer in the image.
        ranges: the first and the last number of each; minus :data:`BIAS` if they are unsigned.
        negated: whether it must be in none.
    """

    def __init__(
        self,
        slot: int,
        decoder: RowImageDecoder,
        column: Column,
        ask: Callable[[Any], bool | None],
        form: int,
        ranges: list[tuple[int, int]],
        negated: bool,
    ) -> None:
        ValueTest.__init__(self, slot, decoder, column, ask)
        self._form = form
        self._negated = negated
        self._count = len(ranges)
        self._memory = bytearray(16 * max(self._count, 1))
        self._bounds: Any = longs(self._memory)
        i: cython.Py_ssize_t
        for i in range(self._count):
            self._bounds[2 * i], self._bounds[2 * i + 1] = ranges[i]

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _of_value(self, values: ImageValues, at: cython.Py_ssize_t) -> cython.int:
        number: cython.longlong
        data: cython.p_const_uchar = values.data
        width: cython.int = cython.cast(cython.int, values.sizes[self._slot])
        if self._form == _SIGNED:
            number = load_signed(data, at, width)
        elif self._form == _UNSIGNED:
            number = cython.cast(cython.longlong, load_le(data, at, width) - _BIAS)
        elif self._form == _BIG_ENDIAN:
            number = cython.cast(cython.longlong, load_be(data, at, width) - _BIAS)
        else:
            number = data[at] + 1900 if data[at] else 0
        bounds: cython.p_longlong = self._bounds
        found: cython.bint = False
        i: cython.Py_ssize_t
        for i in range(self._count):
            if bounds[2 * i] <= number <= bounds[2 * i + 1]:
                found = True
                break
        return _TRUE if found != self._negated else _FALSE


@cython.final
@cython.cclass
class BytesTest(ValueTest):
    """A test whether bytes, or a text in UTF-8, compare with one of several literals.

    Args:
        slot, decoder, column, ask: as of :class:`ValueTest`.
        literals: encoded like the column's values.
        sign: the comparison.
        negated: whether none may match.
        checked: BYTES: compare all values; UTF8 or ASCII: leave other bytes to the rules.
        trims: whether trailing spaces are ignored.
        length: fixed length of the values; -1 for any length. Other lengths are left to the rules.
    """

    def __init__(
        self,
        slot: int,
        decoder: RowImageDecoder,
        column: Column,
        ask: Callable[[Any], bool | None],
        literals: list[bytes],
        sign: int,
        negated: bool,
        checked: int,
        trims: bool,
        length: int,
    ) -> None:
        ValueTest.__init__(self, slot, decoder, column, ask)
        self._literals = literals
        self._sign = sign
        self._negated = negated
        self._checked = checked
        self._trims = trims
        self._length = length

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _of_value(self, values: ImageValues, at: cython.Py_ssize_t) -> cython.int:
        data: cython.p_const_uchar = values.data
        whole: cython.Py_ssize_t = values.sizes[self._slot]
        size: cython.Py_ssize_t = whole
        found: cython.bint = False
        literal: bytes
        if self._length >= 0 and size != self._length:
            return self._by_value(values)
        if self._trims:
            while size and data[at + size - 1] == _SPACE:
                size -= 1
        if self._checked == _UTF8 and not utf8_ok(data, at, whole):
            return self._by_value(values)
        if self._checked == _ASCII and not _is_ascii(data, at, whole):
            return self._by_value(values)
        for literal in self._literals:
            if self._compares(data, at, size, literal):
                found = True
                break
        return _TRUE if found != self._negated else _FALSE

    @cython.cfunc
    @cython.exceptval(check=False)
    def _compares(
        self,
        data: cython.p_const_uchar,
        at: cython.Py_ssize_t,
        size: cython.Py_ssize_t,
        literal: bytes,
    ) -> cython.bint:
        other: cython.p_const_uchar = literal
        count: cython.Py_ssize_t = len(literal)
        if self._sign == _EQUAL:
            return size == count and same_bytes(data, at, other, 0, size)
        shared: cython.Py_ssize_t = size if size < count else count
        i: cython.Py_ssize_t = 0
        while i < shared and data[at + i] == other[i]:
            i += 1
        order: cython.Py_ssize_t = size - count
        if i < shared:
            order = 1 if data[at + i] > other[i] else -1
        if self._sign == _LESS:
            return order < 0
        if self._sign == _LESS_OR_EQUAL:
            return order <= 0
        return order > 0 if self._sign == _GREATER else order >= 0
