"""Events in, safe resume points out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from replica_client.errors import BinlogDecodeError, GtidFormatError
from replica_client.protocol.binlog.event import FIRST_EVENT, BinlogEvent, EventHeader
from replica_client.protocol.binlog.layout import HEADER_SIZE, EventClass
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.event_types import EventFlag, EventType
from replica_client.protocol.gtid import Gtid, GtidSet, GtidSetBuilder, MariadbGtid, MariadbGtidSet
from replica_client.protocol.position import Position
from replica_client.stream.position.groups import MIDDLE, STEPS, Ending, State, class_of, step

Outcome = Literal["commit", "rollback", "prepare", "abandoned"]

_ARTIFICIAL = int(EventFlag.LOG_EVENT_ARTIFICIAL_F)
_ROTATE = int(EventType.ROTATE_EVENT)
_FORMAT_DESCRIPTION = int(EventType.FORMAT_DESCRIPTION_EVENT)
_HEARTBEATS = (int(EventType.HEARTBEAT_LOG_EVENT), int(EventType.HEARTBEAT_LOG_EVENT_V2))
_OUTCOMES: dict[EventClass, Outcome] = {
    EventClass.ROLLBACK: "rollback",
    EventClass.PREPARE: "prepare",
}
_GTIDS = (EventClass.GTID, EventClass.GTID_BEGIN)
_STATEMENTS = (EventClass.STATEMENT, EventClass.LOAD_PART, EventClass.LOAD_END)
_IN_PAYLOAD = (State.PAYLOAD, State.PAYLOAD_OPEN)
_ENDED = int(Ending.ENDS)
_NEW = Ending.COMPLETE | Ending.ABANDONED
_STATE = int(Ending.STATE)
_BEGUN = bytes(state in (State.OPEN, State.BEGUN, State.PAYLOAD_OPEN) for state in range(8))
_OFFSET_LIMIT = 1 << 62
_SENT_AGAIN = (int(EventType.GTID_LIST_EVENT), int(EventType.START_ENCRYPTION_EVENT))
_FileOffset = tuple[str, int]


@dataclass(frozen=True, slots=True)
class TransactionBoundary:
    """The end of a transaction, or of a statement that needs none.

    Attributes:
        file: binlog file of its first event.
        offset: offset of its first event (its GTID event where there is one).
        end_file: file of its last event.
        end_offset: offset after its last event.
        gtid: its GTID, None for an anonymous one.
        outcome: ``commit``; ``rollback``: logged and rolled back on the source (its rows count for
            non-transactional tables only); ``prepare``: XA PREPARE, an XA COMMIT or XA ROLLBACK
            follows as a transaction of its own; ``abandoned``: the source never finished it (it
            crashed while writing), and its GTID did not join the set.
        event_count: its events, those inside a transaction payload too.
    """

    file: str
    offset: int
    end_file: str
    end_offset: int
    gtid: Gtid | MariadbGtid | None
    outcome: Outcome
    event_count: int


class PositionTracker:
    """Follows a stream or files of binlog events, and knows where to resume.

    Feed every event, in order, after it was decoded. :attr:`position` is always a point from which
    nothing unfinished is lost: it is after the last transaction that ended, and moves only there
    and between transactions. ``feed`` returns a :class:`TransactionBoundary` for the event that
    ends a transaction; read :attr:`position` right then for the point after that transaction.

    Rules:

    * ``mode="stream"``: offsets are kept by adding sizes, in 64 bits. A header's ``next_position``
      (32 bits, wraps, may be 0) only shows a gap: events that the source did not send.
      Artificial events take no room; an artificial ROTATE names the file that follows, a real one
      closes the file; a FORMAT_DESCRIPTION that a source makes up for a start in the middle of a
      file takes no room; a heartbeat moves the position over what the source passed.
    * ``mode="file"``: every event is where ``event.file`` and ``event.position`` say, artificial
      ones too (relay logs hold some), and a file's name is the one that it was opened by.
    * A GTID joins the set when its transaction ends. The set is known from the start position, or
      from the PREVIOUS_GTIDS or GTID_LIST event at the start of a file; until then it is None.
    * The events inside a transaction payload are to be fed after it (their ``inner_index`` is
      set): the commit among them ends the transaction. With ``payload_ends=True`` the payload
      itself does, for those who do not open it.

    Each call takes constant time whatever the size of the GTID set; the set itself is built when
    :attr:`position` is read, and shares its intervals with the one before.

    Args:
        start: where the first event is, and what was done before; file ``""`` when the source will
            send it. With indexes inside a transaction, :attr:`position` stays at it until that
            transaction ends.
        mode: a stream's events, or those of files.
        payload_ends: see above.
    """

    __slots__ = (
        "_builder",
        "_candidate",
        "_event_index",
        "_file",
        "_floor",
        "_gtid",
        "_in_file",
        "_known",
        "_loads",
        "_mariadb",
        "_mariadb_before",
        "_offset",
        "_payload_ends",
        "_position",
        "_start",
        "_state",
    )

    def __init__(
        self,
        start: Position | None = None,
        *,
        mode: Literal["stream", "file"] = "stream",
        payload_ends: bool = False,
    ) -> None:
        self._file = start.file if start else ""
        self._offset = start.offset if start else 0
        self._in_file = mode == "file"
        self._payload_ends = payload_ends
        self._builder: GtidSetBuilder | None = None
        self._mariadb: MariadbGtidSet | None = None
        self._mariadb_before: MariadbGtidSet | None = None
        self._candidate: GtidSet | MariadbGtidSet | None = None
        self._floor: Position | None = start
        self._position: Position | None = None
        if start is not None and start.gtid_set is not None:
            self._know(start.gtid_set)
        # The open transaction.
        self._start: _FileOffset | None = None
        self._state = int(State.BETWEEN)
        self._gtid: Gtid | MariadbGtid | None = None
        self._event_index = 0
        self._loads: set[int] = set()

    @property
    def file(self) -> str:
        """The file that the next event is in, ``""`` when not known yet."""
        return self._file

    @property
    def offset(self) -> int:
        """Offset of the next event."""
        return self._offset

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction has begun and not ended."""
        return self._start is not None

    @property
    def in_middle(self) -> bool:
        """Whether table maps and rows that come next are in the midst of the open transaction."""
        return self._start is not None and bool(_BEGUN[self._state]) and not self._payload_ends

    @property
    def event_index(self) -> int:
        """Index in its transaction of the event that was fed last."""
        return self._event_index

    @property
    def gtid_set(self) -> GtidSet | MariadbGtidSet | None:
        """The transactions that ended, None when not known."""
        return self._builder.snapshot() if self._builder is not None else self._mariadb

    @property
    def position(self) -> Position:
        """The safe resume point: after the last transaction that ended."""
        if self._position is None:
            file, offset = self._start or (self._file, self._offset)
            position = Position(file, offset, self.gtid_set)
            floor = self._floor
            if floor is not None and (not file or (floor.file and position < floor)):
                position = floor
            self._position = position
        return self._position

    def gtids_before(self, ended: TransactionBoundary) -> GtidSet | MariadbGtidSet | None:
        """Return the GTIDs of the transactions before the one that ended last, or None when not known."""
        gtid, known = ended.gtid, self.gtid_set
        if isinstance(gtid, MariadbGtid):
            return self._mariadb_before
        if isinstance(gtid, Gtid) and isinstance(known, GtidSet):
            return known - GtidSet.parse(str(gtid))
        return known

    def inside(self, row_index: int = 0) -> Position:
        """Return the position inside the open transaction at a row of the event that was fed last.

        The rows before ``row_index`` of that event, and all earlier events, count as done.
        """
        if self._start is None:
            return self.position
        return Position(*self._start, self.gtid_set, self._event_index, row_index)

    def locate(self, header: EventHeader) -> int:
        """Return the offset of the event with this header, which is to be fed next.

        A FORMAT_DESCRIPTION from the disk is the first event of its file. Where the source passed
        over transactions, ``next_position`` shows the gap, and the event lies after it.
        """
        return self._extent(header)[0]

    def _extent(self, header: EventHeader) -> tuple[int, int]:
        """Return the offset of a stream's event and the offset after it."""
        start, size, code = self._offset, header.event_size, header.type_code
        if header.next_position == (start + size) & 0xFFFFFFFF and code in MIDDLE:
            return start, start + size
        if header.flags & _ARTIFICIAL or code in _HEARTBEATS:
            return start, start
        if code == _FORMAT_DESCRIPTION:
            if not header.next_position and start > FIRST_EVENT:
                return start, start
            start = FIRST_EVENT
        if not header.next_position:
            return start, start if code in _SENT_AGAIN else start + size
        gap = (header.next_position - start - size) & 0xFFFFFFFF
        if gap < HEADER_SIZE:  # the source takes the checksum off
            return start, start + size + gap
        if gap < 1 << 31:
            return start + gap, start + gap + size
        back = (1 << 32) - gap
        if back < HEADER_SIZE:  # the source adds a checksum
            return start, start + size - back
        return start, start + size

    def fork(self) -> PositionTracker:
        """Return a tracker that continues from here on its own; no transaction is open."""
        fork = PositionTracker(
            Position(self._file, self._offset),
            mode="file" if self._in_file else "stream",
            payload_ends=self._payload_ends,
        )
        if self._builder is not None:
            fork._builder = GtidSetBuilder(self._builder.snapshot())
        fork._mariadb, fork._candidate = self._mariadb, self._candidate
        fork._floor = self._floor
        return fork

    def skip(self, event_count: int, size: int) -> None:
        """Pass over events that are not decoded: table maps and rows in the midst of a transaction.

        Args:
            event_count: how many.
            size: their bytes together; 0 for those inside a transaction payload.
        """
        self._offset += size
        self._event_index += event_count

    def pass_event(self, header: EventHeader) -> int:
        """Pass over an event of a stream whose meaning for transactions is not asked for.

        Returns:
            its offset.
        """
        start, self._offset = self._extent(header)
        return start

    def pass_transactions(
        self,
        file: str,
        end: int,
        event_index: int,
        gtids: Iterable[tuple[Gtid | MariadbGtid, int]],
    ) -> None:
        """Pass over whole transactions that were committed and not fed; none is open.

        Args:
            file: binlog file of the last one.
            end: offset after it.
            event_index: index in it of its last event.
            gtids: first GTID and last number of runs of transactions, in order; for MariaDB each is
                the last of a run.
        """
        self._file, self._offset, self._event_index = file, end, event_index
        self._floor = None
        self._position = None
        for gtid, last in gtids:
            self._join(gtid)
            if self._builder is not None and isinstance(gtid, Gtid):
                self._builder.add_interval(gtid.sid, gtid.gno, last, gtid.tag)

    def feed(self, event: BinlogEvent) -> TransactionBoundary | None:
        """Take one event; returns the transaction that ended with it, or that it shows to be abandoned."""
        if _BEGUN[self._state] and event.header.type_code in MIDDLE and not self._payload_ends:
            self._event_index += 1
            if event.inner_index is not None:
                pass
            elif self._in_file:
                self._file, self._offset = event.file or self._file, event.end_position
            else:
                self._offset = self._extent(event.header)[1]
            return None
        if event.inner_index is not None:
            if self._payload_ends:
                return None
            return self._advance(event, class_of(event), self._start)
        before = (event.file or self._file, event.position)
        if self._in_file:
            self._file, self._offset = before[0], event.end_position
            return self._advance(event, class_of(event), before)
        header = event.header
        if header.type_code == _ROTATE:
            self._rotate(event)
            return None
        if header.type_code in _HEARTBEATS:
            self._heartbeat(event)
            return None
        start, end = self._extent(header)
        if start == end:
            return None
        self._offset = end
        return self._advance(event, class_of(event), (self._file, start))

    def _rotate(self, event: BinlogEvent) -> None:
        header, body = event.header, event.body
        artificial = header.flags & _ARTIFICIAL or not header.timestamp
        if body.next_position >= _OFFSET_LIMIT:
            raise self._refuse(event, f"next position {body.next_position} is out of range")
        # A dump by GTID sends the file that it starts in from its beginning (MariaDB: checkpoints
        # after the format description), so the offset goes back; `position` has its floor.
        if not artificial or body.next_file != self._file or self._start is None:
            self._file, self._offset = body.next_file, body.next_position
            self._changed()

    def _heartbeat(self, event: BinlogEvent) -> None:
        if self._start is not None:
            return
        body = event.body
        if body.position is not None and body.position >= _OFFSET_LIMIT:
            raise self._refuse(event, f"position {body.position} is out of range")
        if body.log_file and body.log_file != self._file:
            self._file, self._offset = body.log_file, FIRST_EVENT
        if body.position is not None:
            self._offset = max(self._offset, body.position)
        elif event.header.next_position:
            gap = (event.header.next_position - self._offset) & 0xFFFFFFFF
            if gap < 1 << 31:
                self._offset += gap
        self._changed()

    def learn_gtids(self, gtid_set: GtidSet | MariadbGtidSet | None) -> None:
        """Set the transactions that ended: some never came, and are no longer expected."""
        if gtid_set is not None:
            self._builder = self._mariadb = None
            self._know(gtid_set)
            self._floor = self._position = None

    def enter_file(self, file: str, offset: int) -> None:
        """Move to a place in another file, where a dump by GTID began."""
        self._file, self._offset = file, offset
        self._changed()

    def abandon(self) -> TransactionBoundary | None:
        """End the open transaction, which will not continue, and return its boundary; None when none is open."""
        return None if self._start is None else self._end("abandoned")

    def _advance(
        self, event: BinlogEvent, event_class: EventClass, before: _FileOffset | None
    ) -> TransactionBoundary | None:
        if event_class is EventClass.OUTSIDE:
            return self._outside(event, before)
        if event_class in _STATEMENTS:
            event_class = self._statement(event, event_class)
        found = step(STEPS, self._state, event_class)
        boundary: TransactionBoundary | None = None
        if found & _NEW:
            # The payload's own commit was not fed, or the source crashed while it wrote.
            boundary = self._end("commit" if found & Ending.COMPLETE else "abandoned", before)
        if self._start is None:
            self._start, self._event_index = before or (self._file, self._offset), 0
            self._position = None
        else:
            self._event_index += 1
        self._state = found & _STATE
        if event_class in _GTIDS:
            self._open_gtid(event)
        if found & _ENDED or (event_class is EventClass.PAYLOAD and self._payload_ends):
            return self._end(_OUTCOMES.get(event_class, "commit"))
        return boundary

    def _statement(self, event: BinlogEvent, event_class: EventClass) -> EventClass:
        """Return the class of a statement or a part of a LOAD DATA; data that wait for their statement end no group."""
        if event_class is EventClass.LOAD_PART:
            self._loads.add(event.body.file_id)
        elif event_class is EventClass.LOAD_END:
            self._loads.discard(event.body.file_id)
        return EventClass.PART if self._loads else EventClass.STATEMENT

    def _open_gtid(self, event: BinlogEvent) -> None:
        body = event.body
        code = event.header.type_code
        if code == EventType.GTID_EVENT:
            self._gtid = MariadbGtid(body.domain_id, event.header.server_id, body.sequence)
        elif code != EventType.ANONYMOUS_GTID_LOG_EVENT:
            try:
                self._gtid = Gtid(body.sid, body.gno, body.tag)
            except GtidFormatError as error:
                raise self._refuse(event, str(error)) from error

    def _refuse(self, event: BinlogEvent, reason: str) -> BinlogDecodeError:
        header = event.header
        return BinlogDecodeError(
            reason,
            file=self._file or None,
            position=event.position,
            event_type=header.type_code,
            event_name=header.type_name,
        )

    def _end(self, outcome: Outcome, end: _FileOffset | None = None) -> TransactionBoundary | None:
        start, end = self._start or (self._file, self._offset), end or (self._file, self._offset)
        boundary = TransactionBoundary(*start, *end, self._gtid, outcome, self._event_index + 1)
        if outcome != "abandoned":
            self._floor = None
            self._mariadb_before = self._mariadb
            if self._gtid is not None:
                self._join(self._gtid)
        self._start = self._gtid = None
        self._state = int(State.BETWEEN)
        self._loads.clear()
        self._position = None
        return boundary

    def _outside(
        self, event: BinlogEvent, before: _FileOffset | None
    ) -> TransactionBoundary | None:
        code, body = event.header.type_code, event.body
        boundary: TransactionBoundary | None = None
        if code == _FORMAT_DESCRIPTION and body.create_timestamp and self._start is not None:
            # The first file after a restart: what the source had not finished, it never will.
            boundary = self._end("commit" if self._state in _IN_PAYLOAD else "abandoned", before)
        elif self._start is not None:
            self._event_index += 1
            return None
        if self._builder is None and self._mariadb is None:
            if code == EventType.PREVIOUS_GTIDS_LOG_EVENT:
                self._offer(body.gtid_set)
            elif code == EventType.GTID_LIST_EVENT:
                self._offer(MariadbGtidSet(MariadbGtid(*gtid) for gtid in body.gtids))
        self._changed()
        return boundary

    def _changed(self) -> None:
        if self._start is None:
            self._position = None

    def _offer(self, gtid_set: GtidSet | MariadbGtidSet) -> None:
        """Take the GTID set of a file's start.

        An empty set counts only once a GTID follows: files without GTIDs have one, too.
        """
        if gtid_set:
            self._know(gtid_set)
        else:
            self._candidate = gtid_set

    def _know(self, gtid_set: GtidSet | MariadbGtidSet) -> None:
        if isinstance(gtid_set, GtidSet):
            self._builder = GtidSetBuilder(gtid_set)
        else:
            self._mariadb = gtid_set

    def _join(self, gtid: Gtid | MariadbGtid) -> None:
        if self._candidate is not None and self._builder is None and self._mariadb is None:
            self._know(self._candidate)
        if isinstance(gtid, MariadbGtid):
            if self._builder is not None and not self._builder.snapshot():
                self._builder, self._mariadb = None, MariadbGtidSet()
            if self._mariadb is not None:
                self._mariadb = self._mariadb.add(gtid)
        elif self._builder is not None:
            self._builder.add(gtid)

    def __repr__(self) -> str:
        return f"<PositionTracker at {self._file}:{self._offset}, open {self._start} {self._gtid}>"
