"""Serves binlog files over the replication protocol: listening, accounts, limits, sessions."""

from __future__ import annotations

import asyncio
import socket
import ssl
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Self

from replica_client.constants.flavor import ServerFlavor
from replica_client.errors import ConfigError, ServerError
from replica_client.server import certificates
from replica_client.server.accounts import Account, Limits, nobody
from replica_client.server.packet_output import Output
from replica_client.server.served_library import BinlogLibrary
from replica_client.server.session import ServerSession
from replica_client.server.understood_sql import Rows, normal
from replica_client.transport.server_info import parse_version
from replica_client.wire.packets import ErrPacket
from replica_client.wire.resultset import Value

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

NO_UUID = "00000000-0000-0000-0000-000000000000"


class BinlogServer:
    """Serves the files of a library to any client of the protocol.

    Flavor, version, server id and checksums are those of the last file. It executes no SQL: it answers the
    statements that replicas send, and refuses everything else.

    Args:
        library: the files.
        accounts: who may log in.
        host: address to listen on.
        port: 0: any free one.
        default_plugin: named in the greeting, and asked of names that nobody has; None: what a server of
            that version has by default.
        tls: context for clients that ask for TLS.
        tls_required: refuse logins without TLS.
        limits: for each client.
        answers: rows for statements by their text: ``{"SELECT 1": (["1"], [(1,)])}``.
        semi_sync: ask clients that offer it for semi-synchronous acknowledgements.
        unix_socket: path to listen on as well.
        comment: the server's ``version_comment``.
        server_uuid: of the server; None: of the first GTID in the files.
        on_dump: called when a client has asked for a dump.

    Attributes:
        port: where it listens, once started.
        library: the files.
        connections: how many clients have connected so far.
        failed_logins: how many logins were refused so far.
    """

    def __init__(
        self,
        library: BinlogLibrary,
        accounts: Iterable[Account],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        default_plugin: str | None = None,
        tls: ssl.SSLContext | None = None,
        tls_required: bool = False,
        limits: Limits | None = None,
        answers: Mapping[str, Rows] | None = None,
        semi_sync: bool = False,
        unix_socket: str | None = None,
        comment: str = "replica_client",
        server_uuid: str | None = None,
        on_dump: Callable[[], None] | None = None,
    ) -> None:
        self.library = library
        self.host = host
        self.port = port
        self.default_plugin = default_plugin or _default_plugin(library)
        self.tls_context = tls
        self.limits = limits or Limits()
        self.answers = {normal(sql): rows for sql, rows in (answers or {}).items()}
        self.semi_sync = semi_sync
        self.comment = comment
        self.server_uuid = server_uuid or library.server_uuid() or NO_UUID
        if self.server_uuid == NO_UUID:
            self.server_uuid = str(uuid.uuid4())
        self.connections = 0
        self.failed_logins = 0
        self._on_dump = on_dump
        self._tls_required = tls_required
        self._unix_socket = unix_socket
        self._accounts = {account.user: account for account in accounts}
        self._servers: list[asyncio.Server] = []
        self._sessions: dict[int, tuple[ServerSession, asyncio.Task[None]]] = {}

    @property
    def sessions(self) -> list[ServerSession]:
        """Open connections, oldest first."""
        return [session for session, _ in self._sessions.values()]

    async def start(self) -> None:
        """Listen.

        Raises:
            ConfigError: the port or the socket's path cannot be used.
        """
        try:
            server = await asyncio.start_server(self._accept, self.host, self.port)
            self._servers.append(server)
            self.port = server.sockets[0].getsockname()[1]
            if self._unix_socket is not None:
                unix = await asyncio.start_unix_server(self._accept, self._unix_socket)
                self._servers.append(unix)
        except OSError as error:
            await self.close()
            raise ConfigError(
                f"cannot listen on {self.host}:{self.port}: {error.strerror}"
            ) from None

    async def close(self) -> None:
        """End all connections and stop listening."""
        for server in self._servers:
            server.close()
        await self.disconnect_all()
        for server in self._servers:
            await server.wait_closed()
        self._servers.clear()

    async def disconnect_all(self) -> None:
        """Drop every client, as a server that is killed does."""
        tasks = [task for _, task in self._sessions.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def serve_forever(self) -> None:
        """Serve until cancelled."""
        await asyncio.gather(*(server.serve_forever() for server in self._servers))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    # What sessions ask and report.

    def account(self, user: str) -> Account:
        """The account of a user name; for an unknown name an account that no password opens."""
        return self._accounts.get(user) or nobody(user, self.default_plugin)

    def rsa_key(self) -> RSAPrivateKey:
        """For passwords that come without TLS."""
        return certificates.rsa_key()

    def refusal(self, connection_id: int, user: str, *, secure: bool) -> ServerError | None:
        """The reason to refuse a login before its password is checked; None when there is none."""
        if self._tls_required and not secure:
            return ServerError(
                3159, "08004", "Connections using insecure transport are prohibited: ask for TLS"
            )
        most = self.limits.user_connections
        if most is not None and sum(other.user == user for other in self.sessions) >= most:
            return ServerError(
                1226,
                "42000",
                f"User has exceeded the 'max_user_connections' resource (current value: {most})",
            )
        return None

    def login_failed(self, connection_id: int, user: str, peer: str) -> None:
        """A login was refused."""
        self.failed_logins += 1

    def logged_in(self, connection_id: int, user: str, *, secure: bool) -> None:
        """A login succeeded."""

    def statement_came(self, session: ServerSession, sql: str) -> None:
        """A client sent a statement."""

    def replicas(self) -> list[tuple[Value, ...]]:
        """Rows of SHOW REPLICAS."""
        return [
            (
                session.replica.server_id,
                session.replica.host,
                session.replica.port,
                self.library.server_id,
                session.replica_uuid,
            )
            for session in self.sessions
            if session.replica is not None
        ]

    def kill(self, connection_id: int, user: str) -> None:
        """Close a connection of the same user.

        Raises:
            ServerError: there is none of that number, or it is another user's.
        """
        found = self._sessions.get(connection_id)
        if found is None:
            raise ServerError(1094, "HY000", f"Unknown thread id: {connection_id}")
        if found[0].user != user:
            raise ServerError(1095, "HY000", f"You are not owner of thread {connection_id}")
        found[1].cancel()

    def dump_begins(self, session: ServerSession) -> None:
        """End an older dump of the replica that starts a new one."""
        if self._on_dump is not None:
            self._on_dump()
        for other in self.sessions:
            if other is session or not other.dump_server_id:
                continue
            same = (
                other.replica_uuid == session.replica_uuid
                if session.replica_uuid
                else other.dump_server_id == session.dump_server_id
            )
            if same:
                other.evict(
                    ServerError(
                        1236,
                        "HY000",
                        "A replica with the same server_uuid/server_id as this replica has "
                        "connected to the source",
                    )
                )

    # Connections.

    def _session(
        self, connection_id: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> ServerSession:
        return ServerSession(self, connection_id, reader, writer)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        task = asyncio.current_task()
        if task is None:
            return
        if self._is_full():
            await self._turn_away(writer)
            return
        self._end_oldest_login()
        _watch(writer, self.limits.write_timeout)
        session = self._session(number, reader, writer)
        self._sessions[number] = (session, task)
        try:
            await session.run()
        except asyncio.CancelledError:
            pass
        finally:
            self._sessions.pop(number, None)

    def _is_full(self) -> bool:
        most = self.limits.connections
        return most is not None and len(self._sessions) >= most

    def _end_oldest_login(self) -> None:
        """With too many logins at once the oldest ends: a flood of them keeps nobody out who logs in at once."""
        most = self.limits.logins
        if most is None:
            return
        # Dictionaries keep their order: the oldest comes first.
        waiting = [task for session, task in self._sessions.values() if not session.user]
        for task in waiting[: max(0, len(waiting) - most + 1)]:
            task.cancel()

    async def _turn_away(self, writer: asyncio.StreamWriter) -> None:
        output = Output(writer, self.limits.write_timeout)
        output.packet(ErrPacket(1040, "Too many connections", "08004").encode())
        try:
            await output.flush()
        except ConnectionError:
            pass
        finally:
            writer.transport.abort()


def _watch(writer: asyncio.StreamWriter, write_timeout: float | None) -> None:
    """Have the kernel notice a client that is gone without a word, and end its connection."""
    sock: socket.socket | None = writer.get_extra_info("socket")
    if sock is None or sock.family == socket.AF_UNIX:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    if write_timeout is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(write_timeout * 1000))


def _default_plugin(library: BinlogLibrary) -> str:
    new = parse_version(library.server_version) >= (8, 0, 4)
    if library.flavor is ServerFlavor.MYSQL and new:
        return "caching_sha2_password"
    return "mysql_native_password"
