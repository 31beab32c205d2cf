# cython: boundscheck=False, wraparound=False, cdivision=True
"""Events that were received or read and wait to be decoded, in one piece of memory that is used again.

Bytes come in at the end, are cut into events where they lie (:class:`~.wire.framing.PacketFramer`
cuts packets, :meth:`EventQueue.split` files), and leave at the front. Nothing is copied between the
system call and the decoder.

This module is compiled where that is possible and runs as it stands everywhere else.
"""

from __future__ import annotations

from typing import Any

import cython

if cython.compiled:
    from cython.cimports.cpython.bytearray import PyByteArray_FromStringAndSize
    from cython.cimports.cpython.memoryview import PyMemoryView_GET_BUFFER
    from cython.cimports.replica_client.codec.crc import cut_valid, valid_until
    from cython.cimports.replica_client.codec.memory import copy_bytes, load_le, longs, move_bytes
    from cython.cimports.replica_client.codec.turns import Turn
else:
    from replica_client.codec.crc import cut_valid, valid_until
    from replica_client.codec.memory import copy_bytes, load_le, longs, move_bytes
    from replica_client.codec.turns import Turn

CAPACITY = 2 << 20
"""Bytes of memory that a queue begins with, and goes back to when it is empty after it had many."""

_KEPT = cython.declare(cython.Py_ssize_t, 16 << 20)
_HUGE = cython.declare(cython.Py_ssize_t, 64 << 20)
_SMALL = cython.declare(cython.Py_ssize_t, 16 << 10)
_FIRST_MARKS = 1024
_HEADER = cython.declare(cython.Py_ssize_t, 19)


@cython.cfunc
def _room_of(size: cython.Py_ssize_t) -> bytearray:
    """So many bytes, which nobody has set where that saves touching them."""
    room: bytearray = (
        PyByteArray_FromStringAndSize(cython.NULL, size) if cython.compiled else bytearray(size)
    )
    return room


@cython.final
@cython.cclass
class EventQueue:
    """Events in order, and behind the last one bytes that are not cut yet.

    Attributes:
        waiting: bytes of the events.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._memory = _room_of(capacity)
        self.data: Any = self._memory
        self._capacity = capacity
        self._lent: Any = None
        self._marks_memory = bytearray(16 * _FIRST_MARKS)
        self.marks: Any = longs(self._marks_memory)
        self._marks_capacity = _FIRST_MARKS
        # Marks of events: indexes of the first and behind the last; offsets of the bytes behind.
        self.first = self.last = 0
        # Those of the events, one behind the other, whose checksums :meth:`split` found right.
        self.first_valid = self.last_valid = 0
        self.tail = self.filled = 0
        self.waiting = 0

    def __len__(self) -> int:
        """How many events there are."""
        return int(self.last - self.first)

    @property
    def uncut(self) -> int:
        """How many bytes are not cut yet."""
        return int(self.filled - self.tail)

    def peek(self, offset: int, size: int) -> bytes:
        """Bytes at an offset of those that are not cut."""
        at: cython.Py_ssize_t = self.tail + offset
        return bytes(self.data[at : at + size])

    def event(self, index: int) -> bytes:
        """The bytes of an event."""
        mark: cython.Py_ssize_t = 2 * (self.first + index)
        start: cython.Py_ssize_t = self.marks[mark]
        end: cython.Py_ssize_t = self.marks[mark + 1]
        return bytes(self.data[start:end])

    def take(self) -> bytes:
        """The first event, which the queue has no more; nor does it keep the memory of a very large one."""
        found = self.event(0)
        self.drop(1)
        return found

    def take_all(self) -> list[bytes]:
        """All events, which the queue has no more."""
        found = [self.event(index) for index in range(len(self))]
        self.drop(len(found))
        return found

    def drop(self, count: cython.Py_ssize_t) -> None:
        """Forget the first events."""
        i: cython.Py_ssize_t
        first: cython.Py_ssize_t = self.first
        marks: cython.p_longlong = self.marks
        gone: cython.longlong = 0
        if 2 * count > self.last - first:
            # Fewer stay than go.
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
                # A very large event is gone; what came behind it does not keep its memory.
                self._move_out(begin, 2 * _KEPT)

    def clear(self) -> None:
        """Forget everything."""
        self.tail = self.filled
        self.drop(len(self))

    def room(self, size: int) -> memoryview:
        """Memory for so many more bytes; :meth:`received` tells how many were written there."""
        self._make_room(size)
        return memoryview(self._memory)[self.filled : self.filled + size]

    def received(self, size: int) -> None:
        """Bytes were written into the memory of :meth:`room`."""
        self.filled += size

    def put(self, data: bytes) -> None:
        """Take more bytes."""
        raw: cython.p_const_uchar = data
        self._make_room(len(data))
        copy_bytes(self.data, self.filled, raw, 0, len(data))
        self.filled += len(data)

    def lend(self, memory: memoryview, offset: int) -> None:
        """Have the bytes to come lie in a memory of somebody else, which is only read.

        :meth:`received` takes them in; nothing is copied.

        Args:
            memory: of bytes, contiguous.
            offset: of the first one.
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
        """How many bytes can still be taken in where the memory is."""
        return int(self._capacity - self.filled)

    def pass_over(self, size: int) -> None:
        """Forget the first of the bytes that are not cut."""
        self.tail += size

    def cut(self, size: int) -> None:
        """The first of the bytes that are not cut are an event."""
        self._mark(self.tail, self.tail + size)
        self.tail += size

    def split(
        self,
        max_event_size: cython.longlong,
        formats: bytes,
        checks: cython.bint = False,
        turn: Turn | None = None,
    ) -> int:
        """Cut events with headers of 19 bytes, up to one of a type of ``formats`` or a wrong size.

        Args:
            max_event_size: bytes that one may have.
            formats: type codes.
            checks: look at the checksums of short events, which costs least here.
            turn: this thread has it, and gives it meanwhile.

        Returns:
            the bytes of the events.
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
        """Look at the checksums of all events, as far as they are right.

        Args:
            turn: this thread has it, and gives it meanwhile.
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
        """Mark short events as long as their checksums are right."""
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
        """Have room for so many more bytes."""
        begin: cython.Py_ssize_t = self.tail
        if self.first < self.last:
            begin = self.marks[2 * self.first]
        used: cython.Py_ssize_t = self.filled - begin
        if self._lent is not None:
            return self._move_out(begin, used + size)
        # What stays is moved to the front where that costs less than what was taken in meanwhile.
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
        """Have what lies from ``begin`` on in a memory of this size."""
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
        """The bytes from ``begin`` on are at the front now."""
        i: cython.Py_ssize_t
        for i in range(2 * self.first, 2 * self.last):
            self.marks[i] -= begin
        self.tail -= begin
        self.filled -= begin
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _mark(self, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.int:
        """An event lies there."""
        if self.last == self._marks_capacity:
            self._more_marks()
        self.marks[2 * self.last] = start
        self.marks[2 * self.last + 1] = end
        self.last += 1
        self.waiting += end - start
        return 0

    def _more_marks(self) -> None:
        """Have room for more marks: those of events that are gone, or more memory."""
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
