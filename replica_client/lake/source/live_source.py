"""The driver's connection to a live source, and its waits for more."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from replica_client.errors import (
    BinlogPurgedError,
    ConnectionLostError,
    ServerError,
    TransportError,
    UnknownBinlogError,
)
from replica_client.lake.source.live_partition import server_id
from replica_client.lake.source.read_ranges import PassedTransactions
from replica_client.lake.source_options import SourceOptions
from replica_client.protocol.binlog.event import FIRST_EVENT
from replica_client.protocol.binlog.layout import HEADER_SIZE
from replica_client.protocol.constants.client_server import ErrorCode
from replica_client.protocol.constants.event_types import EventFlag, EventType
from replica_client.protocol.position import Position
from replica_client.protocol.wire.server_errors import UNKNOWABLE_ERRORS
from replica_client.schema.ddl.steps import TableName
from replica_client.schema.shape import TableShape
from replica_client.stream.live.live_schema import list_tables
from replica_client.stream.live.skipped_events import CommitClock, start_for
from replica_client.stream.live.source_start import dump_request, resolve_start
from replica_client.stream.live.stream_options import ReconnectPolicy, asked
from replica_client.stream.transactions.arguments import Start
from replica_client.stream.transactions.event_feed import EventFeed
from replica_client.stream.transport.connection import DEFAULT_HEARTBEAT_PERIOD, SourceConnection
from replica_client.stream.transport.driver_dump import open_dump
from replica_client.stream.transport.dump import DumpRequest, DumpStream

_MAX_BEHIND = 1 << 20
_ROTATE = int(EventType.ROTATE_EVENT)
_ARTIFICIAL = int(EventFlag.LOG_EVENT_ARTIFICIAL_F)
_HEARTBEATS = (
    int(EventType.HEARTBEAT_LOG_EVENT),
    int(EventType.HEARTBEAT_LOG_EVENT_V2),
)


class LiveWatch:
    """A dump that stays open while nothing happens, and afterwards as long as it can follow.

    Args:
        options: of the query.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._dump: DumpStream | None = None
        self._file = ""
        self._offset = 0

    async def close(self) -> None:
        """End the dump."""
        dump, self._dump = self._dump, None
        if dump is not None:
            await dump.close()

    async def wait(self, end: Position, seconds: float) -> bool:
        """Wait until there is an event after ``end``.

        Returns:
            True when there is one, or the dump was lost; False when the time is over.
        """
        try:
            if self._dump is None or not self._is_near(end):
                await self.close()
                self._dump = await self._open(end)
                self._file, self._offset = end.file, end.offset
            return await self._passes(self._dump, end, seconds)
        except (TransportError, ServerError):
            # The next query raises the error; without an error the caller polls.
            await self.close()
            await asyncio.sleep(min(seconds, self._options.poll_interval))
            return True

    def _is_near(self, end: Position) -> bool:
        return self._file == end.file and end.offset - self._offset <= _MAX_BEHIND

    async def _open(self, end: Position) -> DumpStream:
        assert self._options.connect is not None
        return await open_dump(
            self._options.connect,
            DumpRequest(end.file, max(end.offset, FIRST_EVENT)),
            server_id=server_id(self._options, 0),
            heartbeat_period=self._options.following.get(
                "heartbeat_period", DEFAULT_HEARTBEAT_PERIOD
            ),
        )

    async def _passes(self, dump: DumpStream, end: Position, seconds: float) -> bool:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while True:
            while dump.events:
                self._see(dump.events.event(0))
                dump.events.drop(1)
            if Position(self._file, self._offset) > end:
                return True
            left = deadline - loop.time()
            if left <= 0:
                return False
            try:
                async with asyncio.timeout(left):
                    if not await dump.more(0):
                        raise ConnectionLostError("the source ended the dump")
            except TimeoutError:
                return False

    def _see(self, data: bytes) -> None:
        code, flags = data[4], data[17]
        if code in _HEARTBEATS:
            return
        if code == _ROTATE:
            # The file that follows is named in clear after the offset.
            name = data[HEADER_SIZE + 8 :]
            if flags & _ARTIFICIAL and not name.startswith(self._file.encode()):
                self._file, self._offset = name.decode("utf-8", "replace"), FIRST_EVENT
            return
        reached = int.from_bytes(data[13:17], "little")
        if reached and not flags & _ARTIFICIAL:
            # 32 bits of it: the offset goes forward by less than half of them.
            forward = (reached - self._offset) & 0xFFFFFFFF
            if forward < 1 << 31:
                self._offset += forward


T = TypeVar("T")
_TABLE_MAP = 19
_PATIENCE = ReconnectPolicy(attempts=6)
"""Some seconds: a task that fails is run again by Spark."""


class LiveSource:
    """Asks a live source; keeps one SQL connection as long as it lives.

    Usable from ordinary code: a thread of its own runs the event loop.

    Args:
        options: of the query.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._connection: SourceConnection | None = None
        self._watch = LiveWatch(options)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="mysql-binlog source", daemon=True
        )
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something in the thread of the source."""
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result()

    def close(self) -> None:
        """End the connection."""
        self.run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        if not self._thread.is_alive():
            self._loop.close()

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _close(self) -> None:
        await self._watch.close()
        await self._disconnect()

    async def _asked(self, question: Callable[[SourceConnection], Awaitable[T]]) -> T:
        """Ask until there is an answer; a connection that was lost meanwhile is opened again."""
        options = self._options.connect
        assert options is not None

        async def ask() -> T:
            if self._connection is None:
                self._connection = await SourceConnection.open(options)
            try:
                return await question(self._connection)
            except TransportError:
                await self._disconnect()
                raise

        return await asked(ask, f"a question to {options.address}", _PATIENCE)

    # What is asked.

    def end(self) -> Position:
        """Return the current end of the binlog, which is between two transactions.

        Raises:
            BinlogDisabledError: there is none.
        """
        status = self.run(self._asked(lambda connection: connection.binlog_status()))
        return Position(status.file, status.position)

    def files(self) -> list[tuple[str, int]]:
        """Return the names and sizes of the binlog files, oldest first."""
        return self.run(self._asked(lambda connection: connection.binary_logs()))

    def start(self, start: Start) -> Position:
        """Return the file and offset that a start means, with the GTID set if it was given by one."""
        return self.run(self._resolve(start))

    async def _resolve(self, start: Start) -> Position:
        async def question(connection: SourceConnection) -> Position:
            position = await resolve_start(connection, start)
            if position.file:
                return Position(position.file, position.offset)
            return await self._by_gtid(position)

        return await self._asked(question)

    async def _by_gtid(self, position: Position) -> Position:
        """Return the position of the first transaction that is not in a GTID set."""
        assert self._options.connect is not None
        connection = await SourceConnection.open(self._options.connect)
        try:
            status = await connection.binlog_status()
            request = await dump_request(connection, position, non_block=True)
            dump = await connection.start_dump(request, server_id=server_id(self._options, 0))
        finally:
            await connection.close()
        async with dump:
            first = await PassedTransactions(dump, Position("", 0), self._options.decode).next(0)
        if first is not None:
            return Position(first.start.file, first.start.offset, position.gtid_set)
        return Position(status.file, status.position, position.gtid_set)

    def check_has(self, start: Position) -> list[tuple[str, int]]:
        """Refuse a start that the source does not have (any more); names and sizes of its files.

        Raises:
            BinlogPurgedError: its file was purged.
            UnknownBinlogError: there is no such file or place.
        """
        files = self.files()
        sizes = dict(files)
        address = self._options.connect.address if self._options.connect else ""
        if start.file in sizes:
            if start.offset <= sizes[start.file]:
                return files
            raise UnknownBinlogError(
                ErrorCode.ER_MASTER_FATAL_ERROR_READING_BINLOG,
                "HY000",
                f"{start.file} of {address} has {sizes[start.file]} bytes, but reading goes on at {start}",
                "the source is another one, or lost its binlog: start over from a new snapshot",
            )
        oldest = files[0][0] if files else "none"
        if files and Position(start.file, start.offset) < Position(files[-1][0], files[-1][1]):
            raise BinlogPurgedError(
                ErrorCode.ER_MASTER_FATAL_ERROR_READING_BINLOG,
                "HY000",
                f"{address} has purged {start.file}; the changes from {start} up to {oldest}:4, where its "
                "binlog begins now, are lost to this query",
                "take a new snapshot, or start over at startingPosition=earliest with a new checkpoint",
                missing=f"{start}…{oldest}:{FIRST_EVENT}",
            )
        raise UnknownBinlogError(
            ErrorCode.ER_MASTER_FATAL_ERROR_READING_BINLOG,
            "HY000",
            f"{address} has no binlog file {start.file}; it has {oldest} … {files[-1][0] if files else ''}",
            "check the position, and that it is the same source",
        )

    def tables(self) -> tuple[list[TableName], bool | None] | None:
        """Return the tables that the source lists, and whether it ignores letter case; None if it lists none."""

        async def question(connection: SourceConnection) -> tuple[list[TableName], bool | None]:
            return await list_tables(connection), connection.server.casefolds_names

        try:
            return self.run(self._asked(question))
        except ServerError as error:
            if error.errno not in UNKNOWABLE_ERRORS:
                raise
            return None

    def mapped_tables(self, start: Position) -> list[TableName]:
        """Return the tables that have table maps from a position to the end of the binlog."""
        return self.run(self._mapped_tables(start))

    async def _mapped_tables(self, start: Position) -> list[TableName]:
        feed, found = EventFeed(self._options.decode, start), dict[TableName, None]()
        async with await self.dump(start) as dump:
            async for data in dump:
                for located in feed.feed_stream(data):
                    if located.event.header.type_code == _TABLE_MAP:
                        found[located.event.body.schema, located.event.body.table] = None
        return list(found)

    def wait(self, end: Position, timeout: float) -> bool:
        """Wait at most ``timeout`` seconds for events after ``end``, and return whether there are any."""
        return self.run(self._watch.wait(end, timeout))

    def cut_positions(
        self, start: Position, end: Position, step: int, max_bytes: int | None = None
    ) -> list[Position]:
        """Return positions between transactions after a start, with about as many bytes between each two.

        Args:
            start: of the first transaction.
            end: where reading ends at the latest.
            step: bytes between two positions, about.
            max_bytes: limit of whole transactions, at least one, after which the last position lies;
                None: the last position is the end.
        """
        return self.run(self._cut_positions(start, end, step, max_bytes))

    async def _cut_positions(
        self, start: Position, end: Position, step: int, max_bytes: int | None
    ) -> list[Position]:
        found: list[Position] = []
        total = last = 0
        reached = start
        async with await self.dump(start) as dump:
            passing = PassedTransactions(dump, start, self._options.decode)
            while True:
                left = step - (total - last)
                if max_bytes is not None:
                    left = min(left, max_bytes - total)
                passed = await passing.next(left)
                if passed is None or passed.start >= end:
                    return [*found, end]
                total += passed.size
                if max_bytes is not None and total > max_bytes and reached != start:
                    return found if found and found[-1] == reached else [*found, reached]
                reached = passed.end
                if reached >= end:
                    return [*found, end]
                if total - last >= step:
                    found.append(reached)
                    last = total

    def first_at(self, start: Position, micros: int, *, begins: bool = False) -> Position:
        """Return where the first transaction from ``start`` on begins committed then or later; else the end.

        Args:
            start: a position between transactions.
            micros: the time, in microseconds since 1970.
            begins: whether reading begins there, see :func:`~replica_client.stream.live.skipped_events.start_for`.
        """
        return self.run(self._first_at(start, micros, begins))

    async def _first_at(self, start: Position, micros: int, begins: bool) -> Position:
        feed, clock, found = EventFeed(self._options.decode, start), CommitClock(), start
        async with await self.dump(start) as dump:
            async for data in dump:
                for located in feed.feed_stream(data):
                    header = located.event.header
                    if header.is_artificial or not header.timestamp:
                        continue
                    clock.take(located.event)
                    if not feed.tracker.in_transaction:
                        is_exact = not begins or clock.logged is not None
                        if clock.end() >= start_for(micros, logs_micros=is_exact):
                            return found
                        position = feed.tracker.position
                        found = Position(position.file, position.offset)
        return found

    def first_shape(self, start: Position, database: str, table: str) -> TableShape | None:
        """Return the shape of a table by its first table map from ``start`` on, or None without one."""
        return self.run(self._first_shape(start, database, table))

    async def _first_shape(self, start: Position, database: str, table: str) -> TableShape | None:
        feed = EventFeed(self._options.decode, start)
        async with await self.dump(start) as dump:
            async for data in dump:
                for located in feed.feed_stream(data):
                    body = located.event.body
                    if located.event.header.type_code == _TABLE_MAP and (
                        body.schema,
                        body.table,
                    ) == (database, table):
                        return TableShape.from_table_map(body)
        return None

    def query(self, sql: str, args: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a statement."""
        return self.run(self._asked(lambda connection: connection.query(sql, args)))

    @property
    def is_mariadb(self) -> bool:
        """Whether the source that was asked last is MariaDB."""
        return self._connection is not None and self._connection.server.is_mariadb

    async def dump(self, start: Position) -> DumpStream:
        """Open a dump on a connection of its own, from a position to the end of the binlog."""
        assert self._options.connect is not None
        return await open_dump(
            self._options.connect,
            DumpRequest(start.file, max(start.offset, FIRST_EVENT), non_block=True),
            server_id=server_id(self._options, 0),
        )
