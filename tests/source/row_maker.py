"""Binlogs of transactions with rows of one table."""

from __future__ import annotations

from replica_client.protocol.binlog.events import RowsEvent, TableMapEvent, XidEvent
from replica_client.protocol.binlog.events.gtids import GtidEvent
from replica_client.protocol.constants.event_types import EventType
from tests.source.binlogs import SOURCE_UUID, BinlogMaker

_UUID = bytes.fromhex(SOURCE_UUID.replace("-", ""))
_LONG_BLOB = 252
_METADATA = b"\x02\x01\x3f\x04\x02\x01v"


class RowMaker(BinlogMaker):
    """Adds transactions of rows of a table with one BLOB column."""

    def begin(self) -> int:
        """The first events of a transaction; returns where they are."""
        start = len(self.events)
        self.add(EventType.GTID_LOG_EVENT, GtidEvent(1, _UUID, self.next_number))
        self.next_number += 1
        return start

    def rows(self, events: int, size: int, table: bytes = b"t") -> bytes:
        """A transaction of some events of one row each."""
        start = self.begin()
        self.query(b"BEGIN")
        kind = int(EventType.WRITE_ROWS_EVENT)
        for at in range(events):
            map_event = TableMapEvent(
                7, 1, "shop", table.decode(), bytes([_LONG_BLOB]), (4,), b"\1", _METADATA
            )
            self.add(EventType.TABLE_MAP_EVENT, map_event)
            value = f"{self.next_number - 1}.{at}.".encode().ljust(size, b"x")
            image = b"\0" + len(value).to_bytes(4, "little") + value
            self.add(kind, RowsEvent("insert", kind, 7, 1, b"", 1, b"\1", None, image))
        self.add(EventType.XID_EVENT, XidEvent(self.next_number))
        return b"".join(self.events[start:])

    def statement(self, text: bytes) -> bytes:
        """A transaction that is a statement."""
        start = self.begin()
        self.query(text)
        return b"".join(self.events[start:])
