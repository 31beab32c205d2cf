# cython: boundscheck=False, wraparound=False, cdivision=True
"""Writes a JSON document's text, byte by byte into one buffer.

This module is compiled where that is possible (Cython's pure Python mode) and runs as it stands
everywhere else. How the bytes are laid out is in :mod:`replica_client.binlog.values.json_layout`.
"""

from __future__ import annotations

import struct
from base64 import b64encode
from typing import Any

import cython

from replica_client.binlog.values.double_text import double_text
from replica_client.binlog.values.json_layout import (
    DOUBLE,
    EXPANSION_LIMIT,
    INT16,
    INT32,
    INT64,
    LITERAL,
    MAX_DEPTH,
    OPAQUE,
    STRING,
    UINT16,
    UINT32,
    UINT64,
    double,
    integer,
    malformed,
    opaque_span,
    sized,
    utf8,
)
from replica_client.binlog.values.json_opaque import TEMPORAL_TYPES, decimal_text, temporal_text
from replica_client.constants.column_types import ColumnType
from replica_client.errors import ColumnDecodeError

if cython.compiled:
    from cython.cimports.libc.string import memcpy
    from cython.cimports.replica_client.codec.memory import (
        copy_bytes,
        copy_quotable,
        load_le,
        load_signed,
        utf8_ok,
    )
else:
    from replica_client.codec.memory import (
        copy_bytes,
        copy_quotable,
        load_le,
        load_signed,
        utf8_ok,
    )

_LITERAL = cython.declare(cython.int, LITERAL)
_INT16 = cython.declare(cython.int, INT16)
_UINT16 = cython.declare(cython.int, UINT16)
_INT32 = cython.declare(cython.int, INT32)
_UINT32 = cython.declare(cython.int, UINT32)
_INT64 = cython.declare(cython.int, INT64)
_UINT64 = cython.declare(cython.int, UINT64)
_DOUBLE = cython.declare(cython.int, DOUBLE)
_STRING = cython.declare(cython.int, STRING)
_OPAQUE = cython.declare(cython.int, OPAQUE)
_MAX_DEPTH = cython.declare(cython.int, MAX_DEPTH)
# As a number in the code it would be Python's.
_BEYOND_32 = cython.declare(cython.longlong, 1 << 32)
_EXPANSION_LIMIT = cython.declare(cython.longlong, EXPANSION_LIMIT)

_LITERALS = (b"null", b"true", b"false")
_LITERAL_TEXTS = cython.declare(bytes, b"nulltruefalse")
_DOUBLE_STRUCT = struct.Struct("<d")
_BASE64_LINE = 76
_NEWDECIMAL = int(ColumnType.MYSQL_TYPE_NEWDECIMAL)
_VAR_STRING = int(ColumnType.MYSQL_TYPE_VAR_STRING)
_FIRST_ROOM = 256
_KEPT_ROOM = cython.declare(cython.Py_ssize_t, 1 << 20)
_HEX = b"0123456789abcdef"
# What JSON writes \b, \t, \n, \f and \r for, by code from 8 on.
_SHORT = b"btn\0fr"


@cython.final
@cython.cclass
class JsonTextWriter:
    """Writes the text of one document after the other.

    Attributes:
        used: bytes of the text that was written last.
    """

    def __init__(self) -> None:
        self._source: Any = b""
        self._offset = self._size = self.used = 0
        self._budget = 0
        self._out = bytearray(_FIRST_ROOM)
        self.out = self._out
        self._room = _FIRST_ROOM

    def text(self, data: bytes) -> str:
        """The text of a document; the empty byte string is ``null``.

        Raises:
            ColumnDecodeError: the bytes are not a document.
        """
        self.document(data, 0, len(data))
        return self._out[: self.used].decode()

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def document(
        self, data: cython.p_const_uchar, offset: cython.Py_ssize_t, size: cython.Py_ssize_t
    ) -> cython.int:
        """Write the text of the document of ``size`` bytes at ``offset``."""
        if cython.compiled:
            self.data = data + offset
        else:
            self.data = data[offset : offset + size]
        self._source = None
        self._size = size
        self.used = 0
        if self._room > _KEPT_ROOM:
            self._out = bytearray(_FIRST_ROOM)
            self.out = self._out
            self._room = _FIRST_ROOM
        if not size:
            return self._put_literal(0)
        self._budget = _EXPANSION_LIMIT * size
        if self.data[0] >= _LITERAL:
            return self._put_text(self._scalar(self.data[0], 1, size))
        return self._container(self.data[0], 1, size, 0)

    @cython.cfunc
    def _bytes(self) -> bytes:
        """The document as bytes, for what is rare."""
        if self._source is None:
            self._source = self.data[: self._size]
        source: bytes = self._source
        return source

    def _overspent(self) -> ColumnDecodeError:
        return ColumnDecodeError(
            f"malformed JSON document: overlapping values take more than {EXPANSION_LIMIT} times "
            f"its {self._size} bytes"
        )

    @cython.cfunc
    @cython.inline
    @cython.exceptval(-1, check=False)
    def _reserve(self, size: cython.Py_ssize_t) -> cython.int:
        """Have room for so many more bytes."""
        return self._grow(size) if size > self._room - self.used else 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _grow(self, size: cython.Py_ssize_t) -> cython.int:
        self._room = 2 * (self.used + size)
        grown = bytearray(self._room)
        grown[: self.used] = self._out[: self.used]
        self._out = grown
        self.out = self._out
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_text(self, text: Any) -> cython.int:
        data: bytes = text.encode()
        raw: cython.p_const_uchar = data
        self._reserve(len(data))
        copy_bytes(self.out, self.used, raw, 0, len(data))
        self.used += len(data)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_literal(self, literal: cython.int) -> cython.int:
        raw: cython.p_const_uchar = _LITERAL_TEXTS
        size: cython.Py_ssize_t = 5 if literal == 2 else 4
        self._reserve(5)
        copy_bytes(self.out, self.used, raw, 4 * literal, size)
        self.used += size
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_number(self, number: cython.ulonglong, negative: cython.bint) -> cython.int:
        self._reserve(21)
        out: cython.p_uchar = self.out
        at: cython.Py_ssize_t = self.used
        if negative:
            out[at] = 45
            at += 1
        rest: cython.ulonglong = number
        while rest >= 10:
            rest //= 10
            at += 1
        self.used = at + 1
        while number >= 10:
            out[at] = cython.cast(cython.uchar, 48 + number % 10)
            number //= 10
            at -= 1
        out[at] = cython.cast(cython.uchar, 48 + number)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_double(self, at: cython.Py_ssize_t) -> cython.int:
        """Write the double at ``at``, which is there."""
        value: cython.double = 0
        if cython.compiled:
            bits: cython.ulonglong = load_le(self.data, at, 8)
            memcpy(cython.address(value), cython.address(bits), 8)
        else:
            value = _DOUBLE_STRUCT.unpack_from(self.data, at)[0]
        magnitude: cython.double = -value if value < 0 else value
        power: cython.longlong
        whole: cython.longlong
        digits: cython.int
        if 0.0001 <= magnitude < 1e9:
            # A decimal of at most 15 digits that reads back as the double is its shortest one.
            for digits in range(2, 5, 2):
                power = 100 if digits == 2 else 10_000
                whole = cython.cast(cython.longlong, magnitude * power + 0.5)
                if cython.cast(cython.double, whole) / power == magnitude:
                    while digits and whole % 10 == 0:
                        whole //= 10
                        digits -= 1
                    return self._put_decimal(whole, digits, value < 0)
        try:
            return self._put_text(double_text(value))
        except ValueError as error:
            raise malformed(str(error), at) from None

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_decimal(
        self, whole: cython.longlong, digits: cython.int, negative: cython.bint
    ) -> cython.int:
        """Write a number that has ``digits`` digits behind its point."""
        power: cython.longlong = 1
        i: cython.Py_ssize_t
        for _ in range(digits):
            power *= 10
        self._put_number(whole // power, negative)
        self._reserve(6)
        self.out[self.used] = 46
        if not digits:
            digits = 1
        whole %= power
        for i in range(self.used + digits, self.used, -1):
            self.out[i] = 48 + whole % 10
            whole //= 10
        self.used += digits + 1
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_quoted(self, at: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> cython.int:
        """Write the bytes from ``at`` to ``stop`` as a string."""
        size: cython.Py_ssize_t = stop - at
        self._reserve(size + 2)
        out: cython.p_uchar = self.out
        used: cython.Py_ssize_t = self.used
        out[used] = 34
        found: cython.int = copy_quotable(out, used + 1, self.data, at, size)
        if found and not utf8_ok(self.data, at, size):
            utf8(self._bytes(), at, stop)
            raise malformed("a string that is not UTF-8", at)
        if found == 2:
            self.used = used + 1
            return self._put_escaped(at, stop)
        out[used + size + 1] = 34
        self.used = used + size + 2
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_escaped(self, at: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> cython.int:
        """Write the bytes from ``at`` to ``stop``, which are UTF-8, and the string's end."""
        begin: cython.Py_ssize_t = at
        byte: cython.uchar
        while at < stop:
            byte = self.data[at]
            if byte >= 0x20 and byte != 34 and byte != 92:
                at += 1
                continue
            self._reserve(stop - begin + 7)
            copy_bytes(self.out, self.used, self.data, begin, at - begin)
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
        copy_bytes(self.out, self.used, self.data, begin, stop - begin)
        self.used += stop - begin
        self.out[self.used] = 34
        self.used += 1
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_string(self, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.int:
        """Write the string whose length is at ``at``."""
        length: cython.Py_ssize_t = self.data[at]
        start: cython.Py_ssize_t = at + 1
        if length >= 0x80:
            start, stop = sized(self._bytes(), at, end)
            length = stop - start
        if length > end - start:
            raise malformed(f"a string of {length} bytes", start)
        self._budget -= length
        if self._budget < 0:
            raise self._overspent()
        return self._put_quoted(start, start + length)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_scalar(
        self, kind: cython.int, at: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.int:
        """Write a value that is neither a container nor inlined nor a string."""
        number: cython.longlong
        if kind == _DOUBLE and end - at >= 8:
            return self._put_double(at)
        if kind == _INT32 and end - at >= 4:
            number = load_signed(self.data, at, 4)
            return self._put_number(-number if number < 0 else number, number < 0)
        if kind == _UINT32 and end - at >= 4:
            return self._put_number(load_le(self.data, at, 4), False)
        if kind == _INT64 and end - at >= 8 and self.data[at + 7] < 0x80:
            return self._put_number(load_le(self.data, at, 8), False)
        if kind == _UINT64 and end - at >= 8:
            return self._put_number(load_le(self.data, at, 8), False)
        if kind == _OPAQUE:
            _, begin, stop = opaque_span(self._bytes(), at, end)
            self._budget -= stop - begin
            if self._budget < 0:
                raise self._overspent()
        return self._put_text(self._scalar(kind, at, end))

    def _scalar(self, kind: int, at: int, end: int) -> str:
        """The text of a value that is no container and not inlined."""
        data = self._bytes()
        if kind == STRING:
            start, stop = sized(data, at, end)
            return self._quoted(data[start:stop], start)
        if kind == DOUBLE:
            try:
                return double_text(double(data, at, end))
            except ValueError as error:
                raise malformed(str(error), at) from None
        if kind == OPAQUE:
            code, start, stop = opaque_span(data, at, end)
            return self._opaque(code, data[start:stop], at)
        if kind == LITERAL:
            if at >= end or data[at] > 2:
                raise malformed("an unknown literal", at)
            text: bytes = _LITERALS[data[at]]
            return text.decode()
        return str(integer(data, kind, at, end))

    def _quoted(self, raw: bytes, at: int) -> str:
        """A string of its own."""
        utf8(raw, 0, len(raw))
        writer = JsonTextWriter()
        writer.data = raw
        writer._put_quoted(0, len(raw))
        return writer._out[: writer.used].decode()

    def _opaque(self, code: int, payload: bytes, at: int) -> str:
        if code == _NEWDECIMAL:
            return decimal_text(payload)
        if code in TEMPORAL_TYPES:
            return f'"{temporal_text(code, payload)}"'
        if code == _VAR_STRING:
            try:
                payload.decode()
            except UnicodeDecodeError as error:
                raise malformed(f"a string that is not UTF-8 ({error.reason})", at) from None
            return self._quoted(payload, at)
        text = b64encode(payload).decode()
        if len(text) > _BASE64_LINE:
            lines = [text[i : i + _BASE64_LINE] for i in range(0, len(text), _BASE64_LINE)]
            text = "\\n".join(lines)
        return f'"base64:type{code}:{text}"'

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _container(
        self,
        kind: cython.int,
        start: cython.Py_ssize_t,
        limit: cython.Py_ssize_t,
        depth: cython.int,
    ) -> cython.int:
        """Write an object or array."""
        if depth >= _MAX_DEPTH:
            raise ColumnDecodeError(f"JSON document with more than {MAX_DEPTH} nested levels")
        large: cython.bint = kind & 1
        width: cython.int = 4 if large else 2
        at: cython.Py_ssize_t = start + 2 * width
        if at > limit:
            raise malformed("a container that is cut off", start)
        count: cython.longlong = load_le(self.data, start, width)
        size: cython.longlong = load_le(self.data, start + width, width)
        is_object: cython.bint = kind < 2
        header: cython.longlong = 2 * width + count * (width + 1)
        if is_object:
            header += count * (width + 2)
        if size > limit - start:
            raise malformed(f"a container of {size} bytes where {limit - start} are left", start)
        if header > size:
            raise malformed(f"{count} elements in a container of {size} bytes", start)
        self._budget -= header
        if self._budget < 0:
            raise self._overspent()
        entry: cython.Py_ssize_t = at + (count * (width + 2) if is_object else 0)
        end: cython.Py_ssize_t = start + size
        code: cython.int
        field: cython.longlong
        key_at: cython.longlong
        key_size: cython.longlong
        i: cython.longlong
        # Bytes that are written may be anywhere for a compiler, so it loads attributes again.
        data: cython.p_const_uchar = self.data
        used: cython.Py_ssize_t
        out: cython.p_uchar
        self._reserve(1)
        self.out[self.used] = 123 if is_object else 91
        self.used += 1
        for i in range(count):
            if i:
                self._reserve(2)
                out = self.out
                used = self.used
                out[used] = 44
                out[used + 1] = 32
                self.used = used + 2
            if is_object:
                if large:
                    key_at = load_le(data, at, 4)
                    key_size = load_le(data, at + 4, 2)
                    at += 6
                else:
                    key_at = load_le(data, at, 2)
                    key_size = load_le(data, at + 2, 2)
                    at += 4
                if key_at < header or key_at + key_size > size:
                    raise malformed("a key outside of its object", start + key_at)
                self._budget -= key_size
                self._reserve(key_size + 4)
                used = self.used
                out = self.out
                # Room for the quotation marks, a colon and a space; most keys are plain.
                if copy_quotable(out, used + 1, data, start + key_at, key_size):
                    self._put_quoted(start + key_at, start + key_at + key_size)
                    self._reserve(2)
                    out = self.out
                    used = self.used
                else:
                    out[used] = 34
                    used += key_size + 2
                    out[used - 1] = 34
                out[used] = 58
                out[used + 1] = 32
                self.used = used + 2
            code = data[entry]
            if large:
                field = load_le(data, entry + 1, 4)
                entry += 5
            else:
                field = load_le(data, entry + 1, 2)
                entry += 3
            if code == _INT16:
                field &= 0xFFFF
                if field >= 0x8000:
                    self._put_number(0x10000 - field, True)
                else:
                    self._put_number(field, False)
            elif code == _LITERAL:
                field &= 0xFF
                if field > 2:
                    raise malformed("an unknown literal", start)
                self._put_literal(cython.cast(cython.int, field))
            elif code == _UINT16:
                self._put_number(field & 0xFFFF, False)
            elif large and code == _INT32 and field >= _BEYOND_32 >> 1:
                self._put_number(_BEYOND_32 - field, True)
            elif large and code in (_INT32, _UINT32):
                self._put_number(field, False)
            else:
                if field < header or field >= size:
                    raise malformed("a value outside of its container", start + field)
                if code == _STRING:
                    self._put_string(start + field, end)
                elif code < _LITERAL:
                    self._container(code, start + field, end, depth + 1)
                else:
                    self._put_scalar(code, start + field, end)
            if self._budget < 0:
                raise self._overspent()
        self._reserve(1)
        self.out[self.used] = 125 if is_object else 93
        self.used += 1
        return 0
