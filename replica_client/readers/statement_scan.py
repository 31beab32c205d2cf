# cython: boundscheck=False, wraparound=False, cdivision=True
"""Passes over the events of a dump that change no table, by their headers, at the speed of memory.

Left are statements (QUERY events that are not BEGIN or COMMIT), transaction payloads, and what is about the
stream and its files.

This module is compiled where that is possible and runs as it stands everywhere else.
"""

from __future__ import annotations

import cython

from replica_client.binlog.header import HEADER_SIZE
from replica_client.constants.event_types import EventType

if cython.compiled:
    from cython.cimports.replica_client.codec.event_queue import EventQueue
    from cython.cimports.replica_client.codec.memory import load_le, same_bytes
else:
    from replica_client.codec.event_queue import EventQueue
    from replica_client.codec.memory import load_le, same_bytes

_HEADER = cython.declare(cython.Py_ssize_t, HEADER_SIZE)
_QUERY = cython.declare(cython.int, int(EventType.QUERY_EVENT))
_ARTIFICIAL = cython.declare(cython.int, 0x20)
_BEGIN_TEXT = b"BEGIN"
_COMMIT_TEXT = b"COMMIT"

# Rows, and what else is inside transactions and is no statement.
_PASSED = bytes(
    int(
        code in (5, 13, 14, 16, 19, 29, 33, 34, 38, 39, 42, 160, 162)
        or 20 <= code <= 25
        or 30 <= code <= 32
        or 166 <= code <= 171
    )
    for code in range(256)
)


@cython.final
@cython.cclass
class StatementScan:
    """Passes over events.

    Attributes:
        size: bytes of the events that were passed over last.
    """

    def __init__(self) -> None:
        self.size = 0

    def pass_over(self, events: EventQueue, offset: cython.longlong, tail: int) -> int:
        """Pass over the first events of a queue, as far as none has to be looked at.

        Args:
            events: the queue; it stays as it is.
            offset: of the first one in its file.
            tail: bytes of the checksum behind each event's body.

        Returns:
            how many; the next is a statement, or does not lie where the one before ends.
        """
        raw: cython.p_const_uchar = events.data
        marks: cython.p_longlong = events.marks
        codes: bytes = _PASSED
        passed: cython.p_const_uchar = codes
        checksum: cython.Py_ssize_t = tail
        index: cython.Py_ssize_t
        at: cython.Py_ssize_t
        size: cython.Py_ssize_t
        told: cython.longlong
        code: cython.int
        begin: cython.longlong = offset
        first: cython.Py_ssize_t = events.first
        last: cython.Py_ssize_t = events.last
        index = first
        while index < last:
            at = cython.cast(cython.Py_ssize_t, marks[2 * index])
            size = cython.cast(cython.Py_ssize_t, marks[2 * index + 1]) - at
            if size < _HEADER or raw[at + 17] & _ARTIFICIAL:
                break
            code = raw[at + 4]
            if not passed[code] and not (
                code == _QUERY and self._is_plain(raw, at, size - checksum)
            ):
                break
            told = load_le(raw, at + 13, 4)
            # MariaDB leaves it out inside transactions.
            if told and told != (offset + size) & 0xFFFFFFFF:
                break
            offset += size
            index += 1
        self.size = offset - begin
        return int(index - first)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _is_plain(
        self, raw: cython.p_const_uchar, at: cython.Py_ssize_t, size: cython.Py_ssize_t
    ) -> cython.bint:
        """Whether a QUERY event is BEGIN or COMMIT."""
        if size < _HEADER + 13:
            return False
        begin: cython.Py_ssize_t = _HEADER + 13 + raw[at + _HEADER + 8] + 1
        begin += cython.cast(cython.Py_ssize_t, load_le(raw, at + _HEADER + 11, 2))
        text: bytes = _BEGIN_TEXT if size - begin == 5 else _COMMIT_TEXT
        known: cython.p_const_uchar = text
        return size - begin == len(text) and same_bytes(raw, at + begin, known, 0, len(text))
