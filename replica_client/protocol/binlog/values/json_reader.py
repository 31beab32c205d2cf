# cython: boundscheck=False, wraparound=False, cdivision=True
"""A decoder of JSON documents to Python objects.

This module is compiled where that is possible (Cython's pure Python mode); elsewhere it runs as
plain Python. :mod:`replica_client.protocol.binlog.values.json_layout` describes the layout of the bytes.
"""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

import cython

from replica_client.errors import ColumnDecodeError
from replica_client.protocol.binlog.values.json_encoder import (
    NEWDECIMAL,
    TEMPORAL_TYPES,
    VAR_STRING,
    JsonOpaque,
    decimal_text,
    temporal_value,
)
from replica_client.protocol.binlog.values.json_layout import (
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
    opaque_bounds,
    sized,
    utf8,
)

if cython.compiled:
    from cython.cimports.libc.string import memcpy
else:
    from replica_client.protocol.codec.ascii_text import text_of
    from replica_client.protocol.codec.memory import load_le, load_signed, same_bytes

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
_EXPANSION_LIMIT = cython.declare(cython.longlong, EXPANSION_LIMIT)

_LITERALS = (None, True, False)
_DOUBLE_STRUCT = struct.Struct("<d")

# Known member names by a hash of their bytes: documents of a column share them.
_KEY_SLOTS = cython.declare(cython.int, 1024)
_MAX_KEPT_KEY = cython.declare(cython.int, 64)
_keys = cython.declare(list, [(b"", "")] * 1024)


def scalar_value(data: bytes, kind: int, at: int, end: int) -> Any:
    """Return the value of type ``kind`` at ``at``, which is no container and not inlined.

    Raises:
        ColumnDecodeError: there is no such value.
    """
    if kind == STRING:
        start, stop = sized(data, at, end)
        return utf8(data, start, stop)
    if kind == DOUBLE:
        number = double(data, at, end)
        if number - number != 0.0:
            raise malformed(f"{number} is not a JSON number", at)
        return number
    if kind == LITERAL:
        if at >= end or data[at] > 2:
            raise malformed("an unknown literal", at)
        return _LITERALS[data[at]]
    if kind == OPAQUE:
        code, start, stop = opaque_bounds(data, at, end)
        if code == VAR_STRING:
            return utf8(data, start, stop)
        payload = data[start:stop]
        if code == NEWDECIMAL:
            return Decimal(decimal_text(payload))
        if code in TEMPORAL_TYPES:
            return temporal_value(code, payload)
        return JsonOpaque(code, payload)
    return integer(data, kind, at, end)


@cython.ccall
def decode_json_value(data: bytes) -> object:
    """Decode a document to Python objects; see :attr:`~.json_binary.JsonDocument.value`.

    Raises:
        ColumnDecodeError: the bytes are not a document.
    """
    if not data:
        return None
    if data[0] >= LITERAL:
        return scalar_value(data, data[0], 1, len(data))
    reader: JsonValueReader = JsonValueReader(data)
    return reader._container(data[0], 1, len(data), 0)


@cython.ccall
def decode_json_bytes(data: bytes, convert: Any) -> object:
    """Decode a document to Python objects, with the stored bytes for keys and texts.

    Args:
        data: the document.
        convert: is called with each value of :func:`decode_json_value` that is no container, text
            or small number; returns the value to use.

    Raises:
        ColumnDecodeError: the bytes are not a document.
    """
    if not data:
        return None
    if data[0] >= LITERAL:
        return convert(scalar_value(data, data[0], 1, len(data)))
    reader: JsonValueReader = JsonValueReader(data)
    reader._convert = convert
    return reader._container(data[0], 1, len(data), 0)


@cython.final
@cython.freelist(8)
@cython.cclass
class JsonValueReader:
    """A reader of one document."""

    def __init__(self, source: bytes) -> None:
        self._source = source
        self._data = source
        self._budget = _EXPANSION_LIMIT * len(source)
        self._convert: Any = None

    def _overspent(self) -> ColumnDecodeError:
        return ColumnDecodeError(
            f"malformed JSON document: overlapping values take more than {EXPANSION_LIMIT} times "
            f"its {len(self._source)} bytes"
        )

    @cython.cfunc
    def _container(
        self,
        kind: cython.int,
        start: cython.Py_ssize_t,
        limit: cython.Py_ssize_t,
        depth: cython.int,
    ) -> object:
        """Read the object or array whose value is at ``start``."""
        if depth >= _MAX_DEPTH:
            raise ColumnDecodeError(f"JSON document with more than {MAX_DEPTH} nested levels")
        data: cython.p_const_uchar = self._data
        large: cython.bint = kind & 1
        width: cython.int = 4 if large else 2
        at: cython.Py_ssize_t = start + 2 * width
        if at > limit:
            raise malformed("a container that is cut off", start)
        count: cython.longlong = load_le(data, start, width)
        size: cython.longlong = load_le(data, start + width, width)
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
        key_at: cython.longlong
        key_size: cython.longlong
        value: object
        if not is_object:
            items: list[Any] = []
            for _ in range(count):
                items.append(self._value(large, entry, start, header, end, depth))
                entry += width + 1
            return items
        members: dict[str, Any] = {}
        for _ in range(count):
            key_at = load_le(data, at, width)
            key_size = load_le(data, at + width, 2)
            at += width + 2
            if key_at < header or key_at + key_size > size:
                raise malformed("a key outside of its object", start + key_at)
            self._budget -= key_size
            value = self._value(large, entry, start, header, end, depth)
            entry += width + 1
            members[self._key(start + key_at, key_size)] = value
        return members

    @cython.cfunc
    def _value(
        self,
        large: cython.bint,
        entry: cython.Py_ssize_t,
        start: cython.Py_ssize_t,
        header: cython.longlong,
        end: cython.Py_ssize_t,
        depth: cython.int,
    ) -> object:
        """Read the value with its entry at ``entry``, in a container from ``start`` to ``end``."""
        data: cython.p_const_uchar = self._data
        code: cython.int = data[entry]
        field: cython.longlong = load_le(data, entry + 1, 4 if large else 2)
        if code == _INT16:
            field &= 0xFFFF
            return field - 0x10000 if field >= 0x8000 else field
        if code == _LITERAL:
            field &= 0xFF
            if field > 2:
                raise malformed("an unknown literal", start)
            return None if field == 0 else field == 1
        if code == _UINT16:
            return field & 0xFFFF
        if large and code in (_INT32, _UINT32):
            return load_signed(data, entry + 1, 4) if code == _INT32 else field
        if field < header or field >= end - start:
            raise malformed("a value outside of its container", start + field)
        if self._budget < 0:
            raise self._overspent()
        if code < _LITERAL:
            return self._container(code, start + field, end, depth + 1)
        return self._value_at(code, start + field, end)

    @cython.cfunc
    def _value_at(self, code: cython.int, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> object:
        """Read the value of type ``code`` at ``at``, which is no container."""
        data: cython.p_const_uchar = self._data
        length: cython.Py_ssize_t
        start: cython.Py_ssize_t
        if code == _STRING:
            length = data[at]
            start = at + 1
            if length >= 0x80:
                start, stop = sized(self._source, at, end)
                length = stop - start
            if length > end - start:
                raise malformed(f"{length} bytes where {end - start} are left", start)
            self._budget -= length
            if self._budget < 0:
                raise self._overspent()
            return self._text(start, length)
        if code == _DOUBLE and end - at >= 8:
            number: cython.double = 0
            if cython.compiled:
                bits: cython.ulonglong = load_le(data, at, 8)
                memcpy(cython.address(number), cython.address(bits), 8)
            else:
                number = _DOUBLE_STRUCT.unpack_from(data, at)[0]
            if number - number != 0.0:
                raise malformed(f"{number} is not a JSON number", at)
            return number
        if code == _INT32 and end - at >= 4:
            return load_signed(data, at, 4)
        if code == _UINT32 and end - at >= 4:
            return load_le(data, at, 4)
        if code == _INT64 and end - at >= 8:
            return load_signed(data, at, 8)
        if code == _UINT64 and end - at >= 8:
            return load_le(data, at, 8)
        if code == _OPAQUE:
            _, begin, stop = opaque_bounds(self._source, at, end)
            self._budget -= stop - begin
            if self._budget < 0:
                raise self._overspent()
        value: object = scalar_value(self._source, code, at, end)
        return value if self._convert is None else self._convert(value)

    @cython.cfunc
    def _text(self, at: cython.Py_ssize_t, length: cython.Py_ssize_t) -> object:
        """Read the string of ``length`` bytes at ``at``; the caller has checked the length."""
        data: cython.p_const_uchar = self._data
        if self._convert is not None:
            return self._source[at : at + length]
        try:
            return text_of(data, at, length)
        except UnicodeDecodeError:
            return utf8(self._source, at, at + length)

    @cython.cfunc
    def _key(self, at: cython.Py_ssize_t, length: cython.Py_ssize_t) -> object:
        """Read the member name of ``length`` bytes at ``at``; the caller has checked the length."""
        if self._budget < 0:
            raise self._overspent()
        if length > _MAX_KEPT_KEY or not length:
            return self._text(at, length)
        data: cython.p_const_uchar = self._data
        slot: cython.longlong = length
        i: cython.Py_ssize_t
        for i in range(at, at + length):
            slot = (slot * 31 + data[i]) & 0x7FFFFFF
        slot = (slot ^ (slot >> 10)) & (_KEY_SLOTS - 1)
        pair: tuple[bytes, str] = _keys[slot]
        known: bytes = pair[0]
        raw: cython.p_const_uchar = known
        if len(known) == length and same_bytes(raw, 0, data, at, length):
            return pair[1] if self._convert is None else known
        key = self._source[at : at + length]
        name = self._text(at, length) if self._convert is None else utf8(key, 0, length)
        _keys[slot] = (key, name)
        return name if self._convert is None else key
