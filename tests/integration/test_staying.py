"""Semi-synchronous acknowledgements, slow consumers and restarted sources, on real servers."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

import replica_client as rc
from tests.integration.absences import Absence

SEMI_SYNC = {
    "mysql-9.7": (
        ["plugin-load-add=semisync_source.so", "rpl-semi-sync-source-enabled=1"],
        "rpl_semi_sync_source",
    ),
    "mariadb-11.8": (["rpl-semi-sync-master-enabled=1"], "rpl_semi_sync_master"),
    "mariadb-10.11": (["rpl-semi-sync-master-enabled=1"], "rpl_semi_sync_master"),
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", SEMI_SYNC)
async def test_source_waits_for_the_acknowledgement(fresh_server, name: str) -> None:
    """A commit returns only after the consumer has acknowledged the transaction."""
    options, prefix = SEMI_SYNC[name]
    server = fresh_server(name, ["binlog-row-metadata=FULL", *options])
    server.execute(f"SET GLOBAL {prefix}_timeout = 100")  # there is no replica yet
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY)")
    server.execute(f"SET GLOBAL {prefix}_timeout = 60000")

    def status(what: str) -> str:
        with server.connected() as connection, connection.cursor() as cursor:
            cursor.execute(f"SHOW GLOBAL STATUS LIKE '{prefix}_{what}'")
            return str(cursor.fetchall()[0][1])

    async with rc.connect(server.url(), start="latest", semi_sync=True, tables="d.*") as stream:
        transactions = stream.transactions()
        # A source that had no replica waits for none until one has caught up.
        commit = asyncio.create_task(
            asyncio.to_thread(server.execute, "INSERT INTO d.t VALUES (0)")
        )
        async with asyncio.timeout(20):
            await stream.acknowledge((await anext(transactions)).position)
            await commit
            while await asyncio.to_thread(status, "status") != "ON":  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        for number in range(1, 6):
            commit = asyncio.create_task(
                asyncio.to_thread(server.execute, f"INSERT INTO d.t VALUES ({number})")
            )
            async with asyncio.timeout(20):
                transaction = await anext(transactions)
                assert [change.after[0] for change in transaction.changes] == [number]
                await asyncio.sleep(0.4)
                assert not commit.done(), f"the source did not wait for {number}"
                begun = time.monotonic()
                await stream.acknowledge(transaction.position)
                await commit
                assert time.monotonic() - begun < 40  # 60 without
        assert await asyncio.to_thread(status, "status") == "ON"
        assert int(await asyncio.to_thread(status, "yes_tx")) >= 5
        assert int(await asyncio.to_thread(status, "no_tx")) <= 3  # those before we came
        await transactions.aclose()


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
async def test_slow_consumer_keeps_its_connection(fresh_server, name: str) -> None:
    """Longer than the source's own net_write_timeout, with more than all buffers hold."""
    server = fresh_server(name, ["binlog-row-metadata=FULL", "net-write-timeout=2"])
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, b LONGBLOB)")
    async with rc.connect(server.url(), start="latest", heartbeat_period=0.5) as stream:
        for _ in range(80):
            await asyncio.to_thread(
                server.execute, "INSERT INTO d.t (b) VALUES (REPEAT('x', 1000000))"
            )
        seen = 0
        async for transaction in stream.transactions():
            for change in transaction.changes:
                seen += 1
                assert len(change.after[1]) == 1_000_000
            if seen == 1:
                await asyncio.sleep(8)
                dump = stream._link.dump
                assert dump is not None
                assert dump.queued < 40_000_000
            if seen == 80:
                break
        assert stream.generation == 1


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("name", "kill"), [("mysql-9.7", True), ("mariadb-11.8", False)])
def test_a_restarted_source_ends_no_api_and_loses_nothing(
    fresh_server, tmp_path: Path, name: str, kill: bool
) -> None:
    """scripts/proofs/absence does the same for minutes."""
    absence = Absence(fresh_server(name), tmp_path)
    try:
        absence.write(5)
        absence.restart(3, kill=kill)
        absence.write(5)
    finally:
        absence.close()
