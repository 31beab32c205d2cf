# cython: boundscheck=False, wraparound=False, cdivision=True
"""The GTIDs of consecutive transactions, as runs of numbers.

This module is compiled where that is possible, and runs as plain Python everywhere else.
"""

from __future__ import annotations

from typing import Any

import cython

from replica_client.protocol.constants.event_types import EventType
from replica_client.protocol.gtid import Gtid, MariadbGtid

if not cython.compiled:
    from replica_client.protocol.binlog.layout import (
        GTID_NUMBER_OFFSET,
        GTID_SID_OFFSET,
        GTID_SID_SIZE,
        GTID_TIMESTAMP_OFFSET,
        GTID_TIMESTAMP_SIZE,
        HEADER_SIZE,
        MARIADB_COMMIT_ID,
        MARIADB_COMMIT_ID_SIZE,
        MARIADB_DOMAIN_OFFSET,
        MARIADB_FIELDS_OFFSET,
        MARIADB_FLAGS_OFFSET,
        MARIADB_SEQUENCE_OFFSET,
        MARIADB_THREAD_ID_SIZE,
        SERVER_ID_OFFSET,
        TYPE_OFFSET,
    )
    from replica_client.protocol.codec.memory import load_le
    from replica_client.stream.fast.tagged_gtid import TaggedGtid

_ANONYMOUS = cython.declare(cython.int, int(EventType.ANONYMOUS_GTID_LOG_EVENT))
_TAGGED = cython.declare(cython.int, int(EventType.GTID_TAGGED_LOG_EVENT))
_MARIADB_GTID = cython.declare(cython.int, int(EventType.GTID_EVENT))
_NOBODY = cython.declare(cython.int, 0)
_MYSQL = cython.declare(cython.int, 1)
_MYSQL_TAGGED = cython.declare(cython.int, 2)
_MARIADB = cython.declare(cython.int, 3)
_SECOND_TIMESTAMP = cython.declare(cython.longlong, 1 << 55)
_NO_BYTES = b""


@cython.final
@cython.cclass
class GtidRuns:
    """Collector of the GTIDs of fast path transactions, in constant time per GTID.

    Attributes:
        found: the runs that ended; see
            :data:`~replica_client.stream.fast.transaction_gtids.GtidRun`.
        last: the last number of the current run, 0 for none.
        prefix: text of the GTID that was read, up to its number; empty for an anonymous one.
        number: its number; 0 for none.
        timestamp_us: microseconds since 1970 of its commit; -1 if the event does not say.
        thread: number of the source's session; -1 if the event does not say.
    """

    def __init__(self) -> None:
        self.found: list[Any] = []
        self._first = self.last = 0
        self.prefix = _NO_BYTES
        self.number = 0
        self.timestamp_us = self.thread = -1
        # Origin of the current run: for MySQL the UUID (its bytes also as numbers, as they are
        # compared for each GTID) and the tag, for MariaDB the domain and the server.
        self._kind = _NOBODY
        self._sid = self._tag = _NO_BYTES
        self._sid_first = self._sid_second = 0
        self._domain = self._server = 0
        self._prefix = _NO_BYTES
        self._tagged: TaggedGtid = TaggedGtid()
        self._read_at = -1

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def read(
        self, raw: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.int:
        """Read the GTID event at ``at``, whose checksum begins at ``end``.

        Ends the current run if the GTID has another server or domain.
        """
        code: cython.int = raw[at + TYPE_OFFSET]
        body: cython.Py_ssize_t = at + HEADER_SIZE
        self._identify(raw, at, end)
        self._read_at = at
        self.prefix = _NO_BYTES if code == _ANONYMOUS else self._prefix
        self.timestamp_us = self.thread = -1
        if code == _TAGGED:
            self.timestamp_us = self._tagged.timestamp_us
        elif code == _MARIADB_GTID:
            at = body + MARIADB_FIELDS_OFFSET
            if raw[body + MARIADB_FLAGS_OFFSET] & MARIADB_COMMIT_ID:
                at += MARIADB_COMMIT_ID_SIZE
            if end > at and raw[at]:
                # The fast path accepts no other field there than the session's number.
                self.thread = load_le(raw, at + 1, MARIADB_THREAD_ID_SIZE)
        else:
            at = body + GTID_TIMESTAMP_OFFSET
            if end >= at + GTID_TIMESTAMP_SIZE:
                self.timestamp_us = load_le(raw, at, GTID_TIMESTAMP_SIZE) & ~_SECOND_TIMESTAMP
        return 0

    @cython.cfunc
    @cython.inline
    @cython.exceptval(-1, check=False)
    def _identify(
        self, raw: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.int:
        """Read the number and the origin of a GTID event."""
        code: cython.int = raw[at + TYPE_OFFSET]
        body: cython.Py_ssize_t = at + HEADER_SIZE
        if code == _MARIADB_GTID:
            self.number = load_le(raw, body + MARIADB_SEQUENCE_OFFSET, 8)
            self._mariadb(
                load_le(raw, body + MARIADB_DOMAIN_OFFSET, 4),
                load_le(raw, at + SERVER_ID_OFFSET, 4),
            )
        elif code == _TAGGED:
            tagged: TaggedGtid = self._tagged
            tagged.read(raw, body, end)
            self.number = tagged.number
            if (
                self._is_other(_MYSQL_TAGGED, tagged.sid, 0)
                or len(self._tag) != tagged.tag_size
                or bytes(raw[tagged.tag_start : tagged.tag_start + tagged.tag_size]) != self._tag
            ):
                self._begin_mysql(
                    _MYSQL_TAGGED,
                    bytes(tagged.sid[0:GTID_SID_SIZE]),
                    bytes(raw[tagged.tag_start : tagged.tag_start + tagged.tag_size]),
                )
        elif code == _ANONYMOUS:
            self.number = 0
        else:
            self.number = load_le(raw, body + GTID_NUMBER_OFFSET, 8)
            body += GTID_SID_OFFSET
            if self._is_other(_MYSQL, raw, body):
                self._begin_mysql(_MYSQL, bytes(raw[body : body + GTID_SID_SIZE]), _NO_BYTES)
        return 0

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _is_other(
        self, kind: cython.int, sid: cython.p_const_uchar, at: cython.Py_ssize_t
    ) -> cython.bint:
        """Return whether the current run has another kind or server.

        Compares numbers only, as this is called for each GTID.
        """
        return (
            self._kind != kind
            or load_le(sid, at, 8) != self._sid_first
            or load_le(sid, at + GTID_SID_SIZE // 2, 8) != self._sid_second
        )

    def _begin_mysql(self, kind: int, sid: bytes, tag: bytes) -> None:
        """Begin a run of another UUID or tag."""
        self._end()
        self._sid, self._tag = sid, tag
        self._sid_first = int.from_bytes(sid[: GTID_SID_SIZE // 2], "little")
        self._sid_second = int.from_bytes(sid[GTID_SID_SIZE // 2 :], "little")
        self._kind = kind
        self._prefix = str(self._gtid(1)).removesuffix("1").encode()

    def _gtid(self, number: int) -> Gtid:
        return Gtid(self._sid, number, self._tag.decode())

    @cython.cfunc
    @cython.inline
    @cython.exceptval(-1, check=False)
    def _mariadb(self, domain: cython.longlong, server: cython.longlong) -> cython.int:
        if self._kind != _MARIADB or domain != self._domain or server != self._server:
            self._end()
            self._kind = _MARIADB
            self._domain, self._server = domain, server
            self._prefix = f"{domain}-{server}-".encode()
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def join(
        self, raw: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.int:
        """Join the GTID of a finished transaction, whose GTID event is at ``at``, to the run."""
        # Mostly the event was read just before.
        if at != self._read_at:
            self._identify(raw, at, end)
        self._read_at = -1
        if not self.number:
            return 0
        if self._kind != _MARIADB and self.last:
            if self.number != self.last and self.number != self.last + 1:
                self._end()
        if not self.last:
            self._first = self.number
        self.last = self.number
        return 0

    def forget_read(self) -> None:
        """Forget which event was read last, as its memory was moved or freed."""
        self._read_at = -1

    def _end(self) -> None:
        """End the current run."""
        if not self.last:
            return
        if self._kind == _MARIADB:
            gtid: Any = MariadbGtid(self._domain, self._server, self.last)
        else:
            gtid = self._gtid(self._first)
        self.found.append((gtid, self.last))
        self._first = self.last = 0

    def take(self) -> list[Any]:
        """Return all runs and start a new list."""
        self._end()
        found, self.found = self.found, []
        return found
