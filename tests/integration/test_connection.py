"""Connections and dumps of real servers."""

import asyncio
import struct
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from replica_client.errors import (
    AccessDeniedError,
    BinlogDisabledError,
    BinlogPurgedError,
    BinlogReadError,
    ConfigError,
    ConnectionLostError,
    ServerError,
    TransportTimeoutError,
    UnexpectedPacketError,
    UnknownBinlogError,
)
from replica_client.protocol.constants.event_types import EventType
from replica_client.protocol.gtid import GtidSet, MariadbGtidSet
from replica_client.stream.transport.connect_options import parse_url
from replica_client.stream.transport.connection import SourceConnection
from replica_client.stream.transport.dump import DumpRequest
from replica_client.testing import BinlogSource

pytestmark = pytest.mark.integration


async def connect(url: str) -> SourceConnection:
    return await SourceConnection.open(parse_url(url))


async def dump(url: str, request: DumpRequest, **options: Any) -> list[bytes]:
    events: list[bytes] = []
    connection = await connect(url)
    options = {"server_id": 900_001, "replica_uuid": str(uuid.uuid4()), **options}
    async with await connection.start_dump(request, **options) as stream:
        while batch := await stream.read():
            events += batch
    return events


def sequence_of(events: list[bytes], code: int) -> list[bytes]:
    return [event for event in events if event[4] == code]


async def test_server_facts(any_server) -> None:
    async with await connect(any_server.url()) as connection:
        server = connection.server
        assert server.flavor == any_server.flavor
        assert server.version == any_server.version
        assert server.server_id > 0
        assert bool(server.server_uuid) == (any_server.flavor == "mysql")
        status = await connection.binlog_status()
        logs = await connection.binary_logs()
        assert status.file == logs[-1][0]
        assert status.position >= 4
        assert isinstance(await connection.gtid_purged(), str)
        if server.is_mariadb:
            MariadbGtidSet.parse(status.executed_gtid_set)
        else:
            GtidSet.parse(status.executed_gtid_set)


async def test_whole_files_arrive_byte_for_byte(any_server, new_database) -> None:
    database = new_database(any_server)
    any_server.execute(f"CREATE TABLE `{database}`.t (id INT PRIMARY KEY, v VARCHAR(200))")
    any_server.execute(f"INSERT INTO `{database}`.t VALUES (1, 'x'), (2, REPEAT('y', 200))")
    first = any_server.binlog_position()[0]
    any_server.rotate()
    events = await dump(any_server.url(), DumpRequest(first, non_block=True))
    data = any_server.binlog_path(first).read_bytes()
    stream = b"\xfebin" + b"".join(
        event for event in events if not struct.unpack_from("<H", event, 17)[0] & 0x20
    )
    # The IN_USE flag was cleared when the file was closed; the next file follows.
    assert stream.startswith(data)


async def test_the_testing_source_sends_what_the_server_sends(any_server, new_database) -> None:
    database = new_database(any_server)
    any_server.execute(f"CREATE TABLE `{database}`.t (id INT PRIMARY KEY)")
    for number in range(20):
        any_server.execute(f"INSERT INTO `{database}`.t VALUES ({number})")
    any_server.rotate()
    names = any_server.binlog_files()[-3:]
    paths = [any_server.binlog_path(name) for name in names]
    async with await connect(any_server.url()) as connection:
        executed = (await connection.binlog_status()).executed_gtid_set
        mariadb = connection.server.is_mariadb
    requests = [DumpRequest(names[0], non_block=True), DumpRequest(names[-1], non_block=True)]
    have: GtidSet | MariadbGtidSet
    if mariadb:
        last = MariadbGtidSet.parse(executed).positions()[0]
        sequence = last.sequence - 12
        have = MariadbGtidSet.parse(f"{last.domain_id}-{last.server_id}-{sequence}")
    else:
        everything = GtidSet.parse(executed)
        last_gtid = max((gtid for gtid in everything if not gtid.tag), key=lambda g: g.gno)
        have = everything - GtidSet([replace(last_gtid, gno=last_gtid.gno - n) for n in (2, 5)])
    async with BinlogSource(paths) as source:
        for request in requests:
            real = await dump(any_server.url(), request)
            made = await dump(source.url, request)
            # Others write to the shared server meanwhile: the shorter is a prefix of the longer.
            size = min(len(real), len(made))
            assert size >= 3
            assert real[:size] == made[:size]
        request = DumpRequest(gtid_set=have, non_block=True)
        real = await dump(any_server.url(), request)
        made = await dump(source.url, request)
        size = min(len(real), len(made))
        code = EventType.GTID_EVENT if mariadb else EventType.GTID_LOG_EVENT
        assert sequence_of(real[:size], code)
        assert real[:size] == made[:size]


async def test_follows_new_events_with_heartbeats_between(any_server, new_database) -> None:
    database = new_database(any_server)
    any_server.execute(f"CREATE TABLE `{database}`.t (id INT PRIMARY KEY)")
    file, position = any_server.binlog_position()
    connection = await connect(any_server.url())
    marker = b"marker_of_this_test"
    async with await connection.start_dump(
        DumpRequest(file, position),
        server_id=900_002,
        replica_uuid=str(uuid.uuid4()),
        heartbeat_period=0.3,
    ) as stream:
        heartbeats = 0
        while heartbeats < 2:
            heartbeats += sum(event[4] in (27, 41) for event in await stream.read())
        await asyncio.to_thread(
            any_server.execute, f"CREATE TABLE `{database}`.{marker.decode()} (id INT)"
        )
        async with asyncio.timeout(30):
            while not any(marker in event for event in await stream.read()):
                pass


async def test_gtid_start(any_server, new_database) -> None:
    database = new_database(any_server)
    async with await connect(any_server.url()) as connection:
        executed = (await connection.binlog_status()).executed_gtid_set
        mariadb = connection.server.is_mariadb
    any_server.execute(f"CREATE TABLE `{database}`.only_this (id INT)")
    have = MariadbGtidSet.parse(executed) if mariadb else GtidSet.parse(executed)
    events = await dump(any_server.url(), DumpRequest(gtid_set=have, non_block=True))
    queries = b"".join(sequence_of(events, EventType.QUERY_EVENT))
    assert b"only_this" in queries
    assert f"CREATE DATABASE `{database}`".encode() not in queries


async def test_refusals(any_server) -> None:
    url = any_server.url()
    with pytest.raises(AccessDeniedError, match=r"check user, password"):
        await connect(url.replace("secret", "wrong"))
    with pytest.raises(UnknownBinlogError, match="SHOW BINARY LOGS"):
        await dump(url, DumpRequest("nothing.000001"))
    with pytest.raises(UnknownBinlogError, match="no such position"):
        await dump(url, DumpRequest(any_server.binlog_files()[0], 500_000_000))
    with pytest.raises(BinlogReadError):
        await dump(url, DumpRequest(any_server.binlog_files()[0], 5))
    async with await connect(url) as connection:
        with pytest.raises(ServerError) as caught:
            await connection.query("SELECT nonsense FROM nowhere")
        assert caught.value.errno in (1046, 1142, 1049)


async def test_missing_privilege(any_server) -> None:
    name = f"bare_{uuid.uuid4().hex[:8]}"
    any_server.execute(f"CREATE USER '{name}'@'%' IDENTIFIED BY 'secret'")
    try:
        url = f"mysql://{name}:secret@{any_server.host}:{any_server.port}/"
        async with await connect(url) as connection:
            with pytest.raises(AccessDeniedError, match="REPLICATION CLIENT"):
                await connection.binlog_status()
            with pytest.raises(AccessDeniedError, match="REPLICATION SLAVE"):
                await dump(url, DumpRequest())
    finally:
        any_server.execute(f"DROP USER '{name}'@'%'")


async def test_we_are_shown_as_a_replica(any_server) -> None:
    connection = await connect(any_server.url())
    file, position = any_server.binlog_position()
    async with await connection.start_dump(
        DumpRequest(file, position),
        server_id=900_003,
        replica_uuid=str(uuid.uuid4()),
        report_host="etl-7",
    ):
        new = any_server.version >= (8, 0, 22)
        hosts = "SHOW SLAVE HOSTS" if any_server.flavor == "mariadb" or not new else "SHOW REPLICAS"
        rows = await asyncio.to_thread(any_server.query, hosts)
        assert (900_003, "etl-7") in [(row[0], row[1]) for row in rows]


async def test_the_same_uuid_again_replaces_the_older_dump(server) -> None:
    mysql = server("mysql-9.7")
    file, position = mysql.binlog_position()
    ours = str(uuid.uuid4())
    first = await (await connect(mysql.url())).start_dump(
        DumpRequest(file, position), server_id=900_004, replica_uuid=ours
    )
    await first.read()
    second = await (await connect(mysql.url())).start_dump(
        DumpRequest(file, position), server_id=900_004, replica_uuid=ours
    )
    await second.read()
    with pytest.raises((BinlogReadError, ConnectionLostError)):
        async with asyncio.timeout(30):
            while await first.read():
                pass
    await first.close()
    await second.close()


@pytest.mark.parametrize("tls", ["disabled", "preferred"])
@pytest.mark.parametrize("compression", ["zlib", "zstd"])
async def test_compression(any_server, new_database, compression, tls) -> None:
    database = new_database(any_server)
    any_server.execute(f"CREATE TABLE `{database}`.t (id INT PRIMARY KEY, v TEXT)")
    any_server.execute(f"INSERT INTO `{database}`.t VALUES (1, REPEAT('y', 60000))")
    request = DumpRequest(any_server.binlog_position()[0], non_block=True)
    options = f"?tls={tls}&allow_public_key_retrieval=true"
    url = f"{any_server.url()}{options}&compression={compression}"
    if compression == "zstd" and any_server.name != "mysql-9.7":
        with pytest.raises(ConfigError, match="offers no zstd"):
            await connect(url)
        return
    packed = await dump(url, request)
    plain = await dump(any_server.url() + options, request)
    assert len(packed) > 3
    assert plain[: len(packed)] == packed


# Authentication: every plugin that a server has, without and with TLS.


def account(server: Any, clause: str) -> tuple[str, Callable[[], None]]:
    name = f"auth_{uuid.uuid4().hex[:8]}"
    server.execute(f"CREATE USER '{name}'@'%' {clause}")
    server.execute(f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO '{name}'@'%'")
    return name, lambda: server.execute(f"DROP USER '{name}'@'%'")


PLUGINS = [
    ("mysql-9.7", "IDENTIFIED WITH caching_sha2_password BY 'pä€'", "caching_sha2_password"),
    ("mysql-9.7", "IDENTIFIED WITH sha256_password BY 'pä€'", "sha256_password"),
    (
        "mariadb-10.11",
        "IDENTIFIED VIA mysql_native_password USING PASSWORD('pä€')",
        "mysql_native_password",
    ),
    ("mysql-5.6", "IDENTIFIED BY 'pä€'", "mysql_native_password"),
]


@pytest.mark.parametrize("tls", ["disabled", "preferred", "required"])
@pytest.mark.parametrize(("name", "clause", "plugin"), PLUGINS)
async def test_plugins(server, name, clause, plugin, tls) -> None:
    real = server(name)
    if "sha256_password" in clause and "caching" not in clause:
        active = real.query(
            "SELECT 1 FROM information_schema.plugins "
            "WHERE plugin_name = 'sha256_password' AND plugin_status = 'ACTIVE'"
        )
        if not active:
            pytest.skip(f"{name} has no sha256_password any more")
    has_tls = real.query("SHOW VARIABLES LIKE 'have_ssl'")
    offers_tls = name == "mysql-9.7" or (has_tls and has_tls[0][1] == "YES")
    if tls == "required" and not offers_tls:
        pytest.skip(f"{name} offers no TLS")
    user, drop = account(real, clause)
    try:
        url = f"mysql://{user}:p%C3%A4%E2%82%AC@{real.host}:{real.port}/?tls={tls}"
        if tls == "disabled" and "sha2" in plugin:
            with pytest.raises(UnexpectedPacketError, match="allow_public_key_retrieval"):
                await connect(url)
            url += "&allow_public_key_retrieval=true"
        elif plugin == "sha256_password":
            with pytest.raises(UnexpectedPacketError, match="unverified_password=any"):
                await connect(url)
            url += "&unverified_password=any"
        for _ in range(2):
            async with await connect(url) as connection:
                assert connection.server.auth_plugin == plugin
                assert bool(connection.server.tls) == (tls != "disabled" and offers_tls)
                await connection.binlog_status()
        with pytest.raises(AccessDeniedError):
            await connect(url.replace("p%C3%A4", "wrong"))
    finally:
        drop()


async def test_unix_socket(any_server) -> None:
    url = f"mysql://repl:secret@/?socket={any_server.socket}"
    async with await connect(url) as connection:
        assert await connection.binary_logs()


async def test_verified_certificate(server) -> None:
    real = server("mysql-9.7")
    ca = Path(real.datadir) / "ca.pem"
    async with await connect(f"{real.url()}?tls=verify-ca&tls_ca={ca}") as connection:
        assert connection.server.tls.startswith("TLS")


# Servers of the test's own.


async def test_no_binlog(fresh_server) -> None:
    mysql = fresh_server("mysql-9.7", ["skip-log-bin"])
    async with await connect(mysql.url()) as connection:
        with pytest.raises(BinlogDisabledError, match="--log-bin"):
            await connection.binlog_status()
        with pytest.raises(BinlogDisabledError):
            await connection.binary_logs()
    with pytest.raises(BinlogDisabledError):
        await dump(mysql.url(), DumpRequest())


async def test_purged_gtids_are_named(fresh_server) -> None:
    mysql = fresh_server("mysql-9.7", [])
    name = mysql.create_database("purged")
    mysql.rotate()
    mysql.execute(f"CREATE TABLE `{name}`.t (id INT)")
    mysql.execute(f"PURGE BINARY LOGS TO '{mysql.binlog_files()[-1]}'")
    with pytest.raises(BinlogPurgedError) as caught:
        await dump(mysql.url(), DumpRequest(gtid_set=GtidSet()))
    purged = mysql.query("SELECT @@global.gtid_purged")[0][0].replace("\n", "")
    assert GtidSet.parse(caught.value.missing) == GtidSet.parse(purged)


async def test_stopped_server_is_found_dead_and_killed_server_is_lost(fresh_server) -> None:
    mariadb = fresh_server("mariadb-10.11", [])
    file, position = mariadb.binlog_position()
    options: dict[str, Any] = {"replica_uuid": str(uuid.uuid4()), "heartbeat_period": 0.4}
    stream = await (await connect(mariadb.url())).start_dump(
        DumpRequest(file, position), server_id=900_005, **options
    )
    await stream.read()
    mariadb.suspend()
    started = asyncio.get_running_loop().time()
    with pytest.raises(TransportTimeoutError):
        while await stream.read():
            pass
    assert asyncio.get_running_loop().time() - started < 10
    await stream.close()
    mariadb.resume()
    stream = await (await connect(mariadb.url())).start_dump(
        DumpRequest(file, position), server_id=900_005, **options
    )
    await stream.read()
    await asyncio.to_thread(mariadb.kill)
    with pytest.raises((ConnectionLostError, ServerError)):
        while await stream.read():
            pass
    await stream.close()


@pytest.mark.parametrize("tls", ["disabled", "required"])
async def test_semi_sync(fresh_server, tls) -> None:
    mysql = fresh_server("mysql-9.7", [])
    try:
        mysql.execute("INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'")
    except Exception as error:
        pytest.skip(f"no semi-synchronous plugin: {error}")
    name = mysql.create_database("semi")
    mysql.execute("SET GLOBAL rpl_semi_sync_source_enabled = ON")
    mysql.execute("SET GLOBAL rpl_semi_sync_source_timeout = 20000")
    file, position = mysql.binlog_position()
    url = f"{mysql.url()}?tls={tls}&allow_public_key_retrieval=true"
    async with await (await connect(url)).start_dump(
        DumpRequest(file, position),
        server_id=900_006,
        replica_uuid=str(uuid.uuid4()),
        semi_sync=True,
    ) as stream:
        await stream.read()
        assert stream.semi_sync_active
        for number in range(3):
            statement = f"CREATE TABLE `{name}`.t{number} (id INT)"
            running = asyncio.ensure_future(asyncio.to_thread(mysql.execute, statement))
            end = 0
            while not end:
                for event in await stream.read():
                    if event[4] == EventType.QUERY_EVENT:
                        end = struct.unpack_from("<I", event, 13)[0]
            await asyncio.sleep(0.3)
            assert not running.done()  # the source waits for us
            await stream.acknowledge_semi_sync(file, end)
            async with asyncio.timeout(30):
                await running
        status = dict(await asyncio.to_thread(mysql.query, "SHOW STATUS LIKE 'Rpl_semi_sync%'"))
        assert int(status["Rpl_semi_sync_source_yes_tx"]) >= 3
    await asyncio.to_thread(mysql.kill)  # its orderly end would wait for a replica
