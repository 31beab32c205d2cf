# cython: boundscheck=False, wraparound=False, cdivision=True
"""A queue of encoded events in one reused buffer, between the network or a file and the decoder.

Bytes are appended at the end, cut into events in place (:class:`~.wire.framing.PacketFramer` cuts
packets, :meth:`EventQueue.split` files), and removed at the front. Nothing is copied between the
system call and the decoder.

This module is compiled where that is possible; elsewhere it runs as plain Python.
"""

from __future__ import annotations

from typing import Any

import cython

if cython.compiled:
    from cython.cimports.cpython.bytearray import PyByteArray_FromStringAndSize
    from cython.cimports.cpython.memoryview import PyMemoryView_GET_BUFFER
else:
    from replica_client.protocol.codec.crc import cut_valid, valid_until
    from replica_client.protocol.codec.memory import copy_bytes, load_le, longs, move_bytes
    from replica_client.protocol.codec.turns import Turn

CAPACITY = 2 << 20
"""Initial size of a queue's buffer; an empty queue shrinks a large buffer to this size."""

_KEPT = cython.declare(cython.Py_ssize_t, 16 << 20)
_HUGE = cython.declare(cython.Py_ssize_t, 64 << 20)
_SMALL = cython.declare(cython.Py_ssize_t, 16 << 10)
_FIRST_MARKS = 1024
_HEADER = cython.declare(cython.Py_ssize_t, 19)


@cython.cfunc
def _room_of(size: cython.Py_ssize_t) -> bytearray:
    """Allocate a buffer; the compiled form does not initialize it."""
    room: bytearray = (
        PyByteArray_FromStringAndSize(cython.NULL, size) if cython.compiled else bytearray(size)
    )
    return room


@cython.final
@cython.cclass
class EventQueue:
    """Events in order, followed by bytes that are not cut into events yet.

    Attributes:
        waiting: number of bytes of the events.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._memory = _room_of(capacity)
        self.data: Any = self._memory
        self._capacity = capacity
        self._lent: Any = None
        self._marks_memory = bytearray(16 * _FIRST_MARKS)
        self.marks: Any = longs(self._marks_memory)
        self._marks_capacity = _FIRST_MARKS
        # Indexes of the first event's mark and after the last one; offsets of the uncut bytes.
        self.first = self.last = 0
        # Indexes of the first and after the last event with a verified checksum.
        self.first_valid = self.last_valid = 0
        self.tail = self.filled = 0
        self.waiting = 0

    def __len__(self) -> int:
        """Return the number of events."""
        return int(self.last - self.first)

    @property
    def uncut(self) -> int:
        """Number of bytes that are not cut into events yet."""
        return int(self.filled - self.tail)

    def peek(self, offset: int, size: int) -> bytes:
        """Return `size` of the uncut bytes, from `offset` on."""
        at: cython.Py_ssize_t = self.tail + offset
        return bytes(self.data[at : at + size])

    def event(self, index: int) -> bytes:
        """Return the bytes of an event."""
        mark: cython.Py_ssize_t = 2 * (self.first + index)
        start: cython.Py_ssize_t = self.marks[mark]
        end: cython.Py_ssize_t = self.marks[mark + 1]
        return bytes(self.data[start:end])

    def take(self) -> bytes:
        """Remove the first event and return its bytes; free the memory of a very large one."""
        found = self.event(0)
        self.drop(1)
        return found

    def take_all(self) -> list[bytes]:
        """Remove all events and return their bytes."""
        found = [self.event(index) for index in range(len(self))]
        self.drop(len(found))
        return found

    def drop(self, count: cython.Py_ssize_t) -> None:
        """Remove the first `count` events."""
        i: cython.Py_ssize_t
        first: cython.Py_ssize_t = self.first
        marks: cython.p_longlong = self.marks
        gone: cython.longlong = 0
        if 2 * count > self.last - first:
            # Fewer events stay than are removed: subtract the sizes of those.
            gone = self.waiting
            for i in range(first + count, self.last):
                gone -= marks[2 * i + 1] - marks[2 * i]
        else:
            for i in range(first, first + count):
                gone += marks[2 * i + 1] - marks[2 * i]
        self.waiting -= gone
        self.first += count
        if self.first == self.last:
            self.first = self.last = 0
            self.first_valid = self.last_valid = 0
            if self.tail == self.filled and self._lent is None:
                self.tail = self.filled = 0
                if self._capacity > _KEPT:
                    self._memory = _room_of(CAPACITY)
                    self.data = self._memory
                    self._capacity = CAPACITY
                return
        if self._capacity > _HUGE and self._lent is None:
            begin: cython.Py_ssize_t = self.tail
            if self.first < self.last:
                begin = marks[2 * self.first]
            if self.filled - begin <= _KEPT:
                # A very large event was removed: do not keep its buffer for the few bytes after it.
                self._move_out(begin, 2 * _KEPT)

    def clear(self) -> None:
        """Remove all events and uncut bytes."""
        self.tail = self.filled
        self.drop(len(self))

    def room(self, size: int) -> memoryview:
        """Return memory for `size` more bytes; report what is written there to :meth:`received`."""
        self._make_room(size)
        return memoryview(self._memory)[self.filled : self.filled + size]

    def received(self, size: int) -> None:
        """Add `size` bytes, which were written into the memory of :meth:`room`, as uncut bytes."""
        self.filled += size

    def put(self, data: bytes) -> None:
        """Append a copy of `data`."""
        raw: cython.p_const_uchar = data
        self._make_room(len(data))
        copy_bytes(self.data, self.filled, raw, 0, len(data))
        self.filled += len(data)

    def lend(self, memory: memoryview, offset: int) -> None:
        """Read from a borrowed buffer, without copying or writing to it.

        Report to :meth:`received` how many of its bytes are ready.

        Args:
            memory: contiguous bytes.
            offset: of the first byte to read.
        """
        self._lent = memory
        if cython.compiled:
            self.data = cython.cast(cython.p_uchar, PyMemoryView_GET_BUFFER(memory).buf)
        else:
            self.data = memory
        self._capacity = len(memory)
        self.first = self.last = 0
        self.first_valid = self.last_valid = 0
        self.tail = self.filled = offset

    @property
    def left(self) -> int:
        """Number of bytes that fit at the end of the current buffer."""
        return int(self._capacity - self.filled)

    def pass_over(self, size: int) -> None:
        """Discard the first `size` uncut bytes."""
        self.tail += size

    def cut(self, size: int) -> None:
        """Make an event of the first `size` uncut bytes."""
        self._mark(self.tail, self.tail + size)
        self.tail += size

    def split(
        self,
        max_event_size: cython.longlong,
        formats: bytes,
        checks: cython.bint = False,
        turn: Turn | None = None,
    ) -> int:
        """Cut events with headers of 19 bytes, up to a type in ``formats`` or a wrong size.

        Args:
            max_event_size: the most bytes that an event may have.
            formats: type codes.
            checks: also verify the checksums of short events, which is cheapest
                here.
            turn: the lock of this thread, released while checksums are verified.

        Returns:
            the number of bytes that were cut.
        """
        data: cython.p_uchar = self.data
        marks: cython.p_longlong = self.marks
        room: cython.Py_ssize_t = self._marks_capacity
        at: cython.Py_ssize_t = self.tail
        filled: cython.Py_ssize_t = self.filled
        last: cython.Py_ssize_t = self.last
        size: cython.longlong
        stops = bytearray(256)
        for code in formats:
            stops[code] = 1
        types: cython.p_uchar = stops
        if checks:
            self._cut_valid(max_event_size, types, turn)
            marks = self.marks
            room = self._marks_capacity
            last = self.last
            if last > self.first_valid:
                at = marks[2 * last - 1]
        while filled - at >= _HEADER:
            size = load_le(data, at + 9, 4)
            if size < _HEADER or size > filled - at or size > max_event_size:
                break
            if types[data[at + 4]]:
                break
            if last == room:
                self.last = last
                self._more_marks()
                marks = self.marks
                room = self._marks_capacity
                last = self.last
            marks[2 * last] = at
            at += size
            marks[2 * last + 1] = at
            last += 1
        self.last = last
        size = at - self.tail
        self.waiting += size
        self.tail = at
        return int(size)

    def verify(self, turn: Turn | None = None) -> None:
        """Verify the checksums of the events in order, up to the first wrong one.

        Args:
            turn: the lock of this thread, released meanwhile.
        """
        first: cython.Py_ssize_t = self.first
        begin: cython.Py_ssize_t = first
        if self.first_valid <= first < self.last_valid:
            begin = self.last_valid
        with cython.nogil:
            if cython.compiled and turn is not None:
                turn._give()
            begin = valid_until(self.data, self.marks, begin, self.last)
            if cython.compiled and turn is not None:
                turn._take()
        self.first_valid = first
        self.last_valid = begin

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _cut_valid(
        self, max_event_size: cython.longlong, stops: cython.p_uchar, turn: Turn | None
    ) -> cython.int:
        """Cut short events with right checksums."""
        at: cython.Py_ssize_t = self.tail
        last: cython.Py_ssize_t = self.last
        first: cython.Py_ssize_t = last
        while True:
            with cython.nogil:
                if cython.compiled and turn is not None:
                    turn._give()
                last = cut_valid(
                    self.data,
                    at,
                    self.filled,
                    self.marks,
                    self.last,
                    self._marks_capacity,
                    max_event_size,
                    stops,
                )
                if cython.compiled and turn is not None:
                    turn._take()
            if last > self.last:
                at = self.marks[2 * last - 1]
                self.last = last
            if last + 4 <= self._marks_capacity:
                break
            first -= self.first
            self._more_marks()
        self.first_valid = first
        self.last_valid = self.last
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _make_room(self, size: cython.Py_ssize_t) -> cython.int:
        """Make sure that `size` more bytes fit: reuse free space or move to a larger buffer."""
        begin: cython.Py_ssize_t = self.tail
        if self.first < self.last:
            begin = self.marks[2 * self.first]
        used: cython.Py_ssize_t = self.filled - begin
        if self._lent is not None:
            return self._move_out(begin, used + size)
        # Few bytes stay: moving them costs less than the removed bytes did.
        if begin and used <= _SMALL and used <= begin:
            self._move_to_front()
            begin = 0
        if size <= self._capacity - self.filled:
            return 0
        if begin and used + size <= self._capacity and used <= begin:
            return self._move_to_front()
        capacity: cython.Py_ssize_t = 2 * self._capacity
        return self._move_out(begin, capacity if capacity > used + size else used + size)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _move_out(self, begin: cython.Py_ssize_t, capacity: cython.Py_ssize_t) -> cython.int:
        """Move the bytes from ``begin`` on to a new buffer."""
        used: cython.Py_ssize_t = self.filled - begin
        grown = _room_of(capacity)
        raw: cython.p_uchar = grown
        copy_bytes(raw, 0, self.data, begin, used)
        self._memory = grown
        self.data = grown
        self._lent = None
        self._capacity = capacity
        return self._renumber(begin)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _move_to_front(self) -> cython.int:
        begin: cython.Py_ssize_t = self.tail
        if self.first < self.last:
            begin = self.marks[2 * self.first]
        move_bytes(self.data, 0, begin, self.filled - begin)
        return self._renumber(begin)

    def _renumber(self, begin: cython.Py_ssize_t) -> int:
        """Adjust all offsets after the bytes from ``begin`` on were moved to the front."""
        i: cython.Py_ssize_t
        for i in range(2 * self.first, 2 * self.last):
            self.marks[i] -= begin
        self.tail -= begin
        self.filled -= begin
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _mark(self, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.int:
        """Append the mark of an event."""
        if self.last == self._marks_capacity:
            self._more_marks()
        self.marks[2 * self.last] = start
        self.marks[2 * self.last + 1] = end
        self.last += 1
        self.waiting += end - start
        return 0

    def _more_marks(self) -> None:
        """Make space for more marks: reuse that of removed events, or grow the mark buffer."""
        count: cython.Py_ssize_t = self.last - self.first
        memory = self._marks_memory
        if self.first < count:
            self._marks_capacity *= 2
            memory = bytearray(16 * self._marks_capacity)
        marks: cython.p_longlong = longs(memory)
        i: cython.Py_ssize_t
        for i in range(2 * count):
            marks[i] = self.marks[2 * self.first + i]
        self._marks_memory = memory
        self.marks = marks
        self.first_valid -= self.first
        self.last_valid -= self.first
        self.first = 0
        self.last = count
