"""A route: a source and one of its sinks, delivered again from the last commit after a failure."""

# Over 500 lines: one class, whose tries, copies and refusals share the state of a route.

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
import random
import traceback
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, MutableMapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from replica_client.errors import (
    ColumnDecodeError,
    ConfigError,
    PoisonChangeError,
    PositionStoreError,
    ReplicaClientError,
    SinkError,
    TransportError,
)
from replica_client.protocol.position import Position
from replica_client.rows.where import parse_where
from replica_client.schema.history import SchemaHistory
from replica_client.service.configuration import DaemonConfig, RouteConfig
from replica_client.service.dead_letters import DeadLetters
from replica_client.service.delivery import Delivery, limits_of
from replica_client.service.external_values import resolved
from replica_client.service.mirrors import (
    DIGESTS_KEY,
    MIRRORS,
    TransformDigests,
    check_mirror,
    check_target,
    is_mirror,
    patterns,
)
from replica_client.service.observation import Observation, RouteState
from replica_client.service.process import ROUTE
from replica_client.service.route_memory import RouteMemory
from replica_client.service.route_orders import RouteOrders, one_transaction
from replica_client.service.snapshot_progress import SnapshotRequests
from replica_client.service.source_access import (
    hosts_of,
    is_passing,
    schema_of,
    selection_of,
    signal_table,
    stream_options,
    transformer_of,
)
from replica_client.service.stores import GivenPosition, KnownStart
from replica_client.service.tables_set_aside import (
    NOT_VISIBLE,
    STATE_KEY,
    TablesSetAside,
    failed_tables,
    read_state,
)
from replica_client.sinks.protocol import (
    CopyingSink,
    ForgettingSink,
    ReplacingSink,
    Sink,
    SnapshotSink,
)
from replica_client.sinks.registry import make_sink
from replica_client.storage.location import local_path
from replica_client.stream.live.source_stream import SourceStream
from replica_client.stream.live.stream_options import StreamOptions
from replica_client.stream.position.losses import LOSS_KINDS, loss_kinds
from replica_client.stream.position.stores.base import (
    Checkpoint,
    LeasedStore,
    MemoryPositionStore,
    PositionStore,
)
from replica_client.stream.position.stores.ownership import Claim, OwnedSink, Owner, StandbyError
from replica_client.stream.tables.net_changes import CopyNeededError, TableName
from replica_client.stream.transactions.loss_watch import WITHHELD
from replica_client.stream.transforms.transformer import Transformer
from replica_client.stream.transport.connect_options import ConnectOptions

if TYPE_CHECKING:
    from replica_client.service.first_copy import CopyProgress
    from replica_client.service.running_snapshot import RunningSnapshot
    from replica_client.service.signals import MirrorSignals, SignalTable

_LOG = logging.getLogger("replica_client.service")
_FIRST_DELAY = 0.2
_FAILED_DELAY = 5.0
_STANDBY_DELAY = 1.0
_COPIES_AT_ONCE = 3
_COPY_DELAY = 300.0
_REQUEST_SECONDS = 0.5
_CLOSE_SECONDS = 3.0
_Result = TypeVar("_Result")


class _CopyRequestedError(Exception):
    """Raised when a user requested copies of a mirror's tables."""


class _StoppedError(Exception):
    """Raised when the route is asked to stop."""


class Route:
    """A source followed for one sink, without end.

    Every failure closes stream and sink; both are opened again, and uncommitted changes are
    delivered again. An unavailable server or a full disk is waited for. Errors that need an
    operator are retried too, less often, so that the route resumes once the operator has acted.

    Args:
        config: the source and the sink.
        service: the configuration that the route belongs to.
        store: returns the position store, for a sink that does not keep the position.

    Attributes:
        observation: the route's state and counters.
        audit: called with each order that was carried out later than it was given: the command, the
            route, and what it was done to.
    """

    def __init__(
        self,
        config: RouteConfig,
        service: DaemonConfig,
        store: Callable[[str, Claim], PositionStore],
    ) -> None:
        self.config = config
        self.observation = Observation()
        self._service = service
        self._directory = service.directory
        self._store = store
        self._state = service.state
        self._memory: RouteMemory | None = None
        self._claim: Claim | None = None
        self._stop = asyncio.Event()
        self._again = asyncio.Event()
        self._letters: DeadLetters | None = None
        self._delivery: Delivery | None = None
        self._failures = 0
        self._closing: asyncio.TimerHandle | None = None
        self._transform: Transformer | None = None
        self._aside: TablesSetAside | None = None
        self._to_copy: set[TableName] = set()
        self._to_set_aside: dict[TableName, str] = {}
        # The source tables of each mirrored table, as of the last look at the source.
        self._sources: dict[TableName, Sequence[TableName]] | None = None
        self._copied: set[TableName] = set()
        self._requests: list[str] = []
        self._ended = asyncio.Event()
        self._orders: RouteOrders | None = None
        self._schema: SchemaHistory | None = None
        self.audit: Callable[[str, str, str], None] = lambda command, route, what: None
        self._resumed = asyncio.Event()
        self._is_over = False
        self._running: RunningSnapshot | None = None
        self._copied_again: Counter[TableName] = Counter()

    @property
    def name(self) -> str:
        """``source.sink``."""
        return self.config.name

    @property
    def owner(self) -> Owner | None:
        """The identity with which the sink writes; None before the first try."""
        return None if self._memory is None else self._memory.owner

    def adopt(self, config: RouteConfig) -> None:
        """Apply changed options that need no restart: batch limits, retries, poison policy."""
        self.config = config
        if self._delivery is not None:
            self._delivery.limits = limits_of(config)

    def stop(self) -> None:
        """Request the end at the next transaction's end, with everything committed."""
        self._is_over = True
        self.restart()
        self._resumed.set()

    def restart(self) -> None:
        """Close source and sink at the next transaction's end, with everything committed, and open them again.

        A route that is to be paused stays closed.
        """
        self._stop.set()
        self._ended.set()
        self._again.set()

    async def orders(self) -> RouteOrders:
        """Return the orders of an operator.

        Raises:
            ConfigError: their file is damaged.
        """
        if self._orders is None:
            self._orders = await asyncio.to_thread(
                RouteOrders,
                self._state / f"{self.name}.orders.json",
                self.name,
                lambda command, what: self.audit(command, self.name, what),
                self.observation.record_error,
                self.restart,
            )
            self.observation.orders = self._orders
        return self._orders

    async def pause(self, at: str = "") -> None:
        """Stop until :meth:`resume`, also after a restart of the service.

        Args:
            at: a position, a GTID set or a time, before whose first transaction it stops; empty: at
                the next transaction's end.

        Raises:
            ConfigError: it is none of these.
        """
        await (await self.orders()).pause(at)
        self.restart()

    async def resume(self) -> None:
        """Go on after a pause."""
        await (await self.orders()).resume()
        self._resumed.set()

    async def skip(self, transaction: str) -> None:
        """Skip a transaction; it counts as a loss.

        Raises:
            ConfigError: the sink has it, or no single transaction has that name.
        """
        await (await self.orders()).skip(one_transaction(transaction), self.observation.committed)
        self.restart()

    async def request_snapshot(self, tables: Sequence[TableName], where: str = "") -> None:
        """Request copies of tables, which survives a crash.

        Args:
            tables: names on the source.
            where: a condition of :mod:`replica_client.rows.where`; empty: all rows.

        Raises:
            ConfigError: the sink does not select a table, or takes no condition.
        """
        selection = selection_of(self.config, mirror=True)
        for table in tables:
            if not selection.wants(*table):
                raise ConfigError(f"{self.name} does not select {'.'.join(table)}")
        if where:
            if self.config.sink.type in MIRRORS:
                raise ConfigError(f"{self.name}: a mirror copies whole tables, without a condition")
            parse_where(where)
        requests = SnapshotRequests(self._state, self.name)
        await asyncio.to_thread(requests.add, tables, "", where)

    async def cancel(self, tables: Sequence[TableName]) -> None:
        """Forget orders that are not carried out: skips, where to pause, and requested copies.

        Args:
            tables: only copies of these, and no other order; empty: all.
        """
        requests = SnapshotRequests(self._state, self.name)
        found, _ = await asyncio.to_thread(requests.found)
        gone = [one.name for one in found if not tables or set(one.tables) <= set(tables)]
        if self._running is not None:
            gone += self._running.cancel(None, tables)
        orders = await self.orders()
        if not tables:
            await orders.cancel()
        # A signal's id may be used again.
        from replica_client.service.signals import SIGNAL

        kept = {*orders.cancelled, *gone}
        await orders.keep_cancelled(sorted(one for one in kept if not one.startswith(SIGNAL)))
        for name in gone:
            await asyncio.to_thread(requests.remove, name)
        self.restart()

    def set_aside(self, tables: Mapping[TableName, str]) -> None:
        """Leave tables out from the next transaction on; the other tables go on.

        Args:
            tables: names, with the reason.
        """
        for name, reason in sorted(tables.items()):
            self._tell_set_aside(name, reason)
        self._to_set_aside.update(tables)
        self.restart()

    def try_now(self) -> None:
        """End the wait after a failure."""
        self._again.set()

    async def run(self) -> None:
        """Deliver until the route is stopped; wait while it is paused."""
        ROUTE.set(self.name)  # of this task
        while not self._is_over:
            self._stop.clear()
            self._resumed.clear()
            if await self._is_paused():
                self.observation.enter(RouteState.PAUSED)
                await self._resumed.wait()
            else:
                await self._run_until_stopped()
        self.observation.enter(RouteState.STOPPED)

    async def _is_paused(self) -> bool:
        try:
            return (await self.orders()).is_paused
        except ConfigError:
            return False  # told by each try to deliver

    async def _run_until_stopped(self) -> None:
        observation = self.observation
        while not self._stop.is_set():
            commits = observation.commits
            try:
                await self._deliver()
            except (ReplicaClientError, OSError) as error:
                delay = self._failed(error, observation.commits > commits)
            except (_CopyRequestedError, _StoppedError):
                delay = 0.0
            except Exception as error:  # noqa: BLE001
                # A third-party sink may raise anything; the other routes go on.
                if self._hides:
                    frames = "".join(traceback.format_tb(error.__traceback__))
                    _LOG.error("%s: unexpected %s\n%s", self.name, type(error).__name__, frames)
                else:
                    _LOG.exception("%s: unexpected error", self.name)
                delay = self._failed(error, observation.commits > commits)
            else:
                break
            self._again.clear()
            if self._stop.is_set():
                break
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self._again.wait()

    def _failed(self, error: Exception, committed: bool) -> float:
        """Record and log a failure; return the seconds until the next try."""
        if self._closing is not None:
            self._closing.cancel()
        text = self._text_of(error)
        self._failures = 0 if committed else self._failures + 1
        if isinstance(error, StandbyError):
            return self._stand_by(text)
        if isinstance(error, CopyNeededError) and self.config.sink.snapshot:
            return self._copy_again(error, text)
        if self._accuse(error):
            _LOG.warning("%s: a change goes to the dead letters: %s", self.name, text)
            self.observation.record_error(text)
            return 0.0
        if self._set_aside(error, text):
            return 0.0
        passing = is_passing(error)
        first = _FIRST_DELAY if passing else _FAILED_DELAY
        bound = min(first * 2 ** min(self._failures, 30), self.config.sink.retry_seconds)
        delay = random.uniform(bound / 2, bound)
        if self._memory is not None and self._memory.oldest != self.observation.oldest:
            self._memory.failed(self.observation.oldest)
        self.observation.retries += 1
        self.observation.enter(RouteState.RETRYING if passing else RouteState.FAILED, text)
        _LOG.log(
            logging.WARNING if passing else logging.ERROR,
            "%s: %s; the next try is in %.1f s",
            self.name,
            text,
            delay,
        )
        return delay

    def _text_of(self, error: Exception) -> str:
        """Return an error's text on one line, without values that a transform hides."""
        if self._hides and not self._may_show(error):
            return f"{type(error).__name__}: {WITHHELD}"
        return " ".join(str(error).split()) or type(error).__name__

    def _stand_by(self, text: str) -> float:
        """Wait for another process to end; return the seconds until the next check."""
        if self.observation.state is not RouteState.STANDBY:
            _LOG.warning("%s: %s", self.name, text)
        self.observation.enter(RouteState.STANDBY, text)
        return _STANDBY_DELAY

    @property
    def transforms(self) -> tuple[str, ...]:
        """Summaries of the transforms; no values, which may be secrets."""
        return () if self._transform is None else self._transform.summaries

    @property
    def _hides(self) -> bool:
        return self._transform is not None and self._transform.hides

    def _may_show(self, error: Exception) -> bool:
        """Return whether the text of an error cannot contain values that a transform hides."""
        if isinstance(error, SinkError | ConfigError | TransportError):
            return True
        # Errors of the stream contain no values; a copy reads rows before the transform.
        known = isinstance(error, ReplicaClientError | OSError)
        return known and self.observation.state is not RouteState.COPYING

    def _copy_again(self, error: CopyNeededError, text: str) -> float:
        """Copy tables at the next try; return the seconds until then.

        A table that changes during each of its copies is copied less and less often.
        """
        again = max(self._copied_again[name] for name in error.tables)
        delay = min(2.0**again, _COPY_DELAY) if again >= _COPIES_AT_ONCE else 0.0
        self._to_copy |= error.tables
        self._copied_again.update(error.tables)
        if delay:
            text += '; it rests too seldom: snapshot_locking = "brief" may help'
        self.observation.enter(RouteState.RETRYING, text)
        _LOG.warning("%s: %s; it is copied in %.0f s", self.name, text, delay)
        return delay

    def _set_aside(self, error: Exception, text: str) -> bool:
        """Leave out the tables that an error is about; return whether other tables can go on."""
        names = failed_tables(error) - set(self.observation.set_aside) - set(self._to_set_aside)
        if not names:
            return False
        for name in sorted(names):
            self._tell_set_aside(name, text)
        self._to_set_aside.update(dict.fromkeys(names, text))
        self.observation.enter(RouteState.RETRYING, text)
        return True

    def _tell_set_aside(self, name: TableName, reason: str) -> None:
        table = ".".join(name)
        text = (
            f"{table} is set aside, the other tables go on: {reason}; once the cause is gone: replica-client snapshot "
            f'CONFIG --sink {self.name} --table {table}, or accept_set_aside = ["{table}"]'
        )
        _LOG.error("%s: %s", self.name, text)
        self.observation.record_error(text)

    def _accuse(self, error: Exception) -> bool:
        if self.config.sink.on_poison != "dead-letter" or self._letters is None:
            return False
        if not isinstance(error, PoisonChangeError | ColumnDecodeError):
            return False
        return self._letters.accuse(error)

    async def _deliver(self) -> None:
        observation = self.observation
        observation.enter(RouteState.OPENING_SINK, "")
        given = await asyncio.to_thread(resolved, self.config.options, self._directory)
        self._transform = await asyncio.to_thread(
            transformer_of, self.config.source, self._directory
        )
        sink = make_sink(self.config.sink.type, given)
        check_mirror(self.config, sink)
        if isinstance(sink, ReplacingSink):
            observation.count_replaced(sink)
        if self._transform is not None and self._transform.has_outbox:
            from replica_client.sinks.formats.line_format import OutboxSink

            if isinstance(sink, OutboxSink):
                sink.route_outbox()
        observation.guarantee = str(sink.guarantee)
        orders = await self.orders()
        self._schema = await asyncio.to_thread(schema_of, self.config.source, self._directory)
        options = self._stream_options(sink)
        memory, claim = await asyncio.to_thread(self._remembered, sink)
        hosts = await asyncio.to_thread(hosts_of, self.config.source, self._directory)
        if memory.is_new and not self.config.sink.snapshot:
            await self._until_stopped(self._keep_start(memory, hosts, options))
        if self._letters is None:
            self._letters = await asyncio.to_thread(
                DeadLetters, self.dead_letters, self._count_letters
            )
        store: PositionStore | None = None
        try:
            await self._until_stopped(check_target(sink, hosts))
            checkpoint = await self._until_stopped(sink.open())
            memory.took_over()
            if checkpoint is not None:
                observation.committed = (
                    checkpoint.position
                )  # shown even while the source is unavailable
            elif sink.holds_position and not self.config.sink.snapshot:
                memory.check(f"sink {self.config.sink.type}")
                checkpoint = memory.first
            if isinstance(sink, CopyingSink) and self._copies(sink, checkpoint):
                checkpoint = await self._until_stopped(self._copy(sink, hosts, checkpoint))
            store = GivenPosition(checkpoint)
            if not sink.holds_position:
                kept = await asyncio.to_thread(self._store, self.name, claim)
                store = KnownStart(kept, memory.first, memory.known)
            observation.enter(RouteState.CONNECTING)
            stream = SourceStream(hosts, options, store)
            await self._follow(stream, sink, hosts, store, orders)
        except _StoppedError:
            return
        finally:
            observation.copying, observation.snapshot_tables = "", None
            observation.attach(None)
            self._delivery = self._running = None
            if store is not None and isinstance(store, LeasedStore):
                await asyncio.to_thread(store.release)
            await sink.close()

    def _copies(self, sink: CopyingSink, checkpoint: Checkpoint | None) -> bool:
        """Return whether tables may have to be copied before the stream."""
        if self.config.sink.snapshot:
            return True
        unfinished = any(copy.until is None for copy in sink.copies.values())
        return checkpoint is not None and (bool(self._to_copy) or unfinished)

    async def _copy(
        self, sink: CopyingSink, hosts: list[ConnectOptions], checkpoint: Checkpoint | None
    ) -> Checkpoint:
        """Make the first copies that are due; return where the stream begins."""
        # Imported only to copy tables, to keep the start quick.
        from replica_client.service.first_copy import FirstCopies

        observation, sink_config = self.observation, self.config.sink

        def tell(progress: CopyProgress, rows: int) -> None:
            observation.copying = str(progress)
            observation.snapshot_tables = progress.tables
            observation.copied_rows += rows

        copies = FirstCopies(
            self.name,
            hosts,
            selection_of(self.config, mirror=True),
            sink,
            chunk_rows=sink_config.snapshot_rows,
            locking=sink_config.snapshot_locking,
            tell=tell,
            transform=self._transform,
            invalid_text=self.config.source.options["invalid_text"],
        )
        observation.enter(RouteState.COPYING)
        try:
            for name in [one for one in self._copied_again if one not in sink.copies]:
                del self._copied_again[name]
            if checkpoint is None:
                async with SourceStream(hosts, self._stream_options(sink)) as stream:
                    checkpoint = Checkpoint(stream.position, stream.state(stream.position))
                await sink.want_copies(await copies.wanted())
                await sink.commit(checkpoint)
                aside: set[TableName] = set()
            else:
                await self._forget_unwanted(sink)
                wanted = set(await copies.wanted()) if sink_config.snapshot else set()
                saved = read_state(checkpoint.state.get(STATE_KEY))
                aside = set(saved) | set(self._to_set_aside)
                self._to_copy |= {
                    one for one in wanted if one in saved and saved[one].reason == NOT_VISIBLE
                }
                new = wanted - set(sink.tables) - set(sink.copies) - aside
                known = {one: copies.sources(one) for one in wanted & {*sink.tables, *sink.copies}}
                changed = self._digests().changed(checkpoint.state.get(DIGESTS_KEY), known)
                for name in sorted(changed - self._to_copy):
                    _LOG.warning(
                        "%s: %s.%s: its transforms changed; it is copied again", self.name, *name
                    )
                self._to_copy |= changed
                if new | self._to_copy:
                    await sink.want_copies(sorted(new | self._to_copy))
            self._sources = {name: copies.sources(name) for name in {*sink.tables, *sink.copies}}
            skipped = aside - self._to_copy
            self._to_copy = set()
            done, failed = await copies.run(skipped)
            self._copied |= done
            failed |= {
                name: NOT_VISIBLE
                for name in copies.missing
                if name not in {*sink.tables, *sink.copies, *aside}
            }
            for name, reason in failed.items():
                self._tell_set_aside(name, reason)
            self._to_set_aside.update(failed)
        finally:
            observation.copying, observation.snapshot_tables = "", None
        return checkpoint

    def _digests(self) -> TransformDigests:
        declared = [
            resolved(one, self._directory) for one in self.config.source.options["transform"] or ()
        ]
        return TransformDigests(declared, self._transform)

    def _note_digests(self, sink: Sink, state: MutableMapping[str, object]) -> None:
        """Save the digests of a mirror's transforms with the position; report unapplied changes."""
        if not isinstance(sink, CopyingSink):
            return
        digests = self._digests()
        saved = state.get(DIGESTS_KEY)
        sources = {name: [name] for name in sink.tables} if self._sources is None else self._sources
        if not self.config.sink.snapshot:
            changed = isinstance(saved, Mapping) and saved.get("", "") != digests.whole
            if changed and sink.tables:
                text = (
                    "the transforms changed: rows that the mirror has are as they were written before; set snapshot = "
                    f"true, or copy the tables again: replica-client snapshot CONFIG --sink {self.name} --table TABLE"
                )
                _LOG.error("%s: %s", self.name, text)
                self.observation.record_error(text)
        state[DIGESTS_KEY] = digests.state(sources)

    async def _forget_unwanted(self, sink: CopyingSink) -> None:
        """Forget tables that left ``tables``.

        They become stale, and are copied when they return.
        """
        renames = self._transform is not None and self._transform.renames
        if renames or not isinstance(sink, ForgettingSink):
            return
        selection = selection_of(self.config, mirror=True)
        gone = [name for name in {*sink.tables, *sink.copies} if not selection.wants(*name)]
        if gone:
            _LOG.info("%s: not wanted any more: %s", self.name, ", ".join(map(".".join, gone)))
            await sink.forget_tables(gone)

    def _stream_options(self, sink: Sink) -> StreamOptions:
        options = stream_options(
            self.config,
            mirror=is_mirror(sink),
            transform=self._transform,
            signals=isinstance(sink, SnapshotSink | CopyingSink),
        )
        if self._orders is not None and self._orders.skips:
            # One that the stream cannot read is skipped, too; others are refused after it.
            assembly = replace(options.assembly, record_losses=LOSS_KINDS)
            options = replace(options, assembly=assembly)
        if self.config.sink.snapshot:
            # The stream begins before any table is read.
            return replace(options, start="latest")
        return replace(options, schema=self._schema)

    def _snapshot(
        self, stream: SourceStream, sink: Sink, hosts: list[ConnectOptions]
    ) -> RunningSnapshot | None:
        """Return the writer of snapshot rows between transactions; None if the sink has none."""
        if not isinstance(sink, SnapshotSink):
            return None
        # Imported only to copy tables, to keep the start quick.
        from replica_client.service.running_snapshot import RunningSnapshot
        from replica_client.service.snapshot_chunk import EventScope, SnapshotPlan

        config, observation = self.config.sink, self.observation

        def tell(text: str, rows: int, left: int) -> None:
            observation.copying = text
            observation.copied_rows += rows
            observation.snapshot_tables = left

        selection = selection_of(self.config, mirror=True)
        plan = SnapshotPlan(
            self.name,
            hosts,
            selection,
            config.snapshot,
            config.snapshot_rows,
            config.snapshot_locking,
            self._transform,
            raw_filters=self.config.source.signal_raw_filters,
            invalid_text=self.config.source.options["invalid_text"],
            scope=EventScope.of(self.config, selection, self._digests()),
        )
        requests = SnapshotRequests(self._state, self.name)
        assert self._aside is not None
        return RunningSnapshot(
            plan,
            stream,
            sink,
            requests,
            self._signal_table(mirror=False),
            tell,
            observation.record_error,
            self._aside,
        )

    def _signal_table(self, *, mirror: bool) -> SignalTable | None:
        name = signal_table(self.config.source)
        if name is None:
            return None
        from replica_client.service.signals import SignalTable

        target = name if self._transform is None else self._transform.target(*name)
        return SignalTable(
            target,
            selection_of(self.config, mirror=mirror).wants(*name),
            raw=self.config.source.signal_raw_filters,
        )

    def _signals(self, sink: Sink) -> MirrorSignals | None:
        """Return the handler of signals to a mirror; None without a table of signals."""
        table = self._signal_table(mirror=True) if isinstance(sink, CopyingSink) else None
        if table is None or not isinstance(sink, CopyingSink):
            return None
        from replica_client.service.signals import MirrorSignals

        return MirrorSignals(
            self.name,
            table,
            sink,
            selection_of(self.config, mirror=True),
            copies=self.config.sink.snapshot,
            fail=self.observation.record_error,
        )

    def _guard(self, stream: SourceStream, sink: Sink) -> Callable[[], None] | None:
        """Return a check that copies are of the followed server; None if there are no copies."""
        if not isinstance(sink, CopyingSink) or not sink.copies:
            return None
        from replica_client.service.first_copy import moved_copies

        copies = sink.copies

        def guard() -> None:
            moved = moved_copies(copies.values(), stream.server)
            if moved:
                raise CopyNeededError("the source is another server than the tables are of", moved)

        guard()
        return guard

    async def _follow(
        self,
        stream: SourceStream,
        sink: Sink,
        hosts: list[ConnectOptions],
        store: PositionStore,
        orders: RouteOrders,
    ) -> None:
        try:
            await self._until_stopped(stream.__aenter__())
        finally:
            if stream.acknowledged is not None:
                self.observation.committed = stream.acknowledged
                if self._memory is not None and self._memory.committed != stream.acknowledged:
                    # A process that was killed committed more than it wrote down in the state directory.
                    self.observation.oldest = 0.0
        try:
            options = self._stream_options(sink)
            guard = self._guard(stream, sink)
            self.observation.attach(stream)
            aside = self._aside = self._tables_set_aside(stream, sink)
            await asyncio.to_thread(self._note_digests, sink, stream.companions)
            snapshot = self._running = self._snapshot(stream, sink, hosts)
            if snapshot is not None:
                await orders.keep_cancelled(snapshot.cancel(orders.cancelled))
                await self._until_stopped(snapshot.prepare())
            recorded = loss_kinds(self.config.source.options["record_losses"] or ())
            # A mirror that copies no tables would leave them out for good, after a loss that it is told of.
            tells = not is_mirror(sink) or self.config.sink.snapshot
            orders.begin(recorded, stream.losses, tells=tells)
            if stream.acknowledged is not None:
                await orders.committed(stream.acknowledged)
            self._delivery = Delivery(
                stream,
                sink,
                limits_of(self.config),
                self.observation,
                self._letters,
                eager=options.semi_sync,
                whole_log=stream.acknowledged is not None
                or not isinstance(options.start, datetime.datetime),
                aside=aside,
                guard=guard,
                signals=self._signals(sink),
                snapshot=snapshot,
                fence=store.check_lease if isinstance(store, LeasedStore) else None,
                remember=self._remember,
                orders=orders,
            )
            self.observation.enter(RouteState.STREAMING)
            _LOG.info("%s: follows from %s", self.name, stream.position)
            if self._to_set_aside or self._copied:
                saved = stream.acknowledged or stream.position
                await self._until_stopped(self._delivery.save(saved))
                self._to_set_aside.clear()
                self._copied.clear()
                await asyncio.to_thread(self._forget_requests)
            await self._deliver_until_asked(self._delivery, sink, stream.acknowledged)
        except (SinkError, PositionStoreError) as error:
            if is_passing(error) and not isinstance(error, StandbyError):
                text = self._text_of(error)
                self.observation.fail(RouteState.RETRYING, text)
                self._closing = asyncio.get_running_loop().call_later(
                    _CLOSE_SECONDS, _LOG.warning, "%s: %s; it is being closed", self.name, text
                )
            raise
        finally:
            await stream.__aexit__(None, None, None)

    def _remembered(self, sink: Sink) -> tuple[RouteMemory, Claim]:
        """Return the memory of earlier runs and the claim, and pass the claim to the sink."""
        if self._memory is None:
            self._memory = memory = RouteMemory(self._service, self.config)
            self.observation.recall(memory.committed, memory.oldest, memory.current_at)
        memory = self._memory
        if self._claim is None or self._claim.owner != memory.owner:
            selection = selection_of(self.config, mirror=is_mirror(sink))
            routed = self._transform is not None

            def wants(name: TableName) -> bool:
                return selection.wants(*name)

            # Transforms may rename tables.
            self._claim = memory.claim(wants, lambda name: routed or wants(name))
        if isinstance(sink, OwnedSink):
            sink.claim(self._claim)
        return memory, self._claim

    async def _keep_start(
        self, memory: RouteMemory, hosts: list[ConnectOptions], options: StreamOptions
    ) -> None:
        """Save where the first run begins, even before the sink is reachable."""
        if isinstance(options.start, Position):
            return  # the configuration has the position
        self.observation.enter(RouteState.CONNECTING)
        store = MemoryPositionStore()
        async with SourceStream(hosts, replace(options, semi_sync=False), store) as stream:
            found = store.load_checkpoint()
            if found is None:
                found = Checkpoint(stream.position, stream.state(stream.position))
        await asyncio.to_thread(memory.began, found)
        self.observation.enter(RouteState.OPENING_SINK)

    async def _remember(self, position: Position, *, now: bool = False) -> None:
        """Save the committed position in the state directory, at most once a second."""
        memory = self._memory
        if self._orders is not None:
            await self._orders.committed(position)
        if memory is None:
            return
        seen = self.observation
        if now or memory.is_due:
            await asyncio.to_thread(memory.did_commit, position, seen.oldest, seen.current_at)
        else:
            memory.saw_commit(position, seen.oldest, seen.current_at)

    def _tables_set_aside(self, stream: SourceStream, sink: Sink) -> TablesSetAside:
        """Return the tables that the sink does not get, including those that failed just now."""
        aside = TablesSetAside(
            self.name,
            stream.companions,
            patterns(self.config.sink.accept_set_aside),
            renames=isinstance(sink, CopyingSink),
        )
        aside.take_back(self._copied)
        if self._transform is None or not self._transform.renames:
            # A table that left ``tables`` is forgotten: it is copied when it returns.
            selection = selection_of(self.config, mirror=True)
            aside.take_back([name for name in aside.tables if not selection.wants(*name)])
        aside.add(self._to_set_aside, str(stream.position))
        self.observation.set_aside = aside.tables
        self.observation.unaccepted = lambda: aside.unaccepted
        return aside

    async def _deliver_until_asked(
        self, delivery: Delivery, sink: Sink, saved: Position | None
    ) -> None:
        """Deliver until the route is stopped, or a user requests a copy of a mirror's table.

        Raises:
            _CopyRequestedError: a copy was requested; all transactions written before are
                committed.
        """
        self._ended.clear()
        if self._stop.is_set():
            self._ended.set()
        watches = []
        if isinstance(sink, CopyingSink):
            watches.append(asyncio.ensure_future(self._watch_requests()))
        if self._orders is not None and self._orders.pause_at:
            watches.append(asyncio.ensure_future(self._watch_end(self._orders)))
        try:
            await delivery.run(self._ended, saved)
        finally:
            for watch in watches:
                watch.cancel()
            await asyncio.gather(*watches, return_exceptions=True)
        if not self._stop.is_set():
            raise _CopyRequestedError

    async def _watch_end(self, orders: RouteOrders) -> None:
        """Wait until the place to pause at is reached, even if no transaction comes after it."""
        seen = self.observation
        while True:
            await asyncio.sleep(_REQUEST_SECONDS)
            if not seen.is_level or seen.stream is None:
                continue
            if orders.end.is_reached(seen.stream.reached) or orders.end.is_past:
                return await orders.stop()

    async def _watch_requests(self) -> None:
        """Wait for requests to copy a mirror's tables, then end the delivery."""
        requests = SnapshotRequests(self._state, self.name)
        selection = selection_of(self.config, mirror=True)
        while True:
            found, damaged = await asyncio.to_thread(requests.found)
            for name in damaged:
                self._refuse_request(name, "the file is not a request")
                await asyncio.to_thread(requests.remove, name)
            for request in found:
                unwanted = [table for table in request.tables if not selection.wants(*table)]
                if unwanted or request.where or request.filter:
                    why = "a mirror copies whole tables, without a condition"
                    if unwanted:
                        why = f"the sink does not select {'.'.join(unwanted[0])}"
                    self._refuse_request(request.name, why)
                    await asyncio.to_thread(requests.remove, request.name)
                    continue
                transform = self._transform
                self._to_copy |= {
                    table if transform is None else transform.target(*table)
                    for table in request.tables
                }
                self._requests.append(request.name)
            if self._to_copy:
                _LOG.info("%s: copies are asked for: %s", self.name, sorted(self._to_copy))
                self._ended.set()
                return
            await asyncio.sleep(_REQUEST_SECONDS)

    def _refuse_request(self, name: str, why: str) -> None:
        _LOG.error("%s: snapshot %s: %s", self.name, name, why)
        self.observation.record_error(f"snapshot {name}: {why}")

    def _forget_requests(self) -> None:
        """Remove requests whose copies are made and saved."""
        requests = SnapshotRequests(self._state, self.name)
        while self._requests:
            requests.remove(self._requests.pop())

    async def _until_stopped(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Return the result of work that may take long.

        Raises:
            _StoppedError: the route was stopped first.
        """
        task = asyncio.ensure_future(work)
        stop = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait((task, stop), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise _StoppedError
            return task.result()
        finally:
            task.cancel()
            stop.cancel()
            await asyncio.gather(task, stop, return_exceptions=True)

    @property
    def dead_letters(self) -> Path:
        """The file of the dead letters."""
        name = self.config.sink.dead_letters
        if name:
            return self._directory / local_path(name, "dead_letters").expanduser()
        return self._state / f"{self.name}.dead-letters.jsonl"

    def _count_letters(self, count: int) -> None:
        self.observation.dead_letters += count
