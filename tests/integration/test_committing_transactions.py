"""Transactions that a source has in its binlog and is still committing.

Semi-synchronous replication without a replica that acknowledges keeps them so for a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

import replica_client as rc
from replica_client.stream.snapshot import low_watermark
from replica_client.stream.transport.connect_options import parse_url
from replica_client.stream.transport.connection import SourceConnection
from replica_client.stream.transport.source_gtids import owned_gtids
from tests.integration import failures
from tests.servers.local import LocalServer

OPTIONS = ["binlog-row-metadata=FULL"]
ELSEWHERE = "00000000-0000-0000-0000-00000000000a"
WAIT_MS = 60_000
"""How long a commit waits for an acknowledgement at most, milliseconds; tests end it before."""


@asynccontextmanager
async def _commits(
    server: LocalServer, *statements: str
) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Statements, each in a session of its own, that are in the binlog and not yet committed.

    Gives what lets them be committed; leaving the block does so too.
    """
    if server.flavor == "mariadb":
        kind = "master"
    else:
        kind = "source"
        server.execute("INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'")
    if kind == "master":
        server.execute("SET GLOBAL rpl_semi_sync_master_wait_point = AFTER_SYNC")
    server.execute(f"SET GLOBAL rpl_semi_sync_{kind}_timeout = {WAIT_MS}")
    server.execute(f"SET GLOBAL rpl_semi_sync_{kind}_enabled = ON")

    def run(statement: str) -> None:
        with server.connect(autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(statement)

    async def commit() -> None:
        off = f"SET GLOBAL rpl_semi_sync_{kind}_enabled = OFF"
        await asyncio.to_thread(server.execute, off)

    async with asyncio.TaskGroup() as group:
        for statement in statements:
            group.create_task(asyncio.to_thread(run, statement))
        try:
            yield commit
        finally:
            await commit()


def _begin(server: LocalServer) -> None:
    server.execute("CREATE DATABASE committing")
    server.execute("CREATE TABLE committing.t (a INT PRIMARY KEY)")


@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
async def test_reconnects_while_the_last_transaction_is_committed(fresh_server, name: str) -> None:
    server = fresh_server(name, OPTIONS)
    _begin(server)
    rows: list[int] = []

    async with rc.connect(server.url(), start="latest", tables="committing.t") as stream:

        async def read() -> None:
            async for transaction in stream.transactions():
                rows.extend(change.after["a"] for change in transaction.changes)

        reading = asyncio.create_task(read())
        async with asyncio.timeout(60):
            async with _commits(server, "INSERT INTO committing.t VALUES (1)"):
                while not rows and not reading.done():  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                generation = stream.generation
                for dump in await asyncio.to_thread(failures.dumps, server):
                    await asyncio.to_thread(server.execute, f"KILL {dump}")
                while stream.generation == generation and not reading.done():  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            await asyncio.to_thread(server.execute, "INSERT INTO committing.t VALUES (2)")
            while rows[-1:] != [2] and not reading.done():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        if reading.done():
            await reading
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    assert rows == [1, 2]
    await asyncio.to_thread(server.kill)  # its orderly end would wait for a replica


async def test_a_copy_begins_behind_those_that_are_being_committed(fresh_server) -> None:
    """A session that gives its GTID up changes ``gtid_owned``, but does not end the others' commits."""
    server = fresh_server("mysql-9.7", OPTIONS)
    _begin(server)
    inserts = [f"INSERT INTO committing.t VALUES ({number})" for number in (1, 2, 3)]
    holder = await asyncio.to_thread(server.connect, autocommit=True)
    try:
        with holder.cursor() as cursor:
            cursor.execute(f"SET gtid_next = '{ELSEWHERE}:1'")
        async with asyncio.timeout(60):
            async with await SourceConnection.open(parse_url(server.url())) as connection:
                async with _commits(server, *inserts) as commit:
                    while (await owned_gtids(connection)).count < 4:  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
                    waiting = asyncio.create_task(low_watermark(connection))
                    await asyncio.sleep(0.1)
                    assert not waiting.done()
                    with holder.cursor() as cursor:
                        cursor.execute("ROLLBACK")
                    await asyncio.sleep(0.1)
                    assert not waiting.done()
                    await commit()
                    low = await waiting
                    seen = await connection.query("SELECT a FROM committing.t ORDER BY a")
                status = await connection.binlog_status()
        assert low.offset == status.position  # all three are before it: the copy must see them
        assert [row[0] for row in seen] == [1, 2, 3]
    finally:
        holder.close()
    await asyncio.to_thread(server.kill)
