# cython: boundscheck=False, wraparound=False, cdivision=True
"""Boundaries of ordinary transactions in a file, found by event headers alone.

Nearly all of a binlog (GTID, BEGIN, table maps, rows, XID; a transaction payload) is skipped here
at memory speed. At anything else the scan stops at the start of its transaction, which is then read
event by event.

This module is compiled where that is possible, and runs as plain Python everywhere else.
"""

from __future__ import annotations

import cython

from replica_client.protocol.binlog.layout import CLASSES
from replica_client.stream.position.groups import STEPS

if not cython.compiled:
    from replica_client.protocol.binlog.layout import (
        ARTIFICIAL_FLAG,
        EVENT_SIZE_OFFSET,
        FLAGS_OFFSET,
        HEADER_SIZE,
        MARIADB_FIELDS_OFFSET,
        MARIADB_FLAGS_OFFSET,
        MARIADB_UNUSUAL,
        TIMESTAMP_OFFSET,
        TYPE_OFFSET,
        EventClass,
    )
    from replica_client.protocol.codec.memory import load_le
    from replica_client.stream.position.groups import Ending, State, control_of, step

MORE, UNUSUAL, END = range(3)
"""Reasons for a scan to stop.

MORE: the bytes at its position are needed. UNUSUAL: the transaction is not ordinary. END: the file
ends, or its last event is incomplete.
"""

_MORE = cython.declare(cython.int, 0)
_UNUSUAL = cython.declare(cython.int, 1)
_END = cython.declare(cython.int, 2)
# Class of an event that needs more of its bytes to be classified.
_WAITS = cython.declare(cython.int, -1)


@cython.final
@cython.cclass
class TransactionScan:
    """Scan of a file for transactions.

    Args:
        position: where the scan begins, between transactions.
        checksum_size: bytes after each event's body.
        step: bytes up to which transactions are reported together.

    Attributes:
        position: position of the event at which the scan stopped; with UNUSUAL the first of its
            transaction.
        reason: why the scan stopped.
    """

    def __init__(self, position: int, checksum_size: int, step: int = 0) -> None:
        self.position = position
        self._tail = checksum_size
        self._step = step
        self._state = State.BETWEEN
        self._start = self._timestamp = 0
        self._block_start = -1
        self._block_end = self._block_timestamp = 0
        self.reason = _MORE

    def run(
        self, data: bytes, base: cython.longlong, limit: cython.longlong
    ) -> list[tuple[int, int, int]]:
        """Scan as far as the bytes reach.

        Args:
            data: bytes of the file.
            base: position of the first byte.
            limit: the file's size.

        Returns:
            Start, end and time (seconds since 1970 in the first header) of transactions.
        """
        raw: cython.p_const_uchar = data
        classes: bytes = CLASSES
        steps: bytes = STEPS
        class_table: cython.p_const_uchar = classes
        step_table: cython.p_const_uchar = steps
        ready: cython.longlong = len(data)
        at: cython.longlong
        size: cython.longlong
        event_class: cython.int
        state: cython.int
        found: list[tuple[int, int, int]] = []
        while True:
            at = self.position - base
            if self.position + HEADER_SIZE > limit:
                self.reason = _END
                break
            if at < 0 or at + HEADER_SIZE > ready:
                self.reason = _MORE
                return found
            size = load_le(raw, at + EVENT_SIZE_OFFSET, 4)
            if size < HEADER_SIZE or raw[at + FLAGS_OFFSET] & ARTIFICIAL_FLAG:
                self.reason = _UNUSUAL
                break
            if self.position + size > limit:
                self.reason = _END
                break
            event_class = self._class(raw, at, size, ready, class_table[raw[at + TYPE_OFFSET]])
            if event_class == _WAITS:
                self.reason = _MORE
                return found
            state = step(step_table, self._state, event_class)
            if self._state == State.BETWEEN:
                # A GTID, or a group without one.
                if state != State.NAMED and state != State.OPEN:
                    self.reason = _UNUSUAL
                    break
                self._start = self.position
                self._timestamp = load_le(raw, at + TIMESTAMP_OFFSET, 4)
            if state == State.NAMED or state == State.OPEN:
                self._state = state
                self.position += size
                continue
            if state != State.PAYLOAD and state != Ending.ENDS:
                self.reason = _UNUSUAL
                break
            self._state = State.BETWEEN
            self.position += size
            if self._block_start < 0:
                self._block_start = self._start
                self._block_timestamp = self._timestamp
            self._block_end = self.position
            if self._block_end - self._block_start >= self._step:
                found.append(self._emit())
        if self.reason == _UNUSUAL and self._state != State.BETWEEN:
            self._state = State.BETWEEN
            self.position = self._start
        if self._block_start >= 0:
            found.append(self._emit())
        return found

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _class(
        self,
        raw: cython.p_const_uchar,
        at: cython.longlong,
        size: cython.longlong,
        ready: cython.longlong,
        event_class: cython.int,
    ) -> cython.int:
        """Return the class of an event that ordinary transactions have; QUERY for all others."""
        if event_class == EventClass.QUERY:
            if at + size > ready:
                return _WAITS
            return control_of(raw, at + HEADER_SIZE, at + size - self._tail)
        if event_class == EventClass.MARIADB_GTID:
            if at + HEADER_SIZE + MARIADB_FIELDS_OFFSET > ready:
                return _WAITS
            if (
                raw[at + HEADER_SIZE + MARIADB_FLAGS_OFFSET] & MARIADB_UNUSUAL
                or size < HEADER_SIZE + MARIADB_FIELDS_OFFSET
            ):
                return EventClass.QUERY
            return EventClass.GTID_BEGIN
        if (
            event_class == EventClass.ROWS
            or event_class == EventClass.TABLE_MAP
            or event_class == EventClass.COMMIT
            or event_class == EventClass.GTID
            or event_class == EventClass.ANNOTATION
            or event_class == EventClass.PAYLOAD
            or event_class == EventClass.PART
        ):
            return event_class
        return EventClass.QUERY

    @cython.cfunc
    def _emit(self) -> object:
        block = (int(self._block_start), int(self._block_end), int(self._block_timestamp))
        self._block_start = -1
        return block
