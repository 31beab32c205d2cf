"""Reading of a chunk: rows as the stream would deliver them, and their two binlog positions.

What consumers have was made with the last scope. A sink with a snapshot copies the tables that
differ; without one, the difference is reported.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import field, replace
from typing import Any, Final, Self

from replica_client.errors import ConfigError, ServerError
from replica_client.protocol.binlog.values.strings import TextPolicy
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.wire.server_errors import CHANGED_ERRORS, GONE_ERRORS
from replica_client.rows.conditions import row_matches
from replica_client.rows.row import Row
from replica_client.rows.selection import Selection
from replica_client.rows.where import columns_of, parse_where
from replica_client.schema.history import LogPosition
from replica_client.schema.names import mysql_table
from replica_client.service.configuration import RouteConfig
from replica_client.service.first_copy import server_name
from replica_client.service.mirrors import TransformDigests, digest_of
from replica_client.service.snapshot_progress import SnapshotView, TableProgress
from replica_client.service.source_access import patterns_of
from replica_client.service.table_checker import Key
from replica_client.sinks.protocol import SnapshotRows
from replica_client.stream.snapshot import (
    KeyRange,
    Locking,
    can_be_cut,
    key_ranges,
    log_end,
    reading,
)
from replica_client.stream.tables.net_changes import TableName
from replica_client.stream.transforms.transformer import Transformer
from replica_client.stream.transport.connect_options import ConnectOptions
from replica_client.stream.transport.connection import SourceConnection

STATE_KEY: Final = "scope"
_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class EventScope:
    """The scope of one sink.

    Attributes:
        route: its name, for messages.
        tables: patterns of wanted tables; None for all.
        exclude: patterns of unwanted ones.
        columns: the configured columns.
        selection: all of these.
        digests: of the transforms.
    """

    route: str
    tables: list[str] | None
    exclude: list[str]
    columns: Any
    selection: Selection
    digests: TransformDigests
    _known: dict[TableName, str] = field(default_factory=dict)

    @classmethod
    def of(cls, config: RouteConfig, selection: Selection, digests: TransformDigests) -> Self:
        """Return the scope of a configured sink."""
        source, sink = config.source, config.sink
        columns = source.options["columns"] if sink.columns is None else sink.columns
        return cls(config.name, *patterns_of(config), columns, selection, digests)

    def digest(self, name: TableName) -> str:
        """Return a digest of what decides how rows of a table look; empty if nothing does."""
        if not self.selection.chooses_columns and not self.digests.whole:
            return ""
        found = self._known.get(name)
        if found is None:
            columns = self.selection.columns_of(*name)
            looks = [None if columns is None else sorted(columns), self.digests.of([name])]
            found = self._known[name] = digest_of(looks) if looks != [None, ""] else ""
        return found

    def has_changed(self, state: Mapping[str, object]) -> bool:
        """Return whether a saved state has another scope; False if it has none."""
        return state.get(STATE_KEY) not in (None, self._value())

    def save(self, state: MutableMapping[str, object]) -> None:
        """Add the scope to the state that is saved with the position."""
        state[STATE_KEY] = self._value()

    def differences(self, saved: object, there: Iterable[TableName]) -> list[str]:
        """Return a message for each difference of a saved scope that consumers do not learn.

        Args:
            saved: of the last run.
            there: the source's tables.
        """
        if not isinstance(saved, Mapping):
            return []
        found = []
        again = f"replica-client snapshot CONFIG --sink {self.route} --table TABLE"
        before = _selection(saved)
        wanted = [name for name in sorted(there) if self.selection.wants(*name)]
        if new := [".".join(name) for name in wanted if not before.wants(*name)]:
            shown = ", ".join(new[:_SHOWN]) + (" …" if len(new) > _SHOWN else "")
            found.append(
                f"tables changed: the sink gets changes of {shown} from here on, and has no rows of before: "
                f"set snapshot = true, or {again}"
            )
        if (saved.get("columns"), saved.get("transforms")) != (self.columns, self.digests.whole):
            found.append(
                "columns or transforms changed: consumers have rows as they were written before: set "
                f"snapshot = true, or {again}"
            )
        return found

    def _value(self) -> dict[str, object]:
        return {
            "tables": self.tables,
            "exclude": self.exclude,
            "columns": self.columns,
            "transforms": self.digests.whole,
        }


def _selection(saved: Mapping[str, Any]) -> Selection:
    try:
        return Selection(saved.get("tables"), saved.get("exclude"))
    except (ConfigError, TypeError):
        return Selection()


RAW_SECONDS: Final = 20
"""Seconds that a statement with a condition in SQL may run."""
_LIMITS_SELECTS: Final = (5, 7, 8)


@dataclass(frozen=True, slots=True)
class SnapshotPlan:
    """The scope and options of a snapshot.

    Attributes:
        route: its name, for messages.
        hosts: of the source.
        selection: the wanted tables.
        all_tables: copy every wanted table of which the sink has no copy; otherwise only requested
            ones.
        chunk_rows: approximate rows of a chunk.
        locking: see :data:`~replica_client.stream.snapshot.Locking`.
        transform: applied to definitions and rows.
        raw_filters: signals may choose rows with SQL.
        invalid_text: the policy for bytes that are invalid in their character set, as in the
            stream.
        scope: tables, columns and transforms, to compare with those of the last run; None: unknown.
    """

    route: str
    hosts: Sequence[ConnectOptions]
    selection: Selection
    all_tables: bool
    chunk_rows: int
    locking: Locking = "never"
    transform: Transformer | None = None
    raw_filters: bool = False
    invalid_text: TextPolicy = "strict"
    scope: EventScope | None = None


@dataclass(frozen=True, slots=True)
class SnapshotChunk:
    """A chunk that was read.

    Attributes:
        base: the table's progress before the chunk.
        after: the table's progress after the chunk.
        rows: what was read; None: there is no such table.
        keys: of the rows; None: they have no visible key.
        defined: statements before this position are reflected in the definition that was read.
        low: changes committed before this position are in the rows.
        until: the position from which the chunk may be written.
        source: the server that was read.
        outcome: set to ``""`` when the chunk is written, or to the reason why it was not.
    """

    base: TableProgress
    after: TableProgress
    rows: SnapshotRows | None
    keys: list[Key] | None
    defined: LogPosition
    low: LogPosition
    until: LogPosition
    source: str
    outcome: asyncio.Future[str]


async def next_range(
    connection: SourceConnection, view: SnapshotView, one: TableProgress, rows: int
) -> KeyRange:
    """Return the next range of a table: of about ``rows`` rows, or all rows if there is no key.

    Raises:
        ServerError: the source refuses.
    """
    if view.key is None or not can_be_cut(view.model):
        return KeyRange()
    after = None if one.done is None else KeyRange.from_json(one.done).upto
    where = _where(view, one)
    await limit_statements(connection, one)
    ranges = key_ranges(connection, view.model, rows, after=after, where=where)
    try:
        return await anext(ranges)
    finally:
        await ranges.aclose()


async def read_snapshot_chunk(
    connection: SourceConnection,
    view: SnapshotView,
    one: TableProgress,
    part: KeyRange,
    plan: SnapshotPlan,
    defined: LogPosition,
) -> SnapshotChunk:
    """Read a range of a table whose definition was read after :func:`before_definition`.

    Raises:
        ServerError: the source refuses, for example because the table was altered.
        TransportError: the connection failed.
    """
    rows: list[Row] = []
    count, now = one.rows, int(time.time())
    wanted = _Filter(view, one.filter) if one.filter else None
    await limit_statements(connection, one)
    async with reading(
        connection,
        view.model,
        part,
        locking=plan.locking,
        where=_where(view, one),
        ordered=True,
        invalid_text=plan.invalid_text,
    ) as chunk:
        async for some in chunk.rows():
            found = view.rows(some)
            if wanted is not None:
                found = wanted.kept(found)
            count += len(some) if wanted is None else len(found)
            rows += found
    if wanted is not None and wanted.fault is not None:
        raise wanted.fault
    low, high, named = chunk.window.low, chunk.window.high, chunk.window.named
    assert named is not None
    key = tuple(name for name, _ in view.model.primary_key)
    looks = "" if plan.scope is None else plan.scope.digest(one.name)[:8]
    return SnapshotChunk(
        one,
        replace(one, key=key, done=part.to_json(), rows=count),
        SnapshotRows(
            view.shape,
            view.columns,
            rows,
            range(one.rows, one.rows + len(rows)),
            low,
            high,
            now,
            begins=one.done is None,
            ends=part.upto is None,
            before=one.rows,
            request=one.request,
            copy=f"{looks}.{one.copy}" if looks or one.copy else "",
            blocking=one.blocking,
            source=f"{view.model.database}.{view.model.name}" if view.shape.merged else "",
            flavor=connection.server.flavor,
        ),
        view.keys(rows),
        defined,
        LogPosition.of(low.file, low.offset),
        LogPosition.of(named.file, named.offset),
        server_name(connection.server),
        asyncio.get_running_loop().create_future(),
    )


class _Filter:
    """A condition on the rows of a table as they are delivered.

    Args:
        view: of the table.
        text: the condition.

    Attributes:
        fault: why the condition cannot be evaluated. All rows are read nevertheless, to keep the
            connection usable.

    Raises:
        ConfigError: the table has no such column, or the column is not delivered.
    """

    def __init__(self, view: SnapshotView, text: str) -> None:
        self._wanted, self._name = parse_where(text), view.name
        self.fault: ConfigError | None = None
        given = {column.name for column in view.columns}
        for column in columns_of(self._wanted):
            if column not in given:
                raise ConfigError(
                    f"{'.'.join(view.name)} has no column {column!r:.80} for this sink"
                )

    def kept(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Return the rows that meet the condition; none after a fault."""
        if self.fault is None:
            try:
                return [row for row in rows if row_matches(self._wanted, row, *self._name)]
            except ConfigError as error:
                self.fault = error
        return []


def _where(view: SnapshotView, one: TableProgress) -> str:
    """Return the SQL condition of a table's rows: of a filter, the part that SQL decides alike."""
    return view.prefilter(parse_where(one.filter)) if one.filter else one.where


async def limit_statements(connection: SourceConnection, one: TableProgress) -> None:
    """Limit the time of statements with user-supplied SQL; remove the server's limit from others.

    A running statement holds the table's metadata lock.

    Raises:
        ServerError: the source refuses.
    """
    seconds, server = (RAW_SECONDS if one.where else 0), connection.server
    if server.is_mariadb:
        await connection.query(f"SET SESSION max_statement_time = {seconds}")
    elif server.version >= _LIMITS_SELECTS:
        await connection.query(f"SET SESSION max_execution_time = {seconds * 1000}")


async def before_definition(connection: SourceConnection, name: TableName) -> LogPosition:
    """Return a position whose earlier statements are in any definition read from now on.

    A server may log a statement before the new definition is visible, but holds the table's lock
    until then.

    Raises:
        ServerError: the source refuses.
    """
    end = await log_end(connection)
    try:
        await connection.query(f"SELECT 1 FROM {mysql_table(*name)} LIMIT 0")  # noqa: S608
    except ServerError as error:
        if error.errno not in CHANGED_ERRORS:
            raise
    return LogPosition.of(end.file, end.offset)


async def absent_table(
    connection: SourceConnection, one: TableProgress, defined: LogPosition
) -> SnapshotChunk:
    """Return a chunk that stands for a table that the source does not have.

    Raises:
        ServerError: the source refuses.
    """
    end = await log_end(connection)
    at = LogPosition.of(end.file, end.offset)
    outcome: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    return SnapshotChunk(
        one, one, None, None, defined, at, at, server_name(connection.server), outcome
    )


async def are_empty(connection: SourceConnection, tables: Sequence[TableProgress]) -> bool:
    """Return whether all tables are empty or missing.

    Raises:
        ServerError: the source refuses.
    """
    for one in tables:
        sql = f"SELECT 1 FROM {mysql_table(*one.name)} LIMIT 1"  # noqa: S608
        try:
            if await connection.query(sql):
                return False
        except ServerError as error:
            if error.errno not in GONE_ERRORS:
                raise
    return True
