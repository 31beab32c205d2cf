"""What a route did and does: what the status page and the metrics show."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

from replica_client.codec.quick_dataclass import dataclass
from replica_client.daemon.source_watch import SourceEnd
from replica_client.daemon.tables_set_aside import SetAside
from replica_client.errors import ReplicaClientError, without_secrets
from replica_client.position.losses import LossCount
from replica_client.position.position import Position
from replica_client.readers.live.source_stream import SourceStream
from replica_client.readers.transaction import Transaction
from replica_client.schema.history import SchemaChange
from replica_client.sinks.protocol import ReplacingSink
from replica_client.tables.table_copy import TableName
from replica_client.transport.dump import DumpStream

_KEPT = 50
ANSWER_SECONDS = 30.0
"""Seconds without an answer of the sink after which it counts as unavailable."""
_MAX_TEXT = 500


class RouteState(StrEnum):
    """What a route does."""

    STARTING = "starting"
    OPENING_SINK = "opening sink"
    COPYING = "copying tables"
    CONNECTING = "connecting"
    STREAMING = "streaming"
    RECONNECTING = "reconnecting"
    RETRYING = "retrying"
    """Something is away; the next try comes by itself."""
    FAILED = "failed"
    """An operator is needed; it is tried again now and then."""
    STANDBY = "standby"
    """Another process writes; this one takes over when that ends."""
    STOPPED = "stopped"


_TRIES = (RouteState.OPENING_SINK, RouteState.COPYING, RouteState.CONNECTING)


@dataclass(slots=True)
class TableTally:
    """What went to a sink of one table since the start.

    Attributes:
        rows: changed rows.
        bytes: of their events.
    """

    rows: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Remark:
    """Something that happened at a time (seconds since 1970)."""

    at: float
    text: str


@dataclass(slots=True)
class Pending:
    """What was written and is not committed.

    Attributes:
        transactions: how many.
        rows: changed rows.
        bytes: of their events.
        oldest: seconds since 1970, on the source's clock, of the first one.
        newest: the same of the last one.
    """

    transactions: int = 0
    rows: int = 0
    bytes: int = 0
    oldest: float = 0.0
    newest: float = 0.0


class Observation:
    """Counters and recent events of one route.

    Args:
        wall: seconds since 1970 on this machine.
        clock: monotonic seconds.

    Attributes:
        stream: the running stream.
        copying: how far the first copies are, empty when none is made.
        snapshot_tables: tables of which a first copy is not done; None: none is made.
        copied_rows: rows of first copies.
        oldest: when the oldest change was committed on the source that is not committed in the sink, in seconds since
            1970, as far as it was read in this run or an earlier one; 0: none.
        busy_since: monotonic seconds since which the sink has not answered; None: nothing was asked of it.
        set_aside: tables that the sink does not get, and why.
        unaccepted: gives those of them that make the service not ready.
        commit_seen: is told what each commit made durable, and how many seconds that took.
        failure_seen: is told the text of each error.
        source_offset: what the source's clock is ahead of ours, monotonic to wall; None: not known.
        end: where the source's binlog ended at the last look; None: not known.
    """

    def __init__(
        self,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._wall, self._clock = wall, clock
        self.state = RouteState.STARTING
        self.since = wall()
        self.error = ""
        self.guarantee = ""
        self.stream: SourceStream | None = None
        self.tables: dict[tuple[str, str], TableTally] = {}
        self.pending = Pending()
        self.transactions = self.commits = self.retries = self.dead_letters = 0
        self._replaced_before = 0
        self._replacing: ReplacingSink | None = None
        self.commit_seconds = 0.0
        self.rows = self.bytes = self.rows_written = 0
        self.copying = ""
        self.snapshot_tables: int | None = None
        self.copied_rows = 0
        self.set_aside: Mapping[TableName, SetAside] = {}
        self.unaccepted: Callable[[], Sequence[TableName]] = list
        self.committed: Position | None = None
        self.committed_at: float | None = None
        self.oldest = 0.0
        self.busy_since: float | None = None
        self._failed_as: RouteState | None = None
        self.errors: deque[Remark] = deque(maxlen=_KEPT)
        self.schema_changes: deque[Remark] = deque(maxlen=_KEPT)
        self.source_offset: float | None = None
        self.end: SourceEnd | None = None
        self._waits_for: SourceEnd | None = None
        self.commit_seen: Callable[[Pending, float], None] | None = None
        self.failure_seen: Callable[[str], None] | None = None
        self._losses: tuple[LossCount, ...] = ()
        self._generations = self._received = 0
        self._dump: DumpStream | None = None
        self._level_at = clock()

    # Told by the route.

    def enter(self, state: RouteState, error: str = "") -> None:
        """The route does something else now.

        A try after a failure does not hide why it is needed: the error stays until the route streams.
        """
        if error:
            self.record_error(error)
            if self.failure_seen is not None:
                self.failure_seen(error[:_MAX_TEXT])
        if self.state is RouteState.STANDBY and state is RouteState.OPENING_SINK:
            return  # to look whether the other has ended
        if state is not self.state:
            self.state, self.since = state, self._wall()
        if state in (RouteState.RETRYING, RouteState.FAILED):
            self._failed_as = state
        elif state is RouteState.STANDBY:
            self._failed_as = None
        if error or not (state in _TRIES or (state is RouteState.STREAMING and self._failed_as)):
            self.error = error[:_MAX_TEXT]

    @property
    def current_at(self) -> float:
        """Seconds since 1970 up to which all that the source committed is known to be committed in the sink."""
        return self._wall() - (self._clock() - self._level_at)

    def recall(self, position: Position | None, oldest: float, current_at: float) -> None:
        """Take over what an earlier run knew.

        Args:
            position: that was committed.
            oldest: see :attr:`oldest`.
            current_at: see :attr:`current_at`; 0: not known.
        """
        if position is None:
            return
        self.committed, self.oldest = position, oldest
        if current_at:
            self._level_at = self._clock() - max(0.0, self._wall() - current_at)

    def saw(self, committed: float) -> None:
        """A change that was committed on the source at a time is to be committed in the sink."""
        self.oldest = self.oldest or committed

    def _unanswered(self) -> float:
        """Return for how many seconds the sink has not answered."""
        return 0.0 if self.busy_since is None else self._clock() - self.busy_since

    def _settled(self) -> bool:
        """Return whether nothing is left of a failure: all that the source has is committed."""
        if self._failed_as is None:
            return True
        if self.oldest or self.queued or self.end is None or not self._has(self.end):
            return False
        self._failed_as = None
        self.error = ""
        return True

    def record_error(self, text: str) -> None:
        """Keep an error for people."""
        text = without_secrets(text)
        if not (self.errors and self.errors[-1].text == text[:_MAX_TEXT]):
            self.errors.append(Remark(self._wall(), text[:_MAX_TEXT]))

    def attach(self, stream: SourceStream | None) -> None:
        """Another stream runs, or none does."""
        if self.stream is not None:
            self._generations += self.stream.generation
            self._losses = self.stream.losses.counts
        self.stream = stream
        self.pending = Pending()

    def saw_end(self, end: SourceEnd) -> None:
        """The source was looked at."""
        looks = (self._waits_for, self.end)
        self._waits_for = next((one for one in looks if one and not self._has(one)), end)
        self.end, self.source_offset = end, end.clock_offset

    def _has(self, end: SourceEnd) -> bool:
        """Whether all that the source had at a look was read."""
        try:
            return self.stream is not None and not end.is_ahead_of(self.stream.reached)
        except ReplicaClientError:  # it is not open any more
            return False

    def tally(self, database: str, table: str) -> TableTally:
        """The counters of a table."""
        key = (database, table)
        found = self.tables.get(key)
        if found is None:
            found = self.tables[key] = TableTally()
        return found

    def wrote(self, transaction: Transaction, rows: int, size: int) -> None:
        """The sink took a transaction or a part of one."""
        pending = self.pending
        pending.newest = committed_on_source(transaction)
        pending.oldest = pending.oldest or pending.newest
        self.saw(pending.oldest)
        pending.transactions += transaction.complete
        pending.rows += rows
        pending.bytes += size
        self.rows_written += rows
        for change in transaction.schema_changes:
            self._drop_tallies(change)
            self.schema_changes.append(Remark(self._wall(), change.statement[:_MAX_TEXT]))

    def wrote_some(self, transactions: list[Transaction], rows: int, size: int) -> None:
        """The sink took some ordinary transactions together."""
        pending = self.pending
        pending.oldest = pending.oldest or committed_on_source(transactions[0])
        self.saw(pending.oldest)
        pending.newest = committed_on_source(transactions[-1])
        pending.transactions += len(transactions)
        pending.rows += rows
        pending.bytes += size
        self.rows_written += rows

    def wrote_tables(self, tables: Mapping[tuple[str, str], Sequence[int]]) -> None:
        """The sink takes rows and bytes of tables."""
        for (database, table), (rows, size) in tables.items():
            tally = self.tally(database, table)
            tally.rows += rows
            tally.bytes += size

    def _drop_tallies(self, change: SchemaChange) -> None:
        """The counters of tables that are gone go too."""
        if change.kind == "drop_database":
            for key in [key for key in self.tables if key[0] == change.database]:
                del self.tables[key]
        elif change.kind == "drop_table" or (
            change.after is not None
            and (change.after.database, change.after.name) != (change.database, change.table)
        ):
            self.tables.pop((change.database, change.table), None)

    def did_commit(self, position: Position, seconds: float) -> None:
        """The sink committed, and the position was saved."""
        pending, self.pending = self.pending, Pending()
        self.transactions += pending.transactions
        self.rows += pending.rows
        self.bytes += pending.bytes
        self.commits += 1
        self.commit_seconds += seconds
        self.committed, self.committed_at = position, self._wall()
        self.oldest = 0.0
        if self._failed_as is not None and pending.transactions:
            self._failed_as = None
            self.error = ""
        if pending.newest:
            # What the source committed before that is in the sink, though a look may never find nothing on its way.
            age = max(0.0, self._source_now() - pending.newest)
            self._level_at = max(self._level_at, self._clock() - age)
        if self.commit_seen is not None and pending.transactions:
            self.commit_seen(pending, seconds)

    # Asked by people.

    @property
    def shown_state(self) -> RouteState:
        """The state, with what the stream does by itself."""
        stream = self.stream
        if self.state is not RouteState.STREAMING:
            return self.state
        if stream is None or stream.dump is None:
            return RouteState.RECONNECTING
        if self._unanswered() > ANSWER_SECONDS:
            return RouteState.RETRYING
        if not self._settled() and self._failed_as is not None:
            return self._failed_as
        return self.state

    @property
    def shown_error(self) -> str:
        """Why it does not stream; empty when it does."""
        stream = self.stream
        if self.state is RouteState.STREAMING and stream is not None and stream.loss is not None:
            return str(stream.loss)[:_MAX_TEXT]
        if self.state is RouteState.STREAMING and self._unanswered() > ANSWER_SECONDS:
            return f"the sink has not answered for {self._unanswered():.0f} s; see whether its server hangs"
        return self.error

    def count_replaced(self, sink: ReplacingSink) -> None:
        """Count what a sink that is opened now replaces."""
        self._replaced_before = self.replaced_values
        self._replacing = sink

    @property
    def replaced_values(self) -> int:
        """Values that the sink stored another one for."""
        now = 0 if self._replacing is None else self._replacing.replaced_values
        return self._replaced_before + now

    @property
    def losses(self) -> tuple[LossCount, ...]:
        """What could not be delivered and was put on record, by kind and table, since the first run."""
        return self._losses if self.stream is None else self.stream.losses.counts

    @property
    def reconnects(self) -> int:
        """Connections to the source after the first."""
        now = 0 if self.stream is None else self.stream.generation
        return max(0, self._generations + now - 1)

    @property
    def received(self) -> int:
        """Bytes that came from the source."""
        dump = None if self.stream is None else self.stream.dump
        if dump is not self._dump:
            if self._dump is not None:
                self._received += self._dump.statistics.bytes_received
            self._dump = dump
        return self._received + (0 if dump is None else dump.statistics.bytes_received)

    @property
    def queued(self) -> int:
        """Bytes of events that wait for the sink."""
        dump = None if self.stream is None else self.stream.dump
        return 0 if dump is None else dump.queued

    @property
    def is_level(self) -> bool:
        """Whether all is committed that is known of: nothing was written since, nothing waits, the source had no more.

        What is on its way to a process that gets no processor waits nowhere here; the last look at the source tells
        of it.
        """
        streams = self.shown_state is RouteState.STREAMING and not self._oldest
        return streams and not self.queued and (self.end is None or self._has(self.end))

    def _source_now(self) -> float:
        """Seconds since 1970 by the source's clock, or by ours while that is not known."""
        return self._wall() if self.source_offset is None else self._clock() + self.source_offset

    @property
    def _oldest(self) -> float:
        return self.oldest or self.pending.oldest

    def _has_committed_all(self) -> bool:
        """Return whether the source had nothing after the committed position at the last look."""
        end, committed = self.end, self.committed
        return end is not None and committed is not None and _nothing_between(end, committed)

    def lag_seconds(self) -> float:
        """How old the oldest change of the source is that is not committed in the sink.

        0 when there is none. By the source's clock where that is known, so that a jump of ours
        moves nothing. While there is no stream: at most so old, as of the last look at the source.
        """
        now = self._clock()
        if self._oldest:
            return max(0.0, self._source_now() - self._oldest)
        if self.is_level:
            self._level_at = now
            return 0.0
        if self.end is not None and self._has_committed_all():
            # As of that look; what came since is not known.
            self._level_at = max(self._level_at, self.end.began)
        if (
            self.state is RouteState.STREAMING
            and not self._failed_as
            and not self.queued
            and self.stream
        ):
            # Of what is on its way it is known that it was there at a look.
            looks = (self._waits_for, self.end)
            seen = next((one for one in looks if one is not None and not self._has(one)), None)
            if seen is not None:
                return max(0.0, now - seen.began)
        return max(0.0, now - self._level_at)


def _nothing_between(end: SourceEnd, position: Position) -> bool:
    try:
        return not end.is_ahead_of(position)
    except ReplicaClientError:
        return False


def committed_on_source(transaction: Transaction) -> float:
    """Seconds since 1970 when a transaction was committed, by the source's clock."""
    return transaction.commit_us / 1_000_000
