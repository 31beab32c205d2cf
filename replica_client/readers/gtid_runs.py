# cython: boundscheck=False, wraparound=False, cdivision=True
"""The GTIDs of transactions that follow each other, as runs of numbers.

This module is compiled where that is possible and runs as it stands everywhere else.
"""

from __future__ import annotations

from typing import Any

import cython

from replica_client.constants.event_types import EventType
from replica_client.gtid import Gtid, MariadbGtid

if cython.compiled:
    from cython.cimports.replica_client.binlog.layout import (
        GTID_NUMBER_OFFSET,
        GTID_SID_OFFSET,
        GTID_SID_SIZE,
        HEADER_SIZE,
        MARIADB_DOMAIN_OFFSET,
        MARIADB_SEQUENCE_OFFSET,
        SERVER_ID_OFFSET,
        TYPE_OFFSET,
    )
    from cython.cimports.replica_client.codec.memory import load_le
else:
    from replica_client.binlog.layout import (
        GTID_NUMBER_OFFSET,
        GTID_SID_OFFSET,
        GTID_SID_SIZE,
        HEADER_SIZE,
        MARIADB_DOMAIN_OFFSET,
        MARIADB_SEQUENCE_OFFSET,
        SERVER_ID_OFFSET,
        TYPE_OFFSET,
    )
    from replica_client.codec.memory import load_le

_GTID = cython.declare(cython.int, int(EventType.GTID_LOG_EVENT))
_NOBODY = cython.declare(cython.int, 0)
_MYSQL = cython.declare(cython.int, 1)
_MARIADB = cython.declare(cython.int, 2)
_ANONYMOUS = cython.declare(cython.int, int(EventType.ANONYMOUS_GTID_LOG_EVENT))


@cython.final
@cython.cclass
class GtidRuns:
    """Collects the GTIDs of transactions, each in constant time.

    Attributes:
        found: the runs that ended; see :data:`~replica_client.readers.gtid_trail.GtidRun`.
        last: the last number of the run at hand, 0 for none.
    """

    def __init__(self) -> None:
        self.found: list[Any] = []
        self._first = self.last = 0
        # Whose they are: of MySQL the UUID (its bytes as numbers, too, as they are compared for each
        # GTID), of MariaDB the domain and the server.
        self._kind = _NOBODY
        self._sid = b""
        self._sid_first = self._sid_second = 0
        self._domain = self._server = 0
        self._prefix = b""

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _is_same_server(self, raw: cython.p_const_uchar, at: cython.Py_ssize_t) -> cython.bint:
        """Whether a UUID is that of the last GTID."""
        return (
            self._kind == _MYSQL
            and load_le(raw, at, 8) == self._sid_first
            and load_le(raw, at + GTID_SID_SIZE // 2, 8) == self._sid_second
        )

    @cython.cfunc
    def prefix(self, raw: cython.p_const_uchar, at: cython.Py_ssize_t) -> bytes:
        """What the GTID of the GTID event at ``at`` begins with, up to its number.

        A run ends where it is of another server or domain.
        """
        if raw[at + TYPE_OFFSET] == _GTID:
            self._mysql(raw, at + HEADER_SIZE + GTID_SID_OFFSET)
        else:
            self._mariadb(
                load_le(raw, at + HEADER_SIZE + MARIADB_DOMAIN_OFFSET, 4),
                load_le(raw, at + SERVER_ID_OFFSET, 4),
            )
        return self._prefix

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _mysql(self, raw: cython.p_const_uchar, at: cython.Py_ssize_t) -> cython.int:
        if not self._is_same_server(raw, at):
            self._end()
            sid = bytes(raw[at : at + GTID_SID_SIZE])
            self._sid = sid
            self._sid_first = load_le(raw, at, 8)
            self._sid_second = load_le(raw, at + GTID_SID_SIZE // 2, 8)
            self._kind = _MYSQL
            self._prefix = str(Gtid(sid, 1, "")).removesuffix("1").encode()
        return 0

    @cython.cfunc
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
    def join(self, raw: cython.p_const_uchar, at: cython.Py_ssize_t) -> cython.int:
        """The GTID of a transaction that is done, whose GTID event is at ``at``, joins the run."""
        code: cython.int = raw[at + TYPE_OFFSET]
        if code == _ANONYMOUS:
            return 0
        number: cython.longlong
        if code == _GTID:
            self._mysql(raw, at + HEADER_SIZE + GTID_SID_OFFSET)
            number = load_le(raw, at + HEADER_SIZE + GTID_NUMBER_OFFSET, 8)
            if self.last and number != self.last and number != self.last + 1:
                self._end()
        else:
            self._mariadb(
                load_le(raw, at + HEADER_SIZE + MARIADB_DOMAIN_OFFSET, 4),
                load_le(raw, at + SERVER_ID_OFFSET, 4),
            )
            number = load_le(raw, at + HEADER_SIZE + MARIADB_SEQUENCE_OFFSET, 8)
        if not self.last:
            self._first = number
        self.last = number
        return 0

    def _end(self) -> None:
        """A run ends."""
        if not self.last:
            return
        if self._kind == _MARIADB:
            gtid: Any = MariadbGtid(self._domain, self._server, self.last)
        else:
            gtid = Gtid(self._sid, self._first, "")
        self.found.append((gtid, self.last))
        self._first = self.last = 0

    def take(self) -> list[Any]:
        """All runs; the next one begins another list."""
        self._end()
        found, self.found = self.found, []
        return found
