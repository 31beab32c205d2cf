"""A live source as events, changes, transactions and record batches."""

# Over 500 lines: the four iterators of a live source and their documentation; events, knowledge and
# progress have modules of their own.

from __future__ import annotations

import asyncio
import datetime
import logging
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, overload

from replica_client._compiled import tell_plain
from replica_client.errors import USER_BOUNDARY, ConfigError, ReplicaClientError
from replica_client.options import checked_types, remedies
from replica_client.protocol.binlog.event import BinlogEvent, BinlogFormat
from replica_client.protocol.constants.event_types import EventType
from replica_client.protocol.position import Position
from replica_client.rows.row_change import AnyChange
from replica_client.schema.history import SchemaHistory
from replica_client.stream.fast.column_fast_path import ColumnFastPath
from replica_client.stream.fast.row_fast_path import RowFastPath, inside_path
from replica_client.stream.live.grouped import (
    OVERHEAD,
    GroupedItems,
    TransactionGroup,
    check_timeout,
)
from replica_client.stream.live.skipped_events import TimeGate
from replica_client.stream.live.source_link import SourceLink
from replica_client.stream.live.stream_events import StreamEvents
from replica_client.stream.live.stream_knowledge import StreamKnowledge, StreamProgress
from replica_client.stream.live.stream_options import StreamOptions
from replica_client.stream.position.losses import LossLedger
from replica_client.stream.position.stores.base import SAVE_INTERVAL, PositionStore
from replica_client.stream.transactions import inside
from replica_client.stream.transactions.arguments import micros_of
from replica_client.stream.transactions.assembler import AssemblyOptions, TransactionAssembler
from replica_client.stream.transactions.event_feed import LocatedEvent
from replica_client.stream.transactions.inside import Acknowledged
from replica_client.stream.transactions.loss_watch import (
    AsynchronousOnly,
    Notice,
    batches_of,
    changes_of,
    withheld_error,
)
from replica_client.stream.transactions.pending_rows import PreparedRows
from replica_client.stream.transactions.transaction import Transaction
from replica_client.stream.transport.connect_options import ConnectOptions
from replica_client.stream.transport.dump import DumpStream
from replica_client.stream.transport.server_statements import ServerInfo

if TYPE_CHECKING:
    from replica_client.rows.batching import BatchAssembler, RecordBatch

_GROUP_SIZE = 128
_LOG = logging.getLogger("replica_client.stream")
_Item = TypeVar("_Item")


class SourceStream(AsynchronousOnly):
    """A live source as an asynchronous context manager, made by :func:`connect`.

    One of its iterators may be used, by one task. A lost connection is opened again at the start of
    the transaction that was being read, and the delivered part of it is skipped by index: iterators
    see every event once.

    With several hosts the next one is tried when one fails, and continues by GTID. A transaction
    that was being read is then delivered again from its start (:meth:`events` shows its first
    events twice), since another server writes it in other pieces. A host that lacks what we already
    have is refused.

    Examples:
        >>> async def count():
        ...     async with rc.connect(url, start="earliest", stop_at_end=True) as stream:
        ...         return sum([len(one.changes) async for one in stream.transactions()])
        >>> asyncio.run(count())
        87
    """

    def __init__(
        self,
        connect_options: ConnectOptions | Sequence[ConnectOptions],
        options: StreamOptions,
        position_store: PositionStore | None = None,
        save_interval: float = SAVE_INTERVAL,
    ) -> None:
        hosts = (
            [connect_options] if isinstance(connect_options, ConnectOptions) else connect_options
        )
        self._options = options
        self._iterators: list[GroupedItems[Any, Any]] = []
        self._getting: AsyncGenerator[AnyChange, None] | None = None
        self._checks_tables = False
        self._link = SourceLink(hosts, options)
        tell_plain()
        self._knowledge = StreamKnowledge(self._link, options, lambda: self._events.is_open)
        self._progress = StreamProgress(
            position_store,
            save_interval,
            self._knowledge,
            lambda: self._events.feed.tracker.position,
        )
        self._events = StreamEvents(self._link, options, self._knowledge, self._progress)
        if isinstance(options.start, datetime.datetime):
            self._progress.start_time = micros_of(options.start)

    @property
    def history(self) -> SchemaHistory:
        """Definitions of the tables, as far as the stream was read."""
        return self._knowledge.history

    @property
    def losses(self) -> LossLedger:
        """Counts of undelivered changes (``record_losses``), saved with the position."""
        return self._knowledge.losses

    @property
    def prepared(self) -> PreparedRows:
        """Pending XA transactions; their places are saved with the position."""
        return self._knowledge.prepared

    @property
    def companions(self) -> dict[str, object]:
        """JSON values of the consumer, by name, which are saved and loaded with each position.

        Set a value before acknowledging the position that it belongs to.
        """
        return self._progress.companions

    @property
    def unmatched_patterns(self) -> list[str]:
        """Patterns of ``tables`` that match no table that was read or is known."""
        return self._options.assembly.selection.unmatched_of(self.history)

    def check_tables(self, others: Iterable[tuple[str, str]] = (), hint: str = "") -> None:
        """Raise unless every pattern of ``tables`` matches a table that was read or is known.

        Args:
            others: names of further existing tables.
            hint: for the end of the message.

        Raises:
            ConfigError: names the pattern, and the nearest table.
        """
        self._options.assembly.selection.check_matched(self.history, others, hint)

    @property
    def generation(self) -> int:
        """Number of dumps started so far."""
        return self._link.generation

    @property
    def server(self) -> ServerInfo | None:
        """The source; None before the first connection."""
        return self._link.server

    @property
    def server_id(self) -> int:
        """The server id with which we log in as a replica."""
        return self._link.server_id

    @property
    def position(self) -> Position:
        """The safe resume point after everything that the iterators delivered.

        Raises:
            StreamStateError: the stream is not open.
        """
        return self._progress.position

    @property
    def reached(self) -> Position:
        """The safe resume point after everything that was read, delivered or not.

        It moves past :attr:`position` where a file ends, and where the source sends nothing. While
        events that were read are being delivered, it is :attr:`position`.

        Raises:
            StreamStateError: the stream is not open.
        """
        return self._events.feed.tracker.position if self._events.waits else self.position

    @property
    def caught_up(self) -> bool:
        """Whether everything received was delivered, and the stream waits for the source."""
        return self._events.waits

    @property
    def dump(self) -> DumpStream | None:
        """The running dump, for its counters; None while the connection is lost."""
        return self._link.dump

    @property
    def loss(self) -> ReplicaClientError | None:
        """The error that the connection was lost with; None while there is a connection."""
        return self._link.loss

    @property
    def format(self) -> BinlogFormat:
        """The format of the events in the current file."""
        return self._events.feed.decoder.format

    @property
    def acknowledged(self) -> Position | None:
        """The position that was acknowledged last."""
        return self._progress.acknowledged

    async def acknowledge(self, done: Acknowledged = None) -> None:
        """Save the consumer's progress; what was acknowledged is never delivered again.

        Returns at once: the position is saved in the background, within ``save_interval`` seconds.
        :meth:`flush` and the end of the ``async with`` block wait for the save. A semi-synchronous
        source is informed only of a saved position; then this method waits, too.

        Args:
            done: the last position, transaction or change that is done; None: everything that was
                delivered.

        Raises:
            ConfigError: ``done`` is none of these.
            PositionStoreError: this position or an earlier one could not be saved.
        """
        position = self._progress.position_of(done)
        self.remember(position)
        dump = self._link.dump
        is_past = self._progress.is_past(position)
        inside = position.inside_transaction
        wanted = self._options.semi_sync and position.file and not inside and not is_past
        if wanted and dump is not None and dump.semi_sync_active:
            await self.flush()
            await dump.acknowledge_semi_sync(position.file, position.offset)

    def remember(self, position: Position) -> None:
        """Acknowledge a position without informing a semi-synchronous source; needs no await.

        Raises:
            PositionStoreError: an earlier position could not be saved.
        """
        self._progress.remember(position)

    def state(self, position: Position | None = None) -> dict[str, object]:
        """Return what a :class:`~replica_client.stream.position.stores.Checkpoint` of a position saves.

        Args:
            position: the position; None: :attr:`position`.
        """
        return self._progress.state(self.position if position is None else position)

    @property
    def semi_sync(self) -> bool:
        """Whether semi-synchronous replication was asked for."""
        return self._options.semi_sync

    async def flush(self) -> None:
        """Save the position that was acknowledged last; it survives a crash once this returns.

        Raises:
            PositionStoreError: it could not be saved; what was saved before is intact.
        """
        await self._progress.flush()

    async def __aenter__(self) -> Self:
        with USER_BOUNDARY:
            saved = await self._progress.load()
            await self._events.open(self._options.start if saved is None else saved)
            # After a saved position there may be no row of a table that the run before had.
            self._checks_tables = saved is None and not self._options.allow_empty
            if self._checks_tables and not self._options.stop_at_end:
                await self._tell_unmatched()
        return self

    async def _tell_unmatched(self) -> None:
        """Warn of patterns that match no table where all wanted tables were read at the start."""
        if self._options.start != "latest" or not self.unmatched_patterns:
            return
        if self._knowledge.sees_nothing:
            return
        known = await self._knowledge.tables()
        try:
            self.check_tables(known or ())
        except ConfigError as error:
            if known is not None:
                _LOG.warning("%s; the stream waits for it", str(error))

    async def _check_read_tables(self) -> None:
        """Raise if a pattern matched no table at the end of a whole finite read.

        Raises:
            ConfigError: names the pattern, and the nearest table.
        """
        if not self._checks_tables or not self._options.stop_at_end or not self.unmatched_patterns:
            return
        known = await self._knowledge.tables()
        if known is None and self._options.start != "earliest":
            return  # another part of the binlog may have the table
        self.check_tables(known or (), f"; {remedies('empty answer')}")

    async def __aexit__(self, kind: type[BaseException] | None = None, *exc_info: object) -> None:
        self._events.is_open = False
        for iterator in self._iterators:
            await iterator.aclose()
        try:
            await self._progress.close(failed=kind is not None)
        finally:
            await self._link.close()

    def events(self) -> AsyncGenerator[BinlogEvent, None]:
        """Return an iterator over every event of the source's files, once and in order.

        It includes artificial events. The events inside a transaction payload follow it.

        Raises:
            BinlogDecodeError: an event cannot be decoded.
            ServerError: the source refuses to go on.
            SourceChangedError: the source is not the one that was read before.
            ProtocolError: the source sent what the protocol forbids.
            TransportError: the connection was lost, and could not be opened again.
        """
        self._refuse_events()
        gate, feed = TimeGate(self._progress.since), self._events.feed

        def events_of(packet: Iterator[LocatedEvent]) -> Iterator[BinlogEvent]:
            for located in packet:
                inside = feed.tracker.in_transaction
                yield from gate.events(located.event, in_transaction=inside)

        return self._given(GroupedItems(self._events.packets(), events_of))

    def _given(self, items: GroupedItems[Any, _Item]) -> GroupedItems[Any, _Item]:
        """Register an iterator to be closed with the stream, and return it."""
        self._iterators.append(items)
        return items

    async def event_groups(self) -> AsyncGenerator[list[BinlogEvent], None]:
        """Yield :meth:`events` in groups of one packet, about 128 at most.

        :attr:`position` lies after all events of the group.

        Raises:
            ReplicaClientError: what :meth:`events` raises.
        """
        self._refuse_events()
        gate, feed = TimeGate(self._progress.since), self._events.feed
        async for batch in self._events.packets():
            group: list[BinlogEvent] = []
            for located in batch:
                group += gate.events(located.event, in_transaction=feed.tracker.in_transaction)
                if len(group) >= _GROUP_SIZE:
                    yield group
                    group = []
            if group:
                yield group

    def _refuse_events(self) -> None:
        """Raise if the stream has transforms, which do not apply to events.

        Raises:
            ConfigError: it has.
        """
        if self._options.transform is not None:
            raise ConfigError("events are given as they are: take changes, transactions or batches")

    def transactions(self) -> AsyncGenerator[Transaction, None]:
        """Return an iterator over committed transactions; very large transactions come in parts.

        Raises:
            DataLossError: a change that cannot be delivered as rows.
            SchemaError: a table's definition is not known, or is not that of its rows.
            SpoolError: rows that wait for their COMMIT cannot be kept in a temporary file.
            BinlogDecodeError: an event cannot be decoded.
            ServerError: the source refuses to go on.
            SourceChangedError: the source is not the one that was read before.
            ProtocolError: the source sent what the protocol forbids.
            TransportError: the connection was lost, and could not be opened again.
        """
        return self._given(GroupedItems(self.transaction_groups(), self._transactions_of))

    def _transactions_of(self, group: list[Transaction]) -> Iterator[Transaction]:
        for taken in group:
            self._progress.delivered = taken
            self._progress.parted = not taken.complete
            yield taken

    async def transaction_groups(self) -> AsyncGenerator[list[Transaction], None]:
        """Yield :meth:`transactions` in groups that came together, of at most about a mebibyte.

        :attr:`position` lies after all transactions of the group.

        Raises:
            ReplicaClientError: what :meth:`transactions` raises.
        """
        async with aclosing(self.measured_groups()) as groups:
            async for group in groups:
                yield group.transactions

    async def measured_groups(self) -> AsyncGenerator[TransactionGroup, None]:
        """Yield :meth:`transaction_groups` with the size and kind of each group.

        Raises:
            ReplicaClientError: what :meth:`transactions` raises.
        """
        groups = self._groups()
        try:
            async for group in groups:
                yield group
                del group  # its rows are not kept while the next group comes
        except ReplicaClientError as error:
            if (shown := self._error_shown(error)) is error:
                raise
            raise shown from None
        finally:
            await groups.aclose()

    async def _groups(self) -> AsyncGenerator[TransactionGroup, None]:
        feed = self._events.feed
        assembler, gate = self._new_assembler(), TimeGate(self._progress.since)
        # A subclass of the assembler must see all events.
        fast_path = (
            RowFastPath(feed, assembler, False) if type(assembler) is TransactionAssembler else None
        )
        inside = inside_path(feed, assembler, fast_path, in_file=False)
        async for batch in self._events.packets(fast_path, inside):
            if fast_path is not None and fast_path.took:
                size = fast_path.taken_size
                group = [self._shown(one) for one in fast_path.hand_over() if gate.gives(one)]
                if group:
                    self._progress.delivered = group[-1]
                    self._progress.parted = False
                    yield TransactionGroup(
                        group, size + 2 * OVERHEAD * len(group), ordinary=self._only_rows(group)
                    )
                del group
            for located in batch:
                async for transaction in self._assembled(located, assembler, gate):
                    yield TransactionGroup.of_one(transaction)
                    del transaction
        await self._check_read_tables()

    def _only_rows(self, group: list[Transaction]) -> bool:
        """Return whether transactions of a fast path have only rows, after the transforms, too."""
        return self._options.transform is None or not any(
            one.losses or one.schema_changes or one.statements for one in group
        )

    def _new_assembler(self) -> TransactionAssembler:
        """Create the assembler of transactions.

        Raises:
            ConfigError: the source does not log everything that its rows need.
        """
        self._knowledge.begin_rows()
        return self.make_assembler(self._knowledge.assembly())

    def make_assembler(self, assembly: AssemblyOptions) -> TransactionAssembler:
        """Create the assembler of transactions; subclasses override this to see transactions first."""
        return TransactionAssembler(
            assembly, self._options.decode, self._events.resume, self.history, self.prepared
        )

    async def _assembled(
        self, located: LocatedEvent, assembler: TransactionAssembler, gate: TimeGate
    ) -> AsyncGenerator[Transaction, None]:
        """Yield the transactions that an event completes."""
        feed = self._events.feed
        if located.event.header.type_code == EventType.TABLE_MAP_EVENT:
            await self._knowledge.prove(located, feed, assembler)
        else:
            ahead = assembler.reads_long(located.event, feed.decoder, feed.tracker)
            if ahead is not None:
                await asyncio.to_thread(ahead)
            await self._knowledge.prove_targets(located, feed, assembler)
            await self._knowledge.prove_renames(located, feed, assembler)
            await self._knowledge.prove_pattern(located, feed, assembler)
        xid = assembler.pending_commit(located)
        if xid is not None and located.boundary is not None:
            await self._knowledge.read_back(
                xid, Position(located.boundary.file, located.boundary.offset)
            )
        for transaction in assembler.feed(located, feed.decoder, feed.tracker):
            if not gate.gives(transaction):
                continue
            # Its rows are not kept while the next ones come.
            self._progress.delivered = transaction.position
            self._progress.parted = not transaction.complete
            shown = self._shown(transaction)
            for loss in shown.losses:
                self.losses.add(loss, shown.start)
            yield shown

    def _error_shown(self, error: ReplicaClientError) -> ReplicaClientError:
        """Return an error as consumers get it, without texts that transforms hide."""
        transform = self._options.transform
        return error if transform is None or not transform.hides else withheld_error(error)

    def _shown(self, transaction: Transaction) -> Transaction:
        """Return a transaction as consumers get it, after the transforms."""
        transform = self._options.transform
        if transform is None:
            return transaction
        return transform.transaction(transaction, self._options.assembly.record_losses)

    @overload
    def changes(
        self, *, notices: Literal[False] = False, timeout: None = None
    ) -> AsyncGenerator[AnyChange, None]: ...

    @overload
    def changes(
        self, *, notices: Literal[False] = False, timeout: float
    ) -> AsyncGenerator[AnyChange | None, None]: ...

    @overload
    def changes(
        self, *, notices: Literal[True], timeout: None = None
    ) -> AsyncGenerator[AnyChange | Notice, None]: ...

    @overload
    def changes(
        self, *, notices: bool, timeout: float | None = None
    ) -> AsyncGenerator[AnyChange | Notice | None, None]: ...

    @USER_BOUNDARY
    @checked_types
    def changes(
        self, *, notices: bool = False, timeout: float | None = None
    ) -> AsyncGenerator[Any, None]:
        """Return an iterator over row changes of committed transactions, in order.

        Each change has a position of its own, after the change, for :meth:`acknowledge`.
        :attr:`position` moves after the transaction of the last delivered change only once more is
        requested; in a transaction of more than 1,024 changes it lies before that change.

        Args:
            notices: also return each :class:`~replica_client.schema.history_records.SchemaChange`
                (CREATE, ALTER, RENAME, TRUNCATE, DROP … of a wanted table or of a database) and
                each :class:`~replica_client.stream.position.losses.Loss`, in its place among the rows.
            timeout: seconds without a change after which None is returned. None: wait without end.

        Raises:
            DataLossError: a change that cannot be delivered as rows.
            SchemaError: a table's definition is not known, or is not that of its rows.
            SpoolError: rows that wait for their COMMIT cannot be kept in a temporary file.
            BinlogDecodeError: an event cannot be decoded.
            ServerError: the source refuses to go on.
            SourceChangedError: the source is not the one that was read before.
            ProtocolError: the source sent what the protocol forbids.
            TransportError: the connection was lost, and could not be opened again.
        """
        check_timeout(timeout)
        self._progress.pending, self._progress.given = self.position, None

        def changes_of_group(group: list[Transaction]) -> Iterator[AnyChange | Notice | None]:
            for transaction in self._transactions_of(group):
                yield from self._changes_of(transaction, notices)

        idle = None if timeout is None else _nothing
        groups = self.transaction_groups()
        return self._given(GroupedItems(groups, changes_of_group, timeout, idle))

    def _changes_of(self, transaction: Transaction, notices: bool) -> Iterator[AnyChange | Notice]:
        progress, given = self._progress, self._progress.changes
        before, light = progress.pending, transaction.with_rows(())
        changes = changes_of(transaction, notices=notices, before=before, without_rows=light)
        given.begin(before, light, changes)
        for change in islice(changes, inside.POSITIONED_AFTER):
            given.last = change
            yield change
        for change in changes:
            given.last = change
            progress.given = light, change
            yield change
        progress.pending, progress.given = light, None
        if given.last is not None:
            progress.end_changes()

    async def get(self, timeout: float | None = None) -> AnyChange | None:  # noqa: ASYNC109  # a promise of the API
        """Return the next change; None after ``timeout`` seconds, or at the end of the stream.

        Raises:
            ReplicaClientError: what :meth:`changes` raises.
        """
        check_timeout(timeout)
        if self._getting is None:
            self._getting = self.changes()
        try:
            async with asyncio.timeout(timeout):
                return await anext(self._getting)
        except (TimeoutError, StopAsyncIteration):
            return None

    @overload
    def batches(
        self,
        max_rows: int = 16384,
        max_seconds: float = 1.0,
        *,
        notices: Literal[False] = False,
    ) -> AsyncGenerator[RecordBatch, None]: ...

    @overload
    def batches(
        self, max_rows: int = 16384, max_seconds: float = 1.0, *, notices: bool
    ) -> AsyncGenerator[RecordBatch | Notice, None]: ...

    @USER_BOUNDARY
    @checked_types
    def batches(
        self, max_rows: int = 16384, max_seconds: float = 1.0, *, notices: bool = False
    ) -> AsyncGenerator[RecordBatch | Notice, None]:
        """Return an iterator over Arrow record batches of row changes, each of one table and shape.

        :attr:`position` moves only after all rows before it have been delivered.

        Args:
            max_rows: rows that a batch has at most.
            max_seconds: rows wait at most this long for their batch.
            notices: as in :meth:`changes`; all rows before a notice come in batches before it.

        Raises:
            ConfigError: pyarrow is not installed.
            DataLossError: a change that cannot be delivered as rows.
            SchemaError: a table's definition is not known, or is not that of its rows.
            SpoolError: rows that wait for their COMMIT cannot be kept in a temporary file.
            BinlogDecodeError: an event cannot be decoded.
            ServerError: the source refuses to go on.
            SourceChangedError: the source is not the one that was read before.
            ProtocolError: the source sent what the protocol forbids.
            TransportError: the connection was lost, and could not be opened again.
        """
        batches = self._batches(max_rows, max_seconds, notices)
        return self._given(GroupedItems(batches, lambda batch: iter((batch,))))

    async def _batches(
        self, max_rows: int, max_seconds: float, notices: bool
    ) -> AsyncGenerator[RecordBatch | Notice, None]:
        from replica_client.rows.batching import BatchAssembler

        batches = BatchAssembler(max_rows, self._options.decode)
        steps = self._steps(batches, notices)
        self._progress.pending = self.position
        pending: asyncio.Task[list[RecordBatch | Notice]] | None = None
        loop = asyncio.get_running_loop()
        deadline = loop.time() + max_seconds
        ended = False
        try:
            while not ended:
                if pending is None:
                    pending = asyncio.ensure_future(anext(steps))
                timeout = max(0.0, deadline - loop.time())
                await asyncio.wait((pending,), timeout=timeout)
                if pending.done():
                    try:
                        ready = pending.result()
                    except StopAsyncIteration:
                        ended = True
                    except ReplicaClientError as error:
                        if (shown := self._error_shown(error)) is error:
                            raise
                        raise shown from None
                    else:
                        for batch in ready:
                            yield batch
                    pending = None
                if ended or loop.time() >= deadline:
                    reached = self._progress.reached
                    for batch in batches.flush():
                        yield batch
                    self._progress.pending = reached
                    deadline = loop.time() + max_seconds
        finally:
            if pending is not None:
                pending.cancel()
                await asyncio.gather(pending, return_exceptions=True)
            await steps.aclose()

    async def fill(
        self, batches: BatchAssembler, until: Position
    ) -> AsyncGenerator[list[RecordBatch | Notice], None]:
        """Take transactions into batches up to a position between two of them.

        Yields the full batches whenever transactions are complete. The connection and what it
        received stay: a later call continues with the next transaction.

        Args:
            batches: takes the rows.
            until: no transaction that begins there or later is taken.

        Raises:
            DataLossError: a change that cannot be delivered as rows.
            BinlogDecodeError: an event cannot be decoded.
            ServerError: the source refuses to go on.
            TransportError: the connection was lost, and could not be opened again.
        """
        self._events.until = until
        steps = self._steps(batches, False)
        try:
            async for ready in steps:
                yield ready
        except ReplicaClientError as error:
            if (shown := self._error_shown(error)) is error:
                raise
            raise shown from None
        finally:
            await steps.aclose()
            self._events.until = None

    async def _steps(
        self, batches: BatchAssembler, notices: bool
    ) -> AsyncGenerator[list[RecordBatch | Notice], None]:
        """Yield lists of the batches that became full."""
        feed = self._events.feed
        assembler, gate = self._new_assembler(), TimeGate(self._progress.since)
        fast_path = None
        if gate.is_open and self._options.transform is None:
            fast_path = ColumnFastPath(feed, assembler, batches, False)
        inside = inside_path(feed, assembler, fast_path, in_file=False)
        async for taken in self._events.packets(fast_path, inside):
            ready: list[RecordBatch | Notice] = []
            if fast_path is not None and fast_path.took:
                ready += fast_path.hand_over()
                self._progress.delivered = feed.tracker.position
                self._progress.parted = False
            for located in taken:
                async for transaction in self._assembled(located, assembler, gate):
                    ready += batches_of(batches, transaction, notices=notices)
                    if ready and not transaction.complete:
                        # The transaction may have many parts.
                        yield ready
                        ready = []
            if ready:
                yield ready
        await self._check_read_tables()


def _nothing() -> None:
    """Return None, the sign of :meth:`SourceStream.changes` that no change came in time."""
