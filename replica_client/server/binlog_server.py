"""A server of binlog files over the replication protocol: listening, accounts, limits, sessions."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, Self

from replica_client.errors import ConfigError, ServerError
from replica_client.protocol.codec.printable import printable
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.protocol.wire.packets import ErrPacket
from replica_client.protocol.wire.resultset import Value
from replica_client.server import accounts
from replica_client.server.accounts import Account, Accounts, Limits
from replica_client.server.budget import AccountBudget, Worker
from replica_client.server.packet_output import Output
from replica_client.server.served_library import BinlogLibrary
from replica_client.server.session import ServerSession
from replica_client.server.sql_grammar import PLAYED_VARIABLES, normal, own_variables
from replica_client.server.understood_sql import Rows
from replica_client.stream.transport.server_statements import parse_version

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

_LOG = logging.getLogger("replica_client.server")

_LOGGED_REFUSALS: Final = 10
"""Refused logins per second that are logged one by one."""

_READ_LIMIT: Final = 16 << 10
"""Bytes that are read ahead on one connection."""

NO_UUID = "00000000-0000-0000-0000-000000000000"


class BinlogServer:
    """A server of the files of a library, for any client of the replication protocol.

    Flavor, version, server id and checksums are those of the last file. It executes no SQL: it answers the
    statements that replicas send, and refuses everything else.

    Args:
        library: the files.
        accounts: who may log in.
        host: address to listen on.
        port: 0: any free one.
        default_plugin: named in the greeting, and used for unknown names; None: the default of a
            server of that version.
        tls: context for clients that ask for TLS.
        tls_required: refuse logins without TLS.
        limits: for each client.
        answers: rows for statements by their text: ``{"SELECT 1": (["1"], [(1,)])}``.
        semi_sync: ask clients that offer it for semi-synchronous acknowledgements.
        unix_socket: path to listen on as well.
        comment: the server's ``version_comment``.
        server_uuid: of the server; None: of the first GTID in the files.
        on_dump: called when a client has requested a dump.
        login_key: chooses how logins of unknown names look; None: a random key.

    Attributes:
        worker: a thread for long statements.
        port: where it listens, once started.
        library: the files.
        connections: number of clients that have connected so far.
        failed_logins: number of logins refused so far.
        questions: number of statements received so far.
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
        login_key: bytes | None = None,
    ) -> None:
        self.library = library
        self.host = host
        self.port = port
        self.default_plugin = default_plugin or _default_plugin(library)
        self.tls_context = tls
        self.limits = limits or Limits()
        self.answers: Mapping[str, Rows] = {
            normal(sql): rows for sql, rows in (answers or {}).items()
        }
        self.semi_sync = semi_sync
        self.comment = comment
        self.server_uuid = server_uuid or library.server_uuid() or NO_UUID
        if self.server_uuid == NO_UUID:
            self.server_uuid = str(uuid.uuid4())
        self.connections = 0
        self.failed_logins = 0
        self.questions = 0
        self._on_dump = on_dump
        self._tls_required = tls_required
        self._unix_socket = unix_socket
        self.accounts = Accounts(accounts, self.default_plugin, login_key)
        self.worker = Worker()
        self._budgets: dict[str, AccountBudget] = {}
        self._started = time.monotonic()
        self._refusals = (0, 0)
        self._variables: tuple[object, dict[str, Value]] | None = None
        self._servers: list[asyncio.Server] = []
        self._sessions: dict[int, tuple[ServerSession, asyncio.Task[None]]] = {}

    @property
    def sessions(self) -> list[ServerSession]:
        """Open connections, oldest first."""
        return [session for session, _ in self._sessions.values()]

    async def start(self) -> None:
        """Start to listen.

        Raises:
            ConfigError: the port or the socket's path cannot be used.
        """
        try:
            server = await asyncio.start_server(
                self._accept, self.host, self.port, limit=_READ_LIMIT
            )
            self._servers.append(server)
            for listener in server.sockets:
                # Connections inherit it. The event loop takes up to 256 KiB at once from a larger one.
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _READ_LIMIT)
            self.port = server.sockets[0].getsockname()[1]
            if self._unix_socket is not None:
                unix = await asyncio.start_unix_server(
                    self._accept, self._unix_socket, limit=_READ_LIMIT
                )
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
        self.worker.close()

    async def disconnect_all(self) -> None:
        """Drop every client without notice, as a killed server does."""
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

    # Called by sessions.

    def account(self, user: str) -> Account:
        """Return the account of a user name; for an unknown name an account that no password opens."""
        return self.accounts.of(user)

    def budget(self, user: str) -> AccountBudget:
        """Return the budget that the sessions of an account share."""
        return self._budgets.setdefault(user, AccountBudget(self.limits))

    def rsa_key(self) -> RSAPrivateKey:
        """Return the key for passwords that come without TLS."""
        return accounts.rsa_key()

    def refusal(self, connection_id: int, user: str, *, secure: bool) -> ServerError | None:
        """Return the reason to refuse a login before its password is checked, or None."""
        if self._tls_required and not secure:
            return ServerError(
                3159, "08004", "Connections using insecure transport are prohibited: ask for TLS"
            )
        return None

    def too_many(self, user: str) -> ServerError | None:
        """Return the reason to refuse a login whose password was right, or None.

        When the server is full, the newest connection of the account with the most is ended.
        """
        counts = self._connections_by_user()
        most = self.limits.user_connections
        if most is not None and counts.get(user, 0) >= most:
            return ServerError(
                1226,
                "42000",
                f"User has exceeded the 'max_user_connections' resource (current value: {most})",
            )
        most = self.limits.connections
        if most is None or sum(counts.values()) < most:
            return None
        largest = max(counts, key=lambda name: counts[name])
        if counts[largest] <= counts.get(user, 0) + 1:
            return ServerError(1040, "08004", "Too many connections")
        theirs = [task for one, task in self._sessions.values() if one.user == largest]
        still = [task for task in theirs if not task.cancelling()]
        if still:
            still[-1].cancel()
        return None

    def _connections_by_user(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for session in self.sessions:
            if session.user:
                counts[session.user] = counts.get(session.user, 0) + 1
        return counts

    def login_failed(
        self, connection_id: int, user: str, peer: str, error: ServerError | None = None
    ) -> None:
        """Log a refused login and its address, at most a few lines per second."""
        self.failed_logins += 1
        second = int(time.monotonic())
        before, count = self._refusals
        if second != before:
            if count > _LOGGED_REFUSALS:
                _LOG.warning("%d more logins were refused", count - _LOGGED_REFUSALS)
            count = 0
        self._refusals = second, count + 1
        if count < _LOGGED_REFUSALS and error is not None:
            _LOG.warning(
                "refused login of user %s from %s: error %d",
                printable(user[:_LONGEST_NAME]),
                peer or "a Unix socket",
                error.errno,
            )

    def logged_in(self, connection_id: int, user: str, *, secure: bool) -> None:
        """Handle a login that succeeded; does nothing here."""

    def statement_came(self, session: ServerSession, sql: str) -> None:
        """Handle a statement that a client sent; does nothing here."""

    def change_accounts(self, accounts: Iterable[Account]) -> None:
        """Replace the accounts.

        Connections of accounts that are gone or have another password end.
        """
        before = self.accounts
        self.accounts = before.replaced(accounts)
        for session, task in list(self._sessions.values()):
            if session.user and not before.is_same(self.accounts, session.user):
                task.cancel()

    # Called by statements.

    def variables(self) -> Mapping[str, Value]:
        """Return the variables of the server and its files, by name in lower case."""
        files = self.library.files
        mode, last = self.library.gtid_mode, files[-1]
        state = (files[0].name, last.name, last.size, mode, self.port, self.server_uuid)
        if self._variables is None or self._variables[0] != state:
            values = own_variables(
                self.library,
                port=self.port,
                server_uuid=self.server_uuid,
                comment=self.comment,
                semi_sync=self.semi_sync,
                idle_timeout=self.limits.idle_timeout,
                write_timeout=self.limits.write_timeout,
            )
            self._variables = state, values
        return self._variables[1]

    async def source_variables(self) -> Mapping[str, Value] | None:
        """Return the fixed variables of the source that a testing server plays."""
        return PLAYED_VARIABLES

    def replica_status(self) -> Mapping[str, Value] | None:
        """Return the row of SHOW REPLICA STATUS; None for a server that is no replica."""
        return None

    def status(self) -> Mapping[str, Value]:
        """Return the rows of SHOW STATUS."""
        counts = sum(self._connections_by_user().values())
        return {
            "Aborted_connects": self.failed_logins,
            "Connections": self.connections,
            "Max_used_connections": self.limits.connections or counts,
            "Questions": self.questions,
            "Threads_connected": counts,
            "Threads_running": sum(one.doing == "Query" for one in self.sessions),
            "Uptime": int(time.monotonic() - self._started),
        }

    def statistics(self) -> str:
        """Return the answer to COM_STATISTICS."""
        uptime = int(time.monotonic() - self._started)
        threads = sum(self._connections_by_user().values())
        return f"Uptime: {uptime}  Threads: {threads}  Questions: {self.questions}  Slow queries: 0"

    def replicas(self) -> list[tuple[Value, ...]]:
        """Return the rows of SHOW REPLICAS."""
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

    def processes(self, user: str) -> list[tuple[Value, ...]]:
        """Return the rows of SHOW PROCESSLIST: the account's own, or all for an administrator."""
        now, admin = asyncio.get_running_loop().time(), self.accounts.is_admin(user)
        return [
            (
                session.connection_id,
                session.user or "unauthenticated user",
                session.peer or "localhost",
                None,
                session.doing,
                int(now - session.since),
                session.state,
                None,
            )
            for session in self.sessions
            if session.user == user or admin
        ]

    def kill(self, connection_id: int, user: str) -> None:
        """Close a connection of the same user, or of any user for an administrator.

        Raises:
            ServerError: no connection has that number, or it belongs to another user.
        """
        found = self._sessions.get(connection_id)
        admin = self.accounts.is_admin(user)
        # Same error as for an unknown number: numbers reveal nothing about other accounts.
        if found is None or (found[0].user != user and not admin):
            raise ServerError(1094, "HY000", f"Unknown thread id: {connection_id}")
        found[1].cancel()

    async def purge(self, user: str, *, to: str, before: str) -> None:
        """Refuse to remove files.

        Raises:
            ServerError: always; a relay overrides this method.
        """
        raise ServerError(1227, "42000", "Access denied: this server's files are not its own")

    def dump_begins(self, session: ServerSession) -> None:
        """End an older dump of the replica that starts a new one."""
        if self._on_dump is not None:
            self._on_dump()
        for other in self.sessions:
            if other is session or not other.dump_server_id:
                continue
            if other.replica_key == session.replica_key:
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
        _watch(writer, self.limits.write_timeout)
        # By default asyncio reads 256 KiB ahead, even before a client has logged in.
        setattr(writer.transport, "max_size", _READ_LIMIT)  # noqa: B010
        session = self._session(number, reader, writer)
        if not self._make_room(session):
            await self._turn_away(writer)
            return
        self._sessions[number] = (session, task)
        try:
            await session.run()
        except asyncio.CancelledError:
            pass
        except Exception:  # noqa: BLE001  it is logged
            # The client sees only a lost connection.
            _LOG.exception("session %d of %s ended by an error of ours", number, session.network)
        finally:
            self._sessions.pop(number, None)

    def _make_room(self, session: ServerSession) -> bool:
        """Return whether one more connection may log in.

        With too many logins at once, from one address or in total, the oldest silent one is ended.
        So a flood of silent connections does not keep out clients that log in at once. Refused
        logins stay until they are answered: new logins cannot shorten their delay.
        """
        peer = session.network
        logins = [(one, task) for one, task in self._sessions.values() if not one.user]
        for most, among in (
            (self.limits.peer_logins, [one for one in logins if one[0].network == peer]),
            (self.limits.logins, logins),
        ):
            if most is None or len(among) < most:
                continue
            # Dictionaries keep their order: the oldest is first.
            silent = next((task for one, task in among if not one.refused), None)
            if silent is None:
                return False
            silent.cancel()
        return True

    async def _turn_away(self, writer: asyncio.StreamWriter) -> None:
        output = Output(writer, self.limits.write_timeout)
        output.packet(ErrPacket(1040, "Too many connections", "08004").encode())
        try:
            await output.flush()
        except ConnectionError:
            pass
        finally:
            writer.transport.abort()


_LONGEST_NAME: Final = 80


def _watch(writer: asyncio.StreamWriter, write_timeout: float | None) -> None:
    """Enable TCP keepalive and the write timeout, to end connections of vanished clients."""
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
