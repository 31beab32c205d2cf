"""Logging in to the testing source: plugins, TLS, other clients, hostile servers."""

import asyncio
import random
from dataclasses import replace

import aiomysql
import pymysql
import pytest

import replica_client as rc
from replica_client.errors import (
    AccessDeniedError,
    ConfigError,
    ConnectError,
    ConnectionLostError,
    MalformedPacketError,
    PacketTooLargeError,
    ProtocolError,
    ReplicaClientError,
    ServerError,
    TlsError,
    TransportError,
    TransportTimeoutError,
    UnexpectedPacketError,
)
from replica_client.protocol.wire.auth.server import SERVER_PLUGINS
from replica_client.protocol.wire.connection_phase import BASE_CAPABILITIES, HandshakeV10
from replica_client.protocol.wire.framing import encode_packets
from replica_client.protocol.wire.packets import AuthSwitchRequest, OkPacket
from replica_client.protocol.wire.resultset import encode_result
from replica_client.stream.transport.connect_options import parse_url
from replica_client.stream.transport.connection import SourceConnection
from replica_client.stream.transport.dump import DumpRequest
from replica_client.testing import BinlogSource
from replica_client.testing.faults import CutAt
from tests.source.binlogs import BinlogMaker, two_files
from tests.source.conftest import read_all, read_until_error, start_dump

PASSWORD = "s3cr€t/@:#%"


async def login(url: str) -> tuple[str, str]:
    async with await SourceConnection.open(parse_url(url)) as connection:
        await connection.binlog_status()
        return connection.server.auth_plugin, connection.server.tls


@pytest.mark.parametrize("cold_cache", [False, True])
@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("plugin", SERVER_PLUGINS)
async def test_every_plugin_with_and_without_tls(tmp_path, plugin, tls, cold_cache) -> None:
    path = BinlogMaker().save(tmp_path / "binlog.000001")
    async with BinlogSource(
        path, users={"repl": PASSWORD}, auth_plugin=plugin, tls=tls, cold_cache=cold_cache
    ) as source:
        if not tls and plugin in ("mysql_clear_password", "dialog"):
            with pytest.raises(UnexpectedPacketError, match="refused without TLS"):
                await login(source.url)
            return
        options = "?allow_public_key_retrieval=true"
        if tls and plugin in ("mysql_clear_password", "dialog", "sha256_password"):
            with pytest.raises(UnexpectedPacketError, match="nothing proves"):
                await login(source.url + options)
            options += "&unverified_password=any"
        used, version = await login(source.url + options)
        assert used == plugin
        assert version == ("TLSv1.3" if tls else "")
        needs_key = plugin == "sha256_password"  # the cache is warm by now
        if needs_key and not tls:
            with pytest.raises(UnexpectedPacketError, match="allow_public_key_retrieval"):
                await login(source.url)
        elif "unverified" not in options:
            await login(source.url)
        with pytest.raises(AccessDeniedError) as caught:
            await login(source.url.replace("s3cr", "wrong") + options)
        assert "wrong" not in str(caught.value)
        assert "'repl'" in str(caught.value)


async def test_cold_cache_without_tls_says_what_to_do(tmp_path) -> None:
    path = BinlogMaker().save(tmp_path / "binlog.000001")
    async with BinlogSource(path, cold_cache=True) as source:
        with pytest.raises(UnexpectedPacketError, match="allow_public_key_retrieval=true"):
            await login(source.url)


async def test_tls_modes(tmp_path) -> None:
    path = BinlogMaker().save(tmp_path / "binlog.000001")
    async with BinlogSource(path, tls=True) as source:
        ca = tmp_path / "ca.pem"
        ca.write_bytes(source.certificate())
        assert (await login(source.url + "?tls=disabled"))[1] == ""
        for mode in ("preferred", "required"):
            assert (await login(f"{source.url}?tls={mode}"))[1] == "TLSv1.3"
        for mode in ("preferred", "verify-ca", "verify-identity"):
            assert (await login(f"{source.url}?tls={mode}&tls_ca={ca}"))[1] == "TLSv1.3"
        by_name = source.url.replace("127.0.0.1", "localhost")
        assert (await login(f"{by_name}?ssl-mode=VERIFY_IDENTITY&ssl-ca={ca}"))[1]
        with pytest.raises(TlsError, match="tls_ca"):
            await login(source.url + "?tls=verify-ca")
        with pytest.raises(ConfigError, match=r"tls_ca .*none\.pem"):
            await login(f"{source.url}?tls=verify-ca&tls_ca={tmp_path}/none.pem")
    async with BinlogSource(path) as source:
        assert (await login(source.url))[1] == ""
        for mode in ("required", "verify-ca", "verify-identity"):
            with pytest.raises(TlsError, match="offers no TLS"):
                await login(f"{source.url}?tls={mode}")


async def test_certificate_for_another_name(tmp_path) -> None:
    path = BinlogMaker().save(tmp_path / "binlog.000001")
    async with BinlogSource(path, tls=True, host="127.0.0.2") as source:
        ca = tmp_path / "ca.pem"
        ca.write_bytes(source.certificate())
        assert (await login(f"{source.url}?tls=verify-ca&tls_ca={ca}"))[1]
        with pytest.raises(TlsError, match="another name"):
            await login(f"{source.url}?tls=verify-identity&tls_ca={ca}")


async def test_nothing_stays_open_when_the_end_of_tls_is_not_answered(tmp_path) -> None:
    path = BinlogMaker().save(tmp_path / "binlog.000001")
    async with BinlogSource(path, tls=True) as source:
        connection = await SourceConnection.open(parse_url(source.url + "?tls=required"))
        ours = connection._connection._writer.get_extra_info("socket")
        # As a peer does whose host is gone: nothing that comes is read any more.
        source.sessions[0]._writer.transport._ssl_protocol._transport.pause_reading()
        await connection.close()
        await asyncio.sleep(0)
        assert ours.fileno() == -1


async def test_unix_socket(tmp_path) -> None:
    path = BinlogMaker().save(tmp_path / "binlog.000001")
    sock = str(tmp_path / "source.sock")
    async with BinlogSource(path, unix_socket=sock, auth_plugin="mysql_clear_password"):
        assert (await login(f"mysql://repl:secret@/?socket={sock}"))[0] == "mysql_clear_password"
    with pytest.raises(ConnectError, match=r"none\.sock"):
        await login(f"mysql://repl:secret@/?socket={tmp_path}/none.sock")


async def test_ipv6(tmp_path) -> None:
    path = BinlogMaker().save(tmp_path / "binlog.000001")
    try:
        source = BinlogSource(path, host="::1")
        await source.start()
    except ConfigError:
        pytest.skip("no IPv6 on this machine")
    assert "[::1]" in source.url
    await login(source.url)
    await source.close()


async def test_nobody_listens() -> None:
    with pytest.raises(ConnectError, match=r"127\.0\.0\.1:1: .*refused") as caught:
        await login("mysql://repl:hunter2@127.0.0.1:1/")
    assert "hunter2" not in repr(caught.value)


@pytest.mark.parametrize("plugin", ["mysql_native_password", "caching_sha2_password"])
async def test_other_clients(tmp_path, plugin) -> None:
    paths = two_files(tmp_path)
    async with BinlogSource(paths, auth_plugin=plugin, cold_cache=True) as source:

        def with_pymysql() -> None:
            connection = pymysql.connect(
                host="127.0.0.1", port=source.port, user="repl", password="secret"
            )
            with connection, connection.cursor() as cursor:
                cursor.execute("SHOW BINARY LOGS")
                assert [row[0] for row in cursor.fetchall()] == ["binlog.000001", "binlog.000002"]
                cursor.execute("SELECT VERSION(), @@server_id AS id, 'a''b', NULL, @x, 7")
                assert cursor.fetchall() == (("9.7.4", 11, "a'b", None, None, 7),)
                cursor.execute("SHOW VARIABLES LIKE 'server\\_uuid'")
                assert cursor.rowcount == 1
                cursor.execute("SET @x = 5, @@session.time_zone = '+00:00'")
                cursor.execute("SELECT @x")
                assert cursor.fetchall() == ((5,),)
                connection.ping()
                with pytest.raises(pymysql.err.ProgrammingError):
                    cursor.execute("SELECT 1 FROM t JOIN u")
                with pytest.raises(pymysql.err.OperationalError):
                    cursor.execute("SELECT @@nothing_like_it")

        await asyncio.to_thread(with_pymysql)
        connection = await aiomysql.connect(
            host="127.0.0.1", port=source.port, user="repl", password="secret", autocommit=True
        )
        async with connection.cursor() as cursor:
            await cursor.execute("SHOW BINARY LOG STATUS")
            assert (await cursor.fetchone())[0] == "binlog.000002"
        await connection.ensure_closed()


async def test_answers_of_the_tests_own(tmp_path) -> None:
    path = BinlogMaker().save(tmp_path / "binlog.000001")
    answers = {"select a  from t;": (["a"], [(1,), (2,)])}
    async with (
        BinlogSource(path, answers=answers) as source,
        await SourceConnection.open(parse_url(source.url)) as connection,
    ):
        assert await connection.query("SELECT a FROM t") == [(1,), (2,)]
        with pytest.raises(ServerError, match="does not understand"):
            await connection.query("SELECT b FROM t WHERE c")
        assert (await connection.query("SELECT %s", ("it's",)))[0] == ("it's",)


async def test_what_a_connection_says_about_its_server(tmp_path) -> None:
    async with (
        BinlogSource(two_files(tmp_path)) as source,
        await SourceConnection.open(parse_url(source.url)) as connection,
    ):
        server = connection.server
        assert (server.flavor, server.version, server.server_id) == ("mysql", (9, 7, 4), 11)
        assert server.server_uuid == "3e11fa47-71ca-11e1-9e33-c80aa9429562"
        status = await connection.binlog_status()
        assert status.file == "binlog.000002"
        assert status.executed_gtid_set == f"{server.server_uuid}:1-10"
        assert await connection.gtid_purged() == ""
        assert [name for name, _ in await connection.binary_logs()] == [
            "binlog.000001",
            "binlog.000002",
        ]
        source.purge_to("binlog.000002")
        assert await connection.gtid_purged() == f"{server.server_uuid}:1-5"
    async with (
        BinlogSource(two_files(tmp_path, mariadb=True)) as source,
        await SourceConnection.open(parse_url(source.url)) as connection,
    ):
        assert connection.server.is_mariadb
        assert connection.server.version == (10, 11, 6)
        assert (await connection.binlog_status()).executed_gtid_set == "0-11-10"
        source.purge_to("binlog.000002")
        assert await connection.gtid_purged() == "0-11-5"


# Hostile servers.


async def hostile(*conversation: bytes) -> tuple[asyncio.Server, str]:
    """A server that sends these packets, each after one of ours (the first at once)."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            for number, data in enumerate(conversation):
                if number:
                    header = await reader.readexactly(4)
                    await reader.readexactly(int.from_bytes(header[:3], "little"))
                writer.write(data)
                await writer.drain()
            await reader.read()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    return server, f"mysql://repl:hunter2@127.0.0.1:{port}/?connect_timeout=2&tls=disabled"


GREETING = encode_packets(
    HandshakeV10(
        "9.7.4", 1, b"a" * 20, BASE_CAPABILITIES, auth_plugin="mysql_native_password"
    ).encode()
)


async def attempt(*conversation: bytes) -> ReplicaClientError:
    server, url = await hostile(*conversation)
    try:
        with pytest.raises(ReplicaClientError) as caught:
            await SourceConnection.open(parse_url(url))
        assert "\n" not in str(caught.value)
        assert "hunter2" not in str(caught.value)
        return caught.value
    finally:
        server.close()
        await server.wait_closed()


async def test_local_infile_is_refused() -> None:
    ok = encode_packets(OkPacket().encode(), 2)
    error = await attempt(GREETING, ok, encode_packets(b"\xfb/etc/passwd", 1))
    assert isinstance(error, UnexpectedPacketError)
    assert "local file" in str(error)


async def test_a_server_that_wants_the_password_in_clear_text() -> None:
    switch = encode_packets(AuthSwitchRequest("mysql_clear_password", b"").encode(), 2)
    error = await attempt(GREETING, switch)
    assert isinstance(error, UnexpectedPacketError)
    assert "refused without TLS" in str(error)


async def test_greeting_that_is_an_error() -> None:
    error = await attempt(encode_packets(b"\xff\x69\x04Host is blocked"))
    assert isinstance(error, AccessDeniedError)
    assert "FLUSH HOSTS" in str(error)


async def test_not_a_mysql_server() -> None:
    error = await attempt(b"SSH-2.0-OpenSSH_9.2\r\n")
    assert isinstance(error, ProtocolError)


async def test_huge_packets_are_not_read() -> None:
    error = await attempt(b"\xff\xff\xff\x00" + bytes(100))
    assert isinstance(error, PacketTooLargeError)
    server, url = await hostile(GREETING, b"\xff\xff\xff\x02" + bytes(100))
    with pytest.raises(PacketTooLargeError, match="what it may have here"):
        await SourceConnection.open(parse_url(url + "&max_packet_size=1048576"))
    server.close()
    await server.wait_closed()


async def test_broken_result_set() -> None:
    ok = encode_packets(OkPacket().encode(), 2)
    prepared = encode_packets(OkPacket().encode(), 1)
    error = await attempt(
        GREETING, ok, prepared, encode_packets(b"\x01", 1) + encode_packets(b"\x03def", 2)
    )
    assert isinstance(error, MalformedPacketError)
    names, rows = ["a", "b", "c"], [("9.7.4", "x", "not a number")]
    packets = b"".join(
        encode_packets(payload, number)
        for number, payload in enumerate(encode_result(names, rows), 1)
    )
    error = await attempt(GREETING, ok, prepared, packets)
    assert isinstance(error, MalformedPacketError)


@pytest.mark.parametrize("seed", range(60))
async def test_random_servers(seed) -> None:
    rng = random.Random(seed)
    ok = OkPacket().encode()
    parts = [GREETING, encode_packets(ok, 2), encode_packets(ok, 1)]
    result = encode_result(["a", "b", "c"], [("9.7.4", "x", 1)])
    parts.append(b"".join(encode_packets(part, n) for n, part in enumerate(result, 1)))
    broken = rng.randrange(4)
    data = bytearray(parts[broken])
    for _ in range(rng.randrange(1, 6)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    parts[broken] = bytes(data[: rng.randrange(1, len(data) + 1)])
    server, url = await hostile(*parts)
    try:
        connection = await SourceConnection.open(
            parse_url(url.replace("connect_timeout=2", "connect_timeout=0.3"))
        )
        await connection.close()
    except (ProtocolError, ServerError, TransportError):
        pass
    finally:
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("compression", ["zlib", "zstd"])
async def test_compression(tmp_path, compression, tls) -> None:
    maker = BinlogMaker()
    for _ in range(5):
        maker.transaction(100_000)
    path = maker.save(tmp_path / "binlog.000001")
    async with BinlogSource(path, tls=tls) as source:
        url = f"{source.url}?compression={compression}"
        assert await login(url)
        request = DumpRequest(non_block=True)
        source.faults[:] = [CutAt(1 << 40)]  # the same frames as where it is cut
        stream = await start_dump(url, request)
        events = []
        async with stream:
            while batch := await stream.read():
                events += batch
        source.faults.clear()
        assert events == await read_all(source.url, request)
        assert stream.statistics.bytes_received < 50_000
        for size in range(0, stream.statistics.bytes_received, 97):
            source.faults[:] = [CutAt(size)]
            found, error = await read_until_error(url, request)
            assert isinstance(error, ConnectionLostError)
            assert found == events[: len(found)]


async def test_other_clients_with_compression_are_served(tmp_path) -> None:
    path = BinlogMaker().save(tmp_path / "binlog.000001")
    async with BinlogSource(path) as source:
        async with await SourceConnection.open(
            parse_url(source.url + "?compression=zlib")
        ) as connection:
            long = "x" * 5000
            assert await connection.query("SELECT %s", (long,)) == [(long,)]


async def test_password_from_a_callable(tmp_path) -> None:
    path = BinlogMaker().save(tmp_path / "binlog.000001")
    asked = []

    async def token() -> str:
        asked.append(1)
        return "secret"

    async with BinlogSource(path) as source:
        options = parse_url(source.url.replace(":secret", ""), {})
        for provider in (token, lambda: "secret"):
            connection = await SourceConnection.open(replace(options, password_provider=provider))
            await connection.close()
        assert asked == [1]
        with pytest.raises(AccessDeniedError):
            await SourceConnection.open(replace(options, password_provider=lambda: "wrong"))


async def test_a_callable_that_fails_for_a_while(tmp_path) -> None:
    path = BinlogMaker().save(tmp_path / "binlog.000001")
    answers: list[Exception | str] = ["secret", OSError("hunter2 is down"), KeyError("x"), "secret"]

    async def token() -> str:
        answer = answers.pop(0) if answers else "secret"
        if isinstance(answer, Exception):
            raise answer
        return answer

    async with BinlogSource(path, faults=[CutAt(100, connection=0)]) as source:
        options = replace(parse_url(source.url.replace(":secret", ""), {}), password_provider=token)
        async with rc.connect(
            options,
            start=rc.Position("binlog.000001", 4),
            stop_at_end=True,
            reconnect=rc.ReconnectPolicy(first_delay=0.0, max_delay=0.0),
        ) as stream:
            assert [event async for event in stream.events()]
        assert not answers
        answers.append(OSError("hunter2 is down"))
        with pytest.raises(ConnectError, match="password_provider failed .* OSError") as caught:
            await SourceConnection.open(options)
        assert "hunter2" not in str(caught.value)

        async def never() -> str:
            await asyncio.sleep(3600)
            return ""

        slow = replace(options, password_provider=never, connect_timeout=0.1)
        with pytest.raises(TransportTimeoutError, match="password_provider"):
            await SourceConnection.open(slow)


def test_several_hosts_where_one_is_wanted() -> None:
    with pytest.raises(ConfigError, match="several hosts"):
        parse_url("mysql://repl:secret@one,two:3307/")
