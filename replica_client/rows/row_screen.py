# cython: boundscheck=False, wraparound=False, cdivision=True
"""Skipping of changes that certainly do not meet conditions, without decoding their rows.

Values of an image are located by their lengths, and only those of the conditions' columns are read.
A change that may meet the conditions, or is incomplete, is left to the decoder.

This module is compiled where that is possible and runs as it stands everywhere else.
"""

from __future__ import annotations

from typing import Any

import cython

if not cython.compiled:
    from replica_client.protocol.codec.memory import load_le, longs
    from replica_client.rows.image import Column, Cursor, Plan, RowImageDecoder
    from replica_client.rows.image_tests import ImageTest
    from replica_client.rows.image_values import ImageValues

from replica_client.rows.column_ops import ColumnOp
from replica_client.rows.image_values import ABSENT_OFFSET, NULL_OFFSET

EITHER, BEFORE, AFTER = 0, 1, 2
"""The image of a change that must pass a test."""

_BEFORE = cython.declare(cython.int, BEFORE)
_AFTER = cython.declare(cython.int, AFTER)
_TRUE = cython.declare(cython.int, 1)
_UNSURE = cython.declare(cython.int, 3)
_NULL_OFFSET = cython.declare(cython.longlong, NULL_OFFSET)
_ABSENT_OFFSET = cython.declare(cython.longlong, ABSENT_OFFSET)
_NO_STEP = cython.declare(cython.longlong, -127)
_UNKNOWN = int(ColumnOp.UNKNOWN)


@cython.final
@cython.cclass
class Walk:
    """The location of values in images with the same columns.

    Args:
        plan: of the images.
        slots: of the tested columns, by column index.
        decoder: of the images.
    """

    def __init__(self, plan: Plan, slots: dict[int, int], decoder: RowImageDecoder) -> None:
        self._plan = plan
        self._count = len(plan.columns)
        self._null_size = plan.null_size
        self._steps_memory = bytearray(8 * self._count)
        self._slots_memory = bytearray(8 * self._count)
        self._steps: Any = longs(self._steps_memory)
        self._slots: Any = longs(self._slots_memory)
        numbers = {id(column): at for at, column in enumerate(decoder._columns)}
        i: cython.Py_ssize_t
        column: Column
        for i in range(self._count):
            column = plan.columns[i]
            if column.op == _UNKNOWN:
                self._steps[i] = _NO_STEP
            else:
                self._steps[i] = -column.prefix if column.prefix else column.size
            self._slots[i] = slots.get(numbers[id(column)], -1)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _find(
        self,
        data: cython.p_const_uchar,
        at: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        values: ImageValues,
    ) -> cython.Py_ssize_t:
        """Locate the values of the image at an offset; return its end, -1 if incomplete."""
        offsets: cython.p_longlong = values.offsets
        sizes: cython.p_longlong = values.sizes
        nulls: cython.Py_ssize_t = at
        i: cython.Py_ssize_t
        slot: cython.longlong
        step: cython.longlong
        size: cython.longlong
        steps: cython.p_longlong = self._steps
        slots: cython.p_longlong = self._slots
        values.data = data
        for i in range(values.count):
            offsets[i] = _ABSENT_OFFSET
        at += self._null_size
        if at > end:
            return -1
        for i in range(self._count):
            slot = slots[i]
            if data[nulls + (i >> 3)] >> (i & 7) & 1:
                if slot >= 0:
                    offsets[slot] = _NULL_OFFSET
                continue
            step = steps[i]
            size = step
            if step < 0:
                if step == _NO_STEP or -step > end - at:
                    return -1
                size = load_le(data, at, cython.cast(cython.int, -step))
                at -= cython.cast(cython.Py_ssize_t, step)
            if size > end - at:
                return -1
            if slot >= 0:
                offsets[slot] = at
                sizes[slot] = size
            at += cython.cast(cython.Py_ssize_t, size)
        return at


@cython.final
@cython.cclass
class RowScreen:
    """Tests that the images of one table's changes must pass.

    Args:
        decoder: of the images.
        slots: of the tested columns, by column index.
        tests: all of which a change must pass, each with the image to test.
    """

    def __init__(
        self,
        decoder: RowImageDecoder,
        slots: dict[int, int],
        tests: list[tuple[ImageTest, int]],
    ) -> None:
        self._decoder = decoder
        self._slots = slots
        self._tests = [test for test, _ in tests]
        self._images = [image for _, image in tests]
        self._old = ImageValues(len(slots))
        self._new = ImageValues(len(slots))
        self._walks: dict[Plan, Walk] = {}

    @cython.cfunc
    def _walk(self, plan: Plan) -> Walk:
        found: Walk | None = self._walks.get(plan)
        if found is None:
            if len(self._walks) >= 1024:
                self._walks.clear()
            found = self._walks[plan] = Walk(plan, self._slots, self._decoder)
        return found

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _pass_over(
        self,
        cursor: Cursor,
        before: Walk | None,
        after: Walk | None,
    ) -> cython.Py_ssize_t:
        """Move a cursor over changes that certainly do not pass; return their number."""
        data: cython.p_const_uchar = cursor.data
        start: cython.Py_ssize_t = cursor.offset
        end: cython.Py_ssize_t = cursor.end
        at: cython.Py_ssize_t
        count: cython.Py_ssize_t = 0
        has_before: cython.bint = before is not None
        has_after: cython.bint = after is not None
        while start < end:
            at = start
            if before is not None:
                at = before._find(data, at, end, self._old)
                if at < 0:
                    break
            if after is not None:
                at = after._find(data, at, end, self._new)
                if at < 0:
                    break
            if self._may_pass(has_before, has_after):
                break
            start = at
            count += 1
        cursor.offset = start
        return count

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _may_pass(self, has_before: cython.bint, has_after: cython.bint) -> cython.bint:
        """Return whether a change may pass all tests."""
        test: ImageTest
        image: cython.int
        outcome: cython.int
        i: cython.Py_ssize_t
        for i in range(len(self._tests)):
            test = self._tests[i]
            image = self._images[i]
            outcome = 0
            if has_after and image != _BEFORE:
                outcome = test._outcome(self._new)
            if has_before and image != _AFTER and outcome != _TRUE and outcome != _UNSURE:
                outcome = test._outcome(self._old)
            if outcome == _UNSURE:
                # It may be an error, which takes precedence over the next test.
                return True
            if outcome != _TRUE:
                return False
        return True
