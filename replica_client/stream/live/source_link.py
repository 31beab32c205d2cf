"""The successive connections of a stream to a source that is proven to be the same."""

from __future__ import annotations

import asyncio
import logging
import socket
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence

from replica_client.errors import (
    AccessDeniedError,
    BinlogPurgedError,
    BinlogReadError,
    DataLossError,
    ReplicaClientError,
    ServerError,
    ServerIdConflictError,
    SourceChangedError,
    StreamEndedError,
    TlsError,
    TransportError,
    UnknownBinlogError,
    UnknownHostError,
)
from replica_client.protocol.binlog.event import EventHeader
from replica_client.protocol.binlog.layout import HEADER_SIZE
from replica_client.protocol.codec.byte_fields import ByteReader
from replica_client.protocol.constants.client_server import ErrorCode
from replica_client.protocol.constants.event_types import EventType
from replica_client.protocol.gtid import GtidSet
from replica_client.protocol.position import Position
from replica_client.protocol.wire.server_errors import TRANSIENT_ERRORS
from replica_client.stream.live.source_identity import (
    FileMark,
    SourceIdentity,
    check_executed,
    check_file,
    foreign_gtids,
    refuse_file_elsewhere,
)
from replica_client.stream.live.source_start import dump_request
from replica_client.stream.live.stream_options import StreamOptions
from replica_client.stream.transport import server_statements
from replica_client.stream.transport.connect_options import ConnectOptions
from replica_client.stream.transport.connection import SourceConnection
from replica_client.stream.transport.driver_dump import open_dump
from replica_client.stream.transport.dump import DumpRequest, DumpStream, random_server_id
from replica_client.stream.transport.server_statements import ServerInfo
from replica_client.stream.transport.source_gtids import gtids_in_binlog

_LOG = logging.getLogger("replica_client.stream")
_UUID_SPACE = uuid.UUID("8a9c6e0f-54a7-5a39-9b6a-1f7a2d1c7c11")
_POLL_SECONDS = 0.5
_UNREGISTER_SECONDS = 2.0
_MAX_HOST_NAME = 60


class SourceLink:
    """Opener of connections and dumps, which proves each time that nothing is lost.

    Args:
        hosts: the hosts of one source and its replicas, in the order in which they are tried.
        options: how connections are made.

    Attributes:
        check: inspects the source before each dump, and refuses one that cannot be read; None: no
            check.
        dump: the running dump.
        generation: number of dumps begun so far.
        loss: why there is no dump; None while there is one.
        server: the server of the last dump.
        server_id: ours.
        replica_uuid: ours; the same for a given server id on this machine, so that a source
            recognizes us after a crash.
        identity: identity of the source that positions belong to.
    """

    def __init__(self, hosts: Sequence[ConnectOptions], options: StreamOptions) -> None:
        self._hosts = list(hosts)
        self._options = options
        self._tries: Iterator[float] | None = None
        self._attempt = 0
        self._unproven = False
        self.check: Callable[[SourceConnection], Awaitable[None]] | None = None
        self.dump: DumpStream | None = None
        self.generation = 0
        self.loss: ReplicaClientError | None = None
        self.server: ServerInfo | None = None
        self.identity = SourceIdentity()
        # The high half avoids the small numbers that people give to servers.
        self.server_id = options.server_id or random_server_id()
        self.replica_uuid = str(uuid.uuid4())
        if options.server_id is not None:
            name = f"{socket.gethostname()}/{options.server_id}"
            self.replica_uuid = str(uuid.uuid5(_UUID_SPACE, name))

    @property
    def host(self) -> ConnectOptions:
        """The host of the last connection."""
        return self._hosts[0]

    def hosts(self) -> list[ConnectOptions]:
        """Return all hosts, the current one first."""
        return list(self._hosts)

    def use(self, host: ConnectOptions) -> None:
        """Make a host the current one."""
        at = self._hosts.index(host)
        self._hosts = self._hosts[at:] + self._hosts[:at]

    def goes_on(self, error: ReplicaClientError) -> bool:
        """Return whether to retry, on this host or another, after an error."""
        if isinstance(error, TransportError) or may_pass(error):
            # A TLS error is final: somebody between us and the source would be there at the next
            # try, too.
            return not isinstance(error, TlsError)
        if isinstance(error, ServerIdConflictError):
            return False
        return len(self._hosts) > 1 and isinstance(error, SourceChangedError | BinlogReadError)

    # Start.

    async def begin(self, connection: SourceConnection, position: Position) -> None:
        """Begin a dump at a position, on a connection that it uses up.

        Raises:
            SourceChangedError: the source is not the one that the position is of.
            ServerIdConflictError: another replica has our server id.
            ServerError: the source refuses.
            TransportError: the connection failed.
        """
        if self.check is not None:
            await self.check(connection)
        request = await dump_request(connection, position, non_block=self._options.stop_at_end)
        await self._check_source(connection, position, request)
        await self._check_server_id(connection)
        self.dump = await connection.start_dump(
            request,
            server_id=self.server_id,
            replica_uuid=self.replica_uuid,
            heartbeat_period=self._options.heartbeat_period,
            read_timeout=self._options.read_timeout,
            semi_sync=self._options.semi_sync,
            report_host=socket.gethostname()[:_MAX_HOST_NAME],
        )
        self.server = connection.server
        self.identity.adopt(connection.server)
        self._unproven = True
        self.generation += 1
        self.loss = None

    async def _check_source(
        self, connection: SourceConnection, position: Position, request: DumpRequest
    ) -> None:
        address = connection.options.address
        by_gtid = request.gtid_set is not None
        if request.gtid_set is not None:
            have = request.gtid_set
            executed = await gtids_in_binlog(connection, have)
            if isinstance(have, GtidSet) and isinstance(executed, GtidSet):
                if not self.identity.known:
                    uuid_there = connection.server.server_uuid
                    self.identity.foreign = foreign_gtids(have, executed, uuid_there)
                have = have - self.identity.foreign
            check_executed(have, executed, address)
        if not self.identity.known or not position.file:
            return
        if not self.identity.is_same_server(connection.server):
            if not by_gtid:
                raise refuse_file_elsewhere(position, address)
            return
        try:
            logs = await connection.binary_logs()
        except AccessDeniedError:
            return  # the marks of the files remain
        check_file(position, logs, address, by_gtid)

    async def _check_server_id(self, connection: SourceConnection) -> None:
        """Look for another replica with our server id before we and it end each other's dumps.

        MariaDB does not let a replica look, and says itself whose dump it ended; MySQL
        distinguishes replicas by UUID.
        """
        if not server_statements.has_server_uuid(connection.server):
            return
        loop = asyncio.get_running_loop()
        deadline = loop.time() + 2 * self._options.heartbeat_period + 1
        while (other := await self._same_id(connection)) is not None:
            if self._options.server_id is None:
                self.server_id = random_server_id()
                continue
            if self.generation or loop.time() >= deadline:
                raise self._conflict(other)
            # After a crash our own last connection exists until the next heartbeat.
            await asyncio.sleep(_POLL_SECONDS)

    async def _same_id(self, connection: SourceConnection) -> str | None:
        for name, other in await self._registered(connection):
            if other not in ("", self.replica_uuid):
                return f"{name or 'unnamed'} (uuid {other})"
        return None

    async def _registered(self, connection: SourceConnection) -> list[tuple[str, str]]:
        """Return name and UUID of each replica that is registered with our server id.

        MySQL 5.6 omits the UUID column for a replica that gave none; later versions leave it empty.
        """
        rows = await connection.query(server_statements.replicas(connection.server), columns=4)
        return [
            (str(row[1] or ""), str(row[4] or "") if len(row) > 4 else "")
            for row in rows
            if str(row[0]) == str(self.server_id)
        ]

    async def _check_eviction(self, connection: SourceConnection) -> None:
        """Raise if a replica with our server id took over our dump, which MySQL 5.6 ends in order."""
        if not server_statements.has_server_uuid(connection.server):
            return
        deadline = asyncio.get_running_loop().time() + _UNREGISTER_SECONDS
        while True:
            mine = await self._registered(connection)
            if not mine:
                return
            if asyncio.get_running_loop().time() >= deadline:
                name, uuid = mine[0]
                raise self._conflict(f"{name or 'unnamed'} (uuid {uuid or 'unknown'})")
            await asyncio.sleep(_POLL_SECONDS)

    def _conflict(self, other: str) -> ServerIdConflictError:
        return ServerIdConflictError(
            ErrorCode.ER_MASTER_FATAL_ERROR_READING_BINLOG,
            "HY000",
            f"server id {self.server_id} is that of another replica of {self.host.address}: {other}",
            "give each client its own server_id",
        )

    # Reconnecting.

    def received(self) -> None:
        """Reset the retries after a new event, so that the next loss starts with a first try."""
        self._tries = None

    async def reconnect(
        self,
        lost: ReplicaClientError,
        position: Position,
        *,
        parted: Callable[[], bool],
    ) -> bool:
        """Begin the next dump.

        Args:
            lost: why there is no connection.
            position: start of the transaction that was being read.
            parted: returns whether a part of that transaction was delivered.

        Returns:
            Whether the dump comes from the same server as the one before.

        Raises:
            TransportError: the last failure, when the policy gives up.
            ServerError: the source refuses for a reason that a retry does not change.
            SourceChangedError: the source is not what it was, or no host has all that we have.
            DataLossError: another host cannot go on inside a transaction.
        """
        await self.close()
        last, refused = lost, None
        if self._tries is None:
            self._tries, self._attempt = self._options.reconnect.delays(), 0
        for delay in self._tries:
            self._attempt += 1
            self.loss = last
            _LOG.warning(
                "connection lost: %s; try %d in %.1f s, from %s",
                # A handler that keeps records would keep the error's frames, and the connection.
                str(last),
                self._attempt,
                delay,
                position,
            )
            await asyncio.sleep(delay)
            for host in self.hosts():
                try:
                    return await self._resume(host, position, lost, parted)
                except ReplicaClientError as error:
                    if not self.goes_on(error):
                        raise
                    last = error
                    if not isinstance(error, TransportError):
                        refused = error
        raise refused or last

    async def _resume(
        self,
        host: ConnectOptions,
        position: Position,
        lost: ReplicaClientError,
        parted: Callable[[], bool],
    ) -> bool:
        connection = await SourceConnection.open(host)
        try:
            same = self.identity.is_same_server(connection.server)
            if same and isinstance(lost, StreamEndedError):
                await self._check_eviction(connection)
            if not same and position.gtid_set is None:
                raise refuse_file_elsewhere(position, host.address)
            if not same and parted():
                raise DataLossError(
                    f"{host.address} is another server than the one that a part of the transaction at "
                    f"{position.file}:{position.offset} was read from, and cannot go on inside it; go back "
                    "to that server, or deliver larger transactions whole (AssemblyOptions.part_size)"
                )
            if not same:
                position = Position("", 0, position.gtid_set)
            await self.begin(connection, position)
        except BaseException:
            await connection.close()
            raise
        if host is not self.host:
            _LOG.warning("the stream now comes from %s", host.address)
        self.use(host)
        return same

    async def see_format(self, file: str, header: EventHeader, position: Position) -> None:
        """Check that the file of a format description is the one that was read before.

        Args:
            file: the file of the format description.
            header: its header.
            position: start of the transaction that was being read.

        Raises:
            SourceResetError: it is another file of the same name.
        """
        unproven, self._unproven = self._unproven, False
        mark = FileMark(header.timestamp, header.server_id)
        if unproven and position.file != file and position.file in self.identity.files:
            await self._prove_file(position.file)
        self.identity.see_file(file, mark, self.host.address)

    async def _prove_file(self, file: str) -> None:
        """Check the file that was read last, when a dump begins in another one."""
        mark = await read_mark(self.host, file)
        if mark is not None:
            self.identity.see_file(file, mark, self.host.address)

    async def close(self) -> None:
        """End the dump."""
        dump, self.dump = self.dump, None
        if dump is not None:
            await dump.close()


def may_pass(error: ReplicaClientError) -> bool:
    """Return whether retrying may reach a host that was never reached.

    A host name that is unknown at the first connection is probably misspelt. A stream that loses
    its connection knows the name as valid and retries (:meth:`SourceLink.goes_on`).
    """
    if isinstance(error, TransportError):
        return not isinstance(error, (UnknownHostError, TlsError))
    return isinstance(error, ServerError) and error.errno in TRANSIENT_ERRORS


async def read_mark(options: ConnectOptions, file: str) -> FileMark | None:
    """Return the mark of a source's binlog file; None if it has no such file."""
    async with await open_dump(options, DumpRequest(file, non_block=True)) as dump:
        try:
            async for data in dump:
                header = EventHeader.decode(ByteReader(data[:HEADER_SIZE]))
                if header.type_code == EventType.FORMAT_DESCRIPTION_EVENT:
                    return FileMark(header.timestamp, header.server_id)
        except (UnknownBinlogError, BinlogPurgedError):
            pass
    return None
