# cython: boundscheck=False, wraparound=False, cdivision=True
"""Column values of row images as JSON text, without a Python object per value.

The texts are those of :mod:`replica_client.rows.json_values`, which writes every value that this
module does not.

This module is compiled where that is possible. As plain Python it works, but its users call the
general functions then, which are faster.
"""

from __future__ import annotations

from json.encoder import encode_basestring
from typing import Any

import cython

from replica_client.rows.column_ops import ColumnOp
from replica_client.rows.json_values import value_to_json

if cython.compiled:
    from cython.cimports.cpython.bytearray import PyByteArray_Resize
else:
    from replica_client.protocol.binlog.values.decimal import put_decimal
    from replica_client.protocol.binlog.values.json_writer import JsonTextWriter
    from replica_client.protocol.binlog.values.numbers import put_double, put_float
    from replica_client.protocol.binlog.values.temporal_storage import (
        put_date,
        put_datetime2,
        put_time2,
        put_timestamp2,
    )
    from replica_client.protocol.codec.memory import (
        copy_bytes,
        copy_quotable,
        load_be,
        load_le,
        load_signed,
        put_digits,
        put_escaped,
        put_signed,
        utf8_ok,
    )
    from replica_client.rows.image import Column, RowImageDecoder

_SIGNED = cython.declare(cython.int, int(ColumnOp.SIGNED))
_UNSIGNED = cython.declare(cython.int, int(ColumnOp.UNSIGNED))
_UTF8 = cython.declare(cython.int, int(ColumnOp.UTF8))
_UTF8_CHAR = cython.declare(cython.int, int(ColumnOp.UTF8_CHAR))
_DECIMAL = cython.declare(cython.int, int(ColumnOp.DECIMAL))
_DATE = cython.declare(cython.int, int(ColumnOp.DATE))
_TIME = cython.declare(cython.int, int(ColumnOp.TIME))
_DATETIME = cython.declare(cython.int, int(ColumnOp.DATETIME))
_TIMESTAMP = cython.declare(cython.int, int(ColumnOp.TIMESTAMP))
_YEAR = cython.declare(cython.int, int(ColumnOp.YEAR))
_FLOAT = cython.declare(cython.int, int(ColumnOp.FLOAT))
_DOUBLE = cython.declare(cython.int, int(ColumnOp.DOUBLE))
_BIT = cython.declare(cython.int, int(ColumnOp.BIT))
_ENUM = cython.declare(cython.int, int(ColumnOp.ENUM))
_SET = cython.declare(cython.int, int(ColumnOp.SET))
_BYTES = cython.declare(cython.int, int(ColumnOp.BYTES))
_BINARY = cython.declare(cython.int, int(ColumnOp.BINARY))
_JSON = cython.declare(cython.int, int(ColumnOp.JSON))

_FIRST_ROOM = cython.declare(cython.Py_ssize_t, 64 << 10)
# Extra room: a number, a date or a DECIMAL with its quotes can be written without
# another check.
_SLACK = cython.declare(cython.Py_ssize_t, 256)
_SPACE = cython.declare(cython.int, 0x20)
_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_BEFORE_BINARY = b'{"$binary": "'
_MAX_TEXTS = 4096
_LONGEST_NULL = cython.declare(cython.Py_ssize_t, 2)


def quoted(text: str) -> bytes:
    """Return a JSON string in UTF-8; lone surrogates are escaped."""
    return encode_basestring(text).encode("utf-8", "backslashreplace")


@cython.cclass
class ValueText:
    """A growing text, with methods to append values.

    Attributes:
        used: bytes of the text.
    """

    def __init__(self) -> None:
        self._memory = bytearray(_FIRST_ROOM + _SLACK)
        self.out: Any = self._memory
        self.room = _FIRST_ROOM
        self.used = 0
        self._documents: JsonTextWriter = JsonTextWriter()
        self.is_null_document = False

    def line(self, text: str) -> None:
        """Write a line that is already a text."""
        self.put(text.encode("utf-8", "backslashreplace") + b"\n")

    def take(self) -> bytes | bytearray:
        """Return the text and clear it."""
        size: cython.Py_ssize_t = self.used
        self.used = 0
        if size <= 4 * _FIRST_ROOM:
            return bytes(memoryview(self._memory)[:size])
        # Return a large buffer itself, to avoid a copy.
        memory: bytearray = self._memory
        self._memory = bytearray(_FIRST_ROOM + _SLACK)
        self.out = self._memory
        self.room = _FIRST_ROOM
        del memory[size:]
        return memory

    @cython.cfunc
    @cython.inline
    @cython.exceptval(-1, check=False)
    def reserve(self, size: cython.Py_ssize_t) -> cython.int:
        """Make room for more bytes, and the slack."""
        return self._grow(size) if self.used + size > self.room else 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _grow(self, size: cython.Py_ssize_t) -> cython.int:
        room: cython.Py_ssize_t = self.used + size
        # Do not double a large buffer: a row of hundreds of megabytes would take four times its
        # size.
        room += room if room < (16 << 20) else room >> 4
        if not cython.compiled:
            self.out = None
            self._memory.extend(bytes(room - self.room))
        else:
            PyByteArray_Resize(self._memory, room + _SLACK)
        self.out = self._memory
        self.room = room
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def put(self, text: bytes) -> cython.int:
        """Write bytes unchanged."""
        raw: cython.p_const_uchar = text
        self.reserve(len(text))
        copy_bytes(self.out, self.used, raw, 0, len(text))
        self.used += len(text)
        return 0

    @cython.cfunc
    @cython.inline
    @cython.exceptval(-1, check=False)
    def put_number(self, number: cython.longlong) -> cython.int:
        """Write a number; the room must be reserved."""
        self.used = put_signed(self.out, self.used, number)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_escaped(
        self, data: cython.p_const_uchar, at: cython.Py_ssize_t, stop: cython.Py_ssize_t
    ) -> cython.int:
        """Write escaped UTF-8 and the closing quote of a string."""
        begin: cython.Py_ssize_t = at
        byte: cython.uchar
        while at < stop:
            byte = data[at]
            if byte >= 0x20 and byte != 34 and byte != 92:
                at += 1
                continue
            self.reserve(stop - begin)
            copy_bytes(self.out, self.used, data, begin, at - begin)
            self.used = put_escaped(self.out, self.used + at - begin, byte)
            at += 1
            begin = at
        self.reserve(stop - begin)
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
        self.reserve((stop - at + 2) // 3 * 4)
        digits: bytes = _BASE64
        table: cython.p_const_uchar = digits
        before: bytes = _BEFORE_BINARY
        start: cython.p_const_uchar = before
        out: cython.p_uchar = self.out
        used: cython.Py_ssize_t = self.used
        bits: cython.uint
        copy_bytes(out, used, start, 0, len(before))
        used += len(before)
        while at + 3 <= stop:
            bits = data[at] << 16 | data[at + 1] << 8 | data[at + 2]
            out[used] = table[bits >> 18]
            out[used + 1] = table[bits >> 12 & 63]
            out[used + 2] = table[bits >> 6 & 63]
            out[used + 3] = table[bits & 63]
            used += 4
            at += 3
        if at < stop:
            bits = data[at] << 16
            if at + 1 < stop:
                bits |= data[at + 1] << 8
            out[used] = table[bits >> 18]
            out[used + 1] = table[bits >> 12 & 63]
            out[used + 2] = table[bits >> 6 & 63] if at + 1 < stop else 61
            out[used + 3] = 61
            used += 4
        out[used] = 34
        out[used + 1] = 125
        self.used = used + 2
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_document(
        self, data: cython.p_const_uchar, offset: cython.Py_ssize_t, length: cython.Py_ssize_t
    ) -> cython.int:
        """Write a JSON document."""
        documents: JsonTextWriter = self._documents
        documents.document(data, offset, length)
        self.reserve(documents.used)
        copy_bytes(self.out, self.used, documents.out, 0, documents.used)
        if documents.used == 4 and length <= _LONGEST_NULL and self.out[self.used] == 110:
            self.is_null_document = True
        self.used += documents.used
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_other(
        self,
        decoder: RowImageDecoder,
        column: Column,
        data: cython.p_const_uchar,
        offset: cython.Py_ssize_t,
        length: cython.Py_ssize_t,
    ) -> cython.int:
        """Write a value with the general function."""
        value: Any = decoder._value(column, data, offset, length)
        return self.put(value_to_json(value).encode("utf-8", "backslashreplace"))

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def put_value(
        self,
        decoder: RowImageDecoder,
        column: Column,
        data: cython.p_const_uchar,
        offset: cython.Py_ssize_t,
        length: cython.Py_ssize_t,
    ) -> cython.int:
        """Write the value of ``length`` bytes at ``offset``.

        Room for ``length`` bytes must be reserved.
        """
        op: cython.int = column.op
        used: cython.Py_ssize_t = self.used
        out: cython.p_uchar = self.out
        found: cython.int
        number: cython.ulonglong
        text: Any
        if op == _SIGNED:
            self.used = put_signed(out, used, load_signed(data, offset, column.size))
            return 0
        if op in (_UTF8, _UTF8_CHAR):
            if op == _UTF8_CHAR:
                while length and data[offset + length - 1] == _SPACE:
                    length -= 1
            found = copy_quotable(out, used + 1, data, offset, length)
            if found and not utf8_ok(data, offset, length):
                return self._put_other(decoder, column, data, offset, length)
            out[used] = 34
            if found == 2:
                self.used = used + 1
                return self._put_escaped(data, offset, offset + length)
            used += length + 2
            out[used - 1] = 34
            self.used = used
            return 0
        if op == _UNSIGNED:
            self.used = put_digits(out, used, load_le(data, offset, column.size))
            return 0
        if op == _DECIMAL:
            out[used] = 34
            used = put_decimal(out, used + 1, data, offset, column.precision, column.digits)
            out[used] = 34
            self.used = used + 1
            return 0
        if op in (_ENUM, _SET):
            number = load_le(data, offset, column.size)
            text = column.texts.get(number)
            if text is None:
                value: Any = decoder._value(column, data, offset, length)
                text = value_to_json(value).encode("utf-8", "backslashreplace")
                if len(column.texts) < _MAX_TEXTS:
                    column.texts[number] = text
            return self.put(text)
        if op == _JSON:
            return self._put_document(data, offset, length)
        if op == _BYTES:
            return self._put_base64(data, offset, offset + length)
        if op == _BINARY and length == column.length:
            return self._put_base64(data, offset, offset + length)
        if op == _BIT:
            self.used = put_digits(out, used, load_be(data, offset, column.size))
            return 0
        if op == _YEAR:
            self.used = put_digits(out, used, data[offset] + 1900 if data[offset] else 0)
            return 0
        if op == _DOUBLE:
            self.used = put_double(out, used, data, offset)
            if self.used == used:
                return self._put_other(decoder, column, data, offset, length)
            return 0
        if op == _FLOAT:
            self.used = put_float(out, used, data, offset)
            if self.used == used:
                return self._put_other(decoder, column, data, offset, length)
            return 0
        if op != _DATE and op != _TIME and op != _DATETIME and op != _TIMESTAMP:
            return self._put_other(decoder, column, data, offset, length)
        out[used] = 34
        used += 1
        if op == _DATETIME:
            used = put_datetime2(out, used, load_be(data, offset, column.size), column.digits)
        elif op == _TIMESTAMP:
            used = put_timestamp2(out, used, load_be(data, offset, column.size), column.digits)
        elif op == _DATE:
            used = put_date(out, used, cython.cast(cython.uint, load_le(data, offset, 3)))
        else:
            used = put_time2(out, used, load_be(data, offset, column.size), column.digits)
        out[used] = 34
        self.used = used + 1
        return 0
