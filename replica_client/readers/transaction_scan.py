# cython: boundscheck=False, wraparound=False, cdivision=True
"""Where ordinary transactions begin and end in a file, by the headers of their events alone.

What nearly all of a binlog is made of (GTID, BEGIN, table maps, rows, XID; a transaction payload) is
passed over here at the speed of memory. At anything else the scan stops at the start of the
transaction that has it, which is then read event by event.

This module is compiled where that is possible and runs as it stands everywhere else.
"""

from __future__ import annotations

import cython

from replica_client.binlog.header import HEADER_SIZE
from replica_client.constants.event_types import EventType

if cython.compiled:
    from cython.cimports.replica_client.codec.memory import load_le, same_bytes
else:
    from replica_client.codec.memory import load_le, same_bytes

MORE, UNUSUAL, END, FOUND = range(4)
"""Why a scan stopped: the bytes at its position are needed; there is something unusual; the file
ends, or the event there is not whole; the wanted table map is there."""

_HEADER = cython.declare(cython.int, HEADER_SIZE)
_QUERY = cython.declare(cython.int, int(EventType.QUERY_EVENT))
_XID = cython.declare(cython.int, int(EventType.XID_EVENT))
_TABLE_MAP = cython.declare(cython.int, int(EventType.TABLE_MAP_EVENT))
_ROWS_QUERY = cython.declare(cython.int, int(EventType.ROWS_QUERY_LOG_EVENT))
_ANNOTATE = cython.declare(cython.int, int(EventType.ANNOTATE_ROWS_EVENT))
_GTID = cython.declare(cython.int, int(EventType.GTID_LOG_EVENT))
_ANONYMOUS = cython.declare(cython.int, int(EventType.ANONYMOUS_GTID_LOG_EVENT))
_TAGGED = cython.declare(cython.int, int(EventType.GTID_TAGGED_LOG_EVENT))
_PAYLOAD = cython.declare(cython.int, int(EventType.TRANSACTION_PAYLOAD_EVENT))
_MARIADB_GTID = cython.declare(cython.int, int(EventType.GTID_EVENT))
_ARTIFICIAL = cython.declare(cython.int, 0x20)
_MORE = cython.declare(cython.int, 0)
_UNUSUAL = cython.declare(cython.int, 1)
_END = cython.declare(cython.int, 2)
_FOUND = cython.declare(cython.int, 3)
# Of a transaction: none is open, its GTID was there, it has begun.
_NONE = cython.declare(cython.int, 0)
_NAMED = cython.declare(cython.int, 1)
_OPEN = cython.declare(cython.int, 2)
_BEGIN_TEXT = b"BEGIN"
_COMMIT_TEXT = b"COMMIT"


@cython.final
@cython.cclass
class TransactionScan:
    """Scans a file.

    Args:
        position: where it begins, between transactions.
        checksum_size: bytes behind each event's body.
        step: transactions are given together until they have so many bytes.
        wanted: bytes of a table map from the database's length to the NUL behind the table's name,
            at which the scan stops; empty for none.

    Attributes:
        position: the event that it stopped at; with UNUSUAL the first of its transaction.
        reason: why it stopped.
        table_map: with FOUND the event.
    """

    def __init__(
        self, position: int, checksum_size: int, step: int = 0, wanted: bytes = b""
    ) -> None:
        self.position = position
        self._tail = checksum_size
        self._step = step
        self._wanted = wanted
        self._phase = _NONE
        self._start = self._timestamp = 0
        self._block_start = -1
        self._block_end = self._block_timestamp = 0
        self.reason = _MORE
        self.table_map = b""

    def run(
        self, data: bytes, base: cython.longlong, limit: cython.longlong
    ) -> list[tuple[int, int, int]]:
        """Go on as far as the bytes reach.

        Args:
            data: bytes of the file.
            base: position of the first one.
            limit: the file's size.

        Returns:
            start, end and time (seconds since 1970 in the first header) of transactions.
        """
        raw: cython.p_const_uchar = data
        ready: cython.longlong = len(data)
        at: cython.longlong
        size: cython.longlong
        code: cython.int
        ended: cython.bint
        found: list[tuple[int, int, int]] = []
        while True:
            at = self.position - base
            if self.position + _HEADER > limit:
                self.reason = _END
                break
            if at < 0 or at + _HEADER > ready:
                self.reason = _MORE
                return found
            size = load_le(raw, at + 9, 4)
            code = raw[at + 4]
            if size < _HEADER or raw[at + 17] & _ARTIFICIAL:
                self.reason = _UNUSUAL
                break
            if self.position + size > limit:
                self.reason = _END
                break
            ended = False
            if self._phase == _OPEN:
                if code == _TABLE_MAP and self._wanted:
                    if at + size > ready:
                        self.reason = _MORE
                        return found
                    if self._is_wanted(raw, at, size):
                        self.table_map = data[at : at + size]
                        self.reason = _FOUND
                        break
                if (
                    23 <= code <= 25
                    or code == _TABLE_MAP
                    or 30 <= code <= 32
                    or code in (_ROWS_QUERY, _ANNOTATE)
                    or 166 <= code <= 171
                ):
                    self.position += size
                    continue
                if code == _XID:
                    ended = True
                elif code == _QUERY:
                    if at + size > ready:
                        self.reason = _MORE
                        return found
                    if not self._is_query(raw, at, size, _COMMIT_TEXT):
                        self.reason = _UNUSUAL
                        break
                    ended = True
                else:
                    self.reason = _UNUSUAL
                    break
            elif self._phase == _NAMED:
                if code == _QUERY:
                    if at + size > ready:
                        self.reason = _MORE
                        return found
                    if not self._is_query(raw, at, size, _BEGIN_TEXT):
                        self.reason = _UNUSUAL
                        break
                    self._phase = _OPEN
                elif code == _PAYLOAD and not self._wanted:
                    ended = True
                else:
                    self.reason = _UNUSUAL
                    break
            elif code in (_GTID, _ANONYMOUS, _TAGGED):
                self._phase = _NAMED
                self._start = self.position
                self._timestamp = load_le(raw, at, 4)
            elif code == _MARIADB_GTID:
                if at + _HEADER + 13 > ready:
                    self.reason = _MORE
                    return found
                # Neither standalone nor XA.
                if raw[at + _HEADER + 12] & 0xE1 or size < _HEADER + 13:
                    self.reason = _UNUSUAL
                    break
                self._phase = _OPEN
                self._start = self.position
                self._timestamp = load_le(raw, at, 4)
            else:
                self.reason = _UNUSUAL
                break
            self.position += size
            if ended:
                self._phase = _NONE
                if self._block_start < 0:
                    self._block_start = self._start
                    self._block_timestamp = self._timestamp
                self._block_end = self.position
                if self._block_end - self._block_start >= self._step:
                    found.append(self._emit())
        if self.reason == _UNUSUAL and self._phase != _NONE:
            self._phase = _NONE
            self.position = self._start
        if self._block_start >= 0:
            found.append(self._emit())
        return found

    @cython.cfunc
    def _emit(self) -> object:
        block = (int(self._block_start), int(self._block_end), int(self._block_timestamp))
        self._block_start = -1
        return block

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _is_query(
        self,
        raw: cython.p_const_uchar,
        at: cython.Py_ssize_t,
        size: cython.Py_ssize_t,
        text: bytes,
    ) -> cython.bint:
        """Whether a QUERY event is this statement."""
        end: cython.Py_ssize_t = size - self._tail
        if end < _HEADER + 13:
            return False
        begin: cython.Py_ssize_t = _HEADER + 13 + raw[at + _HEADER + 8] + 1
        begin += cython.cast(cython.Py_ssize_t, load_le(raw, at + _HEADER + 11, 2))
        known: cython.p_const_uchar = text
        return begin + len(text) == end and same_bytes(raw, at + begin, known, 0, len(text))

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _is_wanted(
        self, raw: cython.p_const_uchar, at: cython.Py_ssize_t, ready: cython.Py_ssize_t
    ) -> cython.bint:
        """Whether a table map is of the wanted table."""
        wanted: cython.p_const_uchar = self._wanted
        size: cython.Py_ssize_t = len(self._wanted)
        # Behind the table's number and the flags.
        return _HEADER + 8 + size <= ready and same_bytes(raw, at + _HEADER + 8, wanted, 0, size)
