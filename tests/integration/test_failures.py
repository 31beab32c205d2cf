"""What may happen to a source while it is followed; scripts/proofs/failures runs every scene."""

from __future__ import annotations

import asyncio
import os
import random
import re
import time

import pytest

import replica_client as rc
from replica_client.errors import ServerIdConflictError
from replica_client.protocol.constants.client_server import Command
from replica_client.protocol.wire.dump_commands import ComRegisterSlave
from tests.integration import failures
from tests.servers.local import LocalServer

PAIR_OPTIONS = ["binlog-row-metadata=FULL"]
FLAVORS = ["mysql-9.7", "mariadb-11.8"]
LIMIT = pytest.mark.timeout(240)


@LIMIT
@pytest.mark.parametrize("name", FLAVORS)
@pytest.mark.parametrize("scene", ["stopped", "restarted", "connection_killed"])
async def test_goes_on(fresh_server, name: str, scene: str) -> None:
    await getattr(failures, scene)(fresh_server(name, PAIR_OPTIONS))


@LIMIT
@pytest.mark.parametrize("name", FLAVORS)
async def test_purged(fresh_server, name: str) -> None:
    await failures.purged(fresh_server(name, PAIR_OPTIONS))


@LIMIT
@pytest.mark.parametrize("name", [*FLAVORS, "mysql-5.6", "mariadb-10.11"])
@pytest.mark.parametrize("by_gtid", [False, True])
async def test_reset_while_nobody_follows(fresh_server, name: str, by_gtid: bool) -> None:
    options = [] if name == "mysql-5.6" else PAIR_OPTIONS
    await failures.reset_away(fresh_server(name, options), by_gtid=by_gtid)


@LIMIT
@pytest.mark.parametrize("name", FLAVORS)
async def test_reset(fresh_server, name: str) -> None:
    await failures.reset(fresh_server(name, PAIR_OPTIONS))


@LIMIT
@pytest.mark.parametrize("name", FLAVORS)
async def test_black_holed_route(fresh_server, name: str) -> None:
    if os.geteuid():
        pytest.skip("a network namespace needs root")
    server = fresh_server(name, [*PAIR_OPTIONS, "bind-address=0.0.0.0"])
    await asyncio.to_thread(failures.black_holed, server)


@LIMIT
@pytest.mark.parametrize("scene", ["failover", "lagging"])
async def test_pair(fresh_server, scene: str) -> None:
    source, replica = (fresh_server("mysql-9.7", PAIR_OPTIONS) for _ in range(2))
    await getattr(failures, scene)(source, replica)


async def test_previous_dump_is_ended(any_server) -> None:
    """A connection that the source takes for alive: its dump ends when we come again."""
    server = any_server
    number = random.randrange(1 << 31, (1 << 32) - 1)

    async with asyncio.timeout(60):
        proxy, connections, ended = await _deaf_proxy(server)
        async with proxy:
            port = proxy.sockets[0].getsockname()[1]
            url = re.sub(r":\d+/$", f":{port}/", server.url())
            before = set(failures.dumps(server))
            async with rc.connect(
                url, start="latest", server_id=number, heartbeat_period=0.3
            ) as stream:
                reading = asyncio.ensure_future(anext(stream.transactions()))
                old = await _steady_dumps(server, before)
                assert len(old) == 1
                for deaf in connections:
                    deaf.set()  # nothing gets through any more, and nobody is told
                while stream.generation < 2:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
                ours: set[int] = set()
                while not ours or ours & old:
                    await asyncio.sleep(0.05)
                    ours = set(failures.dumps(server)) - before
                assert len(ours) == 1
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
            ended.set()
            await asyncio.sleep(0.2)


async def _steady_dumps(server: LocalServer, before: set[int]) -> set[int]:
    """The dumps that began, when they stay: a start may ask for a short one of its own first."""
    found: set[int] = set()
    since = time.monotonic()
    while not found or time.monotonic() - since < 0.5:
        now = set(failures.dumps(server)) - before
        if now != found:
            found, since = now, time.monotonic()
        await asyncio.sleep(0.05)
    return found


async def _deaf_proxy(server) -> tuple[asyncio.Server, list[asyncio.Event], asyncio.Event]:
    """Forwards connections; each has an event after which it only keeps the server's side open."""
    deaf: list[asyncio.Event] = []
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection(server.host, server.port)
        silent = asyncio.Event()
        deaf.append(silent)

        async def pump(one: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
            while data := await one.read(65536):
                if silent.is_set():
                    break
                to.write(data)

        pumps = [
            asyncio.create_task(pump(reader, up_writer)),
            asyncio.create_task(pump(up_reader, writer)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            if silent.is_set():
                await ended.wait()
        finally:
            for task in pumps:
                task.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            for stream in (writer, up_writer):
                stream.close()

    return await asyncio.start_server(serve, "127.0.0.1", 0), deaf, ended


async def test_double_of_us_is_named(any_server) -> None:
    """Two clients with the same server id: one is told, the other goes on."""
    number = random.randrange(1 << 31, (1 << 32) - 1)
    url = any_server.url()
    options = {"start": "latest", "server_id": number, "heartbeat_period": 0.3}
    async with asyncio.timeout(60), rc.connect(url, **options) as first:
        stated = asyncio.ensure_future(anext(first.transactions()))
        await asyncio.sleep(0.3)
        async with rc.connect(url, **options) as second:
            going = asyncio.ensure_future(anext(second.transactions()))
            with pytest.raises(ServerIdConflictError, match="server_id"):
                await stated
            await asyncio.sleep(1.5)
            assert not going.done() or going.exception() is None
            assert second.generation == 1
            going.cancel()
            await asyncio.gather(going, return_exceptions=True)


def test_replica_that_told_no_uuid_stops_nobody(any_server) -> None:
    """MySQL 5.6 lists it in a row that lacks the last column."""
    number = random.randrange(1 << 31, (1 << 32) - 1)
    with any_server.connected() as connection:
        connection._execute_command(
            Command.COM_REGISTER_SLAVE, ComRegisterSlave(number, "plain").encode()[1:]
        )
        connection._read_ok_packet()
        with rc.follow(any_server.url(), start="latest", server_id=number, stop_at_end=True) as one:
            assert all(not transaction.changes for transaction in one.transactions())


async def test_other_replica_with_our_server_id_is_named(server) -> None:
    """MySQL tells replicas apart by uuid: they do not fight, but the id is not unique."""
    mysql = server("mysql-9.7")
    number = random.randrange(1 << 31, (1 << 32) - 1)
    options = {"start": "latest", "server_id": number, "heartbeat_period": 0.3}
    async with rc.connect(mysql.url(), **options) as first:
        reading = asyncio.ensure_future(anext(first.transactions()))
        other = rc.connect(mysql.url(), **options)
        other._link.replica_uuid = "6a3f6f56-0000-4000-8000-00000000000a"
        with pytest.raises(ServerIdConflictError, match=f"server id {number}.*give each client"):
            async with other:
                pass
        assert not reading.done()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
