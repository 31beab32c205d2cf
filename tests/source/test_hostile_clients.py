"""Clients that mean harm, against the server of binlog files: nobody in without a password, nothing unbounded."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from replica_client.errors import (
    AccessDeniedError,
    ReplicaClientError,
    ServerError,
    StreamEndedError,
)
from replica_client.protocol.constants.client_server import Capability
from replica_client.protocol.wire.auth.passwords import scramble_native
from replica_client.protocol.wire.auth.server import Sha2Verifier, sha256_crypt, stored_password
from replica_client.protocol.wire.connection_phase import HandshakeResponse, HandshakeV10
from replica_client.protocol.wire.framing import encode_packets
from replica_client.protocol.wire.packets import Compression, encode_frames
from replica_client.server import packet_output
from replica_client.server.accounts import Account, Accounts, Limits, server_context
from replica_client.server.binlog_server import BinlogServer
from replica_client.server.served_library import BinlogLibrary
from replica_client.stream.transport.connect_options import ConnectOptions, parse_url
from replica_client.stream.transport.connection import SourceConnection
from replica_client.stream.transport.dump import DumpRequest, DumpStream
from tests.source.binlogs import SOURCE_UUID, BinlogMaker, two_files

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


def url_of(server: BinlogServer, user: str) -> ConnectOptions:
    return parse_url(f"mysql://{user}:secret@127.0.0.1:{server.port}/?tls=disabled")


async def test_a_full_server_takes_from_the_account_with_the_most(tmp_path) -> None:
    async with serving(tmp_path, limits=Limits(connections=3)) as server:
        greedy, other = (url_of(server, name) for name in PLUGINS)
        first = [await SourceConnection.open(greedy) for _ in range(3)]
        async with await SourceConnection.open(other) as connection:
            assert await connection.binary_logs()
            with pytest.raises(ReplicaClientError):
                await first[-1].binary_logs()  # the newest one had to go
            assert await first[0].binary_logs()
            with pytest.raises(ServerError, match="Too many connections"):
                await SourceConnection.open(greedy)
        for one in first:
            await one.close()


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


async def test_a_flood_from_one_address_leaves_the_others_their_queue(tmp_path) -> None:
    limits = replace(LIMITS, logins=30, peer_logins=5)
    async with serving(tmp_path, limits=limits) as server:
        quiet = await asyncio.open_connection("127.0.0.1", server.port)
        await quiet[0].readexactly(5)
        flood = [
            await asyncio.open_connection("127.0.0.1", server.port, local_addr=("127.0.0.9", 0))
            for _ in range(40)
        ]
        await asyncio.gather(*(reader.readexactly(5) for reader, _ in flood[-5:]))
        assert len(server.sessions) == 6
        assert not quiet[0].at_eof()
        assert await log_in(server, PLUGINS[0], "secret") == "9.7.4"
        for _, writer in [quiet, *flood]:
            writer.close()


async def test_refused_logins_are_slow_and_cannot_be_hurried(tmp_path, caplog) -> None:
    limits = replace(LIMITS, peer_logins=2, refusal_delay=0.5)
    async with serving(tmp_path, limits=limits) as server:
        begun = asyncio.get_running_loop().time()
        wrong = [asyncio.create_task(log_in(server, PLUGINS[1], "wrong")) for _ in range(2)]
        while sum(one.refused for one in server.sessions) < 2:  # noqa: ASYNC110  no event tells of it
            await asyncio.sleep(0.01)
        with pytest.raises(
            ReplicaClientError
        ):  # no place for a third guess until they were answered
            await log_in(server, PLUGINS[1], "secret")
        for result in await asyncio.gather(*wrong, return_exceptions=True):
            assert isinstance(result, AccessDeniedError)
        assert asyncio.get_running_loop().time() - begun >= 0.5
        assert await log_in(server, PLUGINS[1], "secret") == "9.7.4"
    lines = [one for one in caplog.messages if "refused login of user mysql_native_password" in one]
    assert len(lines) == 2
    assert all("127.0.0.1" in one and "1045" in one for one in lines)


async def test_names_are_not_revealed(tmp_path) -> None:
    """What a login gets does not depend on whether its name exists: plugin, packets, and the order of checks."""
    accounts = (
        Account("first", "mysql_native_password", stored_password("mysql_native_password", b"x")),
        Account("second", "mysql_native_password", stored_password("mysql_native_password", b"y")),
    )
    limits = replace(LIMITS, user_connections=1)
    async with serving(tmp_path, accounts=accounts, limits=limits) as server:
        url = parse_url(f"mysql://first:x@127.0.0.1:{server.port}/?tls=disabled")
        async with await SourceConnection.open(url):
            # Its connections are all taken: only who knows the password hears so.
            told = {name: await answers_to(server.port, name) for name in ("first", "second", "no")}
        assert told["first"] == told["no"] == told["second"]


async def test_stand_ins_are_like_the_accounts_and_stay_so() -> None:
    salt = b"0123456789abcdefghij"
    hashed = Sha2Verifier.parse(b"$A$005$" + salt + sha256_crypt(b"secret", salt, 5000))
    given = [
        Account("a", "mysql_native_password", stored_password("mysql_native_password", b"x")),
        Account("b", "caching_sha2_password", hashed),
    ]
    accounts = Accounts(given, "caching_sha2_password", b"k" * 32)
    again = Accounts(given, "caching_sha2_password", b"k" * 32)
    seen = set()
    for number in range(100):
        one = accounts.of(f"nobody {number}")
        seen.add((one.plugin, type(one.password), one.password.is_cached))
        assert not one.exists
        assert one.plugin == again.of(f"nobody {number}").plugin
        assert not one.password.is_password(b"x")
    assert seen == {(one.plugin, type(one.password), one.password.is_cached) for one in given}


async def answers_to(port: int, user: str) -> list[bytes]:
    """What a wrong login of a name gets, without the scrambles and the name."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        head = await reader.readexactly(4)
        greeting = HandshakeV10.decode(await reader.readexactly(int.from_bytes(head[:3], "little")))
        found = []
        response = HandshakeResponse(
            Capability.CLIENT_PROTOCOL_41
            | Capability.CLIENT_SECURE_CONNECTION
            | Capability.CLIENT_PLUGIN_AUTH,
            user,
            scramble_native(b"wrong", greeting.scramble),
            "",
            "caching_sha2_password",
            {},
        )
        data, sequence = response.encode(), 1
        while True:
            writer.write(encode_packets(data, sequence))
            try:
                head = await reader.readexactly(4)
                payload = await reader.readexactly(int.from_bytes(head[:3], "little"))
            except asyncio.IncompleteReadError:
                return found
            found.append(payload.partition(b"\0")[0].replace(user.encode(), b"?"))
            data, sequence = bytes(20), head[3] + 1
    finally:
        writer.close()


STRICT = replace(
    LIMITS,
    command_size=1 << 20,
    command_timeout=0.5,
    statement_timeout=60.0,
    session_memory=4 << 20,
    account_memory=8 << 20,
    account_share=0.2,
)


async def delays(seconds: float) -> list[float]:
    """How late a task that sleeps is woken meanwhile."""
    loop, late = asyncio.get_running_loop(), []
    end = loop.time() + seconds
    while (before := loop.time()) < end:
        await asyncio.sleep(0.01)
        late.append(loop.time() - before - 0.01)
    return late


async def slices(over: asyncio.Event) -> list[float]:
    """Processor seconds of the process between two turns of the event loop, so that other processes do not count."""
    spent = []
    while not over.is_set():
        before = time.process_time()
        await asyncio.sleep(0.002)
        spent.append(time.process_time() - before)
    return spent


_LONG_SET = ",".join(
    f"{SOURCE_UUID[:-4]}{number:04x}:1-3:5-9:11-20" for number in range(4000)
)  # 240 KB


_COMPARISON = "GTID_SUBSET(@a,@a)"
_GREEDY_STATEMENTS = {
    "comparisons": ("SELECT " + ", ".join([_COMPARISON] * 4000), 3024),
    "columns-of-comparisons": ("SELECT " + ", ".join([_COMPARISON] * 50_000), 1117),
    "large-answer": ("SELECT " + ", ".join(["@a"] * 4000), 1301),
    "columns": ("SELECT " + ", ".join(["1"] * 300_000), 1117),
    "assignments": ("SET " + ", ".join(["@b=1"] * 100_000), 1064),
    "arguments": ("SELECT GTID_SUBSET(" + "1," * 400_000 + "1)", 1582),
    "calls": ("SELECT " + "f(" * 400_000, 1064),
    "comments": ("SELECT " + "/*" * 400_000, 1064),
    "line-comments": ("SELECT " + "-- \n" * 250_000, 1064),
    "quotes": ("SELECT " + "'" * 900_001, 1064),
    "escapes": ("SET @b = '" + r"\x" * 300_000 + "'", 1041),
    "words": ("SELECT " + "a." * 500_000, 1064),
    "blanks": ("SELECT 1" + " " * 1_000_000 + "x", 1064),
    "unknown": ("X" * 1_000_000, 1064),
    "too-long": ("X" * 1_048_577, 1153),
    "pattern": ("SHOW VARIABLES LIKE '" + "%_a" * 1300 + "'", None),
    "pattern-of-one": ("SHOW VARIABLES LIKE '" + "%" * 4000 + "'", None),
}


@pytest.mark.parametrize("name", list(_GREEDY_STATEMENTS))
async def test_one_statement_gets_neither_the_loop_nor_the_memory(tmp_path, name) -> None:
    sql, errno = _GREEDY_STATEMENTS[name]
    limits = replace(
        STRICT,
        command_size=2 << 20,
        statement_timeout=3.0 if errno == 3024 else 60.0,
        session_memory=8 << 20,
        account_memory=16 << 20,
    )
    async with (
        serving(tmp_path, limits=limits) as server,
        await SourceConnection.open(url_of(server, PLUGINS[1])) as connection,
    ):
        await connection.query(f"SET @a = '{_LONG_SET}'")
        over = asyncio.Event()
        measuring = asyncio.create_task(slices(over))
        try:
            await connection.query(sql)
            code = None
        except ServerError as error:
            code = error.errno
        over.set()
        assert code == errno
        assert max(await measuring) < 0.5


async def test_an_account_that_works_much_waits(tmp_path) -> None:
    """Two seconds at once, then a fifth of a processor for all its connections; another account does not wait."""
    async with serving(tmp_path, limits=STRICT) as server:
        budget = server.budget(PLUGINS[1])
        own = [await SourceConnection.open(url_of(server, PLUGINS[1])) for _ in range(4)]
        budget.charge(2.2)
        begun = asyncio.get_running_loop().time()
        await asyncio.gather(*(one.query("SELECT 1") for one in own))
        assert asyncio.get_running_loop().time() - begun > 0.5
        async with await SourceConnection.open(url_of(server, PLUGINS[0])) as other:
            begun = asyncio.get_running_loop().time()
            await other.query("SELECT 1")
            assert asyncio.get_running_loop().time() - begun < 0.5
        for one in own:
            await one.close()


async def test_variables_of_an_account_are_bounded(tmp_path) -> None:
    value = "x" * (200 << 10)
    async with serving(tmp_path, limits=STRICT) as server:
        opened = [await SourceConnection.open(url_of(server, PLUGINS[1])) for _ in range(4)]
        refused = 0
        for connection in opened:
            for number in range(30):
                try:
                    await connection.query(f"SET @v{number} = '{value}'")
                except ServerError as error:
                    assert error.errno == 1041
                    refused += 1
        assert refused > 4 * 30 - (8 << 20) // len(value) - 1
        assert server.budget(PLUGINS[1]).memory <= 8 << 20
        for connection in opened:
            await connection.close()
        await no_session_stays(server)
        assert server.budget(PLUGINS[1]).memory == 0


async def test_half_packets_end(tmp_path) -> None:
    async with serving(tmp_path, limits=STRICT) as server:
        opened = []
        for _ in range(20):
            reader, writer = await raw_login(server.port, PLUGINS[1], "secret")
            writer.write((1 << 20).to_bytes(3, "little") + b"\0\3" + bytes((1 << 20) - 100))
            opened.append((reader, writer))
        reader, writer = await raw_login(server.port, PLUGINS[1], "secret")
        writer.write((2 << 20).to_bytes(3, "little") + b"\0\3")
        opened.append((reader, writer))
        async with asyncio.timeout(20):
            for reader, _ in opened:
                with suppress(ConnectionError):
                    await reader.read()
        for _, writer in opened:
            writer.close()
        await no_session_stays(server)
        assert server.budget(PLUGINS[1]).memory == 0


async def raw_login(
    port: int, user: str, password: str, compression: Compression | None = None
) -> tuple[StreamReader, StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = await reader.readexactly(4)
    greeting = HandshakeV10.decode(await reader.readexactly(int.from_bytes(head[:3], "little")))
    response = HandshakeResponse(
        Capability.CLIENT_PROTOCOL_41
        | Capability.CLIENT_SECURE_CONNECTION
        | Capability.CLIENT_PLUGIN_AUTH
        | (compression.capability if compression else Capability(0)),
        user,
        scramble_native(password.encode(), greeting.scramble),
        "",
        "mysql_native_password",
        {},
    )
    writer.write(encode_packets(response.encode(), 1))
    head = await reader.readexactly(4)
    assert (await reader.readexactly(int.from_bytes(head[:3], "little")))[:1] == b"\0"
    return reader, writer


async def test_pings_without_end_keep_nobody_waiting(tmp_path) -> None:
    async with serving(tmp_path, limits=STRICT) as server:
        reader, writer = await raw_login(server.port, PLUGINS[1], "secret")
        writer.write(b"\1\0\0\0\x0e" * 200_000)
        late = await delays(1.0)
        assert max(late) < 0.3
        assert sorted(late)[len(late) // 2] < 0.05
        writer.transport.abort()
        del reader


@pytest.mark.parametrize("algorithm", list(Compression))
async def test_half_compressed_packets_count_as_memory(tmp_path, algorithm) -> None:
    limits = replace(STRICT, command_timeout=30.0)
    size = 900_000
    async with serving(tmp_path, limits=limits) as server:
        budget, opened = server.budget(PLUGINS[1]), []
        for _ in range(12):
            _, writer = await raw_login(server.port, PLUGINS[1], "secret", algorithm)
            writer.write(size.to_bytes(3, "little") + b"\0\1\0\0" + bytes(size - 100))
            opened.append(writer)
        # What came is counted before it is whole: nine of them are within the account's limit.
        async with asyncio.timeout(60):
            while len(server.sessions) > 9:  # noqa: ASYNC110  no event tells of it
                await asyncio.sleep(0.01)
        assert 4 << 20 < budget.memory <= 8 << 20
        for writer in opened:
            writer.transport.abort()
        await no_session_stays(server)
        assert budget.memory == 0


@pytest.mark.parametrize("frame", [b"\1\0\0\0\0\0\0\0", bytes(7)], ids=["of one byte", "empty"])
async def test_compressed_packets_without_end_keep_nobody_waiting(tmp_path, frame) -> None:
    async with serving(tmp_path, limits=replace(STRICT, account_share=0.001)) as server:
        opened = [
            await raw_login(server.port, PLUGINS[1], "secret", Compression.ZLIB) for _ in range(6)
        ]
        over = asyncio.Event()
        measuring = asyncio.create_task(slices(over))
        budget = server.budget(PLUGINS[1])
        budget.charge(1.95)  # a thousand frames more
        for _, writer in opened:
            writer.write(frame * 100_000)
        async with asyncio.timeout(20):
            # The account has to wait, or its connections have ended.
            while server.sessions and not budget.pause:  # noqa: ASYNC110  no event tells of it
                await asyncio.sleep(0.01)
        over.set()
        assert max(await measuring) < 0.5
        assert bool(server.sessions) == (frame[0] == 1)
        for _, writer in opened:
            writer.transport.abort()


async def test_dumps_of_an_account_are_compressed_one_piece_at_a_time(
    tmp_path, monkeypatch
) -> None:
    running = most = 0
    threads = set()

    def watched(data: bytes, algorithm: Compression, sequence: int = 0) -> tuple[bytes, int]:
        nonlocal running, most
        if len(data) > 16 << 10:
            threads.add(threading.current_thread())
            running += 1
            most = max(most, running)
            time.sleep(0.01)
            running -= 1
        return encode_frames(data, algorithm, sequence)

    monkeypatch.setattr(packet_output, "encode_frames", watched)
    maker = BinlogMaker()
    for _ in range(100):
        maker.transaction(5000)
    library = BinlogLibrary([maker.save(tmp_path / "binlog.000001")])
    account = Account("repl", PLUGINS[1], stored_password(PLUGINS[1], b"secret"))
    async with BinlogServer(library, (account,), limits=LIMITS) as server:

        async def dump() -> int:
            url = f"mysql://repl:secret@127.0.0.1:{server.port}/?tls=disabled&compression=zlib"
            connection = await SourceConnection.open(parse_url(url))
            request = DumpRequest("binlog.000001", 4, non_block=True)
            stream, count = await connection.start_dump(request, server_id=9), 0
            async with stream:
                with suppress(StreamEndedError):
                    while events := await stream.read():
                        count += len(events)
            return count

        counts = await asyncio.gather(*(dump() for _ in range(8)))
    assert len(set(counts)) == 1 and counts[0] > 100
    assert most == 1
    assert threads and threading.main_thread() not in threads


async def test_the_time_of_a_statement_counts_its_wait_for_other_connections(tmp_path) -> None:
    """Statements of an account run one after the other; those of clients that left do not queue for hours."""
    async with (
        serving(tmp_path, limits=replace(STRICT, statement_timeout=1.0)) as server,
        await SourceConnection.open(url_of(server, PLUGINS[1])) as connection,
    ):
        async with server.budget(PLUGINS[1]).turn, asyncio.timeout(20):
            with pytest.raises(ServerError) as found:
                await connection.query("SELECT 1")
        assert found.value.errno == 3024
        assert await connection.query("SELECT 1")


async def test_another_accounts_replica_keeps_its_place(tmp_path) -> None:
    """Of one account the newer dump of a replica takes the place of the older, of another account it does not."""
    uuid = "8b1c0e7a-0000-11f0-8000-000000000001"

    async def dump(user: str) -> DumpStream:
        connection = await SourceConnection.open(url_of(server, user))
        return await connection.start_dump(
            DumpRequest("binlog.000001", 4), server_id=9, replica_uuid=uuid, heartbeat_period=0.1
        )

    async with serving(tmp_path, accounts=two_accounts()) as server:
        victim = await dump("victim")
        await victim.read()
        thief = await dump("thief")
        await thief.read()
        await asyncio.sleep(0.2)
        assert sorted(one.user for one in server.sessions) == ["thief", "victim"]
        again = await dump("victim")
        await again.read()
        async with asyncio.timeout(10):
            while len(server.sessions) > 2:  # noqa: ASYNC110  no event tells of it
                await asyncio.sleep(0.01)
        keys = {one.replica_key for one in server.sessions}
        assert keys == {("victim", uuid), ("thief", uuid)}
        for one in (victim, thief, again):
            await one.close()


def two_accounts() -> tuple[Account, ...]:
    plugin = "mysql_native_password"
    return tuple(
        Account(name, plugin, stored_password(plugin, b"secret")) for name in ("victim", "thief")
    )


@pytest.mark.parametrize("text", ["x", "no uuid", "8b1c0e7a000011f08000000000000001", "a" * 200])
async def test_a_uuid_is_a_uuid(tmp_path, text) -> None:
    async with serving(tmp_path) as server:
        connection = await SourceConnection.open(url_of(server, PLUGINS[1]))
        stream = await connection.start_dump(
            DumpRequest("binlog.000001", 4), server_id=9, replica_uuid=text
        )
        with pytest.raises(ServerError, match="not a UUID"):
            await stream.read()
        await stream.close()


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
