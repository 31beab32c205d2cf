"""The state and counters of a route, for the status page and the metrics."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from replica_client.errors import ReplicaClientError, without_secrets
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.position import Position
from replica_client.schema.history import SchemaChange
from replica_client.service.route_orders import RouteOrders
from replica_client.service.source_access import SourceEnd
from replica_client.service.tables_set_aside import SetAside
from replica_client.sinks.protocol import ReplacingSink
from replica_client.stream.live.source_stream import SourceStream
from replica_client.stream.position.losses import LossCount
from replica_client.stream.tables.net_changes import TableName
from replica_client.stream.transactions.transaction import Transaction
from replica_client.stream.transport.dump import DumpStream

_KEPT = 50
ANSWER_SECONDS = 30.0
"""Seconds without an answer of the sink after which it counts as unavailable."""
_MAX_TEXT = 500


class RouteState(StrEnum):
    """The state of a route."""

    STARTING = "starting"
    OPENING_SINK = "opening sink"
    COPYING = "copying tables"
    CONNECTING = "connecting"
    STREAMING = "streaming"
    RECONNECTING = "reconnecting"
    RETRYING = "retrying"
    """Something is unavailable; the route tries again on its own."""
    FAILED = "failed"
    """An operator is needed; the route tries again now and then."""
    STANDBY = "standby"
    """Another process writes; this one takes over when the other ends."""
    PAUSED = "paused"
    """An operator stopped it for a while."""
    STOPPED = "stopped"


_TRIES = (RouteState.OPENING_SINK, RouteState.COPYING, RouteState.CONNECTING)
SECONDS: Final = (0.005, 0.02, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
"""Upper bounds of the buckets of :class:`Histogram`."""


class Histogram:
    """Durations in seconds, counted by bucket.

    Attributes:
        counts: by bucket of :data:`SECONDS`; the last one has everything above.
        sum: of all durations.
    """

    def __init__(self) -> None:
        self.counts = [0] * (len(SECONDS) + 1)
        self.sum = 0.0

    def add(self, seconds: float) -> None:
        """Count a duration."""
        self.counts[bisect_left(SECONDS, seconds)] += 1
        self.sum += seconds


@dataclass(slots=True)
class TableTally:
    """Changes of one table written to a sink since the start.

    Attributes:
        rows: changed rows.
        bytes: of their events.
    """

    rows: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Remark:
    """A message with its time (seconds since 1970)."""

    at: float
    text: str


@dataclass(slots=True)
class Pending:
    """Transactions that were written but are not committed.

    Attributes:
        transactions: how many.
        rows: changed rows.
        bytes: of their events.
        oldest: seconds since 1970, on the source's clock, of the first one.
        newest: likewise, of the last one.
        lag: age in seconds of the first one when all were committed.
    """

    transactions: int = 0
    rows: int = 0
    bytes: int = 0
    oldest: float = 0.0
    newest: float = 0.0
    lag: float = 0.0


class Observation:
    """Counters and recent events of one route.

    Args:
        wall: seconds since 1970 on this machine.
        clock: monotonic seconds.

    Attributes:
        stream: the running stream.
        copying: progress of the first copies, empty when none is made.
        snapshot_tables: tables of which a first copy is not done; None: none is made.
        copied_rows: rows of first copies.
        oldest: commit time on the source of the oldest change that is not committed in the sink, in
            seconds since 1970, as far as it was read in this run or an earlier one; 0: none.
        busy_since: monotonic time since which the sink has not answered; None: no call is pending.
        set_aside: tables that the sink does not get, with the reasons.
        unaccepted: returns those of them that make the service not ready.
        commit_times: durations of commits.
        commit_lags: age of the oldest change of each commit when it was committed.
        commit_seen: called with the transactions of each commit and its duration in seconds.
        failure_seen: called with the text of each error.
        source_offset: the source's wall clock minus our monotonic clock; None: not known.
        end: where the source's binlog ended at the last look; None: not known.
        orders: of an operator, which are not carried out yet; None: not known.
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
        self.commit_times, self.commit_lags = Histogram(), Histogram()
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
        self._logged_busy: float | None = None
        self._failed_as: RouteState | None = None
        self._copied_before = 0
        self.errors: deque[Remark] = deque(maxlen=_KEPT)
        self.schema_changes: deque[Remark] = deque(maxlen=_KEPT)
        self.source_offset: float | None = None
        self.end: SourceEnd | None = None
        self.orders: RouteOrders | None = None
        self._waits_for: SourceEnd | None = None
        self.commit_seen: Callable[[Pending, float], None] | None = None
        self.failure_seen: Callable[[str], None] | None = None
        self._losses: tuple[LossCount, ...] = ()
        self._generations = self._received = 0
        self._dump: DumpStream | None = None
        self._level_at = clock()

    # Called by the route.

    def enter(self, state: RouteState, error: str = "") -> None:
        """Enter a state.

        A retry does not hide the error that caused it: the error stays until the route streams.
        """
        if error:
            self.record_error(error)
            if self.failure_seen is not None:
                self.failure_seen(error[:_MAX_TEXT])
        if self.state is RouteState.STANDBY and state is RouteState.OPENING_SINK:
            return  # only to check whether the other process has ended
        if state is not self.state:
            self.state, self.since = state, self._wall()
        if state in (RouteState.RETRYING, RouteState.FAILED):
            self._failed_as, self._copied_before = state, self.copied_rows
        elif state is RouteState.STANDBY:
            self._failed_as = None
        if error or not (state in _TRIES or (state is RouteState.STREAMING and self._failed_as)):
            self.error = error[:_MAX_TEXT]

    def fail(self, state: RouteState, error: str) -> None:
        """Show a failure while stream and sink are closed, which may take long."""
        self._failed_as, self._copied_before = state, self.copied_rows
        self.error = error[:_MAX_TEXT]

    @property
    def current_at(self) -> float:
        """Seconds since 1970 up to which every commit of the source is known to be in the sink."""
        return self._wall() - (self._clock() - self._level_at)

    def recall(self, position: Position | None, oldest: float, current_at: float) -> None:
        """Restore what an earlier run knew.

        Args:
            position: the committed position; None: there is none.
            oldest: see :attr:`oldest`.
            current_at: see :attr:`current_at`; 0: not known.
        """
        if position is None:
            return
        self.committed, self.oldest = position, oldest
        if current_at:
            self._level_at = self._clock() - max(0.0, self._wall() - current_at)

    def saw(self, committed: float) -> None:
        """Record a change committed on the source at a time, as not yet committed in the sink."""
        self.oldest = self.oldest or committed

    def _unanswered(self) -> float:
        """Return for how many seconds the sink has not answered."""
        return 0.0 if self.busy_since is None else self._clock() - self.busy_since

    def _settled(self) -> bool:
        """Return whether a failure is over, because everything the source has is committed."""
        if self._failed_as is None:
            return True
        if self.oldest or self.queued or self.end is None or not self._has(self.end):
            return False
        self._failed_as = None
        self.error = ""
        return True

    def record_error(self, text: str) -> None:
        """Add an error to the recent errors."""
        text = without_secrets(text)
        if not (self.errors and self.errors[-1].text == text[:_MAX_TEXT]):
            self.errors.append(Remark(self._wall(), text[:_MAX_TEXT]))

    def attach(self, stream: SourceStream | None) -> None:
        """Observe another stream, or none."""
        if self.stream is not None:
            self._generations += self.stream.generation
            self._losses = self.stream.losses.counts
        self.stream = stream
        self.pending = Pending()

    def saw_end(self, end: SourceEnd) -> None:
        """Record where the source's binlog ends."""
        looks = (self._waits_for, self.end)
        self._waits_for = next((one for one in looks if one and not self._has(one)), end)
        self.end, self.source_offset = end, end.clock_offset

    def _has(self, end: SourceEnd) -> bool:
        """Return whether the stream has read everything that the source had at a look."""
        try:
            return self.stream is not None and not end.is_ahead_of(self.stream.reached)
        except ReplicaClientError:  # the stream is closed
            return False

    def tally(self, database: str, table: str) -> TableTally:
        """Return the counters of a table."""
        key = (database, table)
        found = self.tables.get(key)
        if found is None:
            found = self.tables[key] = TableTally()
        return found

    def wrote(self, transaction: Transaction, rows: int, size: int) -> None:
        """Count a transaction, or a part of one, that was written to the sink."""
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
        """Count ordinary transactions that were written to the sink together."""
        pending = self.pending
        pending.oldest = pending.oldest or committed_on_source(transactions[0])
        self.saw(pending.oldest)
        pending.newest = committed_on_source(transactions[-1])
        pending.transactions += len(transactions)
        pending.rows += rows
        pending.bytes += size
        self.rows_written += rows

    def wrote_tables(self, tables: Mapping[tuple[str, str], Sequence[int]]) -> None:
        """Count rows and bytes by table."""
        for (database, table), (rows, size) in tables.items():
            tally = self.tally(database, table)
            tally.rows += rows
            tally.bytes += size

    def _drop_tallies(self, change: SchemaChange) -> None:
        """Drop the counters of tables that were dropped or renamed."""
        if change.kind == "drop_database":
            for key in [key for key in self.tables if key[0] == change.database]:
                del self.tables[key]
        elif change.kind == "drop_table" or change.name_after != (change.database, change.table):
            self.tables.pop((change.database, change.table), None)

    def did_commit(self, position: Position, seconds: float) -> None:
        """Count a commit of the sink whose position was saved."""
        pending, self.pending = self.pending, Pending()
        self.transactions += pending.transactions
        self.rows += pending.rows
        self.bytes += pending.bytes
        self.commits += 1
        self.commit_times.add(seconds)
        self.committed, self.committed_at = position, self._wall()
        self.oldest = 0.0
        if self._failed_as is not None and pending.transactions:
            self._failed_as = None
            self.error = ""
        if pending.oldest:
            pending.lag = max(0.0, self._source_now() - pending.oldest)
            self.commit_lags.add(pending.lag)
        if pending.newest:
            # Everything committed before is in the sink, even if the source is never idle at a
            # look.
            age = max(0.0, self._source_now() - pending.newest)
            self._level_at = max(self._level_at, self._clock() - age)
        if self.commit_seen is not None and pending.transactions:
            self.commit_seen(pending, seconds)

    # Read by the status page and the metrics.

    @property
    def shown_state(self) -> RouteState:
        """The state, including reconnects of the stream and a sink that does not answer.

        A try after a failure has the state of the failure, until something is committed or copied.
        """
        stream = self.stream
        if self._failed_as is not None and self.state in _TRIES:
            return self.state if self.copied_rows > self._copied_before else self._failed_as
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
        """The reason why the route does not stream; empty when it does."""
        stream = self.stream
        if self.state is RouteState.STREAMING and stream is not None and stream.loss is not None:
            return str(stream.loss)[:_MAX_TEXT]
        if self.state is RouteState.STREAMING and self._unanswered() > ANSWER_SECONDS:
            return self._hanging()
        return self.error

    def _hanging(self) -> str:
        return f"the sink has not answered for {self._unanswered():.0f} s; see whether its server hangs"

    def new_hanging(self) -> str:
        """Return the text of a call that the sink does not answer, once for each call; else empty."""
        since = self.busy_since
        if since is None or since == self._logged_busy or self._unanswered() <= ANSWER_SECONDS:
            return ""
        self._logged_busy = since
        return self._hanging()

    def count_replaced(self, sink: ReplacingSink) -> None:
        """Count the values that a newly opened sink replaces."""
        self._replaced_before = self.replaced_values
        self._replacing = sink

    @property
    def replaced_values(self) -> int:
        """Number of values that the sink replaced by NULL."""
        now = 0 if self._replacing is None else self._replacing.replaced_values
        return self._replaced_before + now

    @property
    def losses(self) -> tuple[LossCount, ...]:
        """Recorded losses by kind and table, since the first run."""
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
        """Whether the sink has committed everything that is known of the source.

        Nothing was written since the last commit, nothing is queued, and the source had no more at
        the last look, which includes events that are still in the network.
        """
        streams = self.shown_state is RouteState.STREAMING and not self._oldest
        return streams and not self.queued and (self.end is None or self._has(self.end))

    def _source_now(self) -> float:
        """Return the time by the source's clock, or by ours while the offset is unknown."""
        return self._wall() if self.source_offset is None else self._clock() + self.source_offset

    @property
    def _oldest(self) -> float:
        return self.oldest or self.pending.oldest

    def _has_committed_all(self) -> bool:
        """Return whether the source had nothing after the committed position at the last look."""
        end, committed = self.end, self.committed
        return end is not None and committed is not None and _nothing_between(end, committed)

    def lag_seconds(self) -> float:
        """Return the age of the oldest change of the source that is not committed in the sink.

        0 when there is none. The source's clock is used if known, so that a jump of ours has no
        effect. Without a stream this is an upper bound, as of the last look at the source.
        """
        now = self._clock()
        if self._oldest:
            return max(0.0, self._source_now() - self._oldest)
        if self.is_level:
            self._level_at = now
            return 0.0
        if self.end is not None and self._has_committed_all():
            # As of that look; later changes are not known.
            self._level_at = max(self._level_at, self.end.began)
        if (
            self.state is RouteState.STREAMING
            and not self._failed_as
            and not self.queued
            and self.stream
        ):
            # Events on their way were already in the source's binlog at that look.
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
    """Return when the source committed a transaction, in seconds since 1970 by its clock."""
    return transaction.commit_us / 1_000_000
