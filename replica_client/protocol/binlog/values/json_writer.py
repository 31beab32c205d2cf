# cython: boundscheck=False, wraparound=False, cdivision=True
"""A writer of JSON documents' text, byte by byte into one buffer.

This module is compiled where that is possible (Cython's pure Python mode); elsewhere it runs as
plain Python. :mod:`replica_client.protocol.binlog.values.json_layout` describes the layout of the bytes.
"""

# Over 500 lines: one compiled class, whose methods share C fields that no other module may reach
# at this speed.

from __future__ import annotations

import struct
from typing import Any

import cython

from replica_client.errors import ColumnDecodeError
from replica_client.protocol.binlog.values.json_encoder import double_text
from replica_client.protocol.binlog.values.json_layout import malformed, opaque_bounds, sized, utf8
from replica_client.protocol.binlog.values.json_scalar import scalar_text
from replica_client.protocol.constants.column_types import ColumnType

if cython.compiled:
    from cython.cimports.libc.string import memcpy
else:
    from replica_client.protocol.binlog.values import json_layout as layout
    from replica_client.protocol.binlog.values.decimal import decimal_fits, put_decimal
    from replica_client.protocol.binlog.values.json_keys import (
        RECENT_MASK,
        KeyMemo,
        KeySection,
        has_keys,
    )
    from replica_client.protocol.codec.memory import (
        copy_bytes,
        copy_over,
        copy_quotable,
        load_le,
        load_signed,
        put_digits,
        put_escaped,
        put_literal,
        put_signed,
        put_ten_thousandths,
        utf8_ok,
    )

# Literals would be Python integers in compiled code.
_BEYOND_32 = cython.declare(cython.longlong, 1 << 32)
_FIRST_ROOM = cython.declare(cython.Py_ssize_t, 256)
# Spare bytes after the room, for short output between two checks of the room: a separator,
# quotation marks, a colon, the bytes that copy_over writes too many, a number and a bracket.
_SLACK = cython.declare(cython.Py_ssize_t, 64)
_KEPT_ROOM = cython.declare(cython.Py_ssize_t, 1 << 20)
# If most documents have unknown keys, looking keys up is useless: after _MOST_VAIN more misses
# than hits, it stops for _PAUSE documents.
_MOST_VAIN = cython.declare(cython.int, 8)
_PAUSE = cython.declare(cython.int, 64)

_NEWDECIMAL = cython.declare(cython.int, int(ColumnType.MYSQL_TYPE_NEWDECIMAL))
_MAX_PRECISION = cython.declare(cython.int, 65)
_MAX_SCALE = cython.declare(cython.int, 30)
_DECIMAL_ROOM = cython.declare(cython.Py_ssize_t, 80)
_DOUBLE_STRUCT = struct.Struct("<d")


@cython.final
@cython.cclass
class JsonTextWriter:
    """A writer of one document's text after the other.

    Methods that write take an offset to write at, and return where they stopped. The room in the
    buffer is checked for each element, for values longer than a number, and at the end of a
    container.

    Attributes:
        used: bytes of the last text.
    """

    def __init__(self) -> None:
        self._source: Any = b""
        self._has_source = False
        self._size = self.used = 0
        self._budget = 0
        # A memo is of no use for a single document.
        self._keys: KeyMemo | None = None
        self._looking = False
        self._pause = 1
        self._vain = 0
        self._missed = -1
        self._out = bytearray(_FIRST_ROOM + _SLACK)
        self.out = self._out
        self._room = _FIRST_ROOM

    def text(self, data: bytes) -> str:
        """Return the text of a document; ``null`` for an empty byte string.

        Raises:
            ColumnDecodeError: the bytes are not a document.
        """
        self.document(data, 0, len(data))
        return self._out[: self.used].decode()

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def document(
        self, data: cython.p_const_uchar, offset: cython.Py_ssize_t, size: cython.Py_ssize_t
    ) -> cython.int:
        """Write the text of the document of ``size`` bytes at ``offset``."""
        if cython.compiled:
            self.data = data + offset
        else:
            self.data = data[offset : offset + size]
        self._has_source = False
        self._size = size
        self._missed = -1
        if self._room > _KEPT_ROOM:
            with cython.gil:
                self._grow(0, _FIRST_ROOM // 2)
        if not size:
            self.used = put_literal(self.out, 0, 0)
            return 0
        self._budget = layout.EXPANSION_LIMIT * size
        if self.data[0] >= layout.LITERAL:
            with cython.gil:
                self.used = self._put_text(scalar_text(self._bytes(), self.data[0], 1, size), 0)
            return 0
        self._looking = not self._pause
        self.used = self._container(self.data[0], 1, size, 0, 0)
        if self._missed >= 0:
            with cython.gil:
                return self._learn()
        if self._pause:
            self._pause -= 1
        elif self._vain:
            self._vain -= 1
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _learn(self) -> cython.int:
        """Store keys of a valid document, or stop looking keys up for a while."""
        if self._keys is None:
            self._keys = KeyMemo()
        if self._keys.learn(self.data, self._missed):
            if self._vain:
                self._vain -= 1
            return 0
        self._vain += 1
        if self._vain >= _MOST_VAIN:
            # After the pause, two misses in a row stop the lookup again.
            self._vain = _MOST_VAIN - 2
            self._pause = _PAUSE
        return 0

    @cython.cfunc
    def _bytes(self) -> bytes:
        """Return the document as bytes, for rare cases."""
        if not self._has_source:
            self._source = self.data[: self._size]
            self._has_source = True
        source: bytes = self._source
        return source

    def _overspent(self) -> ColumnDecodeError:
        return ColumnDecodeError(
            f"malformed JSON document: overlapping values take more than {layout.EXPANSION_LIMIT} times "
            f"its {self._size} bytes"
        )

    @cython.cfunc
    @cython.nogil
    @cython.inline
    @cython.exceptval(-1, check=False)
    def _reserve(self, used: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.int:
        """Make sure that `size` bytes fit after the used ones."""
        if used + size > self._room:
            with cython.gil:
                self._grow(used, size)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _grow(self, used: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.int:
        self._room = 2 * (used + size)
        grown = bytearray(self._room + _SLACK)
        if used:
            grown[:used] = self._out[:used]
        self._out = grown
        self.out = self._out
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_text(self, text: Any, used: cython.Py_ssize_t) -> cython.Py_ssize_t:
        data: bytes = text.encode()
        raw: cython.p_const_uchar = data
        self._reserve(used, len(data))
        copy_bytes(self.out, used, raw, 0, len(data))
        return used + len(data)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def _put_double(self, at: cython.Py_ssize_t, used: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Write the double at ``at``; the caller has checked its bytes."""
        value: cython.double = 0
        if cython.compiled:
            bits: cython.ulonglong = load_le(self.data, at, 8)
            memcpy(cython.address(value), cython.address(bits), 8)
        else:
            value = _DOUBLE_STRUCT.unpack_from(self.data, at)[0]
        magnitude: cython.double = -value if value < 0 else value
        number: cython.longlong
        if 0.0001 <= magnitude < 1e9:
            # If a decimal of at most 15 digits reads back as the double, it is the shortest one.
            number = cython.cast(cython.longlong, magnitude * 1e4 + 0.5)
            if cython.cast(cython.double, number) / 1e4 == magnitude:
                if value < 0:
                    self.out[used] = 45
                    used += 1
                return put_ten_thousandths(self.out, used, number)
        with cython.gil:
            return self._put_other_double(value, at, used)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_other_double(
        self, value: cython.double, at: cython.Py_ssize_t, used: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Write any double at ``at``."""
        try:
            return self._put_text(double_text(value), used)
        except ValueError as error:
            raise malformed(str(error), at) from None

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def _put_quoted(
        self, at: cython.Py_ssize_t, stop: cython.Py_ssize_t, used: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Write the bytes from ``at`` to ``stop`` as a string."""
        self._reserve(used, stop - at)
        return self._end_quoted(
            at, stop, used, copy_quotable(self.out, used + 1, self.data, at, stop - at)
        )

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def _end_quoted(
        self,
        at: cython.Py_ssize_t,
        stop: cython.Py_ssize_t,
        used: cython.Py_ssize_t,
        found: cython.int,
    ) -> cython.Py_ssize_t:
        """Finish a string that copy_quotable copied: escape it, or add its quotes."""
        if found and not utf8_ok(self.data, at, stop - at):
            with cython.gil:
                utf8(self._bytes(), at, stop)
                raise malformed("a string that is not UTF-8", at)
        self.out[used] = 34
        if found == 2:
            return self._put_escaped(at, stop, used + 1)
        used += stop - at + 2
        self.out[used - 1] = 34
        return used

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def _put_escaped(
        self, at: cython.Py_ssize_t, stop: cython.Py_ssize_t, used: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Write the UTF-8 bytes from ``at`` to ``stop`` with escapes, and the string's end."""
        begin: cython.Py_ssize_t = at
        byte: cython.uchar
        while at < stop:
            byte = self.data[at]
            if byte >= 0x20 and byte != 34 and byte != 92:
                at += 1
                continue
            self._reserve(used, stop - begin)
            copy_bytes(self.out, used, self.data, begin, at - begin)
            used = put_escaped(self.out, used + at - begin, byte)
            at += 1
            begin = at
        self._reserve(used, stop - begin)
        copy_bytes(self.out, used, self.data, begin, stop - begin)
        used += stop - begin
        self.out[used] = 34
        return used + 1

    @cython.cfunc
    @cython.nogil
    @cython.inline
    @cython.exceptval(-1, check=False)
    def _put_string(
        self, at: cython.Py_ssize_t, end: cython.Py_ssize_t, used: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Write the string whose length is at ``at``."""
        length: cython.Py_ssize_t = self.data[at]
        at += 1
        if length >= 0x80 or length > end - at:
            return self._put_long_string(at - 1, end, used)
        self._budget -= length
        if self._budget < 0:
            with cython.gil:
                raise self._overspent()
        self._reserve(used, length)
        out: cython.p_uchar = self.out
        found: cython.int = copy_quotable(out, used + 1, self.data, at, length)
        if found:
            return self._end_quoted(at, at + length, used, found)
        out[used] = 34
        used += length + 2
        out[used - 1] = 34
        return used

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def _put_long_string(
        self, at: cython.Py_ssize_t, end: cython.Py_ssize_t, used: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Write a string whose length takes several bytes, or refuse it."""
        start: cython.Py_ssize_t
        stop: cython.Py_ssize_t
        with cython.gil:
            if self.data[at] < 0x80:
                raise malformed(f"a string of {self.data[at]} bytes", at + 1)
            start, stop = sized(self._bytes(), at, end)
            self._budget -= stop - start
            if self._budget < 0:
                raise self._overspent()
        return self._put_quoted(start, stop, used)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def _put_scalar(
        self,
        kind: cython.int,
        at: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        used: cython.Py_ssize_t,
    ) -> cython.Py_ssize_t:
        """Write a value that is neither a container nor inlined nor a string."""
        if kind == layout.DOUBLE and end - at >= 8:
            return self._put_double(at, used)
        if kind == layout.INT32 and end - at >= 4:
            return put_signed(self.out, used, load_signed(self.data, at, 4))
        if kind == layout.UINT32 and end - at >= 4:
            return put_digits(self.out, used, load_le(self.data, at, 4))
        if kind == layout.INT64 and end - at >= 8 and self.data[at + 7] < 0x80:
            return put_digits(self.out, used, load_le(self.data, at, 8))
        if kind == layout.UINT64 and end - at >= 8:
            return put_digits(self.out, used, load_le(self.data, at, 8))
        if kind == layout.OPAQUE and end - at > 4 and self.data[at] == _NEWDECIMAL:
            written: cython.Py_ssize_t = self._put_decimal(at + 1, end, used)
            if written:
                return written
        with cython.gil:
            return self._put_rare(kind, at, end, used)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_rare(
        self,
        kind: cython.int,
        at: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        used: cython.Py_ssize_t,
    ) -> cython.Py_ssize_t:
        """Write a value by decoding it to an object first."""
        if kind == layout.OPAQUE:
            _, begin, stop = opaque_bounds(self._bytes(), at, end)
            self._budget -= stop - begin
            if self._budget < 0:
                raise self._overspent()
        return self._put_text(scalar_text(self._bytes(), kind, at, end), used)

    @cython.cfunc
    @cython.nogil
    @cython.cdivision(True)
    @cython.exceptval(-1, check=False)
    def _put_decimal(
        self, at: cython.Py_ssize_t, end: cython.Py_ssize_t, used: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Write the DECIMAL whose length is at ``at``; return 0 if it needs the slow path."""
        size: cython.Py_ssize_t = self.data[at]
        precision: cython.int = self.data[at + 1]
        scale: cython.int = self.data[at + 2]
        whole: cython.int = precision - scale
        if size >= 0x80 or size > end - at - 1 or whole < 0:
            return 0
        if not 0 < precision <= _MAX_PRECISION or scale > _MAX_SCALE:
            return 0
        # Nine digits take four bytes; fewer digits take half a byte each, rounded up.
        if size - 2 != 4 * (whole // 9 + scale // 9) + (whole % 9 + 1) // 2 + (scale % 9 + 1) // 2:
            return 0
        self._budget -= size
        if self._budget < 0:
            with cython.gil:
                raise self._overspent()
        self._reserve(used, _DECIMAL_ROOM)
        if not decimal_fits(self.data, at + 3, precision, scale):
            self._budget += size
            return 0
        return put_decimal(self.out, used, self.data, at + 3, precision, scale)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def _container(
        self,
        kind: cython.int,
        start: cython.Py_ssize_t,
        limit: cython.Py_ssize_t,
        depth: cython.int,
        used: cython.Py_ssize_t,
    ) -> cython.Py_ssize_t:
        """Write an object or array."""
        if depth >= layout.MAX_DEPTH:
            with cython.gil:
                raise ColumnDecodeError(
                    f"JSON document with more than {layout.MAX_DEPTH} nested levels"
                )
        keys: cython.p_void
        large: cython.bint = kind & 1
        width: cython.int = 4 if large else 2
        if start + 2 * width > limit:
            with cython.gil:
                raise malformed("a container that is cut off", start)
        count: cython.longlong = load_le(self.data, start, width)
        size: cython.longlong = load_le(self.data, start + width, width)
        header: cython.longlong = 2 * width + count * (width + 1)
        if kind < layout.SMALL_ARRAY:
            header += count * (width + 2)
        if size > limit - start:
            with cython.gil:
                raise malformed(
                    f"a container of {size} bytes where {limit - start} are left", start
                )
        if header > size:
            with cython.gil:
                raise malformed(f"{count} elements in a container of {size} bytes", start)
        self._budget -= header
        if self._budget < 0:
            with cython.gil:
                raise self._overspent()
        if kind == layout.SMALL_OBJECT and count and self._looking:
            keys = self._known(start, count, header, size, depth)
            if keys:
                used = self._members(
                    cython.cast(KeySection, keys), start, start + header, start + size, depth, used
                )
            else:
                self._missed = start
                used = self._elements(kind, start, count, header, size, depth, used)
        else:
            used = self._elements(kind, start, count, header, size, depth, used)
        self._reserve(used, 0)
        self.out[used] = 125 if kind < layout.SMALL_ARRAY else 93
        return used + 1

    @cython.cfunc
    @cython.nogil
    @cython.inline
    @cython.exceptval(check=False)
    def _known(
        self,
        start: cython.Py_ssize_t,
        count: cython.Py_ssize_t,
        header: cython.Py_ssize_t,
        size: cython.Py_ssize_t,
        depth: cython.int,
    ) -> cython.p_void:
        """Return the known keys of a small object as a borrowed reference, or NULL."""
        if self._keys is None:
            return cython.NULL
        # Objects at the same depth mostly have the same keys.
        found: cython.p_void = self._keys.recent[depth & RECENT_MASK]
        if has_keys(cython.cast(KeySection, found), self.data, start, count, header, size):
            return found
        return self._keys.find(self.data, start, count, header, size, depth)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def _members(
        self,
        keys: KeySection,
        start: cython.Py_ssize_t,
        stop: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        depth: cython.int,
        used: cython.Py_ssize_t,
    ) -> cython.Py_ssize_t:
        """Write the opening and the members of a small object with known keys.

        The object's header is from ``start`` to ``stop``; the object ends at ``end``.
        """
        data: cython.p_const_uchar = self.data
        out: cython.p_uchar = self.out
        text: cython.p_const_uchar = keys.text
        text_at: cython.Py_ssize_t = 0
        length: cython.Py_ssize_t
        entry: cython.Py_ssize_t = stop - 3 * keys.count
        code: cython.int
        field: cython.Py_ssize_t
        # The first key's text is five characters longer than the key, the others' six.
        self._budget -= 1
        while entry < stop:
            length = load_le(text, text_at, 2)
            if used + length > self._room:
                self._reserve(used, length)
                out = self.out
            copy_over(out, used, text, text_at + 2, length)
            text_at += length + 2
            used += length
            self._budget -= length - 6
            code = data[entry]
            field = load_le(data, entry + 1, 2)
            entry += 3
            if code == layout.INT16:
                if field >= 0x8000:
                    field = 0x10000 - field
                    out[used] = 45
                    used += 1
                used = put_digits(out, used, field)
            elif code == layout.LITERAL:
                field &= 0xFF
                if field > 2:
                    with cython.gil:
                        raise malformed("an unknown literal", start)
                used = put_literal(out, used, cython.cast(cython.int, field))
            elif code == layout.UINT16:
                used = put_digits(out, used, field)
            else:
                field += start
                if field < stop or field >= end:
                    with cython.gil:
                        raise malformed("a value outside of its container", field)
                if code == layout.STRING:
                    used = self._put_string(field, end, used)
                elif code == layout.DOUBLE and end - field >= 8:
                    used = self._put_double(field, used)
                elif code < layout.LITERAL:
                    used = self._container(code, field, end, depth + 1, used)
                else:
                    used = self._put_scalar(code, field, end, used)
                out = self.out
            if self._budget < 0:
                with cython.gil:
                    raise self._overspent()
        return used

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def _elements(
        self,
        kind: cython.int,
        start: cython.Py_ssize_t,
        count: cython.longlong,
        header: cython.longlong,
        size: cython.longlong,
        depth: cython.int,
        used: cython.Py_ssize_t,
    ) -> cython.Py_ssize_t:
        """Write the opening and the elements of any object or array."""
        data: cython.p_const_uchar = self.data
        large: cython.bint = kind & 1
        is_object: cython.bint = kind < layout.SMALL_ARRAY
        width: cython.int = 4 if large else 2
        at: cython.Py_ssize_t = start + 2 * width
        entry: cython.Py_ssize_t = start + header - count * (width + 1)
        end: cython.Py_ssize_t = start + size
        code: cython.int
        field: cython.longlong
        i: cython.longlong
        self._reserve(used, 0)
        self.out[used] = 123 if is_object else 91
        used += 1
        for i in range(count):
            self._reserve(used, 0)
            if i:
                self.out[used] = 44
                self.out[used + 1] = 32
                used += 2
            if is_object:
                used = self._put_key(large, at, start, header, size, used)
                at += width + 2
            code = data[entry]
            if large:
                field = load_le(data, entry + 1, 4)
                entry += 5
            else:
                field = load_le(data, entry + 1, 2)
                entry += 3
            if code == layout.INT16:
                field &= 0xFFFF
                used = put_signed(self.out, used, field - 0x10000 if field >= 0x8000 else field)
            elif code == layout.LITERAL:
                field &= 0xFF
                if field > 2:
                    with cython.gil:
                        raise malformed("an unknown literal", start)
                used = put_literal(self.out, used, cython.cast(cython.int, field))
            elif code == layout.UINT16:
                used = put_digits(self.out, used, field & 0xFFFF)
            elif large and code in (layout.INT32, layout.UINT32):
                if code == layout.INT32 and field >= _BEYOND_32 >> 1:
                    field -= _BEYOND_32
                used = put_signed(self.out, used, field)
            else:
                if field < header or field >= size:
                    with cython.gil:
                        raise malformed("a value outside of its container", start + field)
                if code == layout.STRING:
                    used = self._put_string(start + field, end, used)
                elif code < layout.LITERAL:
                    used = self._container(code, start + field, end, depth + 1, used)
                else:
                    used = self._put_scalar(code, start + field, end, used)
            if self._budget < 0:
                with cython.gil:
                    raise self._overspent()
        return used

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def _put_key(
        self,
        large: cython.bint,
        at: cython.Py_ssize_t,
        start: cython.Py_ssize_t,
        header: cython.longlong,
        size: cython.longlong,
        used: cython.Py_ssize_t,
    ) -> cython.Py_ssize_t:
        """Write the key whose entry is at ``at``, with the separator before its value."""
        key_at: cython.longlong
        key_size: cython.longlong
        if large:
            key_at = load_le(self.data, at, 4)
            key_size = load_le(self.data, at + 4, 2)
        else:
            key_at = load_le(self.data, at, 2)
            key_size = load_le(self.data, at + 2, 2)
        if key_at < header or key_at + key_size > size:
            with cython.gil:
                raise malformed("a key outside of its object", start + key_at)
        self._budget -= key_size
        self._reserve(used, key_size)
        found: cython.int = copy_quotable(self.out, used + 1, self.data, start + key_at, key_size)
        if found:
            key_at += start
            used = self._end_quoted(key_at, key_at + key_size, used, found)
            out: cython.p_uchar = self.out
        else:
            out = self.out
            out[used] = 34
            used += key_size + 2
            out[used - 1] = 34
        out[used] = 58
        out[used + 1] = 32
        return used + 2
