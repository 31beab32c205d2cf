"""The knowledge of a stream apart from its position, and its progress."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Final, TypeVar

from replica_client.errors import ConfigError, PositionStoreError, ServerError
from replica_client.protocol.binlog.event import BinlogEvent
from replica_client.protocol.constants.event_types import EventType
from replica_client.protocol.position import Position
from replica_client.protocol.wire.server_errors import PRIVILEGE_ERRORS, UNKNOWABLE_ERRORS
from replica_client.schema.ddl.steps import TableName
from replica_client.schema.history import STATE_KEY, LogPosition, SchemaHistory
from replica_client.stream.live.binlog_scan import PreparedSource
from replica_client.stream.live.live_schema import SchemaProver, list_tables, read_source
from replica_client.stream.live.source_identity import IDENTITY_KEY, SourceIdentity
from replica_client.stream.live.source_link import SourceLink
from replica_client.stream.live.source_start import (
    PastSource,
    ReadingState,
    check_filters,
    sees_no_table,
    transaction_start,
)
from replica_client.stream.live.stream_options import StreamOptions, asked
from replica_client.stream.position.losses import LOSSES_KEY, LossLedger
from replica_client.stream.position.prepared import PREPARED_KEY, PreparedLedger, XaId
from replica_client.stream.position.stores.base import HeldStore, PositionSaver, PositionStore
from replica_client.stream.transactions.assembler import AssemblyOptions, TransactionAssembler
from replica_client.stream.transactions.event_feed import EventFeed, LocatedEvent
from replica_client.stream.transactions.inside import (
    Acknowledged,
    GivenChange,
    GivenChanges,
    acknowledged_position,
    position_at,
)
from replica_client.stream.transactions.loss_watch import reading_state_of
from replica_client.stream.transactions.pending_rows import PreparedRows
from replica_client.stream.transactions.transaction import Transaction
from replica_client.stream.transport.connect_options import ConnectOptions
from replica_client.stream.transport.connection import SourceConnection
from replica_client.stream.transport.server_statements import ServerInfo

_LOG = logging.getLogger("replica_client.stream")
_Result = TypeVar("_Result")


class StreamKnowledge:
    """Definitions, losses and pending transactions, which are saved with positions.

    Args:
        link: to the source.
        options: of the stream.
        is_open: returns whether the stream is still wanted.

    Attributes:
        history: definitions of the tables, as far as the stream was read.
        losses: counts of changes that could not be delivered.
        prepared: XA transactions that are pending.
        sees_nothing: whether the account sees no table, which was logged.
    """

    def __init__(
        self, link: SourceLink, options: StreamOptions, is_open: Callable[[], bool]
    ) -> None:
        self._link, self._options, self._is_open = link, options, is_open
        self.history = SchemaHistory() if options.schema is None else options.schema.copy()
        self.losses = LossLedger()
        self.prepared = PreparedRows()
        self._prover = self._new_prover(link.host)
        self._asked: dict[tuple[str, str], object] = {}
        self._reads_rows = False
        self.sees_nothing = False
        self._refusal: ConfigError | None = None
        link.check = self.check_filters

    def _new_prover(self, host: ConnectOptions) -> SchemaProver:
        return SchemaProver(host, self._options.decode, self._options.assembly.selection)

    @property
    def identity(self) -> SourceIdentity:
        """The identity of the source that is read."""
        return self._link.identity

    def use(self, host: ConnectOptions) -> None:
        """Ask another host from now on."""
        self._prover = self._new_prover(host)

    def follow(self, host: ConnectOptions) -> None:
        """Ask the host that took over, if the one before could be asked."""
        works = self._prover.works
        self.use(host)
        self._prover.works = works

    def forget_positions(self) -> None:
        """Forget files and offsets, which are invalid on another server."""
        self.history.forget_positions()
        self.losses.forget_positions()
        self.prepared.ledger.forget_positions()

    STATE_KEYS: Final = frozenset((STATE_KEY, LOSSES_KEY, PREPARED_KEY, IDENTITY_KEY))
    """Keys of the state that is saved with a position."""

    def take_state(self, state: Mapping[str, object]) -> None:
        """Adopt the state that was saved with a position."""
        if STATE_KEY in state:
            self.history = SchemaHistory.from_state(state[STATE_KEY])
        if LOSSES_KEY in state:
            self.losses = LossLedger.from_state(state[LOSSES_KEY])
        if PREPARED_KEY in state:
            self.prepared = PreparedRows(PreparedLedger.from_state(state[PREPARED_KEY]))
        if IDENTITY_KEY in state:
            self._link.identity = SourceIdentity.from_state(state[IDENTITY_KEY])

    def reading_state(self) -> ReadingState:
        """Return the state that is saved with positions of the server that is read."""
        parts = (self._link.identity, self.history, self.losses, self.prepared.ledger)
        return ReadingState(*parts, self._options.assembly.saves_defaults)

    def assembly(self) -> AssemblyOptions:
        """Return the assembly options; for a live source an unknown table is an error by default."""
        assembly = self._options.assembly
        if assembly.on_unknown_table is None:
            return replace(assembly, on_unknown_table="error")
        return assembly

    def learn_letter_case(self, server: ServerInfo | None) -> None:
        """Compare names with or without letter case, as the server does.

        Raises:
            SourceChangedError: the server's rule changed, and known names would be affected.
        """
        if server is not None and server.casefolds_names is not None:
            self.history.casefold_names(server.casefolds_names)

    async def read_schema(self, connection: SourceConnection, latest: Position) -> Position:
        """Read the definitions of the wanted tables, and return their position as the new start.

        Raises:
            ServerError: the source failed, and not for a privilege that the account lacks.
            TransportError: the connection failed too often.
        """
        options = self._options
        selection = options.assembly.selection
        try:
            self.history, start = await read_source(
                self._link.host, options.decode, selection, options.reconnect, connection
            )
        except ServerError as error:
            if error.errno not in UNKNOWABLE_ERRORS or options.assembly.on_unknown_table == "error":
                raise
            # With binlog_row_metadata=FULL definitions are not needed; otherwise a table's first
            # row is refused.
            _LOG.warning("the source does not show its table definitions: %s", str(error))
            self._prover.works = error.errno in PRIVILEGE_ERRORS
            return latest
        if not self.history.known_tables() and not self._takes_unproven:
            self.sees_nothing = await sees_no_table(connection)
        return start

    @property
    def _takes_unproven(self) -> bool:
        """Whether a table whose definition is not known does not end the stream."""
        assembly = self._options.assembly
        lost = bool({"all", "unknown_table"} & set(assembly.record_losses))
        return lost or assembly.on_unknown_table == "positional"

    async def tables(self) -> list[TableName] | None:
        """Return the names of all tables that the source lists; None if it does not list them.

        Raises:
            ServerError: the source failed, and not for a privilege that the account lacks.
            TransportError: the connection failed too often.
        """
        try:
            return await self._retried(self._list_tables, "listing the tables")
        except ServerError as error:
            if error.errno not in UNKNOWABLE_ERRORS:
                raise
            return None

    async def _list_tables(self) -> list[TableName]:
        async with await SourceConnection.open(self._link.host) as connection:
            return await list_tables(connection)

    async def check_filters(self, connection: SourceConnection) -> None:
        """Check whether the source's binlog filters may hide changes of wanted tables.

        Raises:
            ConfigError: they may, and rows are being read already.
        """
        selection = self._options.assembly.selection
        try:
            await check_filters(connection, selection, may_be_unproven=self._takes_unproven)
        except ConfigError as error:
            if self._reads_rows:
                raise
            self._refusal = error

    def begin_rows(self) -> None:
        """Note that rows are read from now on; events alone need no definitions.

        Raises:
            ConfigError: binlog filters of the source may hide statements that change wanted tables.
        """
        self._reads_rows = True
        if self._refusal is not None:
            raise self._refusal

    async def prove(
        self, located: LocatedEvent, feed: EventFeed, assembler: TransactionAssembler
    ) -> None:
        """Prove the definition of a table map's table, if the binlog alone does not."""
        event = located.event
        table_map = assembler.unproven(event, feed.decoder)
        if table_map is None:
            return
        await self._ask_for((table_map.schema, table_map.table), event, feed, assembler)

    async def prove_targets(
        self, located: LocatedEvent, feed: EventFeed, assembler: TransactionAssembler
    ) -> None:
        """Find out whether names in a statement logged as text are tables or views."""
        for name in assembler.perhaps_views(located.event, feed.decoder):
            await self._ask_for(name, located.event, feed, assembler)

    async def prove_pattern(
        self, located: LocatedEvent, feed: EventFeed, assembler: TransactionAssembler
    ) -> None:
        """Prove the definition of the table in CREATE TABLE … LIKE."""
        name = assembler.unknown_pattern(located.event, feed.decoder)
        if name is not None:
            await self._ask_for(name, located.event, feed, assembler)

    async def prove_renames(
        self, located: LocatedEvent, feed: EventFeed, assembler: TransactionAssembler
    ) -> None:
        """Find out whether a RENAME TABLE was of temporary tables; MariaDB logs both alike."""
        event, history = located.event, assembler.schema.history
        start = transaction_start(feed.tracker.inside())
        behind = LogPosition.of(event.file, event.end_position)
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
        """Ask the source about a table, once per known state of the table."""
        history = assembler.schema.history
        state = history.table(name)
        if name in self._asked and self._asked[name] is state:
            return
        start = transaction_start(feed.tracker.inside())
        position = LogPosition.of(event.file, event.position)

        known = () if history is self.history else self.history.versions(name)
        later = next((one for one in known if one.since >= position), None)

        async def prove() -> bool:
            if later is not None and await self._prover.prove_by(
                history, later, name, start, position
            ):
                return True
            return await self._prover.prove(history, name, start, position)

        if not await self._retried(prove, "looking at " + ".".join(name)):
            self._asked[name] = state

    async def read_back(self, xid: XaId, commit: Position) -> None:
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
            async for feed, located in events:
                if assembler is None:
                    history = self.history.copy()
                    history.rewind(located.event.file, located.event.position)
                    assembler = TransactionAssembler(
                        self.assembly(), self._options.decode, None, history, rows
                    )
                if located.event.header.type_code == EventType.TABLE_MAP_EVENT:
                    await self.prove(located, feed, assembler)
                for _ in assembler.feed(located, feed.decoder, feed.tracker):
                    pass
        self.prepared.adopt(xid, rows)

    async def _retried(self, work: Callable[[], Awaitable[_Result]], what: str) -> _Result:
        """Run work that needs connections of its own, and retry when these fail."""
        policy, goes_on = self._options.reconnect, self._link.goes_on
        return await asked(work, what, policy, is_wanted=self._is_open, goes_on=goes_on)


START_TIME_KEY: Final = "start_time_us"
_START_SECOND_KEY: Final = "start_time"
"""Key of the start time, in seconds, in positions that an earlier release saved."""
"""Key of the start time in a checkpoint's state, until a position is acknowledged."""


class StreamProgress:
    """Positions of what the iterators delivered, and their saves.

    Args:
        store: where positions are saved; None: nowhere.
        save_interval: seconds between two saves.
        knowledge: state that is saved with positions.
        read: returns the position after what was read.

    Attributes:
        delivered: the transaction that was delivered last, or the position after it, which takes
            time to compute.
        parted: whether only a part of its transaction was delivered.
        pending: the position before rows that wait in batches, or are delivered one by one.
        given: the change of a large transaction that was delivered last.
        changes: the changes that are delivered one by one.
        acknowledged: the position that was acknowledged last.
        start_time: microseconds since 1970 before which no transaction is wanted.
        unpinned: whether the start is still to be saved.
        companions: see :attr:`~replica_client.stream.live.source_stream.SourceStream.companions`.
    """

    def __init__(
        self,
        store: PositionStore | None,
        save_interval: float,
        knowledge: StreamKnowledge,
        read: Callable[[], Position],
    ) -> None:
        self._store, self._knowledge, self._read = store, knowledge, read
        self._saver = None if store is None else PositionSaver(store, save_interval)
        self.delivered: Position | Transaction | None = None
        self.parted = False
        self.pending: Position | Transaction | None = None
        self.given: GivenChange | None = None
        self.changes = GivenChanges()
        self.acknowledged: Position | None = None
        self.start_time: int | None = None
        self.unpinned = False
        # Servers that were read before the current one, the oldest first.
        self._left: list[PastSource] = []
        self.companions: dict[str, object] = {}

    @property
    def position(self) -> Position:
        """The safe resume point after what was delivered."""
        if isinstance(self.pending, Transaction):
            self.pending = self.pending.position
        if self.pending is not None:
            return self.pending if self.given is None else position_at(self.pending, self.given)
        return self.reached

    @property
    def reached(self) -> Position:
        """The safe resume point after what was read."""
        if isinstance(self.delivered, Transaction):
            self.delivered = self.delivered.position
        return self._read() if self.delivered is None else self.delivered

    @property
    def since(self) -> int | None:
        """The time before which no transaction is wanted, in microseconds since 1970."""
        return self.start_time if self.acknowledged is None else None

    async def load(self) -> Position | None:
        """Load the saved position and adopt the state saved with it; return None if there is none.

        Raises:
            PositionStoreError: it is damaged, or cannot be read.
        """
        if self._store is None:
            return None
        if isinstance(self._store, HeldStore):
            await asyncio.to_thread(self._store.hold)
        checkpoint = await asyncio.to_thread(self._store.load_checkpoint)
        self.unpinned = checkpoint is None
        if checkpoint is None:
            return None
        since = checkpoint.state.get(START_TIME_KEY)
        second = checkpoint.state.get(_START_SECOND_KEY)
        if since is None and isinstance(second, int):
            since = second * 1_000_000
        self.start_time = since if isinstance(since, int) else None
        if self.start_time is None:
            self.acknowledged = checkpoint.position
        known = {START_TIME_KEY, _START_SECOND_KEY, *self._knowledge.STATE_KEYS}
        self.companions = {
            name: value for name, value in checkpoint.state.items() if name not in known
        }
        with reading_state_of(self._store):
            self._knowledge.take_state(checkpoint.state)
        return checkpoint.position

    def leave(self, source: PastSource) -> None:
        """Note that another server is read from now on."""
        self._left.append(source)

    def is_past(self, position: Position) -> bool:
        """Return whether a position belongs to a server that was left."""
        return any(one.has(position) for one in self._left)

    def position_of(self, acknowledged: Acknowledged) -> Position:
        """Return the position that an acknowledgement stands for.

        Raises:
            ConfigError: it is no position, transaction or change.
            PositionError: the change does not know its transaction.
        """
        return acknowledged_position(self.changes, self.position, acknowledged)

    def end_changes(self) -> None:
        """Save the position after a transaction whose last change is acknowledged already.

        Raises:
            PositionStoreError: an earlier position could not be saved.
        """
        position = self.changes.end(self.acknowledged)
        if position is not None:
            self.remember(position)

    def remember(self, position: Position) -> None:
        """Accept a position as acknowledged, and save it in the background.

        Raises:
            PositionStoreError: an earlier position could not be saved.
        """
        self.acknowledged = position
        if self._saver is not None:
            self._saver.put(position, self.state(position))

    async def flush(self) -> None:
        """Save the position that was acknowledged last.

        Raises:
            PositionStoreError: it could not be saved.
        """
        if self._saver is not None:
            await self._saver.flush()

    async def close(self, *, failed: bool) -> None:
        """Save the last position; if the stream has failed already, only log an error of the save."""
        try:
            position = self.changes.close(self.acknowledged)
            if position is not None:
                self.remember(position)
            await self.flush()
        except PositionStoreError as error:
            if not failed:
                raise
            _LOG.error("the position that was acknowledged last is not saved: %s", str(error))
        finally:
            if isinstance(self._store, HeldStore):
                await asyncio.to_thread(self._store.release)

    async def pin(self, start: Position | None, server: ServerInfo) -> None:
        """Save the stream's start, if nothing was saved before: a later run starts there, too.

        A start that the user named is saved once the source has accepted it, any other before it is
        requested.
        """
        self.unpinned = False
        if self._saver is None or start is None:
            return
        state = self.state(start)
        if not self._knowledge.identity.known:
            state[IDENTITY_KEY] = SourceIdentity(server.server_uuid, server.server_id).to_state()
        if self.start_time is not None:
            state[START_TIME_KEY] = self.start_time
        await self._saver.save(start, state)

    def state(self, position: Position) -> dict[str, object]:
        """Return what a :class:`~replica_client.stream.position.stores.Checkpoint` of a position saves."""
        while self._left:
            if self._left[0].has(position):
                return {**self.companions, **self._left[0].state.to_state(position)}
            del self._left[0]
        return {**self.companions, **self._knowledge.reading_state().to_state(position)}
