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

if cython.compiled:
    from cython.cimports.replica_client.protocol.binlog.values.numbers import double_at, float_at
    from cython.cimports.replica_client.protocol.codec.memory import (
        arrow_bytes,
        arrow_ints,
        copy_bytes,
        load_le,
        load_signed,
    )
else:
    from replica_client.protocol.binlog.values.numbers import double_at, float_at
    from replica_client.protocol.codec.memory import (
        arrow_bytes,
        arrow_ints,
        copy_bytes,
        load_le,
        load_signed,
    )

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
_INSERT = cython.declare(cython.int, 0)
_PREIMAGE = cython.declare(cython.int, 1)
_DELETE = cython.declare(cython.int, 2)
_POSTIMAGE = cython.declare(cython.int, 3)

_MAX_SIZE = cython.declare(cython.Py_ssize_t, (1 << 31) - 1)
_FIRST_ROOM = 4096
_HEX = b"0123456789abcdef"
# Letters of the escapes \b, \t, \n, \f and \r, by code from 8 on.
_SHORT = b"btn\0fr"
_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_DAY = cython.declare(cython.longlong, 86_400_000_000)
_HOUR = cython.declare(cython.longlong, 3_600_000_000)
_MINUTE = cython.declare(cython.longlong, 60_000_000)
_SECOND = cython.declare(cython.longlong, 1_000_000)


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
class JsonRows:
    """A writer of rows as JSON.

    Args:
        allocate: returns a resizable buffer of a size in bytes.
    """

    def __init__(self, allocate: Callable[[int], Any]) -> None:
        self._allocate: Any = allocate
        self._buffer: Any = None
        self.used = self.room = 0

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
            The number of changes, the buffers of a string array, and its number of nulls.

        Raises:
            OverflowError: the texts take more than 2 GiB.
        """
        kind: cython.p_const_uchar = kinds
        size: cython.Py_ssize_t = len(kinds)
        self._buffer = self._allocate(_FIRST_ROOM)
        self.out = arrow_bytes(self._buffer)
        self.used = 0
        self.room = _FIRST_ROOM
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
        if not cython.compiled:
            self.out = None
        self._buffer.resize(self.used)
        data, self._buffer = self._buffer, None
        return int(count), [bits_buffer if nulls else None, offsets_buffer, data], int(nulls)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _reserve(self, size: cython.Py_ssize_t) -> cython.int:
        """Make room for more bytes."""
        if self.used + size > self.room:
            self.room = 2 * (self.used + size)
            if not cython.compiled:
                self.out = None
            self._buffer.resize(self.room)
            self.out = arrow_bytes(self._buffer)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put(self, text: bytes) -> cython.int:
        raw: cython.p_const_uchar = text
        self._reserve(len(text))
        copy_bytes(self.out, self.used, raw, 0, len(text))
        self.used += len(text)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_number(self, number: cython.ulonglong, width: cython.int) -> cython.int:
        """Write a number, padded with zeros to ``width`` digits."""
        self._reserve(21)
        count: cython.int = 1
        rest: cython.ulonglong = number
        while rest >= 10:
            rest //= 10
            count += 1
        if count < width:
            count = width
        i: cython.Py_ssize_t
        for i in range(self.used + count - 1, self.used - 1, -1):
            self.out[i] = 48 + number % 10
            number //= 10
        self.used += count
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_signed(self, number: cython.longlong) -> cython.int:
        if number >= 0:
            return self._put_number(cython.cast(cython.ulonglong, number), 1)
        self._reserve(1)
        self.out[self.used] = 45
        self.used += 1
        # The magnitude of the least number fits only an unsigned integer.
        return self._put_number(cython.cast(cython.ulonglong, -(number + 1)) + 1, 1)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_quoted(
        self, data: cython.p_const_uchar, at: cython.Py_ssize_t, stop: cython.Py_ssize_t
    ) -> cython.int:
        """Write UTF-8 as a JSON string."""
        begin: cython.Py_ssize_t = at
        byte: cython.uchar
        self._reserve(stop - at + 2)
        self.out[self.used] = 34
        self.used += 1
        while at < stop:
            byte = data[at]
            if byte >= 0x20 and byte != 34 and byte != 92:
                at += 1
                continue
            self._reserve(stop - begin + 7)
            copy_bytes(self.out, self.used, data, begin, at - begin)
            self.used += at - begin
            self.out[self.used] = 92
            if byte >= 0x20:
                self.out[self.used + 1] = byte
                self.used += 2
            elif 8 <= byte <= 13 and byte != 11:
                self.out[self.used + 1] = _SHORT[byte - 8]
                self.used += 2
            else:
                self.out[self.used + 1] = 117
                self.out[self.used + 2] = 48
                self.out[self.used + 3] = 48
                self.out[self.used + 4] = _HEX[byte >> 4]
                self.out[self.used + 5] = _HEX[byte & 15]
                self.used += 6
            at += 1
            begin = at
        self._reserve(stop - begin + 1)
        copy_bytes(self.out, self.used, data, begin, stop - begin)
        self.used += stop - begin
        self.out[self.used] = 34
        self.used += 1
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_base64(
        self, data: cython.p_const_uchar, at: cython.Py_ssize_t, stop: cython.Py_ssize_t
    ) -> cython.int:
        """Write bytes as ``{"$binary": "…"}``."""
        self._put(b'{"$binary": "')
        self._reserve((stop - at + 2) // 3 * 4 + 2)
        digits: bytes = _BASE64
        table: cython.p_const_uchar = digits
        bits: cython.uint
        while at + 3 <= stop:
            bits = data[at] << 16 | data[at + 1] << 8 | data[at + 2]
            self.out[self.used] = table[bits >> 18]
            self.out[self.used + 1] = table[bits >> 12 & 63]
            self.out[self.used + 2] = table[bits >> 6 & 63]
            self.out[self.used + 3] = table[bits & 63]
            self.used += 4
            at += 3
        if at < stop:
            bits = data[at] << 16
            if at + 1 < stop:
                bits |= data[at + 1] << 8
            self.out[self.used] = table[bits >> 18]
            self.out[self.used + 1] = table[bits >> 12 & 63]
            self.out[self.used + 2] = table[bits >> 6 & 63] if at + 1 < stop else 61
            self.out[self.used + 3] = 61
            self.used += 4
        return self._put(b'"}')

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_date(self, days: cython.longlong) -> cython.int:
        """Write the date of a day since 1970, from year 1 on."""
        # Years begin in March, so that leap days come last: Hinnant, "Low-level date algorithms".
        z: cython.longlong = days + 719468
        era: cython.longlong = z // 146097
        day: cython.longlong = z - era * 146097
        year: cython.longlong = (day - day // 1460 + day // 36524 - day // 146096) // 365
        day -= 365 * year + year // 4 - year // 100
        month: cython.longlong = (5 * day + 2) // 153
        day -= (153 * month + 2) // 5 - 1
        month += 3 if month < 10 else -9
        year += era * 400
        if month <= 2:
            year += 1
        self._put_number(cython.cast(cython.ulonglong, year), 4)
        self._put(b"-")
        self._put_number(cython.cast(cython.ulonglong, month), 2)
        self._put(b"-")
        return self._put_number(cython.cast(cython.ulonglong, day), 2)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_clock(self, microseconds: cython.longlong, digits: cython.int) -> cython.int:
        """Write hours, minutes and seconds, with ``digits`` fraction digits."""
        fraction: cython.longlong = microseconds % _SECOND
        self._put_number(cython.cast(cython.ulonglong, microseconds // _HOUR), 2)
        self._put(b":")
        self._put_number(cython.cast(cython.ulonglong, microseconds % _HOUR // _MINUTE), 2)
        self._put(b":")
        self._put_number(cython.cast(cython.ulonglong, microseconds % _MINUTE // _SECOND), 2)
        if not digits:
            return 0
        for _ in range(6 - digits):
            fraction //= 10
        self._put(b".")
        return self._put_number(cython.cast(cython.ulonglong, fraction), digits)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_value(self, column: JsonColumn, row: cython.Py_ssize_t) -> cython.int:
        kind: cython.int = column.kind
        at: cython.Py_ssize_t
        stop: cython.Py_ssize_t
        number: cython.longlong
        days: cython.longlong
        power: cython.longlong
        text: bytes
        if kind == _SIGNED:
            return self._put_signed(load_signed(column.values, row * column.width, column.width))
        if kind == _UNSIGNED:
            return self._put_number(load_le(column.values, row * column.width, column.width), 1)
        if kind in (_TEXT, _BINARY, _RAW):
            at = load_le(column.values, 4 * row, 4)
            stop = load_le(column.values, 4 * row + 4, 4)
            if kind == _TEXT:
                return self._put_quoted(column.data, at, stop)
            if kind == _BINARY:
                return self._put_base64(column.data, at, stop)
            self._reserve(stop - at)
            copy_bytes(self.out, self.used, column.data, at, stop - at)
            self.used += stop - at
            return 0
        if kind == _FLOAT:
            text = repr(float_at(column.values, row * 4)).encode()
            return self._put(text)
        if kind == _DOUBLE:
            text = repr(double_at(column.values, row * 8)).encode()
            return self._put(text)
        if kind == _DECIMAL:
            number = load_signed(column.values, row * column.width, 8)
            self._put(b'"-' if number < 0 else b'"')
            if number < 0:
                number = -number
            power = 1
            for _ in range(column.digits):
                power *= 10
            self._put_number(cython.cast(cython.ulonglong, number // power), 1)
            if column.digits:
                self._put(b".")
                self._put_number(cython.cast(cython.ulonglong, number % power), column.digits)
            return self._put(b'"')
        if kind == _DATE:
            self._put(b'"')
            self._put_date(load_signed(column.values, row * 4, 4))
            return self._put(b'"')
        if kind == _DATETIME:
            number = load_signed(column.values, row * 8, 8)
            days = number // _DAY
            # Compiled division rounds towards zero, Python's rounds down.
            if days * _DAY > number:
                days -= 1
            self._put(b'"')
            self._put_date(days)
            self._put(b" ")
            self._put_clock(number - days * _DAY, column.digits)
            return self._put(b'"')
        if kind == _TIME:
            number = load_signed(column.values, row * 8, 8)
            self._put(b'"-' if number < 0 else b'"')
            self._put_clock(-number if number < 0 else number, column.digits)
            return self._put(b'"')
        text = column.entries[load_le(column.values, row * column.width, column.width)]
        return self._put(text)

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
        self._put(b"{")
        for i in range(len(columns)):
            if has_absent and absent[i]:
                continue
            column = cython.cast(JsonColumn, columns[i])
            if not first:
                self._put(b", ")
            first = False
            self._put(column.key)
            if not column.has_bits or column.bits[row >> 3] >> (row & 7) & 1:
                self._put_value(column, row)
            elif lossless is not None and i in lossless:
                self._put(lossless[i])
            else:
                self._put(b"null")
        return self._put(b"}")
