"""GTID sets before and after a file, from the few events that hold them."""

from __future__ import annotations

import logging
from typing import Final

from replica_client.errors import BinlogDecodeError, GtidFormatError
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.layout import EventClass
from replica_client.protocol.constants.event_types import EventType
from replica_client.protocol.gtid import (
    Gtid,
    GtidSet,
    GtidSetBuilder,
    MariadbGtid,
    MariadbGtidSet,
)
from replica_client.stream.position.groups import class_of

_LOG = logging.getLogger("replica_client")

_ENDS: Final = frozenset(
    int(code)
    for code in (
        EventType.XID_EVENT,
        EventType.XA_PREPARE_LOG_EVENT,
        EventType.TRANSACTION_PAYLOAD_EVENT,
        EventType.ROTATE_EVENT,
        EventType.STOP_EVENT,
    )
)
_READ: Final = frozenset(
    int(code)
    for code in (
        EventType.PREVIOUS_GTIDS_LOG_EVENT,
        EventType.GTID_LIST_EVENT,
        EventType.GTID_LOG_EVENT,
        EventType.ANONYMOUS_GTID_LOG_EVENT,
        EventType.GTID_TAGGED_LOG_EVENT,
        EventType.GTID_EVENT,
        EventType.QUERY_EVENT,
        EventType.QUERY_COMPRESSED_EVENT,
    )
)
_QUERIES: Final = (int(EventType.QUERY_EVENT), int(EventType.QUERY_COMPRESSED_EVENT))


class GtidPositions:
    """Follows the GTIDs of one file. A GTID joins when its transaction ends.

    An event that cannot be decoded makes the set unknown; the copy goes on.

    Attributes:
        before: the set at the file's start, None where the file does not say.
    """

    __slots__ = ("_begun", "_decoder", "_mariadb", "_mysql", "_pending", "before")

    def __init__(self, decoder: BinlogDecoder) -> None:
        self._decoder = decoder
        self._mysql: GtidSetBuilder | None = None
        self._mariadb: MariadbGtidSet | None = None
        self._pending: Gtid | MariadbGtid | None = None
        self._begun = False
        self.before: GtidSet | MariadbGtidSet | None = None

    @property
    def after(self) -> GtidSet | MariadbGtidSet | None:
        """The set with the transactions that ended."""
        return self._mysql.snapshot() if self._mysql is not None else self._mariadb

    def feed(self, data: bytes, position: int) -> None:
        """Take an event of the file, header to checksum."""
        code = data[4]
        if code in _ENDS:
            self._join()
        elif code in _READ and (code not in _QUERIES or self._pending is not None):
            try:
                self._read(data, position)
            except (BinlogDecodeError, GtidFormatError) as error:
                _LOG.warning("the GTID set of this file stays unknown: %s", error)
                self._mysql = self._mariadb = self._pending = None

    def _read(self, data: bytes, position: int) -> None:
        event = self._decoder.decode(data, position)
        code, body = event.header.type_code, event.body
        if code == EventType.PREVIOUS_GTIDS_LOG_EVENT:
            self.before = body.gtid_set
            self._mysql = GtidSetBuilder(body.gtid_set)
        elif code == EventType.GTID_LIST_EVENT:
            self.before = self._mariadb = MariadbGtidSet(MariadbGtid(*gtid) for gtid in body.gtids)
        elif code in _QUERIES:
            found = class_of(event)
            if found is EventClass.BEGIN:
                self._begun = True
            elif found is not EventClass.STATEMENT or not self._begun:
                self._join()
        elif code == EventType.GTID_EVENT:
            self._join()
            self._pending = MariadbGtid(body.domain_id, event.header.server_id, body.sequence)
            self._begun = class_of(event) is EventClass.GTID_BEGIN
        else:
            self._join()
            if code != EventType.ANONYMOUS_GTID_LOG_EVENT:
                self._pending = Gtid(body.sid, body.gno, body.tag)
            self._begun = False

    def _join(self) -> None:
        gtid, self._pending = self._pending, None
        self._begun = False
        if isinstance(gtid, MariadbGtid):
            if self._mariadb is not None:
                self._mariadb = self._mariadb.add(gtid)
        elif gtid is not None and self._mysql is not None:
            self._mysql.add(gtid)
