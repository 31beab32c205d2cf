"""A stream's knowledge apart from its position, completed by questions to the source."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Final, TypeVar

from replica_client.errors import ConfigError, ServerError
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
    ReadingState,
    check_filters,
    sees_no_table,
    transaction_start,
)
from replica_client.stream.live.stream_options import StreamOptions, asked
from replica_client.stream.position.losses import LOSSES_KEY, LossLedger
from replica_client.stream.position.prepared import PREPARED_KEY, PreparedLedger, XaId
from replica_client.stream.transactions.assembler import AssemblyOptions, TransactionAssembler
from replica_client.stream.transactions.event_feed import EventFeed, LocatedEvent
from replica_client.stream.transactions.pending_rows import PreparedRows
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
