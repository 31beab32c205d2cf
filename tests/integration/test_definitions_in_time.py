"""Definitions that are read while the source is in the midst of changing them."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

import replica_client as rc
from replica_client.stream.live import live_schema

WITHOUT_GTIDS = ("gtid-mode=OFF", "enforce-gtid-consistency=OFF", "binlog-row-metadata=MINIMAL")
# A commit waits between the binlog and the engine for a replica that is not there.
WAITING = (
    "plugin-load-add=semisync_source.so",
    "rpl-semi-sync-source-enabled=0",
    "rpl-semi-sync-source-timeout=20000",
    "rpl-semi-sync-source-wait-no-replica=1",
)


async def _rows(stream: rc.SourceStream, count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    async with asyncio.timeout(30):
        async for change in stream.changes():
            found.append(dict(change.after or {}))
            if len(found) == count:
                break
    return found


def test_statement_in_the_binlog_that_is_not_committed(fresh_server: Any) -> None:
    """MySQL without GTIDs: information_schema tells the table as it was, the position is behind the ALTER."""
    server = fresh_server("mysql-9.7", (*WITHOUT_GTIDS, *WAITING))
    database = server.create_database()
    server.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY, a INT, b INT)")
    server.execute("SET GLOBAL rpl_semi_sync_source_enabled = 1")
    before = server.binlog_position()

    def alter() -> None:
        with server.connected(database=database) as connection, connection.cursor() as cursor:
            cursor.execute("ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a")

    altering = threading.Thread(target=alter)
    altering.start()
    while server.binlog_position() == before:
        time.sleep(0.01)
    assert altering.is_alive()

    async def follow() -> list[dict[str, Any]]:
        async with rc.connect(server.url(), tables=f"{database}.*") as stream:
            assert stream.position.file
            server.execute("SET GLOBAL rpl_semi_sync_source_enabled = 0")  # ends its wait
            await asyncio.to_thread(altering.join)
            server.execute(f"INSERT INTO {database}.t (id, a, b) VALUES (1, 2, 3)")
            return await _rows(stream, 1)

    assert asyncio.run(follow()) == [{"id": 1, "a": 2, "b": 3}]


def test_table_that_changes_behind_the_reading_of_all(
    fresh_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What all tables looked like is not taken for rows that came while they were read."""
    server = fresh_server("mysql-9.7", ("binlog-row-metadata=MINIMAL",))
    database = server.create_database()
    for number in range(8):
        server.execute(f"CREATE TABLE {database}.t{number} (id INT PRIMARY KEY, a INT, b INT)")
    server.rotate()
    start = rc.Position(*server.binlog_position())
    for number in range(5):
        server.execute(f"INSERT INTO {database}.t{number} VALUES (1, 2, 3)")
    read = live_schema._read
    changed: list[str] = []

    async def reading(*args: Any) -> Any:
        answer = await read(*args)
        if len(args) > 2 and args[2] is not None and not changed:
            changed.append("t7")
            server.execute(f"ALTER TABLE {database}.t7 RENAME COLUMN a TO b, RENAME COLUMN b TO a")
            server.execute(f"INSERT INTO {database}.t7 (id, a, b) VALUES (1, 2, 3)")
        return answer

    monkeypatch.setattr(live_schema, "_read", reading)

    async def follow() -> list[dict[str, Any]]:
        async with rc.connect(server.url(), start=start, tables=f"{database}.*") as stream:
            return await _rows(stream, 6)

    assert asyncio.run(follow()) == [{"id": 1, "a": 2, "b": 3}] * 6
    assert changed
