# cython: boundscheck=False, wraparound=False, cdivision=True
"""Passes over the events of a dump that change no table, by their headers, at the speed of memory.

Left are statements (QUERY events that are not BEGIN or COMMIT), transaction payloads, and what is about the
stream and its files.

This module is compiled where that is possible and runs as it stands everywhere else.
"""

from __future__ import annotations

import cython

from replica_client.binlog.layout import CLASSES
from replica_client.binlog.layout import EventClass as _Class

if cython.compiled:
    from cython.cimports.replica_client.binlog.layout import (
        ARTIFICIAL_FLAG,
        FLAGS_OFFSET,
        HEADER_SIZE,
        NEXT_POSITION_OFFSET,
        TYPE_OFFSET,
        EventClass,
    )
    from cython.cimports.replica_client.codec.event_queue import EventQueue
    from cython.cimports.replica_client.codec.memory import load_le
    from cython.cimports.replica_client.position.groups import control_of
else:
    from replica_client.binlog.layout import (
        ARTIFICIAL_FLAG,
        FLAGS_OFFSET,
        HEADER_SIZE,
        NEXT_POSITION_OFFSET,
        TYPE_OFFSET,
        EventClass,
    )
    from replica_client.codec.event_queue import EventQueue
    from replica_client.codec.memory import load_le
    from replica_client.position.groups import control_of

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
# 1 for a type that is passed over, 2 for one whose text tells, 3 for one that begins a transaction.
_PASSED = bytes(
    2 if kind == _Class.QUERY else 3 if kind in _BEGINNINGS else int(kind in _PASSED_CLASSES)
    for kind in CLASSES
)
NO_LIMIT = 1 << 62
"""More than any bytes."""


@cython.final
@cython.cclass
class StatementScan:
    """Passes over events.

    Attributes:
        size: bytes of the events that were passed over last.
        whole: how many of them are before the last transaction that has a GTID event among them.
        whole_size: bytes of those.
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
        """Pass over the first events of a queue, as far as none has to be looked at.

        Args:
            events: the queue; it stays as it is.
            offset: of the first one in its file.
            tail: bytes of the checksum behind each event's body.
            limit: bytes that they have together at most.

        Returns:
            how many; the next is a statement, does not lie where the one before ends, or is behind a limit.
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
            # MariaDB leaves it out inside transactions.
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
