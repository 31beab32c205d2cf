"""A source that serves binlog files: the replication protocol without a server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from replica_client.errors import ConfigError, ServerError
from replica_client.protocol.wire.auth.server import SERVER_PLUGINS, ClearPassword
from replica_client.server.accounts import Account, Accounts, certificate_pem, server_context
from replica_client.server.binlog_server import BinlogServer
from replica_client.server.dump_start import DumpOrder
from replica_client.server.packet_output import CHUNK_SIZE, Output
from replica_client.server.sender import DumpSender
from replica_client.server.served_files import ServedFile
from replica_client.server.served_library import BinlogLibrary
from replica_client.server.session import ServerSession
from replica_client.server.understood_sql import Rows
from replica_client.testing.faults import (
    CutAt,
    CutInFile,
    Drip,
    Fault,
    FlipByte,
    InjectEvent,
    RefuseLogin,
    SendBytes,
    SendError,
    SlowHandshake,
    Stall,
    WrongSequence,
)

if TYPE_CHECKING:
    from replica_client.server.binlog_server import BinlogServer


SMALL_CHUNK_SIZE = 4096


class ScriptedEndError(ConnectionError):
    """A fault ended the connection."""


class ScriptedOutput(Output):
    """Sends packets and applies the faults of a connection. Faults count compressed bytes.

    Args:
        writer: to the client.
        faults: of this connection. Close to a fault only few bytes are collected before they are sent.
    """

    def __init__(self, writer: asyncio.StreamWriter, faults: Sequence[Fault]) -> None:
        super().__init__(writer)
        self._sent = {True: 0, False: 0}
        self._cuts = [fault for fault in faults if isinstance(fault, CutAt)]
        self._stalls = [fault for fault in faults if isinstance(fault, Stall)]
        self._garbage = [fault for fault in faults if isinstance(fault, SendBytes)]
        self._drips = [fault for fault in faults if isinstance(fault, Drip)]
        self._scripted = bool(self._cuts or self._stalls or self._garbage or self._drips)
        self._faulty = bool(faults)
        near = any(isinstance(fault, CutAt | CutInFile | SendBytes) for fault in faults)
        self.chunk_size = SMALL_CHUNK_SIZE if near else CHUNK_SIZE

    def begin_direct(self) -> None:
        """Begin direct output, unless there are faults: those count the bytes that go through :meth:`flush`."""
        if not self._faulty:
            super().begin_direct()

    def misnumbered_packet(self, payload: bytes) -> None:
        """Queue a payload under the next number but one."""
        self.sequence += 1
        self.packet(payload)
        self.sequence = (self.sequence - 1) & 0xFF

    def cut_after(self, size: int, reset: bool) -> None:
        """Close the connection once the queued bytes and ``size`` more have been sent."""
        self._cuts.append(CutAt(self._sent[False] + self.pending_size + size, reset))
        self._scripted = True

    async def flush(self) -> None:
        """Send the queued bytes.

        Raises:
            ScriptedEndError: a fault ended the connection.
        """
        if not self._scripted:
            await super().flush()
            return
        data = self._take()
        offset = 0
        while offset < len(data):
            size = await self._next_size(len(data) - offset)
            self.writer.write(data[offset : offset + size])
            await self.writer.drain()
            offset += size
            self._count(size)
            if self.dumping and self._drips:
                await asyncio.sleep(self._drips[0].pause)
        await self._next_size(0)

    def _count(self, size: int) -> None:
        self._sent[True] += size
        if self.dumping:
            self._sent[False] += size

    async def _next_size(self, wanted: int) -> int:
        """Return how many bytes may be sent now; stall or end the connection where that is scripted."""
        for cut in self._cuts:
            if self.dumping or cut.whole_connection:
                left = cut.after - self._sent[cut.whole_connection]
                if left <= 0:
                    await self._end(cut.reset)
                wanted = min(wanted, left)
        if not self.dumping:
            return wanted
        for garbage in self._garbage:
            left = garbage.after - self._sent[False]
            if left <= 0:
                self.writer.write(garbage.data)
                await self.writer.drain()
                await self._end(False)
            wanted = min(wanted, left)
        for stall in list(self._stalls):
            left = stall.after - self._sent[False]
            if left <= 0:
                self._stalls.remove(stall)
                await asyncio.sleep(stall.seconds)
            else:
                wanted = min(wanted, left)
        if self._drips:
            wanted = min(wanted, max(1, self._drips[0].piece_size))
        return wanted

    async def _end(self, reset: bool) -> None:
        if reset:
            sock: socket.socket | None = self.writer.get_extra_info("socket")
            if sock is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.writer.transport.abort()
        raise ScriptedEndError


_PACKET_HEADER_SIZE = 4


class ScriptedSender(DumpSender):
    """One dump, with the faults of its connection applied."""

    def __init__(
        self,
        library: BinlogLibrary,
        order: DumpOrder,
        output: ScriptedOutput,
        faults: Sequence[Fault],
    ) -> None:
        super().__init__(library, order, output)
        self.sends_chunks = not faults
        self._scripted_output = output
        self._event_number = 0
        self._packet_number = 0
        self._flips = [fault for fault in faults if isinstance(fault, FlipByte)]
        self._errors = {f.before_event: f for f in faults if isinstance(f, SendError)}
        self._cuts = [fault for fault in faults if isinstance(fault, CutInFile)]
        self._inserts = [fault for fault in faults if isinstance(fault, InjectEvent)]
        self._misnumbered = {f.packet for f in faults if isinstance(f, WrongSequence)}

    def _before(self, file: ServedFile, position: int, size: int) -> None:
        for cut in self._cuts:
            if cut.file == file.name and position <= cut.offset < position + size:
                head = _PACKET_HEADER_SIZE + (3 if self._order.semi_sync else 1)
                self._scripted_output.cut_after(head + cut.offset - position, cut.reset)

    def _send(self, event: bytes, file: ServedFile) -> None:
        number = self._event_number
        for insert in self._inserts:
            if insert.before_event == number:
                self._put(insert.data)
        if number in self._errors:
            scripted = self._errors[number]
            raise ServerError(scripted.errno, scripted.sqlstate, scripted.message)
        for flip in self._flips:
            if flip.event == number and -len(event) <= flip.offset < len(event):
                changed = bytearray(event)
                changed[flip.offset] ^= 0xFF
                event = bytes(changed)
        self._event_number += 1
        self._put(event)

    def _put(self, event: bytes) -> None:
        if self._packet_number in self._misnumbered:
            self._scripted_output.misnumbered_packet(self._packet_head(event) + event)
        else:
            super()._put(event)
        self._packet_number += 1


class ScriptedSession(ServerSession):
    """Serves one client, with the faults of its connection applied.

    Attributes:
        acknowledged: (file, position) of semi-synchronous acknowledgements.
    """

    def __init__(
        self,
        source: BinlogServer,
        connection_id: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        faults: Sequence[Fault],
    ) -> None:
        self._scripted_output = ScriptedOutput(writer, faults)
        super().__init__(source, connection_id, reader, writer, self._scripted_output)
        self.acknowledged: list[tuple[str, int]] = []
        self._faults = faults

    async def run(self) -> None:
        """Serve until the client or a fault ends it."""
        try:
            for fault in self._faults:
                if isinstance(fault, SlowHandshake):
                    await asyncio.sleep(fault.seconds)
        except asyncio.CancelledError:
            await self._stop()
            raise
        await super().run()

    def _acknowledged(self, file: str, position: int) -> None:
        self.acknowledged.append((file, position))

    def _make_sender(self, order: DumpOrder) -> DumpSender:
        return ScriptedSender(self._source.library, order, self._scripted_output, self._faults)


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
