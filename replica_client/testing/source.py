"""A source that serves binlog files: the replication protocol without a server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from replica_client.errors import ConfigError, ServerError
from replica_client.protocol.wire.auth.server import SERVER_PLUGINS, ClearPassword
from replica_client.server.accounts import Account, Accounts
from replica_client.server.binlog_server import BinlogServer
from replica_client.server.certificates import certificate_pem, server_context
from replica_client.server.served_files import ServedFile
from replica_client.server.served_library import BinlogLibrary
from replica_client.server.session import ServerSession
from replica_client.server.understood_sql import Rows
from replica_client.testing.faults import Fault, RefuseLogin
from replica_client.testing.scripted import ScriptedSession

PathLike = str | os.PathLike[str]


class BinlogSource(BinlogServer):
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
        self.users = {"repl": "secret"} if users is None else dict(users)
        if auth_plugin is not None and auth_plugin not in SERVER_PLUGINS:
            raise ConfigError(f"auth_plugin is one of {', '.join(SERVER_PLUGINS)}")
        super().__init__(
            BinlogLibrary(Path(path) for path in several),
            (),
            host=host,
            port=port,
            default_plugin=auth_plugin,
            tls=server_context() if tls is True else (tls or None),
            answers=answers,
            semi_sync=semi_sync,
            unix_socket=unix_socket,
            comment="replica_client testing source",
        )
        self.accounts = Accounts(
            (
                Account(user, self.default_plugin, ClearPassword(password.encode()), not cold_cache)
                for user, password in self.users.items()
            ),
            self.default_plugin,
        )
        self.faults: list[Fault] = list(faults)
        self.seen_statements: list[str] = []
        self.logins: list[tuple[int, str, bool]] = []

    @property
    def url(self) -> str:
        """For :func:`replica_client.connect`, with the first user's password."""
        user, password = next(iter(self.users.items()))
        credentials = f"{quote(user, safe='')}:{quote(password, safe='')}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.library.flavor}://{credentials}@{host}:{self.port}/"

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
        """Return the self-signed certificate (PEM) to verify the source with."""
        return certificate_pem()[0]

    # What sessions report.

    def logged_in(self, connection_id: int, user: str, *, secure: bool) -> None:
        """Record a login that succeeded."""
        self.logins.append((connection_id, user, secure))

    def statement_came(self, session: ServerSession, sql: str) -> None:
        """Record a statement of a client."""
        self.seen_statements.append(sql)

    def refusal(self, connection_id: int, user: str, *, secure: bool) -> ServerError | None:
        """Return the scripted reason to refuse a login, or the source's own reason; None when there is none."""
        for fault in self._faults_of(connection_id):
            if isinstance(fault, RefuseLogin):
                return ServerError(fault.errno, fault.sqlstate, fault.message)
        return super().refusal(connection_id, user, secure=secure)

    def _faults_of(self, connection_id: int) -> list[Fault]:
        return [fault for fault in self.faults if fault.applies(connection_id - 1)]

    def _session(
        self, connection_id: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> ServerSession:
        faults = self._faults_of(connection_id)
        return ScriptedSession(self, connection_id, reader, writer, faults)


def run_source(
    paths: PathLike | Iterable[PathLike], port: int = 0, *, host: str = "127.0.0.1"
) -> None:
    """Print the URL and serve binlog files until interrupted: a source without asyncio."""

    async def serve() -> None:
        async with BinlogSource(paths, host=host, port=port) as source:
            print(source.url, flush=True)  # noqa: T201
            await source.serve_forever()

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve())
