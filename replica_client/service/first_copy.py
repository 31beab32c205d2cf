"""First copies of a source's tables into a sink."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from replica_client.errors import ConfigError, ReplicaClientError, ServerError, SinkError
from replica_client.protocol.binlog.values.strings import TextPolicy
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.position import Position
from replica_client.protocol.wire.server_errors import CHANGED_ERRORS
from replica_client.rows.selection import Selection
from replica_client.schema.history import LogPosition
from replica_client.schema.model import TableModel
from replica_client.service.tables_set_aside import failed_tables, reason_of
from replica_client.sinks.mirror.collector import UNLOGGED_CASCADE
from replica_client.sinks.protocol import CopyingSink
from replica_client.stream.snapshot import (
    KeyRange,
    Locking,
    Window,
    begin_between,
    key_ranges,
    log_end,
    low_watermark,
    reading,
)
from replica_client.stream.snapshot.watermarks import cascaded_tables, read_definitions
from replica_client.stream.tables.net_changes import TableCopy, TableName
from replica_client.stream.transforms.transformer import Transformer
from replica_client.stream.transport.connect_options import ConnectOptions
from replica_client.stream.transport.connection import SourceConnection
from replica_client.stream.transport.server_statements import ServerInfo

_LOG = logging.getLogger("replica_client.service")
_TRIES = 10
_MERGED = "merged"
"""First item of the saved progress of a merged copy; the table and its progress follow."""


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """Progress of the copies.

    Attributes:
        tables: number of tables left, including the current one.
        table: the current table.
        rows: number of its rows copied so far.
    """

    tables: int
    table: str
    rows: int

    def __str__(self) -> str:
        return f"{self.table}, {self.rows:,} rows; {self.tables} tables left"


class FirstCopies:
    """Copies of tables into a sink, chunk by chunk; an interrupted copy continues where it was.

    Args:
        name: of the route, for messages.
        hosts: of the source; the first that answers is read.
        selection: the wanted tables; system tables are never copied.
        sink: open.
        chunk_rows: approximate rows of a chunk.
        locking: see :data:`~replica_client.stream.snapshot.Locking`.
        tell: called with the progress after each chunk.
        transform: applied to definitions and rows; copies have its target names.
        invalid_text: the policy for bytes that are invalid in their character set, as in the
            stream.

    Attributes:
        missing: wanted tables that are named and that the source does not show, by their names after
            the transform, once :meth:`wanted` was called.
    """

    def __init__(
        self,
        name: str,
        hosts: Sequence[ConnectOptions],
        selection: Selection,
        sink: CopyingSink,
        *,
        chunk_rows: int,
        locking: Locking,
        tell: Callable[[CopyProgress, int], None],
        transform: Transformer | None = None,
        invalid_text: TextPolicy = "strict",
    ) -> None:
        self._name = name
        self._hosts = hosts
        self._selection = selection
        self._sink = sink
        self._chunk_rows = chunk_rows
        self._locking = locking
        self._invalid_text = invalid_text
        self._tell = tell
        self._transform = transform
        # Source tables by target name; several if the transform merges them into one table.
        self._sources: dict[TableName, list[TableName]] = {}
        self.missing: list[TableName] = []

    async def wanted(self) -> list[TableName]:
        """Return the tables to copy, by their names after the transform."""
        async with await self._connect() as connection:
            return await self._wanted(connection)

    def sources(self, name: TableName) -> Sequence[TableName]:
        """Return the source's tables that become the table ``name``; call :meth:`wanted` first."""
        return self._sources.get(name, [name])

    async def _wanted(self, connection: SourceConnection) -> list[TableName]:
        found = await read_definitions(connection)
        names = [name for name in found if self._wants(connection, name)]
        self.missing = self._selection.unmatched_tables()
        if self._transform is None:
            return names
        self.missing = [self._transform.target(*name) for name in self.missing]
        self._sources = {}
        for name in sorted(names):
            self._sources.setdefault(self._transform.target(*name), []).append(name)
        return list(self._sources)

    async def run(
        self, skipped: Collection[TableName] = ()
    ) -> tuple[set[TableName], dict[TableName, str]]:
        """Make all copies that are not done.

        Args:
            skipped: tables that are set aside.

        Returns:
            The tables that were copied, and the reasons why others cannot be.

        Raises:
            ReplicaClientError: a server is unavailable, or refuses.
        """
        left = [
            copy
            for copy in self._sink.copies.values()
            if copy.until is None and copy.name not in skipped
        ]
        done: set[TableName] = set()
        failed: dict[TableName, str] = {}
        if not left:
            return done, failed
        async with await self._connect() as connection:
            if self._transform is not None:
                await self._wanted(connection)
            for at, copy in enumerate(left):
                _LOG.info("%s: copying %s.%s", self._name, *copy.name)
                try:
                    rows = await self._copy(connection, copy, len(left) - at)
                except (ConfigError, SinkError) as error:
                    if not isinstance(error, ConfigError) and copy.name not in failed_tables(error):
                        raise
                    failed[copy.name] = reason_of(error)
                    continue
                done.add(copy.name)
                _LOG.info("%s: copied %s.%s, %d rows", self._name, *copy.name, rows)
        return done, failed

    def _wants(self, connection: SourceConnection, name: TableName) -> bool:
        return self._selection.for_server(connection.server.casefolds_names).wants(*name)

    async def _connect(self) -> SourceConnection:
        for host in self._hosts[:-1]:
            try:
                return await SourceConnection.open(host)
            except ReplicaClientError:
                continue
        return await SourceConnection.open(self._hosts[-1])

    async def _copy(self, connection: SourceConnection, copy: TableCopy, left: int) -> int:
        """Copy a table; start over if its definition changes meanwhile."""
        for _ in range(_TRIES):
            try:
                copy, models, first = await self._begun(connection, copy)
                for model in models[first:]:
                    copy = await self._rows(connection, copy, model, left)
                if await self._definitions(connection, copy.name) == models:
                    copy = replace(copy, until=_later(copy.high, await log_end(connection)))
                    await self._sink.save_copy(copy)
                    return copy.rows
            except ServerError as error:
                if error.errno not in CHANGED_ERRORS:
                    raise
                await connection.query("ROLLBACK")
            _LOG.info("%s: %s.%s was altered while it was copied", self._name, *copy.name)
            copy = TableCopy(*copy.name)
        raise ConfigError(
            f"{copy.database}.{copy.table} was altered during each of {_TRIES} copies; it is tried again"
        )

    async def _begun(
        self, connection: SourceConnection, copy: TableCopy
    ) -> tuple[TableCopy, list[TableModel], int]:
        """Begin or resume a copy.

        Returns:
            The copy, whose target table exists; the source's tables; and which of them is next.
        """
        source = server_name(connection.server)
        if copy.begin is not None and copy.source == source:
            models = await self._definitions(connection, copy.name)
            if self._shown(models) == copy.definition:
                if copy.done is None:  # a crash may have come before the table was created
                    copy = replace(copy, rows=0)
                    await self._sink.begin_copy(copy)
                    return copy, models, 0
                first = _first_left(models, copy.done)
                if first is not None:
                    return copy, models, first
        begin = await self._mark(connection)
        if self._transform is not None and self._transform.merges:
            await self._wanted(connection)  # a new source table may belong to this copy
        models = await self._definitions(connection, copy.name)
        for model in models:
            await _check(connection, model)
        copy = TableCopy(*copy.name, source, begin, self._shown(models), low=begin, high=begin)
        await self._sink.begin_copy(copy)
        return copy, models, 0

    def _shown(self, models: Sequence[TableModel]) -> TableModel | None:
        """Return the definition as the sink has it, the same for all merged tables.

        Raises:
            ConfigError: the merged tables differ.
        """
        if not models:
            return None
        if self._transform is None:
            return models[0]
        shown = [self._transform.model(model) for model in models]
        for model, one in zip(models, shown, strict=True):
            if one != shown[0]:
                raise ConfigError(
                    f"{model.database}.{model.name} does not look like {models[0].database}.{models[0].name}, and both "
                    f"are {one.database}.{one.name}; alter one of them, and it is copied"
                )
        return shown[0]

    async def _rows(
        self, connection: SourceConnection, copy: TableCopy, model: TableModel, left: int
    ) -> TableCopy:
        name = [model.database, model.name]
        merged = len(self._sources.get(copy.name, ())) > 1
        part_done = copy.done
        if part_done is not None and part_done[:1] == [_MERGED]:
            part_done = part_done[2] if part_done[1] == name else None
        elif merged:
            part_done = None
        done = None if part_done is None else KeyRange.from_json(part_done)
        if done is not None and done.upto is None:
            return copy  # the last chunk was done
        after = None if done is None else done.upto
        plan = None
        if self._transform is not None:
            plan = self._transform.plan(model.database, model.name)
        async for part in key_ranges(connection, model, self._chunk_rows, after=after):
            rows = copy.rows
            async with reading(
                connection, model, part, locking=self._locking, invalid_text=self._invalid_text
            ) as chunk:
                async for some in chunk.rows():
                    rows += len(some)
                    shown = some if plan is None else plan.rows(model, some)
                    if shown:
                        await self._sink.copy_rows(copy, shown)
            copied = rows - copy.rows
            low, high = _window(copy, model, chunk.window)
            if merged:
                # The tables are read at different times: the window spans all their chunks.
                low, high = copy.low, _later(copy.high, chunk.window.high)
            # A hidden key must not be saved: after a crash such a copy starts over.
            tells = plan is None or plan.shows_key(model)
            upto = part.to_json() if tells else None
            if merged and upto is not None:
                upto = [_MERGED, name, upto]
            copy = replace(copy, done=upto, low=low, high=high, rows=rows)
            await self._sink.save_copy(copy)
            self._tell(CopyProgress(left, f"{copy.database}.{copy.table}", rows), copied)
        return copy

    async def _definitions(self, connection: SourceConnection, name: TableName) -> list[TableModel]:
        """Return the current definitions of the source tables of a copy."""
        found = []
        for one in self._sources.get(name, [name]):
            if self._wants(connection, one):
                model = (await read_definitions(connection, one)).get(one)
                if model is not None:
                    found.append(model)
        return found

    async def _mark(self, connection: SourceConnection) -> Position:
        """Return a position before which all changes are visible now."""
        if self._locking == "brief" and not connection.server.is_mariadb:
            window = await begin_between(connection, self._locking)
            await connection.query("ROLLBACK")
            return window.low
        return await low_watermark(connection)


def _first_left(models: Sequence[TableModel], done: Sequence[object]) -> int | None:
    """Return the index of the table to resume with; None if the last copied table is gone."""
    if done[:1] != [_MERGED]:
        return 0 if len(models) == 1 else None
    names = [[model.database, model.name] for model in models]
    return next((at for at, name in enumerate(names) if name == done[1]), None)


async def _check(connection: SourceConnection, model: TableModel) -> None:
    """Refuse a table that a mirror could not keep equal.

    Raises:
        ConfigError: the table cannot be mirrored; the message says why.
    """
    text = f"{model.database}.{model.name}"
    if model.untracked:
        raise ConfigError(f"{text}: {model.untracked}")
    if any(column.hidden for column in model.columns):
        raise ConfigError(f"{text} has columns that no SELECT shows; exclude it")
    if await cascaded_tables(connection, [(model.database, model.name)]):
        raise ConfigError(f"{text}: {UNLOGGED_CASCADE}")


def server_name(server: ServerInfo) -> str:
    """Return a name that identifies the server of a binlog position."""
    return server.server_uuid or f"id {server.server_id}"


def moved_copies(copies: Collection[TableCopy], server: ServerInfo | None) -> list[TableName]:
    """Return the copies whose positions are of another server than the current one."""
    here = None if server is None else server_name(server)
    return [
        copy.name
        for copy in copies
        if here is not None and copy.until is not None and copy.source != here
    ]


def _window(
    copy: TableCopy, model: TableModel, window: Window
) -> tuple[Position | None, Position | None]:
    """Return the low and high mark of a copy after one more chunk."""
    if not model.primary_key:
        return window.low, window.high  # it is one chunk
    return copy.low, _later(copy.high, window.high)


def _later(one: Position | None, other: Position) -> Position:
    if one is None:
        return other
    first, second = LogPosition.of(one.file, one.offset), LogPosition.of(other.file, other.offset)
    return one if first > second else other
