"""Clients that mean harm, against the server of binlog files: nobody in without a password, nothing unbounded."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from replica_client.errors import AccessDeniedError, ReplicaClientError, ServerError
from replica_client.server.accounts import Account, Limits
from replica_client.server.binlog_server import BinlogServer
from replica_client.server.certificates import server_context
from replica_client.server.served_library import BinlogLibrary
from replica_client.transport.connection import SourceConnection
from replica_client.transport.url import parse_url
from replica_client.wire.auth.sha256_crypt import sha256_crypt
from replica_client.wire.auth.stored import Sha2Verifier, stored_password
from tests.source.binlogs import two_files

LIMITS = Limits(connections=40, logins=20)
HASTY = replace(LIMITS, login_timeout=0.5, idle_timeout=0.5, write_timeout=1.0)
PLUGINS = ("caching_sha2_password", "mysql_native_password")


@asynccontextmanager
async def serving(
    directory: Path, *, limits: Limits = LIMITS, accounts: tuple[Account, ...] = (), **options
) -> AsyncIterator[BinlogServer]:
    known = accounts or tuple(
        Account(name, name, stored_password(name, b"secret")) for name in PLUGINS
    )
    library = BinlogLibrary(two_files(directory))
    async with BinlogServer(library, known, limits=limits, **options) as server:
        yield server


async def log_in(server: BinlogServer, user: str, password: str, query: str = "") -> str:
    url = f"mysql://{user}:{password}@127.0.0.1:{server.port}/?{query or 'tls=disabled'}"
    async with await SourceConnection.open(parse_url(url)) as connection:
        return connection.server.version_text


@pytest.mark.parametrize("user", PLUGINS)
async def test_stored_hashes_open_the_right_door(tmp_path, user) -> None:
    async with serving(tmp_path) as server:
        assert await log_in(server, user, "secret") == "9.7.4"
        for name, password in ((user, "Secret"), (user, ""), ("nobody", "secret"), ("", "")):
            with pytest.raises(AccessDeniedError):
                await log_in(server, name, password)
        assert server.failed_logins == 4


async def test_a_crypt_hash_wants_the_password_once(tmp_path) -> None:
    salt = b"0123456789abcdefghij"
    stored = Sha2Verifier.parse(b"$A$005$" + salt + sha256_crypt(b"secret", salt, 5000))
    account = Account("repl", "caching_sha2_password", stored)
    async with serving(tmp_path, accounts=(account,)) as server:
        with pytest.raises(ReplicaClientError, match="not cached this account"):
            await log_in(server, "repl", "secret")
        with pytest.raises(AccessDeniedError):
            await log_in(server, "repl", "wrong", "tls=disabled&allow_public_key_retrieval=true")
        assert not stored.is_cached
        await log_in(server, "repl", "secret", "tls=disabled&allow_public_key_retrieval=true")
        assert stored.is_cached
        await log_in(server, "repl", "secret")


async def test_tls_can_be_required(tmp_path) -> None:
    async with serving(tmp_path, tls=server_context(), tls_required=True) as server:
        with pytest.raises(ServerError, match="insecure transport"):
            await log_in(server, PLUGINS[0], "secret")
        assert await log_in(server, PLUGINS[0], "secret", "tls=required") == "9.7.4"


async def test_connections_that_say_nothing_end_and_keep_nobody_out(tmp_path) -> None:
    async with serving(tmp_path) as server:
        opened = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(60)]
        try:
            await asyncio.gather(*(reader.readexactly(5) for reader, _ in opened[-20:]))
            # The oldest have ended; one that logs in now ends another of them.
            async with asyncio.timeout(30):
                await asyncio.gather(*(reader.read() for reader, _ in opened[:40]))
            assert len(server.sessions) == 20
            assert await log_in(server, PLUGINS[0], "secret") == "9.7.4"
        finally:
            for _, writer in opened:
                writer.close()
        await no_session_stays(server)


async def test_connections_that_say_nothing_end(tmp_path) -> None:
    async with serving(tmp_path, limits=HASTY) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        await reader.read()  # until the server ends it
        writer.close()
        await no_session_stays(server)


async def test_connections_are_counted(tmp_path) -> None:
    async with serving(tmp_path, limits=Limits(connections=2)) as server:
        opened = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(2)]
        await asyncio.gather(*(reader.readexactly(5) for reader, _ in opened))
        with pytest.raises(ServerError, match="Too many connections"):
            await log_in(server, PLUGINS[0], "secret")
        for _, writer in opened:
            writer.close()


async def test_connections_of_one_account_are_bounded(tmp_path) -> None:
    limits = Limits(user_connections=2)
    url = "mysql://{}:secret@127.0.0.1:{}/?tls=disabled"
    async with serving(tmp_path, limits=limits) as server:
        own = parse_url(url.format(PLUGINS[0], server.port))
        async with await SourceConnection.open(own), await SourceConnection.open(own):
            with pytest.raises(ServerError, match="max_user_connections"):
                await SourceConnection.open(own)
            other = parse_url(url.format(PLUGINS[1], server.port))
            async with await SourceConnection.open(other):
                pass


async def no_session_stays(server: BinlogServer) -> None:
    """The server sees the end of a connection after its client does, at the latest when its limits say so."""
    async with asyncio.timeout(30):
        while server.sessions:  # noqa: ASYNC110  no event tells of it
            await asyncio.sleep(0.01)


async def exchange(port: int, data: bytes) -> bytes:
    """Send bytes behind the greeting, and give what comes until the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        await reader.read(4096)
        writer.write(data)
        writer.write_eof()
        return await asyncio.wait_for(reader.read(1 << 20), 30)
    except (ConnectionError, TimeoutError):
        return b""
    finally:
        writer.close()


async def test_changed_packets_bring_nobody_in(tmp_path) -> None:
    rng = random.Random(22)
    async with serving(tmp_path) as server:
        recorded = await record(server)
        for _ in range(300):
            data = bytearray(recorded)
            for _ in range(rng.randrange(1, 6)):
                kind = rng.randrange(4)
                at = rng.randrange(len(data))
                if kind == 0:
                    data[at] ^= 1 << rng.randrange(8)
                elif kind == 1:
                    del data[at : at + rng.randrange(1, 9)]
                elif kind == 2:
                    data[at:at] = rng.randbytes(rng.randrange(1, 9))
                else:
                    data[at : at + 3] = rng.choice((b"\xff\xff\xff", b"\0\0\0", b"\xfb\xfc\xfd"))
                if not data:
                    data = bytearray(b"\0")
            answer = await exchange(server.port, bytes(data))
            # An OK packet (00) would be a login; a scramble that was recorded is worth nothing.
            assert answer[4:5] in (b"", b"\xff", b"\xfe", b"\x01"), answer
        await no_session_stays(server)
        assert await log_in(server, PLUGINS[0], "secret") == "9.7.4"


async def record(server: BinlogServer) -> bytes:
    """What a client sends to log in, and to ask for a dump."""
    sent = bytearray()

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, keep: bool) -> None:
        while data := await reader.read(65536):
            if keep:
                sent.extend(data)
            writer.write(data)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up, down = await asyncio.open_connection("127.0.0.1", server.port)
        await asyncio.gather(pipe(reader, down, True), pipe(up, writer, False))

    proxy = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = proxy.sockets[0].getsockname()[1]
    url = f"mysql://mysql_native_password:secret@127.0.0.1:{port}/?tls=disabled"
    async with await SourceConnection.open(parse_url(url)) as connection:
        await connection.binary_logs()
    proxy.close()
    await proxy.wait_closed()
    return bytes(sent)
