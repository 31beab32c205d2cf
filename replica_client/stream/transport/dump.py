"""A dump request, and the dump loop."""

from __future__ import annotations

import asyncio
import secrets

from replica_client.errors import (
    ConfigError,
    ConnectionLostError,
    ReplicaClientError,
    StreamEndedError,
    TransportTimeoutError,
    UnexpectedPacketError,
)
from replica_client.protocol.codec.event_queue import EventQueue
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.client_server import DumpFlag
from replica_client.protocol.gtid import GtidSet, MariadbGtidSet
from replica_client.protocol.wire.dump_commands import (
    MAX_POSITION,
    ComBinlogDump,
    ComBinlogDumpGtid,
    DumpSession,
)
from replica_client.stream.transport.server_statements import ServerInfo

BUFFER_SIZE = 1 << 20
_SMALL_BUFFER_SIZE = 64 << 10
DEFAULT_QUEUE_SIZE = 16 << 20


@dataclass(slots=True)
class DumpStatistics:
    """Counters of one dump.

    Attributes:
        bytes_received: from the connection.
        events_received: complete events.
        last_received: loop time of the last byte.
        seconds_paused: how long the consumer made the source wait.
    """

    bytes_received: int = 0
    events_received: int = 0
    last_received: float = 0.0
    seconds_paused: float = 0.0


class DumpProtocol(asyncio.BufferedProtocol):
    """Receiver of a dump; users see :class:`DumpStream`.

    Args:
        session: cuts the bytes into events.
        address: the source, for messages.
        non_block: the source ends the stream at the end of its last file.
        read_timeout: seconds without a byte after which the connection counts as dead.
        queue_size: bytes of events that may wait for the consumer.

    Attributes:
        events: the events that wait.
    """

    def __init__(
        self,
        session: DumpSession,
        *,
        address: str,
        non_block: bool,
        read_timeout: float,
        queue_size: int = DEFAULT_QUEUE_SIZE,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._session = session
        self.events = session.events
        self._address = address
        self._non_block = non_block
        self._read_timeout = read_timeout
        self._queue_size = queue_size
        # The buffer is not larger than the queue's limit.
        self._buffer_size = max(_SMALL_BUFFER_SIZE, min(BUFFER_SIZE, queue_size))
        self._writer: asyncio.StreamWriter | None = None
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._paused_since: float | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._error: ReplicaClientError | None = None
        self._ended = False
        self.statistics = DumpStatistics(last_received=self._loop.time())

    # Called by asyncio.

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return free memory of the queue."""
        return self._session.room(self._buffer_size)

    def buffer_updated(self, nbytes: int) -> None:
        """Cut the received bytes into events."""
        statistics = self.statistics
        statistics.bytes_received += nbytes
        statistics.last_received = self._loop.time()
        if self._ended:
            return
        session = self._session
        events = session.received(nbytes)
        statistics.events_received += events
        if self.events.waiting >= self._queue_size and self._paused_since is None:
            self._pause()
        if session.ended:
            self._session_ended()
        elif events:
            self._wake()

    def eof_received(self) -> bool:
        """End the dump after the source closed its side; the transport then closes ours."""
        self._session.receive_eof()
        self._finish(self._lost(None))
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """End the dump after the connection was lost."""
        self._session.receive_eof()
        self._finish(self._lost(exc))
        if not self._closed.done():
            self._closed.set_result(None)
        if self._transport is not None:
            # With TLS the transport keeps methods of its protocol in a reference cycle: without
            # this, the queue's memory would wait for a garbage collection.
            self._transport.set_protocol(_NOBODY)
        self._transport = self._writer = None

    # Called by DumpStream.

    def start(self, writer: asyncio.StreamWriter, command: bytes, rest: bytes) -> None:
        """Send the command and receive: first ``rest``, then from a transport that is paused."""
        transport = writer.transport
        assert isinstance(transport, asyncio.Transport)
        self._writer = writer  # the writer would close the transport when it is collected
        self._transport = transport
        transport.write(command)
        for offset in range(0, len(rest), BUFFER_SIZE):
            piece = rest[offset : offset + BUFFER_SIZE]
            self._session.room(len(piece))[:] = piece
            self.buffer_updated(len(piece))
        if self._ended:
            return
        self.statistics.last_received = self._loop.time()
        if self._paused_since is None:
            transport.resume_reading()
        self._timer = self._loop.call_later(self._read_timeout, self._check_deadline)

    async def more(self, known: int = 0) -> bool:
        """Wait until there are more than ``known`` events; return False at the end."""
        if len(self.events) <= known:
            self._resume()
        else:
            self.taken()
        while len(self.events) <= known:
            if self._ended:
                if self._error is not None:
                    raise self._error
                return False
            if self._waiter is not None:
                raise RuntimeError("another task already reads this dump")
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return True

    def pause(self) -> None:
        """Stop receiving until :meth:`more` is awaited."""
        if self._paused_since is None and not self._ended:
            self._pause()

    def taken(self) -> None:
        """Resume receiving, if there is room, after events were taken."""
        if self.events.waiting < self._queue_size:
            self._resume()

    def write(self, data: bytes) -> None:
        """Send bytes to the source; does nothing once the dump has ended."""
        if self._transport is not None and not self._ended:
            self._transport.write(data)

    async def close(self) -> None:
        """End the connection; safe to call at any time, more than once."""
        closed = ConnectionLostError(f"the dump from {self._address} was closed by us")
        self._finish(closed)
        # An error that was raised refers to this object and would keep its memory until a garbage
        # collection.
        self._error = closed
        if self._transport is not None:
            await asyncio.shield(self._closed)

    # Internal.

    def _pause(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()
        self._paused_since = self._loop.time()

    def _resume(self) -> None:
        if self._paused_since is None:
            return
        now = self._loop.time()
        self.statistics.seconds_paused += now - self._paused_since
        self.statistics.last_received = now
        self._paused_since = None
        if self._transport is not None and not self._ended:
            self._transport.resume_reading()

    def _check_deadline(self) -> None:
        self._timer = None
        if self._ended:
            return
        now = self._loop.time()
        since = now if self._paused_since is not None else self.statistics.last_received
        left = since + self._read_timeout - now
        if left > 0:
            self._timer = self._loop.call_later(left, self._check_deadline)
            return
        self._finish(
            TransportTimeoutError(
                f"no byte was received from {self._address} for {self._read_timeout:g} s, although it sends "
                "heartbeats: the connection is dead (options heartbeat_period and read_timeout)"
            )
        )

    def _lost(self, exc: Exception | None) -> ReplicaClientError:
        if self._session.error is not None:
            detail = f" ({self._session.error})"
        else:
            detail = f" ({exc})" if exc is not None else ""
        return ConnectionLostError(f"{self._address} closed the connection{detail}")

    def _session_ended(self) -> None:
        error = self._session.error
        if error is None and not self._non_block:
            error = StreamEndedError(f"{self._address} ended the stream (EOF packet)")
        self._finish(error)

    def _finish(self, error: ReplicaClientError | None) -> None:
        if self._ended:
            return
        self._ended = True
        self._error = error
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None:
            # Nothing more is sent, and a dead peer would never read it.
            self._transport.abort()
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


_NOBODY = asyncio.BufferedProtocol()


class DumpStream:
    """A running dump: whole events as received, in order.

    An asynchronous context manager; leaving it ends the connection. Iterating yields one event at a time
    and raises as :meth:`more`. One task at a time may read.

    Attributes:
        server: the source.
        statistics: counters, e.g. for health checks.
    """

    def __init__(self, protocol: DumpProtocol, session: DumpSession, server: ServerInfo) -> None:
        self._protocol = protocol
        self._session = session
        self.server = server

    @property
    def statistics(self) -> DumpStatistics:
        """Counters of this dump."""
        return self._protocol.statistics

    @property
    def queued(self) -> int:
        """Bytes of events that wait to be read."""
        return int(self._protocol.events.waiting)

    @property
    def semi_sync_active(self) -> bool:
        """Whether the source waits for acknowledgements."""
        return self._session.semi_sync_active

    @property
    def events(self) -> EventQueue:
        """The waiting events, each from common header to checksum."""
        return self._protocol.events

    async def more(self, known: int = 0) -> bool:
        """Wait until more than ``known`` events are queued.

        Returns:
            False once a dump that does not block reached the end.

        Raises:
            ServerError: the source refused or ended the dump.
            ProtocolError: it sent what the protocol forbids.
            ConnectionLostError: the connection ended.
            TransportTimeoutError: nothing was received within the read deadline.
        """
        return await self._protocol.more(known)

    def pause(self) -> None:
        """Receive nothing until :meth:`more` is called, for a consumer that has enough."""
        self._protocol.pause()

    async def read(self) -> list[bytes]:
        """Wait for events and return them; raises as :meth:`more`.

        Returns:
            All that wait (at least one); an empty list once a dump that does not block reached the
            end.
        """
        if not await self.more():
            return []
        events = self.events.take_all()
        self._protocol.taken()
        return events

    def __aiter__(self) -> DumpStream:
        return self

    async def __anext__(self) -> bytes:
        if not len(self.events) and not await self.more():
            raise StopAsyncIteration
        return self.events.take()

    async def acknowledge_semi_sync(self, file: str, position: int) -> None:
        """Acknowledge to the source that everything up to this position is durably stored.

        Raises:
            UnexpectedPacketError: the dump is not semi-synchronous.
        """
        if not self.semi_sync_active:
            raise UnexpectedPacketError("this dump is not semi-synchronous: nothing to acknowledge")
        self._protocol.write(self._session.semi_sync_ack(file, position))

    async def close(self) -> None:
        """End the dump; safe to call more than once."""
        await self._protocol.close()

    async def __aenter__(self) -> DumpStream:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()


def random_server_id() -> int:
    """Return a random server id from the upper half of the range, which people seldom use."""
    return (1 << 31) + secrets.randbelow((1 << 31) - 1)


@dataclass(frozen=True, slots=True)
class DumpRequest:
    """The start of a dump and its options.

    Attributes:
        file: binlog file; empty with a GTID set, or for the first file that the source has.
        position: offset of an event's first byte in it.
        gtid_set: what we have already; None: start by file and position.
        non_block: end at the end of the last file instead of waiting.
        annotate_rows: MariaDB: send ANNOTATE_ROWS events (the statements' texts).
    """

    file: str = ""
    position: int = 4
    gtid_set: GtidSet | MariadbGtidSet | None = None
    non_block: bool = False
    annotate_rows: bool = True

    def __post_init__(self) -> None:
        if self.position < 4:
            raise ConfigError(f"position {self.position}: the first event of a file is at 4")

    def check(self, server: ServerInfo) -> None:
        """Raise unless this server's flavor supports the request.

        Raises:
            ConfigError: a GTID set of the other flavor.
        """
        wanted = MariadbGtidSet if server.is_mariadb else GtidSet
        if self.gtid_set is not None and not isinstance(self.gtid_set, wanted):
            raise ConfigError(
                f"the source is {server.flavor} {server.version_text}, but the start is a GTID "
                f"position of the other flavor: {self.gtid_set}"
            )

    @property
    def slave_connect_state(self) -> str | None:
        """MariaDB's start position as text; None unless the dump starts by GTID."""
        if isinstance(self.gtid_set, MariadbGtidSet):
            return self.gtid_set.slave_connect_state()
        return None

    def command(self, server: ServerInfo, server_id: int) -> bytes:
        """Build the payload of the dump command.

        A file position beyond 4 GiB needs COM_BINLOG_DUMP_GTID with an empty set. MySQL >= 8.0
        answers that when GTIDs are on (5.6 leaves events out).

        Raises:
            EncodeError: the protocol cannot ask for this position.
        """
        flags = DumpFlag.BINLOG_DUMP_NON_BLOCK if self.non_block else DumpFlag(0)
        if not server.is_mariadb and server.version >= (8, 0, 26):
            flags |= DumpFlag.USE_HEARTBEAT_EVENT_V2  # heartbeats with 64-bit positions
        if isinstance(self.gtid_set, GtidSet):
            flags |= DumpFlag.BINLOG_THROUGH_GTID
            return ComBinlogDumpGtid(self.gtid_set.encode(), server_id, flags=flags).encode()
        if self.annotate_rows and server.is_mariadb:
            flags |= DumpFlag.BINLOG_SEND_ANNOTATE_ROWS_EVENT
        if self.gtid_set is not None:
            return ComBinlogDump("", 4, server_id, flags).encode()
        if self.position > MAX_POSITION and not server.is_mariadb and server.version >= (8, 0, 0):
            return ComBinlogDumpGtid(
                GtidSet().encode(), server_id, self.file, self.position, flags
            ).encode()
        return ComBinlogDump(self.file, self.position, server_id, flags).encode()
