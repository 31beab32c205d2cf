"""Transactions of served files, up to a GTID set."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from struct import Struct
from typing import Final, Protocol

from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.event import FIRST_EVENT, EventHeader
from replica_client.protocol.binlog.event_search import find_events, type_table
from replica_client.protocol.binlog.layout import (
    CLASSES,
    GTID_NUMBER_OFFSET,
    GTID_SID_OFFSET,
    GTID_SID_SIZE,
    HEADER_SIZE,
    MARIADB_SEQUENCE_OFFSET,
    SERVER_ID_OFFSET,
    TYPE_OFFSET,
    EventClass,
)
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.protocol.constants.event_types import EventType
from replica_client.protocol.gtid import Gtid, GtidSet, GtidSetBuilder, MariadbGtid, MariadbGtidSet
from replica_client.stream.position.groups import STEPS, Ending, State, class_of, step

GTID_TYPES: Final = frozenset(
    (
        EventType.GTID_LOG_EVENT,
        EventType.ANONYMOUS_GTID_LOG_EVENT,
        EventType.GTID_TAGGED_LOG_EVENT,
        EventType.GTID_EVENT,
    )
)
"""Events that begin a transaction and name it."""

LOOKED_AT_TYPES: Final = frozenset(
    (
        *GTID_TYPES,
        EventType.ROTATE_EVENT,
        EventType.STOP_EVENT,
        EventType.ANNOTATE_ROWS_EVENT,
        EventType.QUERY_EVENT,
        EventType.XID_EVENT,
    )
)
"""Events whose contents or type decide how they are sent."""

_TABLE: Final = type_table(GTID_TYPES)
_PIECE_SIZE: Final = 1 << 20
_STEP: Final = 4 << 20
_SID: Final = slice(HEADER_SIZE + GTID_SID_OFFSET, HEADER_SIZE + GTID_SID_OFFSET + GTID_SID_SIZE)
_NUMBER: Final = Struct(f"<{HEADER_SIZE + GTID_NUMBER_OFFSET}xQ")
_MARIADB: Final = Struct(
    f"<{SERVER_ID_OFFSET}xI{HEADER_SIZE + MARIADB_SEQUENCE_OFFSET - SERVER_ID_OFFSET - 4}xQI"
)


class EventFile(Protocol):
    """A file whose transactions are counted: :class:`~replica_client.server.served_files.ServedFile`."""

    previous: GtidSet | MariadbGtidSet | None

    @property
    def flavor(self) -> ServerFlavor:
        """The flavor of the server that wrote it."""

    def read(self, position: int, size: int) -> bytes:
        """Return up to ``size`` bytes from a position."""

    def header_at(self, position: int) -> EventHeader | None:
        """Return the header of the event at a position; None if no whole event is there."""

    def event_size(self, data: bytes, start: int) -> int:
        """Return the size of the event that begins at ``start``."""

    def gtid_of(self, data: bytes) -> Gtid | MariadbGtid | None:
        """Return the GTID of an event of :data:`GTID_TYPES`; None for an anonymous one."""


class Transactions:
    """The GTIDs of one file, counted as it grows, each event once.

    Every few megabytes the GTIDs executed before a position are kept (a *checkpoint*), so that a
    client's start is found without reading all of the file again.

    Args:
        file: the file with the transactions.
    """

    def __init__(self, file: EventFile) -> None:
        self._file = file
        self.clear()

    def clear(self) -> None:
        """Forget all counted transactions."""
        self._position = FIRST_EVENT
        self._mysql: GtidSetBuilder | None = None
        self._mariadb = MariadbGtidSet()
        self._starts: list[int] = []
        self._before: list[GtidSet | MariadbGtidSet] = []
        previous = self._file.previous
        if self._file.flavor is ServerFlavor.MARIADB:
            self._mariadb = previous if isinstance(previous, MariadbGtidSet) else self._mariadb
        else:
            self._mysql = GtidSetBuilder(previous if isinstance(previous, GtidSet) else None)

    @property
    def position(self) -> int:
        """The position up to which transactions were counted."""
        return self._position

    def counted(self) -> GtidSet | MariadbGtidSet:
        """Return the GTIDs executed up to :attr:`position`, including those of earlier files."""
        return self._mariadb if self._mysql is None else self._mysql.snapshot()

    def count_some(self, limit: int | None = None) -> bool:
        """Count the next piece, at most up to ``limit``; return False if no whole event is left."""
        data = self._file.read(self._position, _PIECE_SIZE)
        starts, size = find_events(data, _TABLE)
        if not size:
            header = self._file.header_at(self._position)
            if header is None:
                return False
            # An event larger than a piece is no GTID event.
            starts, size = [], header.event_size
        if limit is not None and self._position + size > limit:
            starts = [start for start in starts if self._position + start < limit]
            size = limit - self._position
        if (
            starts
            and self._position + starts[0] - (self._starts[-1] if self._starts else 0) >= _STEP
        ):
            self._starts.append(self._position + starts[0])
            self._before.append(self.counted())
        self._add(data, starts)
        self._position += size
        return True

    def _add(self, data: bytes, starts: list[int]) -> None:
        mysql, file = self._mysql, self._file
        latest: dict[tuple[int, int], int] = {}
        for start in starts:
            code = data[start + TYPE_OFFSET]
            if code == EventType.GTID_LOG_EVENT and mysql is not None:
                [number] = _NUMBER.unpack_from(data, start)
                if number:
                    mysql.add_number(data[start + _SID.start : start + _SID.stop], number)
            elif code == EventType.GTID_EVENT and mysql is None:
                server, sequence, domain = _MARIADB.unpack_from(data, start)
                latest.pop((domain, server), None)
                latest[domain, server] = sequence
            elif code == EventType.GTID_TAGGED_LOG_EVENT and mysql is not None:
                gtid = file.gtid_of(data[start : start + file.event_size(data, start)])
                if isinstance(gtid, Gtid):
                    mysql.add(gtid)
        for (domain, server), sequence in latest.items():
            self._mariadb = self._mariadb.add(MariadbGtid(domain, server, sequence))

    def executed(self) -> GtidSet | MariadbGtidSet:
        """Return the GTIDs of all files up to the end of this one."""
        while self.count_some():
            pass
        return self.counted()

    async def count(self, position: int | None = None) -> None:
        """Count up to a position, or to the end, and let other tasks run meanwhile."""
        while (position is None or self._position < position) and self.count_some():  # noqa: ASYNC110
            await asyncio.sleep(0)

    def checkpoint(self, position: int) -> tuple[int, GtidSet | MariadbGtidSet | None]:
        """Return the last checkpoint up to a position, and the GTIDs executed before it."""
        at = bisect_right(self._starts, position)
        return (self._starts[at - 1], self._before[at - 1]) if at else (FIRST_EVENT, None)

    async def executed_at(self, position: int) -> GtidSet | MariadbGtidSet:
        """Return the GTIDs executed before the event that begins at a position."""
        await self.count(position)
        if self._position == position:
            return self.counted()
        start, before = self.checkpoint(position)
        part = Transactions(self._file)
        if before is not None:
            part._position = start
            if isinstance(before, MariadbGtidSet):
                part._mariadb = before
            else:
                part._mysql = GtidSetBuilder(before)
        while part._position < position and part.count_some(position):  # noqa: ASYNC110
            await asyncio.sleep(0)
        return part.counted()

    async def first_for(
        self, have: GtidSet | MariadbGtidSet
    ) -> tuple[int, GtidSet | MariadbGtidSet | None]:
        """Return the last checkpoint before which the client has every transaction.

        Returns:
            The position, and the GTIDs executed before it; None at the file's start.
        """
        await self.count()
        low, high = 0, len(self._starts)
        while low < high:
            middle = (low + high) // 2
            if _is_part(self._before[middle], have):
                low = middle + 1
            else:
                high = middle
        return (self._starts[low - 1], self._before[low - 1]) if low else (FIRST_EVENT, None)

    def all_counted_are_before(self, position: int, have: GtidSet | MariadbGtidSet) -> bool:
        """Return whether the transactions before ``position`` include all that the client has."""
        return self._position <= position and _is_part(have, self.counted())


def _is_part(part: GtidSet | MariadbGtidSet, whole: GtidSet | MariadbGtidSet) -> bool:
    if isinstance(part, GtidSet) and isinstance(whole, GtidSet):
        return part <= whole
    if isinstance(part, MariadbGtidSet) and isinstance(whole, MariadbGtidSet):
        return part <= whole
    return False


class GtidUntil:
    """The state of a dump that ends when every domain has reached its last GTID.

    A domain that is not named is complete from the start: none of its groups is sent.

    Args:
        until: the last GTID of each domain.
        have: GTIDs that the replica already has.
        before: end before these GTIDs instead of with them (``SQL_BEFORE_GTIDS``).

    Spec: MariaDB ``is_until_reached`` and ``send_event_to_slave`` (sql_repl.cc).
    """

    def __init__(self, until: MariadbGtidSet, have: MariadbGtidSet, *, before: bool) -> None:
        self.until = until
        self._before = before
        # With ``before``, a domain whose last GTID comes next needs no more groups.
        missing = int(before)
        self._left = {
            gtid.domain_id: gtid
            for gtid in until.positions()
            if have.reached(gtid.domain_id) < gtid.sequence - missing
        }
        self._state = State.BETWEEN
        self.reached = not self._left
        """Whether the dump is to end here."""

    def passes_over(self, gtid: MariadbGtid) -> bool:
        """Return whether to skip the group that a GTID begins; note when its domain is complete."""
        last = self._left.get(gtid.domain_id)
        if last is None:
            return True
        if gtid.server_id != last.server_id or gtid.sequence < last.sequence:
            return False
        del self._left[gtid.domain_id]
        too_much = self._before or gtid.sequence > last.sequence
        self.reached = too_much and not self._left
        return too_much

    def sent(self, event: bytes, decoder: BinlogDecoder, position: int) -> None:
        """Record an event that was sent: the dump ends with the last event of the last group."""
        if self._left or self.reached:
            return
        found = EventClass(CLASSES[event[TYPE_OFFSET]])
        if self._state is State.OPEN and found in (EventClass.ROWS, EventClass.PART):
            return
        found = class_of(decoder.decode(event, position))
        after = step(STEPS, self._state, found)
        self._state = State(after & Ending.STATE)
        self.reached = bool(after & Ending.ENDS)
