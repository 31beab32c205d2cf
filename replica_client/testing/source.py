"""A source made of binlog files: the replication protocol without a server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self
from urllib.parse import quote

from replica_client.constants.flavor import ServerFlavor
from replica_client.errors import ConfigError, ServerError
from replica_client.testing.certificates import server_context
from replica_client.testing.faults import Fault
from replica_client.testing.files import ServedFile
from replica_client.testing.library import BinlogLibrary
from replica_client.testing.session import SourceSession
from replica_client.testing.sql import Rows, normal
from replica_client.transport.server_info import parse_version
from replica_client.wire.auth.server import SERVER_PLUGINS
from replica_client.wire.resultset import Value

PathLike = str | os.PathLike[str]

_NO_UUID = "00000000-0000-0000-0000-000000000000"


class BinlogSource:
    """Serves binlog files over the real protocol to any client, on the loopback interface.

    An asynchronous context manager::

        async with BinlogSource(["binlog.000001"]) as source:
            ...  # connect to source.url

    Flavor, version, server id and checksums are those of the last file. Clients may use aiomysql,
    PyMySQL, ``mysqlbinlog --read-from-remote-server``, or this package.

    Args:
        paths: a path or several: binlog files in order, or a directory of them. They are only read.
        host: address to listen on.
        port: 0: any free one.
        users: passwords by name.
        faults: what goes wrong, see :mod:`replica_client.testing.faults`.
        auth_plugin: of all accounts; None: what a server of that version has by default.
        cold_cache: caching_sha2_password: the first login of each user must show the password
            itself.
        tls: True: with a self-signed certificate (:meth:`certificate`); or a context of your own.
        answers: rows for statements of your own: ``{"SELECT 1": (["1"], [(1,)])}``.
        semi_sync: ask clients that offer it for semi-synchronous acknowledgements.
        unix_socket: path to listen on as well.

    Attributes:
        port: where it listens, once started.
        library: the files.
        connections: how many clients have connected so far.
        seen_statements: every SQL statement that clients sent.
    """

    def __init__(
        self,
        paths: PathLike | Iterable[PathLike],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        users: Mapping[str, str] | None = None,
        faults: Sequence[Fault] = (),
        auth_plugin: str | None = None,
        cold_cache: bool = False,
        tls: bool | ssl.SSLContext = False,
        answers: Mapping[str, Rows] | None = None,
        semi_sync: bool = False,
        unix_socket: str | None = None,
    ) -> None:
        several = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
        self.library = BinlogLibrary(Path(path) for path in several)
        self.host = host
        self.port = port
        self.users = {"repl": "secret"} if users is None else dict(users)
        self.faults: list[Fault] = list(faults)
        self.auth_plugin = auth_plugin or self._default_plugin()
        if self.auth_plugin not in SERVER_PLUGINS:
            self.library.close()
            raise ConfigError(f"auth_plugin is one of {', '.join(SERVER_PLUGINS)}")
        self.tls_context = server_context() if tls is True else (tls or None)
        self.answers = {normal(sql): rows for sql, rows in (answers or {}).items()}
        self.semi_sync = semi_sync
        self.server_uuid = self.library.server_uuid() or _NO_UUID
        if self.server_uuid == _NO_UUID:
            self.server_uuid = str(uuid.uuid4())
        self.connections = 0
        self.seen_statements: list[str] = []
        self.logins: list[tuple[int, str, bool]] = []
        self._unix_socket = unix_socket
        self._cached = set() if cold_cache else set(self.users)
        self._servers: list[asyncio.Server] = []
        self._sessions: dict[int, tuple[SourceSession, asyncio.Task[None]]] = {}

    def _default_plugin(self) -> str:
        new = parse_version(self.library.server_version) >= (8, 0, 4)
        if self.library.flavor is ServerFlavor.MYSQL and new:
            return "caching_sha2_password"
        return "mysql_native_password"

    @property
    def url(self) -> str:
        """For :func:`replica_client.connect`, with the first user's password."""
        user, password = next(iter(self.users.items()))
        credentials = f"{quote(user, safe='')}:{quote(password, safe='')}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.library.flavor}://{credentials}@{host}:{self.port}/"

    @property
    def sessions(self) -> list[SourceSession]:
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
                f"the testing source cannot listen on {self.host}:{self.port}: {error.strerror}"
            ) from None

    async def close(self) -> None:
        """End all connections and stop listening."""
        for server in self._servers:
            server.close()
        await self.disconnect_all()
        for server in self._servers:
            await server.wait_closed()
        self._servers.clear()
        self.library.close()

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

    # What a running source can be told.

    def append(self, events: bytes) -> None:
        """Add whole events (header to checksum) to the last file; waiting dumps get them."""
        self.library.append(events)

    def rotate(self) -> str:
        """End the last file and begin a new one; returns its name."""
        return self.library.rotate()

    def add_file(self, path: PathLike) -> None:
        """Add a binlog file after the last one."""
        file = Path(path)
        self.library.add(ServedFile(file.name, file))

    def purge_to(self, name: str) -> None:
        """Remove the files before one, as PURGE BINARY LOGS TO does."""
        self.library.purge_to(name)

    def certificate(self) -> bytes:
        """The self-signed certificate (PEM), to verify the source with."""
        from replica_client.testing.certificates import certificate_pem

        return certificate_pem()[0]

    # What sessions ask and report.

    def is_cached(self, user: str) -> bool:
        """Whether caching_sha2_password's fast path is open to a user."""
        return user in self._cached

    def remember(self, user: str) -> None:
        """A user has shown the password."""
        self._cached.add(user)

    def forget_passwords(self) -> None:
        """Make caching_sha2_password's cache cold again, as FLUSH PRIVILEGES does."""
        self._cached.clear()

    def logged_in(self, connection_id: int, user: str, *, secure: bool) -> None:
        """A login succeeded."""
        self.logins.append((connection_id, user, secure))

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

    def kill(self, connection_id: int) -> bool:
        """End a connection; False when there is none of that number."""
        found = self._sessions.get(connection_id)
        if found is None:
            return False
        found[1].cancel()
        return True

    def dump_begins(self, session: SourceSession) -> None:
        """End an older dump of the same replica."""
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

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = self.connections
        self.connections += 1
        faults = [fault for fault in self.faults if fault.applies(number)]
        session = SourceSession(self, number + 1, reader, writer, faults)
        task = asyncio.current_task()
        if task is None:
            return
        self._sessions[number + 1] = (session, task)
        try:
            await session.run()
        except asyncio.CancelledError:
            pass
        finally:
            self._sessions.pop(number + 1, None)


def run_source(
    paths: PathLike | Iterable[PathLike], port: int = 0, *, host: str = "127.0.0.1"
) -> None:
    """Serve binlog files until interrupted, and print the URL first: a source without asyncio."""

    async def serve() -> None:
        async with BinlogSource(paths, host=host, port=port) as source:
            print(source.url, flush=True)  # noqa: T201
            await source.serve_forever()

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve())
