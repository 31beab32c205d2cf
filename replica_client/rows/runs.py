# cython: boundscheck=False, wraparound=False, cdivision=True
"""The change columns of a batch, kept by event and written by row when the batch is finished.

All rows of an event have the same file, offset, transaction and so on. A run is the part of one
event in the batch: one record of integers for any number of rows. Texts are kept once; a text with
a number in it (a GTID, a commit version) is kept as a common text and that number.

This module is compiled where that is possible and runs as it stands everywhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cython

if not cython.compiled:
    from replica_client.protocol.codec.memory import copy_bytes
    from replica_client.protocol.codec.turns import Turn

KINDS = ("insert", "update", "delete")
_UPDATE = cython.declare(cython.int, 1)

# The integers of a run.
_KIND = cython.declare(cython.int, 1)
_ROW_INDEX = cython.declare(cython.int, 2)
_ABSENT_BEFORE = cython.declare(cython.int, 11)
_ABSENT_AFTER = cython.declare(cython.int, 12)
_SIZE = cython.declare(cython.int, 13)
FILE, VERSION, GTID = 6, 7, 9

CHANGE_TYPES = ("insert", "update_preimage", "delete", "update_postimage")
"""Row types: by kind of change, followed by an update's second row."""
_AFTER_UPDATE = cython.declare(cython.int, 3)
_NO_NUMBER = cython.declare(cython.longlong, -1)
_SEVERAL = cython.declare(cython.longlong, -(1 << 62))
_MAX_TEXTS = cython.declare(cython.int, 1024)


@cython.cfunc
def _longs(buffer: Any, at: cython.Py_ssize_t) -> cython.p_longlong:
    """Return a buffer's memory as 64-bit numbers, from a byte offset on."""
    if cython.compiled:
        return cython.cast(cython.p_longlong, cython.cast(cython.size_t, buffer.address) + at)
    return memoryview(buffer).cast("B")[at:].cast("q")


@cython.cfunc
def _ints(buffer: Any, at: cython.Py_ssize_t) -> cython.p_int:
    """Return a buffer's memory as 32-bit numbers, from a byte offset on."""
    if cython.compiled:
        return cython.cast(cython.p_int, cython.cast(cython.size_t, buffer.address) + at)
    return memoryview(buffer).cast("B")[at:].cast("i")


@cython.cfunc
def _bytes(buffer: Any, at: cython.Py_ssize_t) -> cython.p_uchar:
    """Return a buffer's memory, from a byte offset on."""
    if cython.compiled:
        return cython.cast(cython.p_uchar, cython.cast(cython.size_t, buffer.address) + at)
    return memoryview(buffer).cast("B")[at:]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _digit_count(number: cython.longlong, width: cython.int) -> cython.int:
    """Return the digits of a number that is padded with zeros to ``width``."""
    count: cython.int = 1
    while number >= 10:
        number //= 10
        count += 1
    return count if count > width else width


@cython.final
@cython.cclass
class EventRuns:
    """The runs of a batch.

    Args:
        allocate: returns a resizable buffer of a size in bytes.

    Attributes:
        era: changes when texts lose their indexes.
    """

    def __init__(self, allocate: Callable[[int], Any]) -> None:
        self._allocate = allocate
        self._capacity = 0
        self._count = 0
        self.era = 0
        self._buffer: Any = None
        if not cython.compiled:
            self._fields: Any = None
        self._ids: dict[tuple[bytes, int, bytes], int] = {}
        self._prefixes: list[bytes] = []
        self._widths: list[int] = []
        self._suffixes: list[bytes] = []

    def __len__(self) -> int:
        return int(self._count)

    def text(self, prefix: str, width: int = 0, suffix: str = "") -> int:
        """Return the index of a text; with ``width``, of one around a number of so many digits."""
        return int(self._text(prefix.encode("utf-8", "surrogateescape"), width, suffix.encode()))

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _text(self, prefix: bytes, width: cython.int, suffix: bytes) -> cython.int:
        key = (prefix, width, suffix)
        found = self._ids.get(key)
        if found is None:
            found = self._ids[key] = len(self._prefixes)
            self._prefixes.append(prefix)
            self._widths.append(width)
            self._suffixes.append(suffix)
        return found

    def add(
        self,
        kind: int,
        changes: int,
        row_index: int,
        timestamp_us: int,
        offset: int,
        event_index: int,
        file: int,
        version: int,
        version_number: int,
        gtid: int,
        gtid_number: int,
        absent_before: int = 0,
        absent_after: int = 0,
    ) -> None:
        """Add a run.

        Args:
            kind: index in :data:`KINDS`.
            changes: number of changes; an update has two rows.
            row_index: of the first one in its event.
            timestamp_us: of the commit.
            offset: of the event.
            event_index: in its transaction.
            file: text index of its name.
            version: text index of the commit version.
            version_number: the number in that text, -1 for none.
            gtid: text index of the GTID.
            gtid_number: likewise.
            absent_before: index of the list of columns that before images (of inserts: the only
                ones) lack; 0: none.
            absent_after: of after images.
        """
        self._add(
            kind,
            changes,
            row_index,
            timestamp_us,
            offset,
            event_index,
            file,
            version,
            version_number,
            gtid,
            gtid_number,
            absent_before,
            absent_after,
        )

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def _add(
        self,
        kind: cython.int,
        changes: cython.longlong,
        row_index: cython.longlong,
        timestamp_us: cython.longlong,
        offset: cython.longlong,
        event_index: cython.longlong,
        file: cython.int,
        version: cython.int,
        version_number: cython.longlong,
        gtid: cython.int,
        gtid_number: cython.longlong,
        absent_before: cython.int,
        absent_after: cython.int,
    ) -> cython.int:
        if self._count == self._capacity:
            with cython.gil:
                self._grow()
        fields: cython.p_longlong = self._fields
        at: cython.Py_ssize_t = self._count * _SIZE
        fields[at] = changes
        fields[at + 1] = kind
        fields[at + 2] = row_index
        fields[at + 3] = timestamp_us
        fields[at + 4] = offset
        fields[at + 5] = event_index
        fields[at + 6] = file
        fields[at + 7] = version
        fields[at + 8] = version_number
        fields[at + 9] = gtid
        fields[at + 10] = gtid_number
        fields[at + 11] = absent_before
        fields[at + 12] = absent_after
        self._count += 1
        return 0

    def _grow(self) -> None:
        capacity = self._capacity * 4 or 16
        if self._buffer is None:
            self._buffer = self._allocate(capacity * _SIZE * 8)
        else:
            if not cython.compiled:
                self._fields = None
            self._buffer.resize(capacity * _SIZE * 8)
        self._fields = _longs(self._buffer, 0)
        self._capacity = capacity

    def clear(self) -> None:
        """Remove all runs; drop the texts if they are many."""
        self._count = 0
        if len(self._prefixes) > _MAX_TEXTS:
            self._ids = {}
            self.era += 1
            self._prefixes, self._widths, self._suffixes = [], [], []

    def common_kind(self) -> int | None:
        """Return the kind of all changes as index in :data:`KINDS`; None if they differ."""
        kind: cython.longlong = self._common(_KIND)
        return None if kind == _SEVERAL else int(kind)

    def common_text(self, field: cython.int) -> bytes | None:
        """Return the text of all runs; None if they differ, or the text has a number."""
        text: cython.longlong = self._common(field)
        if text == _SEVERAL or (field != 6 and self._common(field + 1) != _NO_NUMBER):
            return None
        common: bytes = self._prefixes[text]
        return common

    @cython.cfunc
    @cython.exceptval(check=False)
    def _common(self, field: cython.int) -> cython.longlong:
        """Return the number that all runs have in a field; ``_SEVERAL`` if they differ."""
        fields: cython.p_longlong = self._fields
        run: cython.Py_ssize_t
        if not self._count:
            return _SEVERAL
        number: cython.longlong = fields[field]
        for run in range(1, self._count):
            if fields[run * _SIZE + field] != number:
                return _SEVERAL
        return number

    def fill_columns(
        self,
        buffer: Any,
        turn: Turn | None,
        stamps_at: int,
        offsets_at: int,
        events_at: int,
        rows_at: int,
    ) -> None:
        """Write times, offsets, event indexes and row indexes for each row.

        Other threads may work meanwhile.

        Args:
            buffer: receives all of them.
            turn: held by this thread, and released meanwhile; None: no other thread decodes.
            stamps_at: byte offset of the times.
            offsets_at: byte offset of the events' offsets.
            events_at: byte offset of the indexes of events in their transaction.
            rows_at: byte offset of the indexes of rows in their event.
        """
        stamps: cython.p_longlong = _longs(buffer, stamps_at)
        offsets: cython.p_longlong = _longs(buffer, offsets_at)
        events: cython.p_longlong = _longs(buffer, events_at)
        rows: cython.p_longlong = _longs(buffer, rows_at)
        with cython.nogil:
            if cython.compiled and turn is not None:
                turn._give()
            self._fill_numbers(stamps, 3)
            self._fill_numbers(offsets, 4)
            self._fill_numbers(events, 5)
            self._fill_row_indexes(rows)
            if cython.compiled and turn is not None:
                turn._take()

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _fill_numbers(self, out: cython.p_longlong, field: cython.int) -> cython.void:
        """Write a field of each run for each of its rows."""
        fields: cython.p_longlong = self._fields
        row: cython.Py_ssize_t = 0
        run: cython.Py_ssize_t
        rows: cython.Py_ssize_t
        number: cython.longlong
        i: cython.Py_ssize_t
        for run in range(self._count):
            rows = fields[run * _SIZE]
            if fields[run * _SIZE + _KIND] == _UPDATE:
                rows *= 2
            number = fields[run * _SIZE + field]
            for i in range(rows):
                out[row + i] = number
            row += rows

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _fill_row_indexes(self, out: cython.p_longlong) -> cython.void:
        """Write each row's index in its event."""
        fields: cython.p_longlong = self._fields
        row: cython.Py_ssize_t = 0
        run: cython.Py_ssize_t
        changes: cython.longlong
        first: cython.longlong
        i: cython.longlong
        for run in range(self._count):
            changes = fields[run * _SIZE]
            first = fields[run * _SIZE + _ROW_INDEX]
            if fields[run * _SIZE + _KIND] == _UPDATE:
                for i in range(changes):
                    out[row + 2 * i] = out[row + 2 * i + 1] = first + i
                row += 2 * changes
            else:
                for i in range(changes):
                    out[row + i] = first + i
                row += changes

    def leaves_out(self) -> bool:
        """Return whether any image lacks columns."""
        fields: cython.p_longlong = self._fields
        run: cython.Py_ssize_t
        found: cython.longlong = 0
        for run in range(self._count):
            found |= fields[run * _SIZE + _ABSENT_BEFORE] | fields[run * _SIZE + _ABSENT_AFTER]
        return bool(found)

    def fill_absent(self, buffer: Any) -> None:
        """Write for each row the index of its list of absent columns."""
        fields: cython.p_longlong = self._fields
        run: cython.Py_ssize_t
        row: cython.Py_ssize_t = 0
        before: cython.int
        after: cython.int
        out: cython.p_int = _ints(buffer, 0)
        for run in range(self._count):
            before = cython.cast(cython.int, fields[run * _SIZE + _ABSENT_BEFORE])
            after = cython.cast(cython.int, fields[run * _SIZE + _ABSENT_AFTER])
            for _ in range(fields[run * _SIZE]):
                out[row] = before
                row += 1
                if fields[run * _SIZE + _KIND] == _UPDATE:
                    out[row] = after
                    row += 1

    def fill_change_types(self, buffer: Any) -> None:
        """Write each row's change type, as its index in :data:`CHANGE_TYPES`."""
        out: cython.p_int = _ints(buffer, 0)
        fields: cython.p_longlong = self._fields
        run: cython.Py_ssize_t
        row: cython.Py_ssize_t = 0
        kind: cython.int
        for run in range(self._count):
            kind = cython.cast(cython.int, fields[run * _SIZE + _KIND])
            for _ in range(fields[run * _SIZE]):
                out[row] = kind
                row += 1
                if kind == _UPDATE:
                    out[row] = _AFTER_UPDATE
                    row += 1

    def change_together(self, field: cython.int, other: cython.int) -> bool:
        """Return whether two text fields change at the same runs."""
        run: cython.Py_ssize_t
        differ: cython.bint = False
        for run in range(self._count):
            differ |= self._repeats(run, field) != self._repeats(run, other)
        return not differ

    def text_size(self, field: cython.int) -> int:
        """Return the bytes of the texts of all runs, without immediate repetitions."""
        run: cython.Py_ssize_t
        total: cython.longlong = 0
        for run in range(self._count):
            if not self._repeats(run, field):
                total += self._size_of(run, field)
        return int(total)

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _repeats(self, run: cython.Py_ssize_t, field: cython.int) -> cython.bint:
        """Return whether a run has the text of the previous run."""
        at: cython.Py_ssize_t = run * _SIZE + field
        fields: cython.p_longlong = self._fields
        if run == 0 or fields[at] != fields[at - _SIZE]:
            return False
        return field == 6 or fields[at + 1] == fields[at + 1 - _SIZE]

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _size_of(self, run: cython.Py_ssize_t, field: cython.int) -> cython.Py_ssize_t:
        """Return the bytes of a run's text."""
        text: cython.Py_ssize_t = self._fields[run * _SIZE + field]
        size: cython.Py_ssize_t = len(cython.cast(bytes, self._prefixes[text]))
        number: cython.longlong = _NO_NUMBER
        if field != 6:
            number = self._fields[run * _SIZE + field + 1]
        if number != _NO_NUMBER:
            size += _digit_count(number, self._widths[text])
            size += len(cython.cast(bytes, self._suffixes[text]))
        return size

    def fill_text(
        self, buffer: Any, indexes_at: int, offsets_at: int, data_at: int, field: cython.int
    ) -> int:
        """Write the texts of the runs, and for each row the index of its text.

        Args:
            buffer: receives all of them.
            indexes_at: byte offset of a 32-bit index for each row; -1: do not write them.
            offsets_at: byte offset of the texts' offsets, one more than there are runs.
            data_at: byte offset of the texts, :meth:`text_size` bytes.
            field: the text field.

        Returns:
            The number of texts.
        """
        wanted: cython.bint = indexes_at >= 0
        offsets: cython.p_int = _ints(buffer, offsets_at)
        indexes: cython.p_int = _ints(buffer, indexes_at) if wanted else offsets
        data: cython.p_uchar = _bytes(buffer, data_at)
        fields: cython.p_longlong = self._fields
        run: cython.Py_ssize_t
        row: cython.Py_ssize_t = 0
        at: cython.Py_ssize_t = 0
        i: cython.Py_ssize_t
        rows: cython.Py_ssize_t
        count: cython.int = 0
        offsets[0] = 0
        for run in range(self._count):
            if not self._repeats(run, field):
                at += self._write(run, field, data, at)
                count += 1
                offsets[count] = cython.cast(cython.int, at)
            if not wanted:
                continue
            rows = fields[run * _SIZE]
            if fields[run * _SIZE + _KIND] == _UPDATE:
                rows *= 2
            for i in range(rows):
                indexes[row + i] = count - 1
            row += rows
        return int(count)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _write(
        self,
        run: cython.Py_ssize_t,
        field: cython.int,
        data: cython.p_uchar,
        at: cython.Py_ssize_t,
    ) -> cython.Py_ssize_t:
        """Write the text of a run; return its size."""
        text: cython.Py_ssize_t = self._fields[run * _SIZE + field]
        prefix: bytes = self._prefixes[text]
        size: cython.Py_ssize_t = len(prefix)
        source: cython.p_const_uchar = prefix
        copy_bytes(data, at, source, 0, size)
        number: cython.longlong = _NO_NUMBER
        if field != 6:
            number = self._fields[run * _SIZE + field + 1]
        if number == _NO_NUMBER:
            return size
        i: cython.int
        count: cython.int = _digit_count(number, self._widths[text])
        for i in range(count - 1, -1, -1):
            data[at + size + i] = 48 + number % 10
            number //= 10
        size += count
        suffix: bytes = self._suffixes[text]
        source = suffix
        copy_bytes(data, at + size, source, 0, len(suffix))
        return size + len(suffix)
