"""Reading of a chunk: its rows as the stream would deliver them, and between which positions they were read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace

from replica_client.codec.quick_dataclass import dataclass
from replica_client.daemon.changed_keys import Key
from replica_client.daemon.first_copy import server_name
from replica_client.daemon.snapshot_progress import TableProgress
from replica_client.daemon.snapshot_view import SnapshotView
from replica_client.errors import ServerError
from replica_client.readers.transforms.transformer import Transformer
from replica_client.rows.row import Row
from replica_client.rows.selection import Selection
from replica_client.schema.history import LogPosition
from replica_client.schema.quoting import mysql_table
from replica_client.sinks.snapshot_sink import SnapshotRows
from replica_client.snapshot import KeyRange, Locking, can_be_cut, key_ranges, log_end, reading
from replica_client.tables.table_copy import TableName
from replica_client.transport.connect_options import ConnectOptions
from replica_client.transport.connection import SourceConnection
from replica_client.wire.server_errors import CHANGED_ERRORS, GONE_ERRORS


@dataclass(frozen=True, slots=True)
class SnapshotPlan:
    """What a snapshot is of.

    Attributes:
        route: its name, for messages.
        hosts: of the source.
        selection: the wanted tables.
        all_tables: all wanted tables are copied that the sink has no copy of; otherwise those that are asked for.
        chunk_rows: of a chunk, about.
        locking: see :data:`~replica_client.snapshot.Locking`.
        transform: what is done to definitions and rows.
    """

    route: str
    hosts: Sequence[ConnectOptions]
    selection: Selection
    all_tables: bool
    chunk_rows: int
    locking: Locking = "never"
    transform: Transformer | None = None


@dataclass(frozen=True, slots=True)
class SnapshotChunk:
    """A chunk that was read.

    Attributes:
        base: how far its table is before it.
        after: and behind it.
        rows: what was read; None: there is no such table.
        keys: of the rows; None: nothing tells them apart.
        defined: what altered the table before it is in the definition that was read.
        low: what is committed before it is in the rows.
        until: where it may be written.
        source: the server that was read.
        outcome: what becomes of it: empty when it is written, or why it was not.
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
    """The range behind what is done of a table: of about so many rows, or all where rows cannot be told apart.

    Raises:
        ServerError: the source refuses.
    """
    if view.key is None or not can_be_cut(view.model):
        return KeyRange()
    after = None if one.done is None else KeyRange.from_json(one.done).upto
    ranges = key_ranges(connection, view.model, rows, after=after, where=one.where)
    try:
        return await anext(ranges)
    finally:
        await ranges.aclose()


async def read_snapshot_chunk(
    connection: SourceConnection,
    view: SnapshotView,
    one: TableProgress,
    part: KeyRange,
    locking: Locking,
    defined: LogPosition,
) -> SnapshotChunk:
    """Read a range of a table whose definition was read behind :func:`before_definition`.

    Raises:
        ServerError: the source refuses, e.g. because the table is another one now.
        TransportError: the connection failed.
    """
    rows: list[Row] = []
    count, now = one.rows, int(time.time())
    async with reading(
        connection, view.model, part, locking=locking, where=one.where, ordered=True
    ) as chunk:
        async for some in chunk.rows():
            count += len(some)
            rows += view.rows(some)
    low, high, named = chunk.window.low, chunk.window.high, chunk.window.named
    assert named is not None
    key = tuple(name for name, _ in view.model.primary_key)
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
            blocking=one.blocking,
            source=f"{view.model.database}.{view.model.name}" if view.shape.merged else "",
        ),
        view.keys(rows),
        defined,
        LogPosition.of(low.file, low.offset),
        LogPosition.of(named.file, named.offset),
        server_name(connection.server),
        asyncio.get_running_loop().create_future(),
    )


async def before_definition(connection: SourceConnection, name: TableName) -> LogPosition:
    """A position: a statement that ends before it and alters the table is in a definition that is read from now on.

    A server may log a statement before its definition is seen, but gives the table's name free only then.

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
    """What stands for a table that the source does not have.

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
    """Whether no table has rows, or is there.

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
