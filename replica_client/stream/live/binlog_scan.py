"""Search of a source's binlog: statements that changed definitions, and prepared XA transactions."""

from __future__ import annotations

import asyncio
import logging
import threading
from bisect import bisect_left, insort
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import aclosing
from functools import partial
from typing import Any, Final, Generic, TypeVar

from replica_client.errors import AccessDeniedError, BinlogReadError
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.event import FIRST_EVENT, BinlogEvent, DecodeOptions
from replica_client.protocol.binlog.events.transaction_payload import TransactionPayloadEvent
from replica_client.protocol.binlog.payload import split_payload
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.event_types import EventType
from replica_client.protocol.gtid import GtidSet
from replica_client.protocol.position import Position, file_order, split_file_name
from replica_client.schema.ddl.steps import TableName, tables_touched
from replica_client.schema.known_tables import LogPosition
from replica_client.schema.names import casefold_name, casefold_table
from replica_client.stream.fast.statement_scan import StatementScan
from replica_client.stream.position.prepared import PreparedTransaction, XaId
from replica_client.stream.position.tracker import PositionTracker
from replica_client.stream.transactions.event_feed import EventFeed, LocatedEvent
from replica_client.stream.transactions.pending_rows import passes_over
from replica_client.stream.transactions.query_text import first_word, read_query
from replica_client.stream.transport.connect_options import ConnectOptions
from replica_client.stream.transport.connection import SourceConnection
from replica_client.stream.transport.driver_dump import open_dump
from replica_client.stream.transport.dump import DumpRequest
from replica_client.stream.transport.source_gtids import executed_gtids

_Result = TypeVar("_Result")


async def in_own_thread(work: Callable[[], Coroutine[Any, Any, _Result]]) -> _Result:
    """Run a coroutine in a thread with an event loop of its own, and wait for the result.

    Decrypting and copying received bytes does not need the interpreter: several connections, each
    in a thread, use several processors. When this task is cancelled, the coroutine is cancelled,
    too, and has ended when this returns.

    Args:
        work: makes the coroutine; called in that thread. It shares nothing with this loop.

    Raises:
        BaseException: what the coroutine raised.
    """
    beside = _Beside(work)
    thread = threading.Thread(target=beside.run, name="replica_client beside", daemon=True)
    thread.start()
    ended = asyncio.wrap_future(beside.ended)
    try:
        return await asyncio.shield(ended)
    except asyncio.CancelledError:
        beside.cancel()
        await asyncio.wait([ended])
        if not ended.cancelled():
            ended.exception()  # marks the error as retrieved: nobody else asks for it
        raise


class _Beside(Generic[_Result]):
    """A coroutine and its thread.

    Attributes:
        ended: its result.
    """

    def __init__(self, work: Callable[[], Coroutine[Any, Any, _Result]]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._running: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None
        self._is_cancelled = False
        self.ended: Future[_Result] = Future()

    def run(self) -> None:
        """Run the coroutine in the thread and store its result or error."""
        try:
            result = asyncio.run(self._main())
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is waited for
            self.ended.set_exception(error)
        else:
            self.ended.set_result(result)

    def cancel(self) -> None:
        """Cancel the coroutine, whether it has begun or not."""
        with self._lock:
            self._is_cancelled = True
            if self._running is not None:
                loop, task = self._running
                loop.call_soon_threadsafe(task.cancel)

    async def _main(self) -> _Result:
        task = asyncio.current_task()
        assert task is not None
        with self._lock:
            if self._is_cancelled:
                raise asyncio.CancelledError
            self._running = asyncio.get_running_loop(), task
        try:
            return await self._work()
        finally:
            # The loop is closed soon and takes no more calls.
            with self._lock:
                self._running = None


_QUERIES: Final = frozenset((EventType.QUERY_EVENT, EventType.QUERY_COMPRESSED_EVENT))
_ROTATE: Final = int(EventType.ROTATE_EVENT)
_FORMAT: Final = int(EventType.FORMAT_DESCRIPTION_EVENT)
_PAYLOAD: Final = int(EventType.TRANSACTION_PAYLOAD_EVENT)
_NO_DDL: Final = frozenset(
    (
        *(b"INSERT", b"UPDATE", b"DELETE", b"REPLACE"),
        *(b"BEGIN", b"COMMIT", b"ROLLBACK", b"SAVEPOINT", b"RELEASE", b"XA"),
    )
)
_LOOKED_AT: Final = _QUERIES | {_ROTATE, _FORMAT, _PAYLOAD}
# Bytes from which on a scan is divided: a source sends some hundred megabytes a second per
# connection.
_PART_SIZE: Final = 256 << 20
_CONNECTIONS: Final = 4
_TURN_EVENTS: Final = 1000


@dataclass(frozen=True, slots=True)
class Touch:
    """A statement in the binlog that may have changed tables; their names are in lower case."""

    position: LogPosition
    tables: tuple[TableName, ...]
    databases: tuple[str, ...]
    anything: bool


class Touches:
    """Statements that may have changed tables, by table and database."""

    def __init__(self) -> None:
        self.all: list[Touch] = []
        self._tables: dict[TableName, list[LogPosition]] = {}
        self._databases: dict[str, list[LogPosition]] = {}
        self._anything: list[LogPosition] = []

    def add(self, touch: Touch) -> None:
        """Add a statement; the order of positions does not matter."""
        self.all.append(touch)
        for table in touch.tables:
            insort(self._tables.setdefault(table, []), touch.position)
        for database in touch.databases:
            insort(self._databases.setdefault(database, []), touch.position)
        if touch.anything:
            insort(self._anything, touch.position)

    def touched(self, table: TableName, begin: LogPosition, end: LogPosition) -> bool:
        """Return whether a table may have changed from one position on and before another."""
        casefolded = self._tables.get(casefold_table(table), ())
        return _any(casefolded, begin, end) or self.touched_database(table[0], begin, end)

    def touched_database(self, database: str, begin: LogPosition, end: LogPosition) -> bool:
        """Return whether a database's default character set may have changed between two positions."""
        casefolded = self._databases.get(casefold_name(database), ())
        return _any(casefolded, begin, end) or _any(self._anything, begin, end)


def _any(positions: list[LogPosition] | tuple[()], begin: LogPosition, end: LogPosition) -> bool:
    at = bisect_left(positions, begin)
    return at < len(positions) and positions[at] < end


class BinlogScan:
    """Scan of a source's binlog for statements that change tables.

    Args:
        options: of the source.
        decode: how statements are decoded.

    Attributes:
        touches: the statements found between :attr:`begin` and :attr:`end`.
        begin: position from which on everything is known; None while nothing is.
    """

    def __init__(self, options: ConnectOptions, decode: DecodeOptions) -> None:
        self._options = options
        self._decode = decode
        self.touches = Touches()
        self.begin: LogPosition | None = None
        self._end = Position("", 0)

    @property
    def end(self) -> LogPosition:
        """The position after what was read."""
        return LogPosition.of(self._end.file, self._end.offset)

    async def extend(self, file: str, offset: int) -> None:
        """Scan whatever is not known yet from a position to the end of the binlog.

        Raises:
            ServerError: the source does not have it any more.
        """
        wanted = LogPosition.of(file, offset)
        if self.begin is None or wanted.base != self.begin.base or wanted > self.end:
            self.touches, self.begin, self._end = Touches(), wanted, Position(file, offset)
        elif wanted < self.begin:
            # The part before is read on its own: gigabytes may follow it.
            part = _Part(self._options, self._decode, Position(file, offset))
            await part.read("", self.begin)
            for touch in part.touches:
                if touch.position < self.begin:
                    self.touches.add(touch)
            self.begin = wanted
        # What was read counts even if the connection fails later.
        await self.read(self._end.file, self._end.offset)

    async def read(self, file: str, offset: int) -> None:
        """Read from a position to the end of the binlog.

        Raises:
            ServerError: the source does not have it any more.
        """
        begins = [Position(file, offset)]
        async with await SourceConnection.open(self._options) as connection:
            begins += await _later_begins(connection, file, offset)
        stops = [one.file for one in begins[1:]] + [""]
        parts = [_Part(self._options, self._decode, one) for one in begins]
        if len(parts) == 1:
            try:
                await parts[0].read("")
            finally:
                self._take(parts[0])
            return
        try:
            async with asyncio.TaskGroup() as group:
                for part, stop in zip(parts, stops, strict=True):
                    group.create_task(in_own_thread(partial(part.read, stop)))
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None
        for part in parts:
            self._take(part)

    async def read_behind(self, request: DumpRequest) -> list[Touch]:
        """Return the statements in a dump up to the end of the binlog, without keeping them.

        Args:
            request: of a dump that ends there.

        Raises:
            ServerError: the source does not have it any more.
        """
        part = _Part(self._options, self._decode, Position(request.file, 0), request)
        await part.read("")
        return part.touches

    def _take(self, part: _Part) -> None:
        for touch in part.touches:
            self.touches.add(touch)
        self._end = part.end


async def _later_begins(connection: SourceConnection, file: str, offset: int) -> list[Position]:
    """Return where further connections begin, so that each reads about as much."""
    base, number = split_file_name(file)
    files = []
    for name, size in await connection.binary_logs():
        if split_file_name(name)[0] == base and split_file_name(name)[1] >= number:
            files.append((name, size - offset if name == file else size))
    total = sum(size for _, size in files)
    count = min(_CONNECTIONS, total // _PART_SIZE)
    begins: list[Position] = []
    read = 0
    for name, size in files:
        if name != file and count > 1 and read >= total * (len(begins) + 1) // count:
            begins.append(Position(name, 4))
        read += size
    return begins


class _Part:
    """One connection's part of a scan.

    Attributes:
        touches: the statements found.
        end: position after what was read.
    """

    def __init__(
        self,
        options: ConnectOptions,
        decode: DecodeOptions,
        begin: Position,
        request: DumpRequest | None = None,
    ) -> None:
        self._options = options
        self._request = request or DumpRequest(begin.file, max(4, begin.offset), non_block=True)
        self.touches: list[Touch] = []
        self._decoder = BinlogDecoder(decode, begin.file)
        self._tracker = PositionTracker(begin)
        self._settings = decode

    @property
    def end(self) -> Position:
        return Position(self._tracker.file, self._tracker.offset)

    async def read(self, stop: str, until: LogPosition | None = None) -> None:
        """Read to the beginning of a file, to a position or a little beyond, or to the end."""
        scan, position = StatementScan(), self._tracker
        async with await open_dump(self._options, self._request) as dump:
            events = dump.events
            while await dump.more():
                looked_at = 0
                while events:
                    tail = self._decoder.format.checksum_size
                    count = scan.pass_over(events, position.offset, tail)
                    if until is not None and self._is_behind(until):
                        return
                    if count:
                        events.drop(count)
                        position.skip(0, scan.size)
                        continue
                    data = events.take()
                    self._look(data)
                    if stop and position.file == stop:
                        return
                    looked_at += 1
                    if looked_at % _TURN_EVENTS == 0:
                        await asyncio.sleep(0)

    def _is_behind(self, position: LogPosition) -> bool:
        return LogPosition.of(self._tracker.file, self._tracker.offset) >= position

    def _look(self, data: bytes) -> None:
        header = self._decoder.peek_header(data)
        file = self._tracker.file
        position = self._tracker.pass_event(header)
        if header.type_code not in _LOOKED_AT:
            return
        event = self._decoder.decode(data, position, file)
        if header.type_code == _ROTATE:
            self._tracker.enter_file(event.body.next_file, event.body.next_position)
        for one in self._statements(event):
            self._note(one)

    def _statements(self, event: BinlogEvent) -> Iterator[BinlogEvent]:
        if event.header.type_code in _QUERIES:
            yield event
        elif isinstance(event.body, TransactionPayloadEvent):
            # Scanned first: payloads seldom contain statements.
            inner = split_payload(event.body, self._settings)
            if any(one[4] in _QUERIES and not one.endswith((b"BEGIN", b"COMMIT")) for one in inner):
                for found in self._decoder.inner_events(event):
                    if found.header.type_code in _QUERIES:
                        yield found

    def _note(self, event: BinlogEvent) -> None:
        query = event.body.query
        if first_word(query) in _NO_DDL:
            return
        read = read_query(event, self._decoder.format)
        tables, databases, anything = tables_touched(read.meaning)
        if tables or databases or anything:
            self.touches.append(
                Touch(
                    LogPosition.of(event.file, event.position),
                    tuple(map(casefold_table, tables)),
                    tuple(map(casefold_name, databases)),
                    anything,
                )
            )


_LOG = logging.getLogger("replica_client.stream")


class PreparedSource:
    """Finder and reader of prepared transactions on a source, each on its own connection.

    Args:
        options: of the source.
        decode: how events are decoded.
    """

    def __init__(self, options: ConnectOptions, decode: DecodeOptions) -> None:
        self._options = options
        self._decode = decode

    async def transaction(
        self, xid: XaId, known: PreparedTransaction | None, commit: Position
    ) -> AsyncGenerator[tuple[EventFeed, LocatedEvent], None]:
        """Yield the events of the transaction that an XA PREPARE ends; none if it cannot be found.

        Args:
            xid: id of the transaction.
            known: its place, as far as known.
            commit: start of the transaction of its XA COMMIT.

        Raises:
            TransportError: a connection failed; a retry may help.
            ServerError: the source ended the dump; another connection may work.
            BinlogDecodeError: an event cannot be decoded.
        """
        request: DumpRequest | None = None
        if known is not None and known.start.file:
            request = DumpRequest(known.start.file, known.start.offset, non_block=True)
        elif known is not None and known.gtid:
            request = await self._by_gtid(known.gtid)
        if request is None:
            start = await self._find(xid, commit)
            if start is None:
                return
            request = DumpRequest(start.file, start.offset, non_block=True)
        feed = EventFeed(self._decode, Position(request.file, request.position))
        try:
            async with aclosing(self._packets(request)) as packets:
                async for data in packets:
                    for located in feed.feed_stream(data):
                        if feed.tracker.in_transaction or located.boundary is not None:
                            yield feed, located
                        if located.boundary is not None:
                            return
        except BinlogReadError as error:
            _LOG.warning("XA transaction %s cannot be read back: %s", xid, str(error))

    async def _by_gtid(self, gtid: str) -> DumpRequest | None:
        """Return a request for a dump that begins with one GTID; None if that is impossible."""
        async with await SourceConnection.open(self._options) as connection:
            if connection.server.is_mariadb:
                return None  # its positions hold the last GTID of a domain, but not the one before
            executed = await executed_gtids(connection)
        wanted = GtidSet.parse(gtid)
        if not isinstance(executed, GtidSet) or not wanted <= executed:
            return None
        return DumpRequest(gtid_set=executed - wanted, non_block=True)

    async def _find(self, xid: XaId, commit: Position) -> Position | None:
        """Find the start of the transaction with the last XA PREPARE of an xid before a position."""
        async with await SourceConnection.open(self._options) as connection:
            try:
                names = [name for name, _ in await connection.binary_logs()]
            except AccessDeniedError:
                names = [commit.file]
        limit = file_order(commit.file)
        for file in reversed([name for name in names if file_order(name) <= limit]):
            _LOG.warning("looking for the XA PREPARE of %s in %s of the source", xid, file)
            try:
                found = await self._find_in(file, xid, commit)
            except BinlogReadError as error:
                _LOG.warning(
                    "XA transaction %s cannot be looked for in %s: %s", xid, file, str(error)
                )
                return None
            if found is not None:
                return found
        return None

    async def _find_in(self, file: str, xid: XaId, commit: Position) -> Position | None:
        feed = EventFeed(self._decode, Position(file, FIRST_EVENT))
        tracker, found = feed.tracker, None
        request = DumpRequest(file, FIRST_EVENT, non_block=True)
        async with aclosing(self._packets(request)) as packets:
            async for data in packets:
                if passes_over(tracker, data):
                    continue
                for located in feed.feed_stream(data):
                    boundary = located.boundary
                    if boundary is not None and boundary.outcome == "prepare":
                        if XaId.of_event(located.event.body) == xid:
                            found = Position(boundary.file, boundary.offset)
                if tracker.file != file or Position(file, tracker.offset) >= commit:
                    break
        return found

    async def _packets(self, request: DumpRequest) -> AsyncGenerator[bytes, None]:
        """Yield the events of a dump, each as bytes."""
        async with await open_dump(self._options, request) as dump:
            async for data in dump:
                yield data
