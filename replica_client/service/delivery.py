"""One run of a route: from an open stream into an open sink, until it is stopped or fails."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from replica_client.errors import BinlogDecodeError, SinkError
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.position import Position
from replica_client.service.configuration import RouteConfig, bytes_of
from replica_client.service.dead_letters import DeadLetters
from replica_client.service.observation import Observation
from replica_client.service.route_orders import RouteOrders
from replica_client.service.table_checker import RowCounter
from replica_client.service.tables_set_aside import GroupTally, TablesSetAside
from replica_client.sinks.protocol import AbortableSink, GroupSink, Sink
from replica_client.stream.live.grouped import TransactionGroup
from replica_client.stream.live.source_stream import SourceStream
from replica_client.stream.position.stores.base import Checkpoint
from replica_client.stream.transactions.transaction import Transaction

if TYPE_CHECKING:
    # Not imported at run time, to keep the start of services without copies quick.
    from replica_client.service.running_snapshot import RunningSnapshot
    from replica_client.service.signals import MirrorSignals

IDLE_SECONDS = 30.0
"""Seconds after which an idle stream's position is saved if it moved, as into another file."""
EAGER_IDLE_SECONDS = 1.0
"""Seconds for a semi-synchronous stream: its source waits for the position."""
_TURN_SECONDS = 0.05
MOST_SECONDS = 0.5
"""Default of the longest time that a change waits for its commit."""
# Time between two commits, in multiples of a commit's duration: when caught up, and when not.
_PACE, _PACE_BEHIND = 1.0, 20.0
_POLL_SECONDS = 0.01
_LOOK_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The limits that trigger a commit; the first one that is reached does.

    Attributes:
        rows: changed rows.
        bytes: of their events.
        seconds: how long a change waits until it is committed; one that comes later than that after
            a commit is committed at once.
        commit_seconds: how long a commit may take.
        adaptive: commit sooner where commits are cheap, so that changes do not wait needlessly.
    """

    rows: int
    bytes: int
    seconds: float
    adaptive: bool = False
    commit_seconds: float = 300.0


def limits_of(config: RouteConfig) -> BatchLimits:
    """Return the commit limits of a route."""
    sink = config.sink
    seconds = MOST_SECONDS if sink.batch_seconds is None else sink.batch_seconds
    return BatchLimits(
        sink.batch_rows,
        bytes_of("batch_bytes", sink.batch_bytes),
        seconds,
        adaptive=sink.batch_seconds is None,
        commit_seconds=sink.commit_timeout,
    )


def pause_behind(spent: float, seconds: float) -> float:
    """Return the seconds between the end of a commit and the next one.

    A change that arrives when a commit begins is committed by the next one, ``seconds`` later. If
    commits are slow, the pause is as long as a commit, but at most ``seconds``.

    Args:
        spent: duration of a commit.
        seconds: of :class:`BatchLimits`.
    """
    return max(seconds - 2 * spent, min(seconds, spent))


class Delivery:
    """A pipeline that writes transactions to a sink in order and commits them in batches.

    One task reads and writes, another commits when time has passed; they take turns. An error of
    one ends both, but never in the middle of the other's work.

    Args:
        stream: open.
        sink: open.
        limits: may be replaced while it runs (:attr:`limits`).
        observation: records what happens.
        letters: leaves out poisonous changes; None: there are none.
        eager: commit as soon as no event is waiting, because the source waits for the commit.
        guard: called before each transaction is written; an exception that it raises ends the run.
        signals: requests to a mirror; None: there are none.
        aside: leaves out tables that the sink cannot continue with; None: there are none.
        snapshot: writes rows of tables between transactions; None: there is none.
        fence: called before each commit; raises if another process took over.
        remember: called with each committed position.
        orders: skips transactions, and stops before one; None: nobody gives orders.
        whole_log: whether the stream delivers every transaction, so that a position may be saved
            before the first one came; False while a start by time skips some.
    """

    def __init__(
        self,
        stream: SourceStream,
        sink: Sink,
        limits: BatchLimits,
        observation: Observation,
        letters: DeadLetters | None = None,
        *,
        eager: bool = False,
        whole_log: bool = True,
        aside: TablesSetAside | None = None,
        guard: Callable[[], None] | None = None,
        signals: MirrorSignals | None = None,
        snapshot: RunningSnapshot | None = None,
        fence: Callable[[], None] | None = None,
        remember: Callable[[Position], Awaitable[None]] | None = None,
        orders: RouteOrders | None = None,
    ) -> None:
        self.limits = limits
        self._stream, self._sink = stream, sink
        self._write_some = sink.write_some if isinstance(sink, GroupSink) else None
        self._observation = observation
        self._letters = letters
        self._counter = RowCounter()
        self._eager = eager
        self._whole_log = whole_log
        self._guard, self._signals, self._aside = guard, signals, aside
        self._snapshot = snapshot
        self._fence, self._remember, self._orders = fence, remember, orders
        self._turn = asyncio.Lock()
        self._written = asyncio.Event()
        self._in_hand = False
        self._parted = False
        self._over = False
        # The transaction stands for the position after it, which is costly to build.
        self._last: Transaction | None = None
        self._saved: Position | None = None
        self._rows = self._bytes = 0
        self._loop = asyncio.get_running_loop()
        self._committed_at = float("-inf")
        self._commit_seconds = 0.0

    async def run(self, stop: asyncio.Event, saved: Position | None) -> None:
        """Deliver until ``stop`` is set; then commit what was written, and return.

        Args:
            stop: requests the end at the next transaction's end.
            saved: the position that the sink or the store already has; None: the stream's start is
                committed first, so that a later run begins there and not at a later "latest".
        """
        self._saved = saved
        if saved is None and self._whole_log:
            await self._commit(self._stream.position)
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._write_all()),
                    group.create_task(self._commit_when_due()),
                ]
                if self._snapshot is not None:
                    tasks.append(group.create_task(self._snapshot.run()))
                    tasks.append(group.create_task(self._write_snapshot_at_rest(self._snapshot)))
                await stop.wait()
                async with self._turn:
                    self._over = True
                    for task in tasks:
                        task.cancel()
                    if self._last is not None and not self._parted:
                        await self._commit(self._last.position)
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None

    async def save(self, position: Position) -> None:
        """Commit a position before any transaction is delivered."""
        await self._commit(position)

    # The task that writes.

    async def _write_all(self) -> None:
        async with contextlib.aclosing(self._stream.measured_groups()) as groups:
            async for group in groups:
                self._in_hand = True
                at, count = 0, len(group.transactions)
                while at < count:
                    if self._snapshot is not None:
                        await self._snapshot.flowing.wait()
                    async with self._my_turn():
                        turn_end = self._loop.time() + _TURN_SECONDS
                        while at < count:
                            at = await self._take_next(group, at)
                            if self._loop.time() >= turn_end:
                                break
                        self._in_hand = at < count
                    if self._loop.time() >= turn_end:
                        # Let other tasks of this loop run, such as the status page.
                        await asyncio.sleep(0)
                del group  # free its rows while the next group is awaited

    async def _take_next(self, group: TransactionGroup, at: int) -> int:
        """Take transaction ``at``, or several from there on; return the number of the next one."""
        if group.ordinary and self._is_at_ease():
            try:
                tally = GroupTally.of(group, self._counter)
            except BinlogDecodeError:
                group.ordinary = False  # one by one, so that those before it are written
            else:
                return await self._take_some(group, tally, at)
        await self._take(group.transactions[at])
        return at + 1

    def _is_at_ease(self) -> bool:
        """Return whether transactions may be written in batches."""
        return (
            self._guard is None
            and self._signals is None
            and (self._letters is None or self._letters.leaves_nothing_out)
            and (self._snapshot is None or self._snapshot.rests)
            and not self._aside
            and not self._parted
            and (self._orders is None or self._orders.is_empty)
        )

    async def _take_some(self, group: TransactionGroup, tally: GroupTally, at: int) -> int:
        """Write ordinary transactions together, up to the one that makes a commit due."""
        limits = self.limits
        end = tally.end(at, max(1, limits.rows - self._rows), max(1, limits.bytes - self._bytes))
        some = group.transactions[at:end]
        rows, size = tally.rows[end] - tally.rows[at], tally.sizes[end] - tally.sizes[at]
        with self._asking():
            if self._write_some is not None:
                await self._write_some(some, size)
            else:
                for transaction in some:
                    await self._sink.write(transaction)
        if self._snapshot is not None and not self._snapshot.rests:
            # A chunk began to be read meanwhile. It is written between two turns at the earliest.
            for transaction in some:
                self._snapshot.see(transaction)
        if not at:
            self._observation.wrote_tables(tally.tables)
        self._observation.wrote_some(some, rows, size)
        self._rows += rows
        self._bytes += size
        self._last = some[-1]
        self._written.set()
        if self._is_full():
            await self._commit(some[-1].position)
        return end

    async def _take(self, transaction: Transaction) -> None:
        alone = bool(transaction.schema_changes)
        begins_large = not transaction.complete and not self._parted
        if (alone or begins_large) and self._last is not None and not self._parted:
            await self._commit(self._last.position)
        if self._orders is not None and self._orders.pause_at and not self._parted:
            before = self._saved if self._last is None else self._last.position
            if self._orders.stops_before(transaction, before):
                if self._last is not None:
                    await self._commit(self._last.position)
                await self._orders.stop()
                raise asyncio.CancelledError
        if self._guard is not None:
            self._guard()
        if self._signals is not None:
            transaction = self._signals.take(transaction)
        if self._snapshot is not None and not self._parted:
            await self._write_snapshot(self._snapshot, transaction.start)
        if self._orders is not None and not self._orders.is_empty:
            transaction = self._orders.admit(transaction)
        if self._letters is not None:
            transaction = await self._letters.leave_out(transaction, self._stream.format)
        if self._aside is not None:
            transaction = self._aside.shown(transaction)
        if self._snapshot is not None:
            self._snapshot.see(transaction)
            transaction = self._snapshot.shown(transaction)
        with self._asking():
            await self._sink.write(transaction)
        rows, size = self._tally(transaction)
        self._observation.wrote(transaction, rows, size)
        self._parted = not transaction.complete
        self._rows += rows
        self._bytes += size
        if transaction.complete:
            self._last = transaction
            self._written.set()
            if alone or self._is_full():
                await self._commit(transaction.position)

    def _tally(self, transaction: Transaction) -> tuple[int, int]:
        """Count rows and bytes of a transaction, in total and by table."""
        total = size = 0
        for rows in transaction.rows:
            count = self._counter.count(rows)
            tally = self._observation.tally(rows.shape.database, rows.shape.table)
            tally.rows += count
            tally.bytes += rows.event_size
            total += count
            size += rows.event_size
        return total, size

    def _is_full(self) -> bool:
        limits = self.limits
        return (
            self._rows >= limits.rows
            or self._bytes >= limits.bytes
            or (limits.seconds > 0 and self._loop.time() >= self._due())
        )

    def _due(self) -> float:
        """Return when a commit is due by time alone."""
        return self._committed_at + pause_behind(self._commit_seconds, self.limits.seconds)

    # Rows of a snapshot.

    async def _write_snapshot(self, snapshot: RunningSnapshot, reached: Position) -> None:
        """Write and commit a snapshot chunk that is due at the position ``reached``."""
        if not snapshot.is_due(reached):
            return
        if self._last is not None:
            await self._commit(self._last.position)
        if not snapshot.is_due(reached):
            return  # the commit before was half done by an earlier run, and is not whole yet
        position = self._stream.position if self._saved is None else self._saved
        await snapshot.write()
        await self._commit(position)

    async def _write_snapshot_at_rest(self, snapshot: RunningSnapshot) -> None:
        """Write waiting snapshot chunks while no transaction comes."""
        while True:
            await asyncio.sleep(_POLL_SECONDS if snapshot.waits else _LOOK_SECONDS)
            if not snapshot.waits:
                continue
            async with self._my_turn():
                if not self._in_hand and not self._parted:
                    await self._write_snapshot(snapshot, self._stream.reached)

    # The task that commits.

    async def _commit_when_due(self) -> None:
        while True:
            idle = False
            try:
                async with asyncio.timeout(EAGER_IDLE_SECONDS if self._eager else IDLE_SECONDS):
                    await self._written.wait()
            except TimeoutError:
                idle = True
            if self._last is not None and not self._eager:
                await self._until_due()
            async with self._my_turn():
                self._written.clear()
                position = None if self._last is None else self._last.position
                if idle and position is None and not self._in_hand and self._whole_log:
                    position = self._stream.reached
                if position is not None and position != self._saved and not self._parted:
                    await self._commit(position)
                elif idle and self._eager and position is not None and not self._parted:
                    # A source waits only for replicas that acknowledged its last commit, even one
                    # that this service already had before it connected.
                    await self._stream.acknowledge(position)

    async def _until_due(self) -> None:
        """Wait until a commit is due."""
        while True:
            now, limits = self._loop.time(), self.limits
            due = self._due()
            if limits.adaptive:
                cost = self._commit_seconds
                soon, late = (
                    self._committed_at + _PACE * cost,
                    self._committed_at + _PACE_BEHIND * cost,
                )
                if now >= soon and self._stream.caught_up:
                    return
                due = min(due, late if now >= soon else soon)
            if now >= due:
                return
            # Transactions are written meanwhile: check again whether the stream has caught up.
            await asyncio.sleep(min(due - now, _POLL_SECONDS) if limits.adaptive else due - now)

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        """Record since when the sink is busy, for the status page."""
        self._observation.busy_since = self._loop.time()
        try:
            yield
        finally:
            self._observation.busy_since = None

    async def _commit(self, position: Position) -> None:
        with self._asking():
            await self._do_commit(position)

    async def _do_commit(self, position: Position) -> None:
        begun = self._loop.time()
        checkpoint = Checkpoint(position, self._stream.state(position))
        hangs = "the sink's server"
        limit = asyncio.timeout(self.limits.commit_seconds)
        try:
            async with limit:
                if self._fence is not None:
                    hangs = "the server of positions"
                    await asyncio.to_thread(self._fence)
                    hangs = "the sink's server"
                await self._sink.commit(checkpoint)
                hangs = "the server of positions"
                await self._stream.acknowledge(position)
                await self._stream.flush()
        except TimeoutError as error:
            if not limit.expired():
                raise
            if isinstance(self._sink, AbortableSink):
                self._sink.abort()
            raise SinkError(
                f"a commit was not done within {self.limits.commit_seconds:g} s (commit_timeout): see whether "
                f"{hangs} hangs",
                retriable=True,
            ) from error
        self._saved, self._last = position, None
        self._committed_at = self._loop.time()
        self._rows = self._bytes = 0
        self._whole_log = True
        spent = self._committed_at - begun
        self._commit_seconds += (spent - self._commit_seconds) / (4 if self._commit_seconds else 1)
        self._observation.did_commit(position, spent)
        if self._remember is not None:
            await self._remember(position)
        if self._snapshot is not None:
            self._snapshot.committed()

    @asynccontextmanager
    async def _my_turn(self) -> AsyncGenerator[None, None]:
        """Hold the write lock; raise if the other task failed."""
        async with self._turn:
            if self._over:
                raise asyncio.CancelledError
            try:
                yield
            except BaseException:
                self._over = True
                raise
