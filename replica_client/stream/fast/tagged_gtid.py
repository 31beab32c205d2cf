# cython: boundscheck=False, wraparound=False, cdivision=True
"""GTID_TAGGED events, and the optional fields of GTID events, read without an object.

Events that differ from those that servers write are left to the classes of
:mod:`replica_client.protocol.binlog.events`, which have the tables of the fields.

This module is compiled where that is possible, and runs as plain Python everywhere else.
"""

from __future__ import annotations

from typing import Any

import cython

if not cython.compiled:
    from replica_client.protocol.binlog.layout import (
        GTID_SID_SIZE,
        GTID_TIMESTAMP_SIZE,
        GTID_VERSION_SIZE,
        LENGTH_3_BYTES,
        LENGTH_NULL,
    )
    from replica_client.protocol.codec.memory import load_le

# Ids of the fields.
_FLAGS = cython.declare(cython.int, 0)
_SID = cython.declare(cython.int, 1)
_NUMBER = cython.declare(cython.int, 2)
_TAG = cython.declare(cython.int, 3)
_COMMIT_TIMESTAMP = cython.declare(cython.int, 6)
_LAST_KNOWN = cython.declare(cython.int, 11)
_VERSION = cython.declare(cython.int, 1)
_LONGEST = cython.declare(cython.int, 9)
_MAX_TAG_SIZE = cython.declare(cython.int, 32)
_UNDERSCORE = cython.declare(cython.int, 0x5F)
_REQUIRED = cython.declare(cython.int, 0x0F)


@cython.final
@cython.cclass
class TaggedGtid:
    """The fields of a GTID_TAGGED event that transactions need.

    Attributes:
        sid: 16 bytes.
        number: 1 or more.
        tag_start: offset of the tag.
        tag_size: its bytes.
        timestamp_us: of the commit; -1 for none.
    """

    def __init__(self) -> None:
        self._sid_memory = bytearray(16)
        self.sid: Any = self._sid_memory
        self.number = self.timestamp_us = 0
        self.tag_start = self.tag_size = 0
        self._at = self._end = 0
        self._wrong = False

    @cython.cfunc
    @cython.exceptval(check=False)
    def read(
        self, raw: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.bint:
        """Read the body from ``at`` to ``end``; return False if something in it is unusual."""
        field: cython.longlong
        before: cython.longlong = -1
        seen: cython.int = 0
        self._at, self._end = at, end
        self._wrong = False
        self.timestamp_us = -1
        if self._unsigned(raw) != _VERSION:
            return False
        if self._unsigned(raw) != end - at:
            return False
        # The field id up to which a reader must know the fields.
        if self._unsigned(raw) > _LAST_KNOWN:
            return False
        while self._at < end and not self._wrong:
            field = self._unsigned(raw)
            if field <= before or field > _LAST_KNOWN:
                return False
            before = field
            seen |= 1 << field
            if field == _SID:
                self._read_sid(raw)
            elif field == _TAG:
                self._read_tag(raw)
            elif field == _NUMBER:
                # Signed: the value is twice the number.
                self.number = self._unsigned(raw)
                self._wrong |= bool(self.number & 1) or self.number <= 0
                self.number >>= 1
            elif field == _COMMIT_TIMESTAMP:
                self.timestamp_us = self._unsigned(raw)
                self._wrong |= self.timestamp_us < 0
            else:
                self._unsigned(raw)
        return not self._wrong and seen & _REQUIRED == _REQUIRED

    @cython.cfunc
    @cython.exceptval(check=False)
    def _unsigned(self, raw: cython.p_const_uchar) -> cython.longlong:
        """Read the next variable-length number.

        Its first byte has a 1 bit for each byte that follows.
        """
        at: cython.Py_ssize_t = self._at
        size: cython.int = 1
        if at >= self._end:
            self._wrong = True
            return 0
        while size < _LONGEST and raw[at] >> (size - 1) & 1:
            size += 1
        if at + size > self._end:
            self._wrong = True
            return 0
        self._at = at + size
        if size == _LONGEST:
            word: cython.ulonglong = load_le(raw, at + 1, 8)
            self._wrong |= bool(word >> 62)
            return cython.cast(cython.longlong, word & 0x3FFFFFFFFFFFFFFF)
        return cython.cast(cython.longlong, load_le(raw, at, size) >> size)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _read_sid(self, raw: cython.p_const_uchar) -> cython.void:
        i: cython.int
        item: cython.longlong
        for i in range(GTID_SID_SIZE):
            item = self._unsigned(raw)
            self._wrong |= item > 0xFF
            self.sid[i] = item & 0xFF

    @cython.cfunc
    @cython.exceptval(check=False)
    def _read_tag(self, raw: cython.p_const_uchar) -> cython.void:
        """Read a tag: lower-case letters, digits and underscores, without a digit at the start."""
        size: cython.longlong = self._unsigned(raw)
        i: cython.Py_ssize_t
        byte: cython.int
        if not 0 < size <= _MAX_TAG_SIZE or self._at + size > self._end:
            self._wrong = True
            return
        for i in range(self._at, self._at + size):
            byte = raw[i]
            if not (0x61 <= byte <= 0x7A or byte == _UNDERSCORE):
                if i == self._at or not 0x30 <= byte <= 0x39:
                    self._wrong = True
        self.tag_start = self._at
        self.tag_size = size
        self._at += size


@cython.final
@cython.cclass
class GtidTail:
    """The optional fields of a GTID event, after its logical clock; -1 for absent ones.

    Attributes:
        immediate: commit timestamp, in microseconds.
        original: that of the first server.
        length: of the transaction.
        version: of the server.
        original_version: of the first server.
    """

    def __init__(self) -> None:
        self.immediate = self.original = self.length = self.version = self.original_version = -1

    @cython.cfunc
    @cython.exceptval(check=False)
    def read(
        self, raw: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Read the fields from ``at``; return the offset after them.

        Returns -1 if a field is cut, or is not in the only form that encodes it.
        """
        size: cython.int
        self.immediate = self.original = self.length = self.version = self.original_version = -1
        if end < at + GTID_TIMESTAMP_SIZE:
            return at
        self.immediate = self.original = load_le(raw, at, GTID_TIMESTAMP_SIZE)
        at += GTID_TIMESTAMP_SIZE
        if self.immediate >> 55:
            if end < at + GTID_TIMESTAMP_SIZE:
                return -1
            self.immediate &= (cython.cast(cython.longlong, 1) << 55) - 1
            self.original = load_le(raw, at, GTID_TIMESTAMP_SIZE)
            at += GTID_TIMESTAMP_SIZE
            if self.original == self.immediate:
                return -1
        if end == at:
            return at
        if raw[at] > LENGTH_3_BYTES or raw[at] == LENGTH_NULL:
            return -1
        size = 1 if raw[at] < LENGTH_NULL else raw[at] - LENGTH_NULL + 2
        if end < at + size:
            return -1
        self.length = raw[at] if size == 1 else load_le(raw, at + 1, size - 1)
        if size > 1 and self.length < (LENGTH_NULL if size == 3 else 1 << 16):
            return -1
        at += size
        if end < at + GTID_VERSION_SIZE:
            return at
        self.version = self.original_version = load_le(raw, at, GTID_VERSION_SIZE)
        at += GTID_VERSION_SIZE
        if self.version >> 31:
            if end < at + GTID_VERSION_SIZE:
                return -1
            self.version &= 0x7FFFFFFF
            self.original_version = load_le(raw, at, GTID_VERSION_SIZE)
            at += GTID_VERSION_SIZE
            if self.original_version == self.version:
                return -1
        return at
