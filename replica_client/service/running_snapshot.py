"""A snapshot of tables into a sink of events, chunk by chunk, while the stream goes on.

A chunk is read in one state of its table, between two positions of the binlog
(:mod:`replica_client.stream.snapshot.watermarks`). Its rows are written at the first transaction end after
both, without those that the stream changed meanwhile: the sink already has a newer image of these.
The sink commits a chunk together with the snapshot's progress. A table without a visible key is one chunk,
and the stream waits while it is read.
"""

# Over 500 lines: one class, whose tasks share the progress of a copy and the chunk that is ready.

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from replica_client.errors import (
    ConfigError,
    ConnectionLostError,
    ReplicaClientError,
    ServerError,
    SinkError,
    TransportTimeoutError,
)
from replica_client.protocol.position import Position
from replica_client.protocol.wire.server_errors import CHANGED_ERRORS, GONE_ERRORS
from replica_client.schema.history import LogPosition, SchemaChange
from replica_client.schema.model import TableModel
from replica_client.service.first_copy import CopyProgress, server_name
from replica_client.service.signals import SIGNAL, Signal, SignalTable
from replica_client.service.snapshot_chunk import (
    STATE_KEY as SCOPE_KEY,
    EventScope,
    SnapshotChunk,
    SnapshotPlan,
    absent_table,
    are_empty,
    before_definition,
    next_range,
    read_snapshot_chunk,
)
from replica_client.service.snapshot_progress import (
    STATE_KEY,
    SnapshotProgress,
    SnapshotRequests,
    SnapshotView,
    TableProgress,
)
from replica_client.service.table_checker import ChangedKeys
from replica_client.service.tables_set_aside import TablesSetAside, failed_tables
from replica_client.sinks.protocol import SnapshotSink
from replica_client.stream.live.source_stream import SourceStream
from replica_client.stream.snapshot.watermarks import read_definitions
from replica_client.stream.tables.net_changes import TableName, TableRefusedError
from replica_client.stream.transactions.transaction import Transaction
from replica_client.stream.transport.connection import SourceConnection

_LOG = logging.getLogger("replica_client.service")
_LOOK_SECONDS: Final = 0.5
_FIRST_DELAY, _LONGEST_DELAY = 0.5, 30.0
_TRIES: Final = 30
_ALTERED, _CHANGED, _MOVED = "altered", "changed", "moved"


class RunningSnapshot:
    """A running snapshot of one route.

    :meth:`run` is a task; the delivery calls all other methods, between two transactions.

    Args:
        plan: what to copy.
        stream: open; the state saved with its position has the snapshot's progress.
        sink: open.
        requests: of users.
        signals: a table of the source whose rows request snapshots; None: there is none.
        tell, fail: called with progress, rows written and tables left; and with each error message.
        aside: tables that are not copied unless they are requested, which takes them back.

    Attributes:
        flowing: cleared while the stream must wait.
        progress: the progress of all tables.
    """

    def __init__(
        self,
        plan: SnapshotPlan,
        stream: SourceStream,
        sink: SnapshotSink,
        requests: SnapshotRequests,
        signals: SignalTable | None,
        tell: Callable[[str, int, int], None],
        fail: Callable[[str], None],
        aside: TablesSetAside,
    ) -> None:
        self._aside = aside
        self._plan, self._stream, self._sink = plan, stream, sink
        self._requests, self._signals, self._tell, self._fail = requests, signals, tell, fail
        self.progress = SnapshotProgress.from_state(stream.companions.get(STATE_KEY))
        self.progress.left = [
            one for one in self.progress.left if self._target(one.name) not in aside.tables
        ]
        self.flowing = asyncio.Event()
        self.flowing.set()
        self._hidden: set[TableName] = set()
        # With a transform, names in the stream are not those of the source.
        self._follows = plan.transform is None
        self._changes: ChangedKeys | None = None
        self._ready: SnapshotChunk | None = None
        self._durable: frozenset[str] = frozenset(self.progress.requests)

    # Called by the delivery.

    @property
    def waits(self) -> bool:
        """Whether a chunk waits to be written."""
        return self._ready is not None

    @property
    def rests(self) -> bool:
        """Whether no copy and no signal is pending or possible: no transaction need be seen."""
        progress = self.progress
        return not (
            self._changes is not None
            or self._ready is not None
            or self._hidden
            or self._signals is not None
            or self._plan.all_tables
            or progress.left
            or progress.signals
        )

    def shown(self, transaction: Transaction) -> Transaction:
        """Return a transaction without rows that the running copy delivers anyway."""
        if self._signals is not None:
            transaction = self._signals.hidden(transaction)
        if not self._hidden:
            return transaction
        rows = tuple(
            one
            for one in transaction.rows
            if (one.shape.database, one.shape.table) not in self._hidden
        )
        return transaction if len(rows) == len(transaction.rows) else transaction.with_rows(rows)

    def see(self, transaction: Transaction) -> None:
        """Record the changes of a transaction, or a part of one, before the sink writes it."""
        if self._changes is not None:
            self._changes.see(transaction)
        if self._follows and transaction.schema_changes:
            self._follow(transaction.schema_changes)
        if self._signals is not None:
            for signal in self._signals.signals(transaction):
                if isinstance(signal, ValueError):
                    _LOG.error("%s: %s", self._plan.route, signal)
                    self._fail(str(signal))
                    continue
                self._ask(signal)
        if self._plan.all_tables and (gap := Signal.of_gap(transaction)):
            self._ask(gap)

    def _ask(self, signal: Signal) -> None:
        _LOG.info("%s: %s: %s", self._plan.route, signal.id, signal.kind)
        if self.progress.take(signal):
            self._save()
        else:
            self._refuse(signal.id, "too many snapshots are asked for; wait, or stop them")

    def _follow(self, changes: Sequence[SchemaChange]) -> None:
        """Apply the schema changes of a statement to the progress."""
        server, selection = self._stream.server, self._plan.selection
        if server is not None:
            selection = selection.for_server(server.casefolds_names)

        def wants(name: TableName) -> bool:
            return self._plan.all_tables and selection.wants(*name)

        if self.progress.follow(changes, wants):
            self._save()
            self._tell("", 0, len(self.progress.left))

    def is_due(self, position: Position) -> bool:
        """Return whether a chunk is due once everything before ``position`` is written."""
        chunk = self._ready
        if chunk is None or not self._sink.takes_snapshot:
            return False
        server = self._stream.server
        if server is None or server_name(server) != chunk.source:
            self._settle(_MOVED)
            return False
        return LogPosition.of(position.file, position.offset) >= chunk.until

    async def write(self) -> None:
        """Write the chunk that is due; the next commit makes it count.

        Raises:
            SinkError: the chunk cannot be written now.
        """
        chunk, changes = self._ready, self._changes
        assert chunk is not None and changes is not None
        left = self.progress.left
        if changes.altered(chunk.defined) or not left or left[0] is not chunk.base:
            return self._settle(_ALTERED)
        if chunk.rows is None:
            if chunk.base.request:
                text = ".".join(chunk.base.name)
                self._refuse(chunk.base.request, f"{text} is not there, or not wanted by the sink")
            self._give_up()
            return self._settle("")
        begun = self.progress.begun
        if chunk.base.blocking:
            begun = self.progress.request == chunk.base.request
        rows = replace(chunk.rows, first=not begun)
        if changes.is_unknown(chunk.low, chunk.keys or ()):
            return self._settle(_CHANGED)
        if chunk.keys is not None and (changed := changes.changed(chunk.low)):
            kept = [at for at, key in enumerate(chunk.keys) if key not in changed]
            rows = replace(
                rows,
                rows=[rows.rows[at] for at in kept],
                numbers=[rows.numbers[at] for at in kept],
            )
        try:
            await self._sink.write_snapshot(rows)
        except SinkError as error:
            if error.retriable or failed_tables(error):
                raise
            name = self._target(chunk.base.name)
            raise TableRefusedError(f"{'.'.join(name)}: {error}", {name}) from error
        progress, one = self.progress, chunk.after
        progress.left[0] = one
        progress.begun = progress.begun or (not one.request and bool(rows.rows))
        progress.request = one.request if rows.rows else progress.request
        if rows.ends:
            progress.end()
        self._save()
        text = str(CopyProgress(len(progress.left), ".".join(one.name), one.rows))
        self._tell(text, len(rows.rows), len(progress.left))
        self._settle("")

    def committed(self) -> None:
        """Record that everything written so far is committed."""
        self._durable = frozenset(self.progress.requests)

    def _settle(self, outcome: str) -> None:
        chunk, self._ready, self._changes = self._ready, None, None
        if chunk is not None and not chunk.outcome.done():
            chunk.outcome.set_result(outcome)

    def _target(self, name: TableName) -> TableName:
        """Return the name that a table has in the sink."""
        transform = self._plan.transform
        return name if transform is None else transform.target(*name)

    def _hide(self) -> None:
        names = {one.name for one in self.progress.left if one.whole and not one.request}
        transform = self._plan.transform
        self._hidden = names if transform is None else {transform.target(*one) for one in names}

    def _save(self) -> None:
        self._hide()
        if self._plan.scope is not None and self._plan.all_tables:
            self.progress.note_digests(self._plan.scope.digest)
        self._stream.companions[STATE_KEY] = self.progress.to_state()

    def cancel(
        self, names: Iterable[str] | None = None, tables: Iterable[TableName] = ()
    ) -> list[str]:
        """Stop requested copies; see :meth:`SnapshotProgress.cancel`."""
        left = len(self.progress.left)
        gone = self.progress.cancel(names, tables)
        if len(self.progress.left) < left:
            self._save()
            self._tell("", 0, len(self.progress.left))
        return gone

    # The task that reads.

    async def run(self) -> None:
        """Copy requested tables until cancelled; report errors and retry."""
        delay = _FIRST_DELAY
        while True:
            try:
                await self._take_requests()
                if self.progress.signals:
                    await self._find_tables()
                if self.progress.left:
                    await self._copy_all()
                self._tell("", 0, len(self.progress.left))
                delay, pause = _FIRST_DELAY, _LOOK_SECONDS
            except (ReplicaClientError, OSError) as error:
                hides = self._plan.transform is not None and self._plan.transform.hides
                text = type(error).__name__ if hides else " ".join(str(error).split())
                _LOG.error(
                    "%s: snapshot: %s; the next try is in %.1f s", self._plan.route, text, delay
                )
                self._fail(f"snapshot: {text}")
                delay, pause = min(delay * 2, _LONGEST_DELAY), delay
            await asyncio.sleep(pause)

    async def _take_requests(self) -> None:
        requests, damaged = await asyncio.to_thread(self._requests.found)
        progress = self.progress
        for name in damaged:
            self._refuse(name, "the file is not a request")
            await asyncio.to_thread(self._requests.remove, name)
        there = {one.name for one in requests}
        if gone := [name for name in progress.requests if name not in there]:
            progress.requests = [name for name in progress.requests if name not in gone]
            self._save()
        for request in requests:
            if request.name not in progress.requests:
                _LOG.info("%s: snapshot %s is asked for", self._plan.route, request.name)
                progress.requests.append(request.name)
                name, sql, text = request.name, request.where, request.filter
                self._add(TableProgress(*one, name, sql, filter=text) for one in request.tables)
                self._save()
            elif request.name in self._durable and not progress.has_left(request.name):
                await asyncio.to_thread(self._requests.remove, request.name)

    async def _find_tables(self) -> None:
        """Look up the tables that pending signals name, by their names on the source."""
        async with await self._connect() as connection:
            found = [
                name for name in await read_definitions(connection) if self._wants(connection, name)
            ]
        left, self.progress.left = self.progress.left, []
        unknown = self.progress.expand(found)
        added, self.progress.left = self.progress.left, left
        self._add(added)
        for signal in unknown:
            self._refuse(signal.id, "the sink has no table of that name")
        self._save()

    def _add(self, copies: Iterable[TableProgress]) -> None:
        """Add requested copies; a table that is set aside needs a whole one."""
        for one in copies:
            name = self._target(one.name)
            whole = not (one.where or one.filter)
            if name in self._aside.tables and not whole:
                self._refuse(one.request, f"{'.'.join(name)} is set aside: only a whole copy helps")
                continue
            self.progress.left.append(one)
            if whole:
                self._aside.take_back((name,))

    def _refuse(self, request: str, why: str) -> None:
        _LOG.error("%s: snapshot %s: %s", self._plan.route, request, why)
        self._fail(f"snapshot {request}: {why}")

    async def prepare(self) -> None:
        """Find the tables to copy; call this before anything is delivered.

        Raises:
            ReplicaClientError: the source is unavailable, or refuses.
        """
        scope, companions = self._plan.scope, self._stream.companions
        if self._plan.all_tables:
            async with await self._connect() as connection:
                self._forget(connection, scope)
                known = self.progress.known
                for name, model in sorted((await read_definitions(connection)).items()):
                    if name not in known and self._wants(connection, name):
                        whole = self._view(connection, model).key is None
                        self.progress.left.append(self.progress.first_copy(name, whole=whole))
            self._save()
        elif scope is not None and scope.has_changed(companions):
            async with await self._connect() as connection:
                there = await read_definitions(connection)
            for text in scope.differences(companions.get(SCOPE_KEY), there):
                _LOG.error("%s: %s", self._plan.route, text)
                self._fail(text)
        if scope is not None:
            scope.save(companions)
        self._hide()
        self._tell("", 0, len(self.progress.left))

    def _forget(self, connection: SourceConnection, scope: EventScope | None) -> None:
        """Forget tables that left ``tables``, and copies whose columns or transforms changed."""
        route, progress = self._plan.route, self.progress
        for name in progress.forget(lambda one: self._wants(connection, one)):
            _LOG.info("%s: %s.%s left tables: it is copied when it returns", route, *name)
        for name in () if scope is None else progress.forget_changed(scope.digest):
            _LOG.warning(
                "%s: %s.%s: its columns or transforms changed; it is copied again", route, *name
            )

    def _view(self, connection: SourceConnection, model: TableModel) -> SnapshotView:
        plan = self._plan
        return SnapshotView.of(model, plan.selection, plan.transform, connection.server.flavor)

    async def _copy_all(self) -> None:
        async with await self._connect() as connection:
            while self.progress.left:
                await self._table(connection)

    async def _connect(self) -> SourceConnection:
        """Connect to the server that the stream follows, as positions of other servers differ."""
        last: ReplicaClientError | None = None
        for host in self._plan.hosts:
            try:
                connection = await SourceConnection.open(host)
            except ReplicaClientError as error:
                last = error
                continue
            server = self._stream.server
            if server is not None and server_name(server) == server_name(connection.server):
                return connection
            await connection.close()
        raise last or ConnectionLostError("no host is the server that the stream follows")

    def _wants(self, connection: SourceConnection, name: TableName) -> bool:
        return self._plan.selection.for_server(connection.server.casefolds_names).wants(*name)

    async def _table(self, connection: SourceConnection) -> None:
        """Copy the first table that is left, to its end."""
        name, request = self.progress.left[0].name, self.progress.left[0].request
        tries = 0
        while self.progress.left and (one := self.progress.left[0]).name == name:
            if one.request != request:
                return
            try:
                outcome = await self._chunk(connection, one)
            except ServerError as error:
                await connection.query("ROLLBACK")
                lasting = error.errno not in CHANGED_ERRORS
                if (lasting and request) or (error.errno not in GONE_ERRORS and one.where):
                    # Its text may contain values.
                    text = f"{'.'.join(name)}: the source refuses it with error {error.errno}"
                    self._refuse(request, text)
                    return self._give_up()
                if lasting:
                    raise
                outcome = _ALTERED
            except TransportTimeoutError:
                if one.where:
                    self._refuse(request, f"{'.'.join(name)}: its filter takes too long")
                    self._give_up()
                raise
            except ConfigError as error:
                if not one.filter:
                    raise
                self._refuse(request, str(error))
                return self._give_up()
            tries = tries + 1 if outcome else 0
            if outcome == _MOVED:
                raise ConnectionLostError("the stream follows another server now")
            if outcome == _ALTERED:
                _LOG.info("%s: %s.%s was altered while it was copied", self._plan.route, *name)
            if tries >= _TRIES:
                raise ConfigError(
                    f"{'.'.join(name)} was changed or altered during each of {_TRIES} readings of a chunk: what "
                    "it holds is not certain: it needs a primary key and binlog_row_image=FULL, or a moment of rest"
                )

    def _give_up(self) -> None:
        self.progress.end()
        self._save()

    async def _chunk(self, connection: SourceConnection, one: TableProgress) -> str:
        """Read the next chunk and wait for it to be written; return why it was not, or ``""``."""
        name, base = one.name, one
        if one.where and one.request.startswith(SIGNAL) and not self._plan.raw_filters:
            self._refuse(
                one.request,
                "its filter is SQL, which signals may not have; signal_raw_filters = true allows that",
            )
            self._give_up()
            return ""
        transform = self._plan.transform
        # From now on, statements that alter the table after its definition was read are recorded.
        changes = ChangedKeys(name if transform is None else transform.target(*name))
        self._changes = changes
        model, defined = None, await before_definition(connection, name)
        if self._wants(connection, name):
            model = (await read_definitions(connection, name)).get(name)
        if model is None:
            # The stream may still deliver the statement that renames it.
            return await self._written(await absent_table(connection, one, defined))
        if one.done is not None and one.key != tuple(column for column, _ in model.primary_key):
            one = replace(one, done=None, rows=0)  # its ranges are of another key
        plan, view = self._plan, self._view(connection, model)
        if one.whole:
            view = replace(view, key=None)
        part = await next_range(connection, view, one, plan.chunk_rows)
        changes.begin(view.key)
        if view.key is None:
            self.flowing.clear()
        try:
            chunk = await read_snapshot_chunk(connection, view, one, part, plan, defined)
            chunk = replace(chunk, base=base)
            if chunk.rows is not None and chunk.rows.ends and (one.blocking or not one.request):
                others = [other for other in self.progress.left[1:] if other.request == one.request]
                last = await are_empty(connection, others)
                chunk = replace(chunk, rows=replace(chunk.rows, last=last))
        except BaseException:
            self._changes = None
            raise
        finally:
            self.flowing.set()
        return await self._written(chunk)

    async def _written(self, chunk: SnapshotChunk) -> str:
        try:
            self._ready = chunk
            return await chunk.outcome
        finally:
            self._ready = None
