"""GTID sets before and after a file, from the few events that hold them."""

from __future__ import annotations

import logging
from typing import Final

from replica_client.errors import BinlogDecodeError, GtidFormatError
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.layout import CLASSES, EventClass
from replica_client.protocol.constants.event_types import EventType
from replica_client.protocol.gtid import (
    Gtid,
    GtidSet,
    GtidSetBuilder,
    MariadbGtid,
    MariadbGtidSet,
)
from replica_client.stream.position.groups import STEPS, Ending, State, class_of, step

_LOG = logging.getLogger("replica_client.archive")

_SETS: Final = frozenset((int(EventType.PREVIOUS_GTIDS_LOG_EVENT), int(EventType.GTID_LIST_EVENT)))
_GTIDS: Final = frozenset((EventClass.GTID, EventClass.GTID_BEGIN, EventClass.MARIADB_GTID))


class GtidPositions:
    """The GTID set of one file, which a GTID joins when its transaction ends.

    An event that cannot be decoded makes the set unknown; the copy goes on.

    Attributes:
        before: the set at the file's start, None where the file has none.
    """

    __slots__ = ("_decoder", "_mariadb", "_mysql", "_pending", "_state", "before")

    def __init__(self, decoder: BinlogDecoder) -> None:
        self._decoder = decoder
        self._mysql: GtidSetBuilder | None = None
        self._mariadb: MariadbGtidSet | None = None
        self._pending: Gtid | MariadbGtid | None = None
        self._state = State.BETWEEN
        self.before: GtidSet | MariadbGtidSet | None = None

    @property
    def after(self) -> GtidSet | MariadbGtidSet | None:
        """The set with the transactions that ended."""
        return self._mysql.snapshot() if self._mysql is not None else self._mariadb

    def feed(self, data: bytes, position: int) -> None:
        """Take an event of the file, header to checksum."""
        code = data[4]
        if self._pending is None and code not in _SETS and CLASSES[code] not in _GTIDS:
            return
        try:
            if code in _SETS:
                self._begin(data, position)
            else:
                self._step(data, position)
        except (BinlogDecodeError, GtidFormatError) as error:
            _LOG.warning("the GTID set of this file stays unknown: %s", error)
            self._mysql = self._mariadb = self._pending = None

    def _begin(self, data: bytes, position: int) -> None:
        body = self._decoder.decode(data, position).body
        if data[4] == EventType.PREVIOUS_GTIDS_LOG_EVENT:
            self.before = body.gtid_set
            self._mysql = GtidSetBuilder(body.gtid_set)
        else:
            self.before = self._mariadb = MariadbGtidSet(MariadbGtid(*gtid) for gtid in body.gtids)

    def _step(self, data: bytes, position: int) -> None:
        event_class, gtid = EventClass(CLASSES[data[4]]), self._pending
        ending = step(STEPS, self._state, event_class)
        if event_class in _GTIDS or ending & Ending.UNCERTAIN:
            event = self._decoder.decode(data, position)
            ending = step(STEPS, self._state, class_of(event))
            if event_class in _GTIDS:
                body, self._pending = event.body, None
                if event_class is EventClass.MARIADB_GTID:
                    server_id = event.header.server_id
                    self._pending = MariadbGtid(body.domain_id, server_id, body.sequence)
                elif data[4] != EventType.ANONYMOUS_GTID_LOG_EVENT:
                    self._pending = Gtid(body.sid, body.gno, body.tag)
        self._state = State(ending & Ending.STATE)
        # A payload holds all of its transaction.
        if event_class is not EventClass.PAYLOAD and not ending & Ending.ENDS:
            return
        self._pending = None
        if isinstance(gtid, MariadbGtid):
            if self._mariadb is not None:
                self._mariadb = self._mariadb.add(gtid)
        elif gtid is not None and self._mysql is not None:
            self._mysql.add(gtid)
