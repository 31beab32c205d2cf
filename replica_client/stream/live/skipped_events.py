"""Events that a stream skips: those sent again, and those before its start."""

from __future__ import annotations

from collections.abc import Sequence

from replica_client.errors import SourceResetError
from replica_client.protocol.binlog.event import BinlogEvent, EventHeader
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.event_types import EventType
from replica_client.protocol.position import Position
from replica_client.stream.position.tracker import PositionTracker
from replica_client.stream.transactions.event_feed import EventFeed
from replica_client.stream.transactions.transaction import Transaction

_HEARTBEATS = (EventType.HEARTBEAT_LOG_EVENT, EventType.HEARTBEAT_LOG_EVENT_V2)


class Replay:
    """Filter that skips events which a new connection sends again.

    Events before the position that was reached are decoded, for their table maps, and dropped.

    Args:
        start: where the new connection starts.
    """

    def __init__(self, start: Position) -> None:
        self._tracker = PositionTracker(Position(start.file, start.offset))

    @property
    def file(self) -> str:
        """The file of the next event."""
        return self._tracker.file

    def passes_over(self, data: bytes, feed: EventFeed) -> bool:
        """Return whether an event was seen before; False ends the replay.

        Raises:
            BinlogDecodeError: the bytes are not an event.
            SourceResetError: the source skipped the rest of the transaction that was being read.
        """
        header = feed.decoder.peek_header(data)
        position = self._tracker.locate(header)
        if not is_artificial_here(header):
            reached = Position(feed.tracker.file, feed.tracker.offset)
            if Position(self._tracker.file, position) >= reached:
                self._hand_over(position, feed)
                return False
        self._tracker.feed(feed.decoder.decode(data, position, self._tracker.file))
        return True

    def _hand_over(self, position: int, feed: EventFeed) -> None:
        """Move the feed to the dump's file, which may be a later one: a GTID set names no file."""
        if self._tracker.file == feed.tracker.file:
            return
        if feed.tracker.in_transaction:
            raise SourceResetError(
                f"the source went on at {self._tracker.file}:{position} although the transaction in "
                f"{feed.tracker.file} before {feed.tracker.offset} has not ended: its binlog was reset"
            )
        feed.tracker.enter_file(self._tracker.file, position)


def is_artificial_here(header: EventHeader) -> bool:
    """Return whether the source made up an event for the stream: the event is in no file."""
    if header.is_artificial or header.type_code in _HEARTBEATS:
        return True
    if header.type_code == EventType.ROTATE_EVENT:
        return header.timestamp == 0
    return header.type_code == EventType.FORMAT_DESCRIPTION_EVENT and header.next_position == 0


_MAX_PENDING_SIZE = 64 << 20


@dataclass(slots=True)
class CommitClock:
    """The commit time of the transaction whose events are being read.

    Attributes:
        logged: microseconds since 1970 that its GTID event states; None where it states none.
        second: seconds since 1970 in the header of its last event so far.
    """

    logged: int | None = None
    second: int = 0

    def take(self, event: BinlogEvent) -> None:
        """Take the next event."""
        if hasattr(event.body, "immediate_commit_timestamp"):
            self.logged = event.body.immediate_commit_timestamp
        self.second = event.header.timestamp or self.second

    def end(self) -> int:
        """Return the commit time in microseconds since 1970, and begin another transaction."""
        micros = self.second * 1_000_000 if self.logged is None else self.logged
        self.logged, self.second = None, 0
        return micros


def start_for(since: int, *, logs_micros: bool) -> int:
    """Return the time from which transactions of a live source pass, in microseconds since 1970.

    A source that logs only seconds commits after ``since`` in its second, too. A stream that starts
    "now" must deliver that transaction.

    Args:
        since: the wanted time.
        logs_micros: whether the source states the time of the commit in microseconds.
    """
    return since if logs_micros else since - since % 1_000_000


class TimeGate:
    """Gate that opens at the first transaction that is not from before a time, and stays open.

    Later transactions pass whatever their time: clocks go back, and a session may set its own time.
    A transaction so large that it comes in parts opens the gate unless its first part says that it
    was committed before the time. At most the first 64 MiB of events wait for the end of their
    transaction.

    Args:
        since: microseconds since 1970, see :func:`start_for`; None: the gate is open.
    """

    def __init__(self, since: int | None) -> None:
        self._since = since
        self._clock = CommitClock()
        self._passing_over = False
        self._pending: list[BinlogEvent] = []
        self._pending_size = 0

    @property
    def is_open(self) -> bool:
        """Whether everything passes from now on."""
        return self._since is None

    def gives(self, transaction: Transaction) -> bool:
        """Return whether a transaction passes; call this for all transactions in order."""
        if self._since is None:
            return True
        if transaction.part == 0:
            committed = transaction.commit_timestamp_us
            self._passing_over = transaction.is_before(
                start_for(self._since, logs_micros=committed is not None)
            )
            if not transaction.complete:
                # For a transaction in parts the last event is unknown yet.
                self._passing_over = self._passing_over and committed is not None
        if not self._passing_over:
            self._since = None
        return not self._passing_over

    def events(self, event: BinlogEvent, *, in_transaction: bool) -> Sequence[BinlogEvent]:
        """Return the events that pass, now that one more came.

        Args:
            event: the new event.
            in_transaction: whether its transaction goes on after it.
        """
        if self._since is None:
            return (event,)
        if event.header.is_artificial or event.header.timestamp == 0:
            return (event,)
        self._clock.take(event)
        self._pending.append(event)
        self._pending_size += event.header.event_size
        if in_transaction and self._pending_size < _MAX_PENDING_SIZE:
            return ()
        given, self._pending, self._pending_size = self._pending, [], 0
        since = start_for(self._since, logs_micros=self._clock.logged is not None)
        if self._clock.end() < since and not in_transaction:
            return ()
        self._since = None
        return given
