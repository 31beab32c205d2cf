# cython: boundscheck=False, wraparound=False, cdivision=True
"""Scan of a dump that skips events which change no table, by their headers, at memory speed.

It leaves statements (QUERY events that are not BEGIN or COMMIT), transaction payloads, and events
about the stream and its files.

This module is compiled where that is possible, and runs as plain Python everywhere else.
"""

from __future__ import annotations

import cython

from replica_client.protocol.binlog.layout import CLASSES, EventClass as _Class

if not cython.compiled:
    from replica_client.protocol.binlog.layout import (
        ARTIFICIAL_FLAG,
        FLAGS_OFFSET,
        HEADER_SIZE,
        NEXT_POSITION_OFFSET,
        TYPE_OFFSET,
        EventClass,
    )
    from replica_client.protocol.codec.event_queue import EventQueue
    from replica_client.protocol.codec.memory import load_le
    from replica_client.stream.position.groups import control_of

_PASSED_CLASSES = (
    _Class.ROWS,
    _Class.TABLE_MAP,
    _Class.ANNOTATION,
    _Class.PART,
    _Class.COMMIT,
    _Class.GTID,
    _Class.MARIADB_GTID,
    _Class.XA_PREPARE,
)
_BEGINNINGS = (_Class.GTID, _Class.MARIADB_GTID)
# 1: the type is skipped; 2: its text decides; 3: it begins a transaction.
_PASSED = bytes(
    2 if kind == _Class.QUERY else 3 if kind in _BEGINNINGS else int(kind in _PASSED_CLASSES)
    for kind in CLASSES
)
NO_LIMIT = 1 << 62
"""A limit larger than any number of bytes."""


@cython.final
@cython.cclass
class StatementScan:
    """Scan that skips events which change no table.

    Attributes:
        size: bytes of the events that were skipped last.
        whole: number of the events before the last transaction whose GTID event is among them.
        whole_size: bytes of these.
    """

    def __init__(self) -> None:
        self.size = self.whole = self.whole_size = 0

    def pass_over(
        self,
        events: EventQueue,
        offset: cython.longlong,
        tail: int,
        limit: int = NO_LIMIT,
    ) -> int:
        """Skip the first events of a queue, as far as none has to be looked at.

        Args:
            events: the queue; it is not changed.
            offset: offset of the first event in its file.
            tail: bytes of the checksum after each event's body.
            limit: bytes that the skipped events may have together.

        Returns:
            The number of skipped events. The next event is a statement, does not begin where the
            previous one ends, or is beyond the limit.
        """
        raw: cython.p_const_uchar = events.data
        marks: cython.p_longlong = events.marks
        codes: bytes = _PASSED
        passed: cython.p_const_uchar = codes
        checksum: cython.Py_ssize_t = tail
        index: cython.Py_ssize_t
        at: cython.Py_ssize_t
        size: cython.Py_ssize_t
        stated: cython.longlong
        kind: cython.int
        begin: cython.longlong = offset
        most: cython.longlong = limit
        whole: cython.Py_ssize_t = 0
        whole_end: cython.longlong = offset
        first: cython.Py_ssize_t = events.first
        last: cython.Py_ssize_t = events.last
        index = first
        while index < last:
            at = cython.cast(cython.Py_ssize_t, marks[2 * index])
            size = cython.cast(cython.Py_ssize_t, marks[2 * index + 1]) - at
            if size < HEADER_SIZE or raw[at + FLAGS_OFFSET] & ARTIFICIAL_FLAG:
                break
            kind = passed[raw[at + TYPE_OFFSET]]
            if not kind or (
                kind == 2
                and control_of(raw, at + HEADER_SIZE, at + size - checksum) == EventClass.QUERY
            ):
                break
            stated = load_le(raw, at + NEXT_POSITION_OFFSET, 4)
            # MariaDB leaves out the end position inside transactions.
            if stated and stated != (offset + size) & 0xFFFFFFFF:
                break
            if kind == 3:
                whole, whole_end = index - first, offset
            if offset + size - begin > most:
                break
            offset += size
            index += 1
        self.size = offset - begin
        self.whole, self.whole_size = whole, whole_end - begin
        return int(index - first)
