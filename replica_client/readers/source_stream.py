"""A live source as events, changes, transactions and record batches."""

from __future__ import annotations

import asyncio
import datetime
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Literal, Self, TypeVar, overload

from replica_client._compiled import tell_plain
from replica_client.binlog.context import BinlogFormat
from replica_client.binlog.event import BinlogEvent
from replica_client.binlog.layout import HEADER_SIZE
from replica_client.constants.event_types import EventType
from replica_client.errors import (
    BinlogPurgedError,
    ConnectionLostError,
    PositionStoreError,
    ReplicaClientError,
    ServerError,
    SourceChangedError,
    TransportError,
)
from replica_client.position.losses import LOSSES_KEY, LossLedger
from replica_client.position.position import Position
from replica_client.position.prepared import PREPARED_KEY, PreparedLedger, XaId
from replica_client.position.stores.base import PositionStore
from replica_client.position.stores.saving import SAVE_INTERVAL, PositionSaver
from replica_client.readers import inside
from replica_client.readers.assembler import AssemblyOptions, TransactionAssembler
from replica_client.readers.column_lane import ColumnLane
from replica_client.readers.event_feed import EventFeed, PlacedEvent
from replica_client.readers.group_lane import MAX_WAITING, GroupLane
from replica_client.readers.inside import GivenChange, position_at
from replica_client.readers.live_prepared import PreparedSource
from replica_client.readers.live_schema import SchemaProver, read_source
from replica_client.readers.misuse import AsynchronousOnly
from replica_client.readers.notices import Notice, batches_of, changes_of
from replica_client.readers.past_source import PastSource, ReadingState
from replica_client.readers.prepared_rows import PreparedRows
from replica_client.readers.replay import Replay, is_made_up
from replica_client.readers.row_lane import RowLane
from replica_client.readers.saved_state import reading_state_of
from replica_client.readers.source_identity import IDENTITY_KEY, SourceIdentity
from replica_client.readers.source_link import LinkOptions, SourceLink
from replica_client.readers.source_start import (
    behind_purged,
    resolve_start,
    transaction_start,
)
from replica_client.readers.start import Start, timestamp_of
from replica_client.readers.stream_options import StreamOptions
from replica_client.readers.time_gate import TimeGate
from replica_client.readers.transaction import Transaction
from replica_client.rows.row_change import Change
from replica_client.schema.history import STATE_KEY, Place, SchemaHistory
from replica_client.transport.connection import SourceConnection
from replica_client.transport.dump import DumpStream
from replica_client.transport.options import ConnectOptions
from replica_client.transport.server_info import ServerInfo

if TYPE_CHECKING:
    from replica_client.rows.batching import BatchAssembler, RecordBatch

_LOG = logging.getLogger("replica_client")
_Result = TypeVar("_Result")
START_TIME_KEY = "start_time"
"""Name of a checkpoint's state: nothing was acknowledged yet, and what is before this time is not wanted."""

_FORMAT_DESCRIPTION = int(EventType.FORMAT_DESCRIPTION_EVENT)
_GROUP_SIZE = 1024


class SourceStream(AsynchronousOnly):
    """Follows a live source; an asynchronous context manager, made by :func:`connect`.

    One of its iterators may be used, by one task. A connection that is lost is opened again from the
    start of the transaction that was being read, and what was delivered of it is passed over by index:
    iterators see every event once.

    With several hosts the next one is tried when one fails, and goes on by GTID. A transaction that was
    being read then comes again from its start (:meth:`events` shows its first events twice), since
    another server writes it in other pieces. A host that lacks what we already have is refused.

    Attributes:
        history: what tables look like, as far as the stream was read.
        losses: counts of what could not be delivered (``record_losses``); saved with the position.
        prepared: XA transactions that are pending; where they are is saved with the position.

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
        self._store = position_store
        self._saver = (
            None if position_store is None else PositionSaver(position_store, save_interval)
        )
        self._link = SourceLink(
            hosts,
            LinkOptions(
                options.server_id,
                options.heartbeat_period,
                options.read_timeout,
                options.semi_sync,
                options.stop_at_end,
                options.reconnect,
            ),
        )
        tell_plain()
        self._open = False
        self._parted = False
        self._moved = False
        self._waits = False
        self._feed: EventFeed | None = None
        self._replay: Replay | None = None
        self._resume: Position | None = None
        # A transaction stands for the position behind it, which takes time to make.
        self._delivered: Position | Transaction | None = None
        # While rows wait in batches, or come one by one: the position before them.
        self._held: Position | Transaction | None = None
        self._given: GivenChange | None = None
        self._acknowledged: Position | None = None
        self.history = SchemaHistory() if options.schema is None else options.schema.copy()
        self.losses = LossLedger()
        self.prepared = PreparedRows()
        self._prover = self._new_prover(hosts[0])
        self._asked: dict[tuple[str, str], object] = {}
        # Servers before the one that is read, the oldest first.
        self._left: list[PastSource] = []
        self._gap: Position | None = None
        self._start_time: int | None = None
        if isinstance(options.start, datetime.datetime):
            self._start_time = timestamp_of(options.start)
        # Whether the start is still to be saved.
        self._unpinned = False
        self._until: Position | None = None

    @property
    def unmatched_patterns(self) -> list[str]:
        """Patterns of ``tables`` that match none of the tables that were read, and none that is known."""
        return self._options.assembly.selection.unmatched_of(self.history)

    @property
    def generation(self) -> int:
        """How many dumps were begun so far."""
        return self._link.generation

    @property
    def server(self) -> ServerInfo | None:
        """The source, once connected."""
        return self._link.server

    @property
    def server_id(self) -> int:
        """The server id that we log in with as a replica."""
        return self._link.server_id

    @property
    def position(self) -> Position:
        """The safe resume point behind what the iterators delivered.

        Raises:
            ConnectionLostError: the stream is not open.
        """
        if isinstance(self._held, Transaction):
            self._held = self._held.position
        if self._held is not None:
            return self._held if self._given is None else position_at(self._held, self._given)
        return self._reached()

    def _reached(self) -> Position:
        """The safe resume point behind what was read."""
        if isinstance(self._delivered, Transaction):
            self._delivered = self._delivered.position
        if self._delivered is not None:
            return self._delivered
        return self._live_feed().tracker.position

    @property
    def reached(self) -> Position:
        """The safe resume point behind what was read, whether or not anything was delivered of it.

        It moves past :attr:`position` where a file ends, and where the source sends nothing. While
        what was read is being given, it is :attr:`position`.

        Raises:
            ConnectionLostError: the stream is not open.
        """
        return self._live_feed().tracker.position if self._waits else self.position

    @property
    def caught_up(self) -> bool:
        """Whether everything that came from the source was given, and it is waited for."""
        return self._waits

    @property
    def dump(self) -> DumpStream | None:
        """The running dump, for its counters; None while the connection is lost."""
        return self._link.dump

    @property
    def loss(self) -> ReplicaClientError | None:
        """Why the connection is lost; None while there is one."""
        return self._link.loss

    @property
    def format(self) -> BinlogFormat:
        """How events are laid out in the file that is read."""
        return self._live_feed().decoder.format

    @property
    def acknowledged(self) -> Position | None:
        """The position that was acknowledged last."""
        return self._acknowledged

    async def acknowledge(self, position: Position) -> None:
        """Everything before ``position`` is done: save it, and tell a semi-synchronous source.

        Returns at once: the position is saved in the background, ``save_interval`` seconds after the save
        before or sooner, the newest one first. A crash before that lets what is behind the saved position come
        again. :meth:`flush` and the end of the ``async with`` block wait for the save. A semi-synchronous source
        is told only of a position that is saved; then this waits, too.

        Raises:
            PositionStoreError: a position could not be saved, this one or one before; what was saved before is
                whole.
        """
        self.remember(position)
        dump = self._link.dump
        is_past = any(one.has(position) for one in self._left)
        inside = position.inside_transaction
        wanted = self._options.semi_sync and position.file and not inside and not is_past
        if wanted and dump is not None and dump.semi_sync_active:
            await self.flush()
            await dump.acknowledge_semi_sync(position.file, position.offset)

    def remember(self, position: Position) -> None:
        """Do what :meth:`acknowledge` does where the source is not semi-synchronous; needs no await.

        Raises:
            PositionStoreError: a position that was acknowledged before could not be saved.
        """
        self._acknowledged = position
        if self._saver is not None:
            self._saver.put(position, self.state(position))

    @property
    def semi_sync(self) -> bool:
        """Whether semi-synchronous replication was asked for."""
        return self._options.semi_sync

    async def flush(self) -> None:
        """Save the position that was acknowledged last; when this returns it survives a crash.

        Raises:
            PositionStoreError: it could not be saved; what was saved before is whole.
        """
        if self._saver is not None:
            await self._saver.flush()

    async def _pin(self, server: ServerInfo) -> None:
        """Save where the stream starts, if nothing was saved before: a later run starts there, too.

        What the user named is saved when the source has accepted it, all else before it is asked for.
        """
        start, self._unpinned = self._resume, False
        if self._saver is None or start is None:
            return
        state = self.state(start)
        if not self._link.identity.known:
            state[IDENTITY_KEY] = SourceIdentity(server.server_uuid, server.server_id).to_state()
        if self._start_time is not None:
            state[START_TIME_KEY] = self._start_time
        await self._saver.save(start, state)

    def state(self, position: Position) -> dict[str, object]:
        """What to save with a position, for :class:`~replica_client.position.stores.Checkpoint`."""
        while self._left:
            if self._left[0].has(position):
                return self._left[0].state.to_state(position)
            del self._left[0]
        return self._reading_state().to_state(position)

    def _reading_state(self) -> ReadingState:
        """What is saved with positions of the server that is read."""
        return ReadingState(self._link.identity, self.history, self.losses, self.prepared.ledger)

    async def __aenter__(self) -> Self:
        start: Start = self._options.start
        if self._store is not None:
            checkpoint = await asyncio.to_thread(self._store.load_checkpoint)
            if checkpoint is not None:
                start = checkpoint.position
                since = checkpoint.state.get(START_TIME_KEY)
                self._start_time = since if isinstance(since, int) else None
                if self._start_time is None:
                    self._acknowledged = start
                with reading_state_of(self._store):
                    self._take_state(checkpoint.state)
            self._unpinned = checkpoint is None
        last: ReplicaClientError | None = None
        for host in self._link.hosts():
            try:
                await self._open_at(host, start)
            except ReplicaClientError as error:
                if not self._link.goes_on(error):
                    raise
                last = error
            else:
                return self
        raise last or ConnectionLostError("there is no host")

    def _take_state(self, state: Mapping[str, object]) -> None:
        if STATE_KEY in state:
            self.history = SchemaHistory.from_state(state[STATE_KEY])
        if LOSSES_KEY in state:
            self.losses = LossLedger.from_state(state[LOSSES_KEY])
        if PREPARED_KEY in state:
            self.prepared = PreparedRows(PreparedLedger.from_state(state[PREPARED_KEY]))
        if IDENTITY_KEY in state:
            self._link.identity = SourceIdentity.from_state(state[IDENTITY_KEY])

    async def _open_at(self, host: ConnectOptions, start: Start) -> None:
        connection = await SourceConnection.open(host)
        try:
            self._link.use(host)
            self._prover = self._new_prover(host)
            self._resume = await resolve_start(
                connection,
                self._known_there(connection, start),
                server_id=self.server_id,
                replica_uuid=self._link.replica_uuid,
            )
            if start == "latest" and self._options.schema is None:
                self._resume = await self._read_schema(connection, self._resume)
            elif self._resume.file:
                self.history.rewind(self._resume.file, self._resume.offset)
            self._learn_letter_case(connection.server)
            self._parted = self._resume.inside_transaction
            self._feed = EventFeed(self._options.decode, transaction_start(self._resume))
            if not isinstance(start, Position):
                await self._pin(connection.server)
            await self._link.begin(connection, transaction_start(self._resume))
            self._open = True
        except BinlogPurgedError as error:
            await connection.close()
            if self._feed is None or not await self._pass_gap(error):
                raise
            self._open = True
        except BaseException:
            await connection.close()
            raise

    def _known_there(self, connection: SourceConnection, start: Start) -> Start:
        """A saved position as what it means on a server."""
        if not isinstance(start, Position) or not start.gtid_set:
            return start
        if self._link.identity.is_same_server(connection.server):
            return start
        if start.inside_transaction:
            raise SourceChangedError(
                f"{connection.options.address} is another server than the one that {start} is of, and "
                "that place is inside a transaction; go back to that server until it is done"
            )
        if start.file:
            # What the stream read ahead of the position comes again.
            self.history.rewind(start.file, start.offset)
        self.history.forget_places()
        self.prepared.ledger.forget_places()
        return Position("", 0, start.gtid_set)

    def _new_prover(self, host: ConnectOptions) -> SchemaProver:
        return SchemaProver(host, self._options.decode, self._options.assembly.selection)

    def _learn_letter_case(self, server: ServerInfo | None) -> None:
        """Take names in another letter case for the same, or not, as the server does.

        Raises:
            SourceChangedError: it does so now, and names that it would change are known.
        """
        if server is not None and server.folds_names is not None:
            self.history.fold_names(server.folds_names)

    async def _read_schema(self, connection: SourceConnection, latest: Position) -> Position:
        """Know all tables as they are at a position, which is the new start."""
        try:
            self.history, status = await read_source(
                connection, self._options.decode, self._options.assembly.selection
            )
        except ServerError as error:
            if self._options.assembly.on_unknown_table == "error":
                raise
            _LOG.info("the source does not tell what its tables look like: %s", error)
            self._prover.works = False
            return latest
        return Position(status.file, status.position, connection.gtids(status.executed_gtid_set))

    async def _prove(
        self, placed: PlacedEvent, feed: EventFeed, assembler: TransactionAssembler
    ) -> None:
        """Find out what a table looks like that the binlog alone does not tell."""
        event = placed.event
        table_map = assembler.unproven(event, feed.decoder)
        if table_map is None:
            return
        await self._ask_for((table_map.schema, table_map.table), event, feed, assembler)

    async def _prove_targets(
        self, placed: PlacedEvent, feed: EventFeed, assembler: TransactionAssembler
    ) -> None:
        """Find out whether names in a statement logged as text are those of tables, not of views."""
        for name in assembler.perhaps_views(placed.event, feed.decoder):
            await self._ask_for(name, placed.event, feed, assembler)

    async def _prove_renames(
        self, placed: PlacedEvent, feed: EventFeed, assembler: TransactionAssembler
    ) -> None:
        """Find out whether a RENAME TABLE was of temporary tables, which the binlog of MariaDB does not tell."""
        event, history = placed.event, assembler.schema.history
        start = transaction_start(feed.tracker.inside())
        behind = Place.of(event.file, event.end_position)
        for name in assembler.perhaps_temporary(event, feed.decoder):

            async def ask(name: tuple[str, str] = name) -> bool:
                return await self._prover.is_there(name, start, behind)

            if await self._retried(ask, "looking at " + ".".join(name)):
                history.hide(event.body.thread_id, name)

    async def _ask_for(
        self,
        name: tuple[str, str],
        event: BinlogEvent,
        feed: EventFeed,
        assembler: TransactionAssembler,
    ) -> None:
        """Ask the source what a table is, once for all that is known of it."""
        history = assembler.schema.history
        state = history.table(name)
        if name in self._asked and self._asked[name] is state:
            return
        start = transaction_start(feed.tracker.inside())
        place = Place.of(event.file, event.position)

        async def prove() -> bool:
            return await self._prover.prove(history, name, start, place)

        if not await self._retried(prove, "looking at " + ".".join(name)):
            self._asked[name] = state

    async def _read_back(self, xid: XaId, commit: Position) -> None:
        """Read the rows of an XA transaction that was prepared before the stream began."""
        await self._retried(
            lambda: self._try_read_back(xid, commit), f"reading XA transaction {xid}"
        )

    async def _try_read_back(self, xid: XaId, commit: Position) -> None:
        known = self.prepared.ledger.find(xid)
        source = PreparedSource(self._link.host, self._options.decode)
        rows = PreparedRows(storage=self.prepared.storage)
        assembler: TransactionAssembler | None = None
        async with aclosing(source.transaction(xid, known, commit)) as events:
            async for feed, placed in events:
                if assembler is None:
                    history = self.history.copy()
                    history.rewind(placed.event.file, placed.event.position)
                    assembler = TransactionAssembler(
                        self._assembly(), self._options.decode, None, history, rows
                    )
                if placed.event.header.type_code == EventType.TABLE_MAP_EVENT:
                    await self._prove(placed, feed, assembler)
                for _ in assembler.feed(placed, feed.decoder, feed.tracker):
                    pass
        self.prepared.adopt(xid, rows)

    async def _retried(self, work: Callable[[], Awaitable[_Result]], what: str) -> _Result:
        """Do what needs connections of its own, and try again when these fail."""
        delays = self._options.reconnect.delays()
        while True:
            try:
                return await work()
            except (TransportError, ServerError) as error:
                delay = next(delays, None)
                if delay is None or not self._open or not self._link.goes_on(error):
                    raise
                _LOG.warning("connection lost: %s; %s again in %.1f s", error, what, delay)
                await asyncio.sleep(delay)

    async def __aexit__(self, kind: type[BaseException] | None = None, *exc_info: object) -> None:
        self._open = False
        try:
            await self.flush()
        except PositionStoreError as error:
            if kind is None:
                raise
            _LOG.error("the position that was acknowledged last is not saved: %s", error)
        finally:
            await self._link.close()

    async def events(self) -> AsyncGenerator[BinlogEvent, None]:
        """Every event that stands in the source's files, once and in order, and artificial ones.

        A transaction payload is followed by the events inside it.

        Raises:
            BinlogDecodeError: an event cannot be decoded.
            ServerError: the source refuses to go on.
            SourceChangedError: the source is not the one that was read before.
            ProtocolError: the source sent what the protocol forbids.
            TransportError: the connection was lost, and could not be opened again.
        """
        gate, feed = TimeGate(self._since()), self._live_feed()
        async for batch in self._placed():
            for placed in batch:
                inside = feed.tracker.in_transaction
                for event in gate.events(placed.event, in_transaction=inside):
                    yield event

    async def event_groups(self) -> AsyncGenerator[list[BinlogEvent], None]:
        """As :meth:`events`, with those together that came in one packet: at most 1,024.

        :attr:`position` lies behind all of them.

        Raises:
            ReplicaClientError: what :meth:`events` raises.
        """
        gate, feed = TimeGate(self._since()), self._live_feed()
        async for batch in self._placed():
            group: list[BinlogEvent] = []
            for placed in batch:
                group += gate.events(placed.event, in_transaction=feed.tracker.in_transaction)
                if len(group) >= _GROUP_SIZE:
                    yield group
                    group = []
            if group:
                yield group

    async def transactions(self) -> AsyncGenerator[Transaction, None]:
        """Committed transactions; very large ones in parts.

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
        async with aclosing(self.transaction_groups()) as groups:
            async for group in groups:
                for taken in group:
                    self._delivered = taken
                    self._parted = not taken.complete
                    yield taken

    async def transaction_groups(self) -> AsyncGenerator[list[Transaction], None]:
        """As :meth:`transactions`, with those together that came together: at most about a mebibyte.

        :attr:`position` lies behind all of them.

        Raises:
            ReplicaClientError: what :meth:`transactions` raises.
        """
        feed = self._live_feed()
        assembler, gate = self._new_assembler(), TimeGate(self._since())
        # A class of its own wants to see all events.
        lane = RowLane(feed, assembler, False) if type(assembler) is TransactionAssembler else None
        async for batch in self._placed(lane):
            if lane is not None and lane.took:
                group = [taken for taken in lane.hand_over() if gate.gives(taken)]
                if group:
                    self._delivered = group[-1]
                    self._parted = False
                    yield group
            for placed in batch:
                async for transaction in self._assembled(placed, assembler, gate):
                    yield [transaction]

    def _new_assembler(self) -> TransactionAssembler:
        """What puts transactions together."""
        return self.make_assembler(self._assembly())

    def _since(self) -> int | None:
        """The time before which no transaction is wanted, in seconds since 1970."""
        return self._start_time if self._acknowledged is None else None

    def _assembly(self) -> AssemblyOptions:
        assembly = self._options.assembly
        if assembly.on_unknown_table is None and self._prover.works:
            return replace(assembly, on_unknown_table="error")
        return assembly

    def make_assembler(self, assembly: AssemblyOptions) -> TransactionAssembler:
        """The object that puts transactions together; subclasses override it to see transactions first."""
        return TransactionAssembler(
            assembly, self._options.decode, self._resume, self.history, self.prepared
        )

    async def _assembled(
        self, placed: PlacedEvent, assembler: TransactionAssembler, gate: TimeGate
    ) -> AsyncGenerator[Transaction, None]:
        """The transactions that are complete with an event."""
        feed = self._live_feed()
        if placed.event.header.type_code == EventType.TABLE_MAP_EVENT:
            await self._prove(placed, feed, assembler)
        else:
            ahead = assembler.reads_long(placed.event, feed.decoder, feed.tracker)
            if ahead is not None:
                await asyncio.to_thread(ahead)
            await self._prove_targets(placed, feed, assembler)
            await self._prove_renames(placed, feed, assembler)
        xid = assembler.pending_commit(placed)
        if xid is not None and placed.boundary is not None:
            await self._read_back(xid, Position(placed.boundary.file, placed.boundary.offset))
        for transaction in assembler.feed(placed, feed.decoder, feed.tracker):
            if not gate.gives(transaction):
                continue
            # Its rows are not kept while the next ones come.
            self._delivered = transaction.position
            self._parted = not transaction.complete
            for loss in transaction.losses:
                self.losses.add(loss, transaction.start)
            yield transaction

    @overload
    def changes(self, *, notices: Literal[False] = False) -> AsyncGenerator[Change, None]: ...

    @overload
    def changes(self, *, notices: bool) -> AsyncGenerator[Change | Notice, None]: ...

    async def changes(self, *, notices: bool = False) -> AsyncGenerator[Change | Notice, None]:
        """Row changes of committed transactions, in order.

        :attr:`position` lies behind the transaction of the change that was delivered last only once the
        next transaction begins. In a transaction of more than 1,024 changes it lies before that change.

        Args:
            notices: also give each :class:`~replica_client.schema.history.SchemaChange` (CREATE, ALTER,
                RENAME, TRUNCATE, DROP … of a wanted table or of a database) and each
                :class:`~replica_client.position.losses.Loss`, in its place among the rows.

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
        self._held, self._given = self.position, None
        async with aclosing(self.transactions()) as transactions:
            async for transaction in transactions:
                changes = iter(changes_of(transaction, notices=notices))
                for change in islice(changes, inside.POSITIONED_AFTER):
                    yield change
                for change in changes:
                    self._given = transaction, change
                    yield change
                self._held, self._given = transaction, None

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

    async def batches(
        self, max_rows: int = 16384, max_seconds: float = 1.0, *, notices: bool = False
    ) -> AsyncGenerator[RecordBatch | Notice, None]:
        """Row changes as Arrow record batches, each of one table and one shape.

        :attr:`position` moves only when all rows before it have been given.

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
        from replica_client.rows.batching import BatchAssembler

        batches = BatchAssembler(max_rows, self._options.decode)
        steps = self._steps(batches, notices)
        self._held = self.position
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
                    else:
                        for batch in ready:
                            yield batch
                    pending = None
                if ended or loop.time() >= deadline:
                    reached = self._reached()
                    for batch in batches.flush():
                        yield batch
                    self._held = reached
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

        Gives the batches that became full, as often as transactions are complete. The connection stays,
        and what came of it: a later call goes on with the next transaction.

        Args:
            batches: takes the rows.
            until: no transaction that begins there or later is taken.

        Raises:
            DataLossError: a change that cannot be delivered as rows.
            BinlogDecodeError: an event cannot be decoded.
            ServerError: the source refuses to go on.
            TransportError: the connection was lost, and could not be opened again.
        """
        self._until = until
        steps = self._steps(batches, False)
        try:
            async for ready in steps:
                yield ready
        finally:
            await steps.aclose()
            self._until = None

    def _is_done(self, feed: EventFeed) -> bool:
        """Whether everything that is asked for was taken."""
        tracker = feed.tracker
        if self._until is None or tracker.in_transaction or not tracker.file:
            return False
        return Position(tracker.file, tracker.offset) >= self._until

    async def _steps(
        self, batches: BatchAssembler, notices: bool
    ) -> AsyncGenerator[list[RecordBatch | Notice], None]:
        """The batches that became full, whenever some did."""
        feed = self._live_feed()
        assembler, gate = self._new_assembler(), TimeGate(self._since())
        lane = None if not gate.is_open else ColumnLane(feed, assembler, batches, False)
        async for taken in self._placed(lane):
            ready: list[RecordBatch | Notice] = []
            if lane is not None and lane.took:
                ready += lane.hand_over()
                self._delivered = feed.tracker.position
                self._parted = False
            for placed in taken:
                async for transaction in self._assembled(placed, assembler, gate):
                    ready += batches_of(batches, transaction, notices=notices)
                    if ready and not transaction.complete:
                        # There may be many parts.
                        yield ready
                        ready = []
            if ready:
                yield ready

    # The stream of events, across connections.

    async def _placed(
        self, lane: GroupLane | None = None
    ) -> AsyncGenerator[Iterator[PlacedEvent], None]:
        """The events of each packet, across connections, each event once.

        With a lane, what it takes is not among them; there is a turn without events then.
        """
        feed, link = self._live_feed(), self._link
        waiting = 0
        while True:
            if link.dump is None:
                raise ConnectionLostError("the stream is closed")
            if self._is_done(feed):
                return
            events = link.dump.events
            try:
                self._waits = True  # all that was read before was given
                try:
                    is_last = not await link.dump.more(waiting)
                finally:
                    self._waits = False
                if self._unpinned and link.server is not None:
                    await self._pin(link.server)
            except (TransportError, ServerError) as error:
                if not self._open:
                    raise
                if isinstance(error, BinlogPurgedError) and await self._pass_gap(error):
                    waiting = 0
                    continue
                if not link.goes_on(error):
                    raise
                waiting = 0
                await self._reconnect(error)
                continue
            if is_last and not events:
                return
            waiting = 0
            while events:
                if lane is not None and self._ordinary(feed):
                    until, file = self._until, feed.tracker.file
                    stop = until.offset if until is not None and until.file == file else -1
                    if lane.take(events, file, feed.tracker.offset, stop):
                        link.received()
                        yield iter(())
                        continue
                    if lane.incomplete and not is_last and events.waiting < MAX_WAITING:
                        waiting = len(events)
                        break
                    if not events:
                        break
                if self._is_done(feed):
                    return
                data = events.take()
                if len(data) > HEADER_SIZE and data[4] == _FORMAT_DESCRIPTION:
                    try:
                        await self._see_format(data)
                    except TransportError as error:
                        if not self._open:
                            raise
                        await self._reconnect(error)
                        break
                if self._replay is None or not self._replay.passes_over(data, feed):
                    if self._replay is not None or not is_made_up(feed.decoder.peek_header(data)):
                        link.received()
                    self._replay = None
                    fed = feed.feed_stream(data)
                    del data  # a very large event is not to be there twice
                    yield fed
                    if self._moved:
                        self._moved = False
                        self.history.forget_places()
                        self.losses.forget_places()
                        self.prepared.ledger.forget_places()

    def _ordinary(self, feed: EventFeed) -> bool:
        """Whether whole transactions may be taken: nothing is half done or comes again."""
        return self._replay is None and not self._moved and not feed.tracker.in_transaction

    async def _see_format(self, data: bytes) -> None:
        """Make sure that a file is the one that was read before."""
        feed = self._live_feed()
        file = (self._replay or feed.tracker).file
        if file:
            position = transaction_start(feed.tracker.inside())
            await self._link.see_format(file, feed.decoder.peek_header(data), position)

    def _live_feed(self) -> EventFeed:
        if self._feed is None:
            raise ConnectionLostError("the stream is not open; use it in an `async with` block")
        return self._feed

    async def _pass_gap(self, purged: BinlogPurgedError) -> bool:
        """Go on behind transactions that the source purged, when their loss is to be recorded.

        The first file that comes then tells of them, and the assembler finds that they never came.
        """
        feed = self._live_feed()
        position = feed.tracker.position
        recorded = self._options.assembly.record_losses
        inside = feed.tracker.in_transaction or self._parted
        if "gtid_gap" not in recorded or not position.gtid_set or inside or self._gap == position:
            return False
        self._gap = position
        _LOG.warning("%s; going on behind what was purged", purged)
        await self._link.close()
        connection = await SourceConnection.open(self._link.host)
        try:
            behind = await behind_purged(connection, position.gtid_set)
            await self._link.begin(connection, Position("", 0, behind))
        except BaseException:
            await connection.close()
            raise
        feed.new_decoder()
        self._replay = None
        return True

    async def _reconnect(self, lost: ReplicaClientError) -> None:
        """Open the next connection, at the start of the transaction that was being read."""
        feed = self._live_feed()
        position = transaction_start(feed.tracker.inside())
        left = PastSource(self._reached(), position, self._reading_state().copy())
        try:
            same = await self._link.reconnect(lost, position, parted=lambda: self._parted)
        except BinlogPurgedError as error:
            if await self._pass_gap(error):
                return
            raise
        self._learn_letter_case(self._link.server)
        if same:
            feed.new_decoder(feed.tracker.file)
            self._replay = Replay(position) if feed.tracker.file else None
            return
        self._left.append(left)
        feed.change_source()
        self._replay = None
        works, self._prover = (
            self._prover.works,
            self._new_prover(self._link.host),
        )
        self._prover.works = works
        self._moved = True
