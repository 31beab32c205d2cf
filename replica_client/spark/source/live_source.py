"""The driver's connection to a live source: where its binlog ends, what it has, where to cut."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from replica_client.archive.transaction_ranges import TransactionRange, TransactionRangeTracker
from replica_client.binlog.decoder import BinlogDecoder
from replica_client.binlog.event import BinlogEvent
from replica_client.binlog.file_scan import FIRST_EVENT
from replica_client.constants.error_codes import ErrorCode
from replica_client.errors import (
    BinlogPurgedError,
    TransportError,
    UnknownBinlogError,
)
from replica_client.lake.source_options import SourceOptions
from replica_client.position.position import Position
from replica_client.position.tracker import PositionTracker
from replica_client.readers.event_feed import EventFeed
from replica_client.readers.live.source_start import dump_request, resolve_start
from replica_client.readers.start_position import Start
from replica_client.schema.shape import TableShape
from replica_client.spark.source.live_partition import server_id
from replica_client.spark.source.live_watch import LiveWatch
from replica_client.transport.connection import SourceConnection
from replica_client.transport.dump import DumpStream
from replica_client.transport.request import DumpRequest
from replica_client.transport.side_dump import open_dump

T = TypeVar("T")
_TABLE_MAP = 19


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
        """Ask; a kept connection that was lost meanwhile is opened again, once."""
        assert self._options.connect is not None
        if self._connection is not None:
            try:
                return await question(self._connection)
            except TransportError:
                await self._disconnect()
        self._connection = await SourceConnection.open(self._options.connect)
        return await question(self._connection)

    # What is asked.

    def end(self) -> Position:
        """Where the binlog ends now; between two transactions.

        Raises:
            BinlogDisabledError: there is none.
        """
        status = self.run(self._asked(lambda connection: connection.binlog_status()))
        return Position(status.file, status.position)

    def files(self) -> list[tuple[str, int]]:
        """Names and sizes of the binlog files, oldest first."""
        return self.run(self._asked(lambda connection: connection.binary_logs()))

    def start(self, start: Start) -> Position:
        """The file and offset that a start means; with the GTID set that it was given by."""
        return self.run(self._resolve(start))

    async def _resolve(self, start: Start) -> Position:
        async def question(connection: SourceConnection) -> Position:
            position = await resolve_start(connection, start)
            if position.file:
                return Position(position.file, position.offset)
            return await self._by_gtid(position)

        return await self._asked(question)

    async def _by_gtid(self, position: Position) -> Position:
        """Where the first transaction is that is not in a GTID set."""
        assert self._options.connect is not None
        connection = await SourceConnection.open(self._options.connect)
        try:
            status = await connection.binlog_status()
            request = await dump_request(connection, position, non_block=True)
            dump = await connection.start_dump(request, server_id=server_id(self._options, 0))
        finally:
            await connection.close()
        transaction_ranges = TransactionRangeTracker(PositionTracker(payload_ends=True))
        async with dump:
            async for transaction_range in _transaction_ranges(
                dump, transaction_ranges, self._options
            ):
                return Position(
                    transaction_range.start.file, transaction_range.start.offset, position.gtid_set
                )
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

    def wait(self, end: Position, timeout: float) -> bool:
        """Wait until the binlog goes on behind ``end``, at most some seconds; whether it does."""
        return self.run(self._watch.wait(end, timeout))

    def cut(self, start: Position, end: Position, max_bytes: int) -> Position:
        """The end of as many whole transactions as fit a limit, at least one.

        Args:
            start: of the first transaction.
            end: where the binlog ends.
            max_bytes: of the transactions together.
        """
        if start.file == end.file and end.offset - start.offset <= max_bytes:
            return end
        return self.run(self._cut_bytes(start, end, max_bytes))

    async def _cut_bytes(self, start: Position, end: Position, max_bytes: int) -> Position:
        total, reached = 0, start
        transaction_ranges = TransactionRangeTracker(PositionTracker(start, payload_ends=True))
        async with await self.dump(start) as dump:
            async for transaction_range in _transaction_ranges(
                dump, transaction_ranges, self._options
            ):
                if transaction_range.start >= end:
                    return end
                total += transaction_range.size
                if total > max_bytes and reached != start:
                    return reached
                reached = transaction_range.end
        return end

    def first_at(self, start: Position, seconds: int) -> Position:
        """The first transaction from ``start`` on that began at this time or later; else the end."""
        return self.run(self._first_at(start, seconds))

    async def _first_at(self, start: Position, seconds: int) -> Position:
        transaction_ranges = TransactionRangeTracker(PositionTracker(start, payload_ends=True))
        async with await self.dump(start) as dump:
            async for transaction_range in _transaction_ranges(
                dump, transaction_ranges, self._options
            ):
                if transaction_range.timestamp >= seconds:
                    return transaction_range.start
        return transaction_ranges.position

    def first_shape(self, start: Position, database: str, table: str) -> TableShape | None:
        """The shape of a table by its first table map from ``start`` on; None without one."""
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
        """Rows of a statement."""
        return self.run(self._asked(lambda connection: connection.query(sql, args)))

    @property
    def is_mariadb(self) -> bool:
        """Whether the source that was asked last is MariaDB."""
        return self._connection is not None and self._connection.server.is_mariadb

    async def dump(self, start: Position) -> DumpStream:
        """A dump of its own connection from a position to the end of the binlog."""
        assert self._options.connect is not None
        return await open_dump(
            self._options.connect,
            DumpRequest(start.file, max(start.offset, FIRST_EVENT), non_block=True),
            server_id=server_id(self._options, 0),
        )


async def ranged_events(
    dump: DumpStream, transaction_ranges: TransactionRangeTracker, decoder: BinlogDecoder
) -> AsyncIterator[BinlogEvent]:
    """The events of a dump that may tell something of transactions; rows are passed over unread.

    Args:
        dump: to read, to its end.
        transaction_ranges: is to be fed each event before the next one is asked for.
        decoder: of the dump.
    """
    async for data in dump:
        header = decoder.peek_header(data)
        position = transaction_ranges.tracker.locate(header)
        size = header.event_size
        if (
            transaction_ranges.may_skip(header.type_code)
            and header.next_position == position + size
        ):
            transaction_ranges.skip(size)
            continue
        yield decoder.decode(data, position, transaction_ranges.tracker.file)


async def _transaction_ranges(
    dump: DumpStream, transaction_ranges: TransactionRangeTracker, options: SourceOptions
) -> AsyncIterator[TransactionRange]:
    """The transaction ranges of a dump's transactions."""
    async for event in ranged_events(dump, transaction_ranges, BinlogDecoder(options.decode)):
        transaction_range = transaction_ranges.feed(event)
        if transaction_range is not None:
            yield transaction_range
