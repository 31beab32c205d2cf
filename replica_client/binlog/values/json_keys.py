# cython: boundscheck=False, wraparound=False, cdivision=True
"""The keys of JSON objects that came before, checked and quoted once.

The objects of one table have the same keys over and over. The keys of a small object are one run of
entries, which say where each key is, and one run of names; a server writes both without gaps. When
the bytes of both runs are those of an object that was written before, so is the text of its keys,
and nothing about them has to be checked again.

Compiled where that is possible, plain Python everywhere else.
"""

from __future__ import annotations

from typing import Any

import cython

if cython.compiled:
    from cython.cimports.replica_client.codec.memory import (
        copy_quotable,
        fingerprint,
        load_le,
        same_bytes,
        utf8_ok,
    )
else:
    from replica_client.codec.memory import (
        copy_quotable,
        fingerprint,
        load_le,
        same_bytes,
        utf8_ok,
    )

if not cython.compiled:
    RECENT_MASK = 7

SECTIONS = 32
"""Key sections that a memo keeps; each has one place, where another can displace it."""

MOST_BYTES = 1024
"""Bytes of entries and names that a section may have, which bounds what a memo holds."""

_MOST_BYTES = cython.declare(cython.Py_ssize_t, MOST_BYTES)
_NOWHERE = cython.declare(cython.Py_ssize_t, SECTIONS)
# Leaves the number of a place, below SECTIONS.
_SECTION_SHIFT = cython.declare(cython.int, 59)
# Behind the text of a section, which is copied 16 bytes at a time.
_OVERREAD = bytes(16)


@cython.final
@cython.cclass
class KeySection:
    """The keys of an object.

    Attributes:
        mark: the fingerprint of its bytes.
        count: the number of keys.
        size: bytes of all names.
        entries: the entries as in the document.
        names: the names as in the document.
        text: per key its text with what is before and behind it, ``{"name": `` for the first and
            ``, "name": `` for the others, after its length in two bytes.
    """

    def __init__(self, mark: int, entries: bytes, names: bytes, text: bytes) -> None:
        self.mark = mark
        self.count = len(entries) // 4
        self.size = len(names)
        self._entries = entries
        self._names = names
        self._text = text + _OVERREAD
        self.entries = self._entries
        self.names = self._names
        self.text = self._text


@cython.final
@cython.cclass
class KeyMemo:
    """Key sections that came at least twice.

    Attributes:
        recent: what was found last at a depth, of which the bits of ``RECENT_MASK`` count; at first
            a section without keys. No references.
    """

    def __init__(self) -> None:
        nothing = KeySection(0, b"", b"", b"")
        # The last one stays without keys. It is here that the sections are kept; what is read
        # without the interpreter's lock has no references.
        self._sections: list[KeySection] = [nothing] * (SECTIONS + 1)
        self._missed = 0
        if not cython.compiled:
            self._positions: Any = self._sections
            self.recent: Any = [nothing] * (RECENT_MASK + 1)
            return
        self._offsets_memory = bytearray(8 * (SECTIONS + 1))
        raw: cython.p_uchar = self._offsets_memory
        self._positions = cython.cast(cython.pp_void, raw)
        self._recent_memory = bytearray(8 * (RECENT_MASK + 1))
        raw = self._recent_memory
        self.recent = cython.cast(cython.pp_void, raw)
        i: cython.int
        for i in range(SECTIONS + 1):
            self._positions[i] = cython.cast(cython.p_void, nothing)
        for i in range(RECENT_MASK + 1):
            self.recent[i] = cython.cast(cython.p_void, nothing)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _displace(self, position: cython.Py_ssize_t, section: KeySection) -> cython.int:
        """Keep a section instead of the one that is there."""
        i: cython.int
        for i in range(RECENT_MASK + 1):
            if self.recent[i] == self._positions[position]:
                self.recent[i] = self._positions[_NOWHERE]
        self._sections[position] = section
        if cython.compiled:
            self._positions[position] = cython.cast(cython.p_void, section)
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def find(
        self,
        data: cython.p_const_uchar,
        start: cython.Py_ssize_t,
        count: cython.Py_ssize_t,
        header: cython.Py_ssize_t,
        size: cython.Py_ssize_t,
        depth: cython.int,
    ) -> cython.p_void:
        """The keys of the small object at ``start`` when they are known; no reference to them.

        Then all of them lie between its header and its end.

        Args:
            data: the document.
            start: where the object's element count is.
            count: its elements, at least one.
            header: bytes up to the end of its value entries, which are there.
            size: bytes of the object, which are there.
            depth: containers around it.
        """
        names: cython.Py_ssize_t = _names_size(data, start, count, header)
        if names <= 0 or names > size - header:
            return cython.NULL
        mark: cython.ulonglong = _mark(data, start, count, header, names)
        found: cython.p_void = self._positions[_section_number(mark)]
        if cython.cast(KeySection, found).mark == mark and has_keys(
            cython.cast(KeySection, found), data, start, count, header, size
        ):
            self.recent[depth & RECENT_MASK] = found
            return found
        return cython.NULL

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def learn(self, data: cython.p_const_uchar, start: cython.Py_ssize_t) -> cython.int:
        """Remember the keys of a small object that is in order, when it is missed twice in a row.

        What never comes again is not worth it, so a single object is not learnt.

        Returns:
            whether they are remembered now.
        """
        count: cython.Py_ssize_t = load_le(data, start, 2)
        header: cython.Py_ssize_t = 4 + 7 * count
        names: cython.Py_ssize_t = _names_size(data, start, count, header)
        if names <= 0 or names + 4 * count > _MOST_BYTES:
            return 0
        mark: cython.ulonglong = _mark(data, start, count, header, names)
        if mark != self._missed:
            self._missed = mark
            return 0
        text = _text(data, start, count, header, names)
        if text is not None:
            entries: bytes = data[start + 4 : start + 4 + 4 * count]
            name_bytes: bytes = data[start + header : start + header + names]
            self._displace(_section_number(mark), KeySection(mark, entries, name_bytes, text))
            return 1
        return 0


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def has_keys(
    keys: KeySection,
    data: cython.p_const_uchar,
    start: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    header: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
) -> cython.bint:
    """Whether the small object at ``start`` has these keys; arguments as of :meth:`KeyMemo.find`."""
    return (
        keys.count == count
        and keys.size <= size - header
        and same_bytes(keys.entries, 0, data, start + 4, 4 * count)
        and same_bytes(keys.names, 0, data, start + header, keys.size)
    )


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def _section_number(mark: cython.ulonglong) -> cython.Py_ssize_t:
    return cython.cast(cython.Py_ssize_t, mark >> _SECTION_SHIFT)


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def _names_size(
    data: cython.p_const_uchar,
    start: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    header: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Bytes from the end of the header to the end of the last key."""
    last: cython.Py_ssize_t = start + 4 * count
    end: cython.Py_ssize_t = load_le(data, last, 2) + load_le(data, last + 2, 2)
    return end - header


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def _mark(
    data: cython.p_const_uchar,
    start: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    header: cython.Py_ssize_t,
    names: cython.Py_ssize_t,
) -> cython.ulonglong:
    return fingerprint(data, start + header, names, load_le(data, start + 4 * count, 4))


@cython.cfunc
def _text(
    data: cython.p_const_uchar,
    start: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    header: cython.Py_ssize_t,
    names: cython.Py_ssize_t,
) -> bytes | None:
    """The text of the keys as in a section; None when they have gaps or need to be escaped."""
    at: cython.Py_ssize_t = start + 4
    expected: cython.Py_ssize_t = header
    size: cython.Py_ssize_t
    found: cython.int
    i: cython.Py_ssize_t
    room = bytearray(_MOST_BYTES)
    parts: list[bytes] = []
    for i in range(count):
        size = load_le(data, at + 2, 2)
        if load_le(data, at, 2) != expected or size > header + names - expected:
            return None
        found = copy_quotable(room, 0, data, start + expected, size)
        if found == 2 or (found and not utf8_ok(data, start + expected, size)):
            return None
        key = (b', "' if i else b'{"') + bytes(room[:size]) + b'": '
        parts.append(len(key).to_bytes(2, "little") + key)
        expected += size
        at += 4
    return b"".join(parts)
