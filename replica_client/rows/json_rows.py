# cython: boundscheck=False, wraparound=False, cdivision=True
"""Rows of Arrow columns as JSON objects, without a Python object per value.

The texts are those of :mod:`replica_client.rows.json_values`.
:mod:`replica_client.rows.json_images` chooses how each column is written.

This module is compiled where that is possible (Cython's pure Python mode) and runs as it stands
everywhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cython

if not cython.compiled:
    from replica_client.protocol.binlog.values.numbers import (
        double_at,
        float_at,
        put_double,
        put_float,
    )
    from replica_client.protocol.binlog.values.temporal_storage import put_clock, put_day
    from replica_client.protocol.codec.memory import (
        arrow_bytes,
        arrow_ints,
        copy_bytes,
        load_le,
        load_signed,
        put_digits,
        put_signed,
    )
    from replica_client.rows.value_text import ValueText

SIGNED, UNSIGNED, FLOAT, DOUBLE, DECIMAL, DATE, DATETIME, TIME, TEXT, BINARY, RAW, ENTRY = range(12)
"""Kinds of columns: integers of a width; floats; decimals of up to 18 digits; days, and
microseconds with a number of fraction digits; strings; base64; JSON text; indexes of
entries that are JSON text."""

INSERT, PREIMAGE, DELETE, POSTIMAGE = range(4)
"""Kinds of rows: the values of ``_change_type``."""

_SIGNED = cython.declare(cython.int, 0)
_UNSIGNED = cython.declare(cython.int, 1)
_FLOAT = cython.declare(cython.int, 2)
_DOUBLE = cython.declare(cython.int, 3)
_DECIMAL = cython.declare(cython.int, 4)
_DATE = cython.declare(cython.int, 5)
_DATETIME = cython.declare(cython.int, 6)
_TIME = cython.declare(cython.int, 7)
_TEXT = cython.declare(cython.int, 8)
_BINARY = cython.declare(cython.int, 9)
_RAW = cython.declare(cython.int, 10)
_ENTRY = cython.declare(cython.int, 11)
_INSERT = cython.declare(cython.int, 0)
_PREIMAGE = cython.declare(cython.int, 1)
_DELETE = cython.declare(cython.int, 2)
_POSTIMAGE = cython.declare(cython.int, 3)

_MAX_SIZE = cython.declare(cython.Py_ssize_t, (1 << 31) - 1)
_DAY = cython.declare(cython.longlong, 86_400_000_000)


@cython.final
@cython.cclass
class JsonColumn:
    """The memory of a column.

    Args:
        key: the text before a value: the column's name as a JSON string, a colon and a space.
        kind: one of the kinds above.
        width: bytes of an integer, decimal or entry index.
        digits: scale of a decimal, fraction digits of temporal kinds.
        buffers: validity, values (offsets of 4 bytes for text), data, as Arrow has them, without an
            offset; None for a missing one.
        entries: the texts of ENTRY.
    """

    def __init__(
        self,
        key: bytes,
        kind: int,
        width: int,
        digits: int,
        buffers: list[Any],
        entries: list[bytes],
    ) -> None:
        self.key = key
        self.kind = kind
        self.width = width
        self.digits = digits
        self.entries = entries
        self._buffers: Any = buffers
        self.has_bits = buffers[0] is not None
        empty: Any = b""
        if self.has_bits:
            self.bits = arrow_bytes(buffers[0])
        else:
            self.bits = empty
        self.values = arrow_bytes(buffers[1])
        if len(buffers) > 2 and buffers[2] is not None:
            self.data = arrow_bytes(buffers[2])
        else:
            self.data = empty


def change_rows(kinds: bytes, allocate: Callable[[int], Any]) -> tuple[int, Any]:
    """Return the number of changes, and a buffer with the first row of each as 32-bit numbers."""
    kind: cython.p_const_uchar = kinds
    buffer: Any = allocate(4 * len(kinds) or 4)
    out: cython.p_int = arrow_ints(buffer)
    count: cython.Py_ssize_t = 0
    i: cython.Py_ssize_t
    for i in range(len(kinds)):
        if kind[i] != _POSTIMAGE:
            out[count] = cython.cast(cython.int, i)
            count += 1
    return int(count), buffer


@cython.final
@cython.cclass
class JsonRows(ValueText):
    """A writer of rows as JSON.

    Args:
        allocate: returns a buffer of a size in bytes.
    """

    def __init__(self, allocate: Callable[[int], Any]) -> None:
        ValueText.__init__(self)
        self._allocate: Any = allocate

    def images(
        self,
        columns: list[Any],
        kinds: bytes,
        after: bool,
        absent: Any,
        lossless: Any,
    ) -> tuple[int, list[Any], int]:
        """Write the image of each change before or after it.

        Args:
            columns: of the rows.
            kinds: the kind of each row.
            after: whether to write the after images.
            absent: for each row a byte per column, not 0 if it is left out; None: none is.
            lossless: JSON of values that are null in their column, by row and column.

        Returns:
            The number of changes, validity, offsets and text of a string array, and its number of nulls.

        Raises:
            OverflowError: the texts take more than 2 GiB.
        """
        kind: cython.p_const_uchar = kinds
        size: cython.Py_ssize_t = len(kinds)
        offsets_buffer: Any = self._allocate(4 * (size + 1))
        offsets: cython.p_int = arrow_ints(offsets_buffer)
        bits_buffer: Any = self._allocate((size + 7) // 8 or 1)
        bits: cython.p_uchar = arrow_bytes(bits_buffer)
        skipped: cython.int = _PREIMAGE if after else _POSTIMAGE
        nothing: cython.int = _DELETE if after else _INSERT
        count: cython.Py_ssize_t = 0
        nulls: cython.Py_ssize_t = 0
        row: cython.Py_ssize_t
        layout: bytes = b""
        left_out: cython.p_const_uchar = layout
        has_absent: cython.bint = absent is not None
        some: Any = None
        for row in range((size + 7) // 8):
            bits[row] = 0
        offsets[0] = 0
        for row in range(size):
            if kind[row] == skipped:
                continue
            if kind[row] == nothing:
                nulls += 1
            else:
                bits[count >> 3] |= 1 << (count & 7)
                if has_absent:
                    layout = absent[row]
                    left_out = layout
                if lossless:
                    some = lossless.get(row)
                self._put_object(columns, row, left_out, has_absent, some)
                if self.used > _MAX_SIZE:
                    raise OverflowError("the rows take more than 2 GiB as JSON")
            count += 1
            offsets[count] = cython.cast(cython.int, self.used)
        return int(count), [bits_buffer if nulls else None, offsets_buffer, self.take()], int(nulls)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_decimal(self, number: cython.longlong, digits: cython.int) -> cython.int:
        """Write a number with a point before its last digits; the room must be reserved."""
        power: cython.longlong = 1
        for _ in range(digits):
            power *= 10
        if number < 0:
            self.out[self.used] = 45
            self.used += 1
            number = -number
        point: cython.Py_ssize_t = put_digits(self.out, self.used, number // power)
        self.used = point
        if digits:
            # The digit before the fraction keeps its zeros, and becomes the point.
            self.used = put_digits(self.out, point, power + number % power)
            self.out[point] = 46
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_temporal(
        self, kind: cython.int, number: cython.longlong, digits: cython.int
    ) -> cython.int:
        """Write days, or microseconds with fraction digits; the room must be reserved."""
        days: cython.longlong = number
        out: cython.p_uchar = self.out
        used: cython.Py_ssize_t = self.used
        if kind == _DATETIME:
            days = number // _DAY
            # Compiled division rounds towards zero, Python's rounds down.
            if days * _DAY > number:
                days -= 1
            number -= days * _DAY
        if kind == _TIME:
            if number < 0:
                out[used] = 45
                used += 1
                number = -number
        else:
            used = put_day(out, used, days)
        if kind == _DATETIME:
            out[used] = 32
            used += 1
        self.used = used if kind == _DATE else put_clock(out, used, number, digits)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_cell(self, column: JsonColumn, row: cython.Py_ssize_t) -> cython.int:
        """Write a value of a column; room for all but texts and bytes must be reserved."""
        kind: cython.int = column.kind
        width: cython.int = column.width
        at: cython.Py_ssize_t = row * width
        stop: cython.Py_ssize_t
        used: cython.Py_ssize_t = self.used
        text: bytes
        if kind == _SIGNED:
            self.used = put_signed(self.out, used, load_signed(column.values, at, width))
            return 0
        if kind == _UNSIGNED:
            self.used = put_digits(self.out, used, load_le(column.values, at, width))
            return 0
        if kind in (_FLOAT, _DOUBLE):
            if kind == _FLOAT:
                self.used = put_float(self.out, used, column.values, row * 4)
            else:
                self.used = put_double(self.out, used, column.values, row * 8)
            if self.used == used:
                value: Any
                if kind == _FLOAT:
                    value = float_at(column.values, row * 4)
                else:
                    value = double_at(column.values, row * 8)
                text = repr(value).encode()
                return self.put(text)
            return 0
        if kind in (_TEXT, _BINARY, _RAW):
            at = load_le(column.values, 4 * row, 4)
            stop = load_le(column.values, 4 * row + 4, 4)
            if kind == _BINARY:
                return self._put_base64(column.data, at, stop)
            if kind == _TEXT:
                self.out[used] = 34
                self.used = used + 1
                return self._put_escaped(column.data, at, stop)
            self.reserve(stop - at)
            copy_bytes(self.out, used, column.data, at, stop - at)
            self.used = used + stop - at
            return 0
        if kind == _ENTRY:
            text = column.entries[load_le(column.values, at, width)]
            return self.put(text)
        self.out[used] = 34
        self.used = used + 1
        if kind == _DECIMAL:
            self._put_decimal(load_signed(column.values, at, 8), column.digits)
        elif kind == _DATE:
            self._put_temporal(kind, load_signed(column.values, row * 4, 4), 0)
        else:
            self._put_temporal(kind, load_signed(column.values, row * 8, 8), column.digits)
        self.out[self.used] = 34
        self.used += 1
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_object(
        self,
        columns: list[Any],
        row: cython.Py_ssize_t,
        absent: cython.p_const_uchar,
        has_absent: cython.bint,
        lossless: Any,
    ) -> cython.int:
        """Write a row as a JSON object."""
        column: JsonColumn
        i: cython.Py_ssize_t
        first: cython.bint = True
        self.put(b"{")
        for i in range(len(columns)):
            if has_absent and absent[i]:
                continue
            column = cython.cast(JsonColumn, columns[i])
            if not first:
                self.put(b", ")
            first = False
            self.put(column.key)
            if not column.has_bits or column.bits[row >> 3] >> (row & 7) & 1:
                self._put_cell(column, row)
            elif lossless is not None and i in lossless:
                self.put(lossless[i])
            else:
                self.put(b"null")
        return self.put(b"}")
