"""The events of a live source, across its connections."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterator

from replica_client.errors import (
    BinlogPurgedError,
    ConnectionLostError,
    ReplicaClientError,
    ServerError,
    SourceChangedError,
    StreamStateError,
    TransportError,
)
from replica_client.protocol.binlog.layout import HEADER_SIZE
from replica_client.protocol.codec.event_queue import EventQueue
from replica_client.protocol.constants.event_types import EventType
from replica_client.protocol.position import Position
from replica_client.stream.fast.fast_path import MAX_WAITING, FastPath
from replica_client.stream.fast.row_fast_path import RowFastPath
from replica_client.stream.live.skipped_events import Replay, is_artificial_here
from replica_client.stream.live.source_link import SourceLink, may_pass
from replica_client.stream.live.source_start import (
    PastSource,
    behind_purged,
    resolve_start,
    transaction_start,
)
from replica_client.stream.live.stream_knowledge import StreamKnowledge, StreamProgress
from replica_client.stream.live.stream_options import StreamOptions
from replica_client.stream.transactions.arguments import Start
from replica_client.stream.transactions.event_feed import EventFeed, LocatedEvent
from replica_client.stream.transport.connect_options import ConnectOptions
from replica_client.stream.transport.connection import SourceConnection
from replica_client.stream.transport.dump import DumpStream

_LOG = logging.getLogger("replica_client.stream")
_FORMAT_DESCRIPTION = int(EventType.FORMAT_DESCRIPTION_EVENT)


class StreamEvents:
    """Reader of every event, once and in order, that reconnects where a connection was lost.

    Args:
        link: opens connections.
        options: of the stream.
        knowledge: definitions and other state that a new connection needs.
        progress: what was delivered.

    Attributes:
        is_open: whether the stream is wanted.
        waits: whether everything that came was delivered, and the stream waits for the source.
        resume: where the stream started.
        until: no transaction that begins there or later is taken.
    """

    def __init__(
        self,
        link: SourceLink,
        options: StreamOptions,
        knowledge: StreamKnowledge,
        progress: StreamProgress,
    ) -> None:
        self._link, self._options = link, options
        self._knowledge, self._progress = knowledge, progress
        self._feed: EventFeed | None = None
        self._replay: Replay | None = None
        self._gap: Position | None = None
        self._moved = False
        self.is_open = False
        self.waits = False
        self.resume: Position | None = None
        self.until: Position | None = None

    @property
    def feed(self) -> EventFeed:
        """The feed that decodes the events.

        Raises:
            StreamStateError: the stream is not open.
        """
        if self._feed is None:
            raise StreamStateError("the stream is not open; use it in an `async with` block")
        return self._feed

    async def open(self, start: Start) -> None:
        """Connect to the first host that can serve the start; retry as the policy says.

        Raises:
            ReplicaClientError: no host can; the error of the last one.
        """
        last: ReplicaClientError | None = None
        for attempt, delay in enumerate(self._options.reconnect.first_delays(), 1):
            if last is not None:
                _LOG.warning("cannot connect: %s; try %d in %.1f s", last, attempt, delay)
                await asyncio.sleep(delay)
            for host in self._link.hosts():
                try:
                    return await self._open_at(host, start)
                except ReplicaClientError as error:
                    if not self._link.goes_on(error):
                        raise
                    last = error
            # Another of several hosts may become the right one; a single host that refuses the
            # start will not change.
            if last is not None and not may_pass(last):
                break
        raise last or ConnectionLostError("there is no host")

    async def _open_at(self, host: ConnectOptions, start: Start) -> None:
        link, knowledge = self._link, self._knowledge
        connection = await SourceConnection.open(host)
        try:
            link.use(host)
            knowledge.use(host)
            resume = await resolve_start(connection, self._known_there(connection, start))
            if start == "latest" and self._options.schema is None:
                resume = await knowledge.read_schema(connection, resume)
            elif resume.file:
                knowledge.history.rewind(resume.file, resume.offset)
            self.resume = resume
            knowledge.learn_letter_case(connection.server)
            self._progress.parted = resume.inside_transaction
            self._feed = EventFeed(self._options.decode, transaction_start(resume))
            if not isinstance(start, Position):
                await self._pin(connection)
            await link.begin(connection, transaction_start(resume))
            self.is_open = True
        except BinlogPurgedError as error:
            await connection.close()
            if self._feed is None or not await self._pass_gap(error):
                raise
            self.is_open = True
        except BaseException:
            await connection.close()
            raise

    async def _pin(self, connection: SourceConnection) -> None:
        await self._progress.pin(self.resume, connection.server)

    def _known_there(self, connection: SourceConnection, start: Start) -> Start:
        """Translate a saved position to a server; without file and offset on another server."""
        if not isinstance(start, Position) or not start.gtid_set:
            return start
        if self._link.identity.is_same_server(connection.server):
            return start
        if start.inside_transaction:
            raise SourceChangedError(
                f"{connection.options.address} is another server than the one that {start} is of, and "
                "that position is inside a transaction; go back to that server until it is done"
            )
        history = self._knowledge.history
        if start.file:
            # Events that the stream had read after the position are read again.
            history.rewind(start.file, start.offset)
        history.forget_positions()
        self._knowledge.prepared.ledger.forget_positions()
        return Position("", 0, start.gtid_set)

    def is_done(self) -> bool:
        """Return whether everything up to ``until`` was taken."""
        tracker = self.feed.tracker
        if self.until is None or tracker.in_transaction or not tracker.file:
            return False
        return Position(tracker.file, tracker.offset) >= self.until

    async def packets(
        self, fast_path: FastPath | None = None, inside: RowFastPath | None = None
    ) -> AsyncGenerator[Iterator[LocatedEvent], None]:
        """Yield the events of each packet, each event once.

        Events that a fast path takes are left out; an empty iterator is yielded after them.

        Args:
            fast_path: takes whole transactions.
            inside: takes rows in the midst of the others.
        """
        feed, link = self.feed, self._link
        waiting = 0
        while True:
            if link.dump is None:
                raise StreamStateError("the stream is closed")
            if self.is_done():
                return
            events = link.dump.events
            try:
                is_last = not await self._more(link.dump, waiting)
            except (TransportError, ServerError) as error:
                waiting = 0
                await self._go_on_after(error)
                continue
            if is_last and not events:
                return
            waiting = 0
            while events:
                if fast_path is not None and self._is_ordinary():
                    if self._takes(fast_path, events):
                        yield iter(())
                        continue
                    if fast_path.incomplete and not is_last and events.waiting < MAX_WAITING:
                        waiting = len(events)
                        break
                    if not events:
                        break
                if self.is_done():
                    return
                if inside is not None and self._takes_inside(inside, events):
                    yield iter(())
                    continue
                data = events.take()
                if _is_format(data) and not await self._is_same_file(data):
                    break
                if self._replay is None or not self._replay.passes_over(data, feed):
                    self._received(data)
                    fed = feed.feed_stream(data)
                    del data  # avoids two copies of a very large event
                    yield fed
                    if self._moved:
                        self._moved = False
                        self._knowledge.forget_positions()

    async def _more(self, dump: DumpStream, waiting: int) -> bool:
        """Wait for more than so many events; return False if the source has ended."""
        self.waits = True  # everything that was read before was delivered
        try:
            more = await dump.more(waiting)
        finally:
            self.waits = False
        if self._progress.unpinned and self._link.server is not None:
            await self._progress.pin(self.resume, self._link.server)
        return more

    def _is_ordinary(self) -> bool:
        """Return whether whole transactions may be taken: nothing is half done or sent again."""
        return self._replay is None and not self._moved and not self.feed.tracker.in_transaction

    def _takes(self, fast_path: FastPath, events: EventQueue) -> bool:
        tracker = self.feed.tracker
        until, file = self.until, tracker.file
        stop = until.offset if until is not None and until.file == file else -1
        if not fast_path.take(events, file, tracker.offset, stop):
            return False
        self._link.received()
        return True

    def _takes_inside(self, inside: RowFastPath, events: EventQueue) -> bool:
        tracker = self.feed.tracker
        if self._replay is not None or self._moved or not tracker.in_middle:
            return False
        if not inside.take_inside(events, tracker.file, tracker.offset):
            return False
        self._link.received()
        return True

    def _received(self, data: bytes) -> None:
        """Note a new event: it proves the connection good, unless it is artificial."""
        if self._replay is not None or not is_artificial_here(self.feed.decoder.peek_header(data)):
            self._link.received()
        self._replay = None

    async def _is_same_file(self, data: bytes) -> bool:
        """Check that a file is the one that was read before; return False if it must be reread."""
        feed = self.feed
        file = (self._replay or feed.tracker).file
        if file:
            position = transaction_start(feed.tracker.inside())
            try:
                await self._link.see_format(file, feed.decoder.peek_header(data), position)
            except TransportError as error:
                if not self.is_open:
                    raise
                await self._reconnect(error)
                return False
        return True

    async def _go_on_after(self, error: TransportError | ServerError) -> None:
        """Connect again after an error.

        Raises:
            ReplicaClientError: the error, if reconnecting cannot help.
        """
        if not self.is_open:
            raise error
        if isinstance(error, BinlogPurgedError) and await self._pass_gap(error):
            return
        if not self._link.goes_on(error):
            raise error
        await self._reconnect(error)

    async def _pass_gap(self, purged: BinlogPurgedError) -> bool:
        """Continue after transactions that the source purged, if their loss is to be recorded.

        The first file that comes then lists them, and the assembler finds that they never came.
        """
        feed = self.feed
        position = feed.tracker.position
        recorded = self._options.assembly.record_losses
        inside = feed.tracker.in_transaction or self._progress.parted
        if "gtid_gap" not in recorded or not position.gtid_set or inside or self._gap == position:
            return False
        self._gap = position
        _LOG.warning("%s; continuing after the purged files", purged)
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
        feed, progress, knowledge = self.feed, self._progress, self._knowledge
        position = transaction_start(feed.tracker.inside())
        left = PastSource(progress.reached, position, knowledge.reading_state().copy())
        try:
            same = await self._link.reconnect(lost, position, parted=lambda: progress.parted)
        except BinlogPurgedError as error:
            if await self._pass_gap(error):
                return
            raise
        knowledge.learn_letter_case(self._link.server)
        if same:
            feed.new_decoder(feed.tracker.file)
            self._replay = Replay(position) if feed.tracker.file else None
            return
        progress.leave(left)
        feed.change_source()
        self._replay = None
        knowledge.follow(self._link.host)
        self._moved = True


def _is_format(data: bytes) -> bool:
    return len(data) > HEADER_SIZE and data[4] == _FORMAT_DESCRIPTION
