# cython: boundscheck=False, wraparound=False, cdivision=True
"""A memo of JSON objects' keys, so that repeated keys are checked and quoted once.

The objects of one table mostly have the same keys. The keys of a small object are a run of entries
with the offset of each key, and a run of names; a server writes both without gaps. If the bytes of
both runs equal those of an earlier object, the text of the keys is the same, and the keys need no
check.

Compiled where that is possible; plain Python elsewhere.
"""

from __future__ import annotations

from typing import Any

import cython

if not cython.compiled:
    from replica_client.protocol.codec.memory import (
        copy_quotable,
        fingerprint,
        load_le,
        same_bytes,
        utf8_ok,
    )

if not cython.compiled:
    RECENT_MASK = 7

SECTIONS = 32
"""Number of key sections in a memo; each has one slot, where another can displace it."""

MOST_BYTES = 1024
"""The most bytes of entries and names in a section, which limits a memo's memory."""

_MOST_BYTES = cython.declare(cython.Py_ssize_t, MOST_BYTES)
_NOWHERE = cython.declare(cython.Py_ssize_t, SECTIONS)
# The shift leaves a slot number below SECTIONS.
_SECTION_SHIFT = cython.declare(cython.int, 59)
# Padding after a section's text, which is copied 16 bytes at a time.
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
        text: for each key a length in two bytes, then its text with separators: ``{"name": `` for
            the first key and ``, "name": `` for the others.
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
    """The key sections that occurred at least twice.

    Attributes:
        recent: the section found last at each depth (by the bits of ``RECENT_MASK``); at first a
            section without keys. Borrowed references.
    """

    def __init__(self) -> None:
        nothing = KeySection(0, b"", b"", b"")
        # The last section stays without keys. This list owns the references: code that runs
        # without the GIL only borrows them.
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
        """Store a section in a slot, replacing the previous section."""
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
        """Return the known keys of the small object at ``start``, as a borrowed reference, or NULL.

        If they are known, all keys are between the object's header and its end.

        Args:
            data: the document.
            start: offset of the object's element count.
            count: its elements, at least one.
            header: bytes up to the end of its value entries; within the document.
            size: bytes of the object; within the document.
            depth: number of containers around it.
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
        """Store the keys of a valid small object when it is missed twice in a row.

        Keys that occur only once are not worth storing.

        Returns:
            whether the keys are stored now.
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
    """Return whether the small object at ``start`` has these keys; see :meth:`KeyMemo.find`."""
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
    """Return the bytes from the end of the header to the end of the last key."""
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
    """Return the text of the keys for a section; None for keys with gaps or escapes."""
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
