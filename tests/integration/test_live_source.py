"""The live reader against every real server: the same changes as its files, the same rows as its SELECT."""

from __future__ import annotations

import asyncio
import datetime
import time

import pytest

import replica_client as rc
from replica_client.rows.json_values import change_to_json


async def _collect(url: str, **options: object) -> list[str]:
    async with rc.connect(url, stop_at_end=True, **options) as stream:
        return [change_to_json(change) async for change in stream.changes()]


def _work(server, database: str, rows: int = 40) -> None:
    server.execute(
        f"CREATE TABLE {database}.t (id INT PRIMARY KEY, n BIGINT UNSIGNED, t VARCHAR(50)) CHARSET utf8mb4"
    )
    for base in range(0, rows, 10):
        values = ",".join(
            f"({base + i}, 18446744073709551615 - {i}, 'zeile {i} ä')" for i in range(10)
        )
        server.execute(f"INSERT INTO {database}.t VALUES {values}")
    server.rotate()
    server.execute(f"UPDATE {database}.t SET n = n - 1 WHERE id % 3 = 0")
    server.execute(f"DELETE FROM {database}.t WHERE id % 7 = 0")


async def test_stream_equals_files_and_select(any_server, new_database) -> None:
    server = any_server
    database = new_database(server)
    file, offset = server.binlog_position()
    start = f"{file}:{offset}"
    await asyncio.to_thread(_work, server, database)
    live = await _collect(server.url(), start=start, tables=f"{database}.*")
    names = server.binlog_files()
    paths = [server.binlog_path(name) for name in names[names.index(file) :]]
    filed = [
        change_to_json(change)
        for change in rc.open_binlog(paths, start=start, tables=f"{database}.*").changes()
    ]
    assert live == filed
    assert len(live) == 40 + 14 + 6
    state: dict[int, tuple[object, ...]] = {}
    for change in rc.open_binlog(paths, start=start, tables=f"{database}.*").changes():
        if change.before is not None:
            del state[change.before[0]]
        if change.after is not None:
            state[change.after[0]] = tuple(change.after)
    rows = server.query(f"SELECT id, n, t FROM {database}.t ORDER BY id")
    for row in rows:
        # MySQL 5.6 logs no signedness and no character sets: the CREATE TABLE in the stream tells.
        assert state.pop(row[0]) == row
    assert not state


async def test_gtid_start_passes_over_what_is_known(any_server, new_database) -> None:
    server = any_server
    database = new_database(server)
    server.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY)")
    server.execute(f"INSERT INTO {database}.t VALUES (1)")
    async with rc.connect(server.url(), start="latest") as stream:
        at = stream.position
    assert at.gtid_set
    server.rotate()
    server.execute(f"INSERT INTO {database}.t VALUES (2)")
    for start in (at, rc.Position("", 0, at.gtid_set), str(at.gtid_set)):
        async with rc.connect(server.url(), start=start, stop_at_end=True) as stream:
            transactions = [t async for t in stream.transactions()]
            end = stream.position
        assert [[c.after[0] for c in t.changes] for t in transactions] == [[2]]
        assert transactions[0].gtid
        assert end.gtid_set == at.gtid_set.add(_gtid(server, transactions[0].gtid))
        position = transactions[0].start
        assert position.file == server.binlog_files()[-1]
        # MariaDB may write a checkpoint meanwhile.
        assert position.offset < end.offset <= server.binlog_position()[1]


def _gtid(server, text: str):
    return (rc.Gtid if server.flavor == "mysql" else rc.MariadbGtid).parse(text)


async def test_positions_of_a_resumed_stream_are_those_of_the_file(
    any_server, new_database
) -> None:
    server = any_server
    database = new_database(server)
    server.rotate()
    server.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY)")
    server.execute(f"INSERT INTO {database}.t VALUES (1)")
    async with rc.connect(server.url(), start="latest") as stream:
        at = stream.position
    server.execute(f"INSERT INTO {database}.t VALUES (2)")
    path = server.binlog_path(at.file)
    own = {t.gtid: (t.start, t.position.offset) for t in rc.open_binlog(path).transactions()}
    async with rc.connect(server.url(), start=at, stop_at_end=True) as stream:
        async for t in stream.transactions():
            assert own[t.gtid] == (t.start, t.position.offset)
            assert t.start.offset >= at.offset


async def test_start_at_a_time(any_server, new_database) -> None:
    server = any_server
    database = new_database(server)
    server.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY)")
    server.execute(f"INSERT INTO {database}.t VALUES (1)")
    server.rotate()
    await asyncio.sleep(2.1)
    since = datetime.datetime.fromtimestamp(int(time.time()), datetime.UTC)
    server.execute(f"INSERT INTO {database}.t VALUES (2)")
    async with rc.connect(
        server.url(), start=since, stop_at_end=True, tables=f"{database}.*"
    ) as stream:
        assert [change.after[0] async for change in stream.changes()] == [2]


async def test_follows_and_heartbeats_keep_it_alive(any_server, new_database) -> None:
    server = any_server
    database = new_database(server)
    server.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY)")
    async with rc.connect(
        server.url(), start="latest", heartbeat_period=0.3, tables=f"{database}.*"
    ) as stream:
        changes = stream.changes()
        waiting = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(1.5)  # longer than the read deadline of three heartbeats
        assert not waiting.done()
        await asyncio.to_thread(server.execute, f"INSERT INTO {database}.t VALUES (5)")
        async with asyncio.timeout(30):
            assert (await waiting).after[0] == 5
        assert stream.generation == 1


@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
async def test_killed_server_comes_back(fresh_server, name: str) -> None:
    server = fresh_server(name, ["binlog-row-metadata=FULL"])
    server.execute("CREATE DATABASE d")
    server.execute("CREATE TABLE d.t (id INT PRIMARY KEY)")
    async with rc.connect(server.url(), start="latest", tables="d.*") as stream:
        seen: list[int] = []

        async def read(until: int) -> None:
            async for change in stream.changes():
                seen.append(change.after[0])
                if change.after[0] == until:
                    return

        server.execute("INSERT INTO d.t VALUES (1),(2)")
        async with asyncio.timeout(20):
            await read(2)
        server.kill()
        await asyncio.to_thread(server.restart)
        server.execute("INSERT INTO d.t VALUES (3)")
        server.execute("INSERT INTO d.t VALUES (4)")
        async with asyncio.timeout(60):
            await read(4)
        assert seen == [1, 2, 3, 4]
        assert stream.generation >= 2


async def test_bad_input_is_one_typed_line(server) -> None:
    mysql = server("mysql-9.7")
    url = mysql.url()
    with pytest.raises(rc.ServerError, match="1045") as caught:
        await _collect(url.replace("secret", "wrong"))
    assert "wrong" not in str(caught.value)
    with pytest.raises(rc.ServerError, match="1236") as caught:
        await _collect(url, start="binlog.999999:4")
    assert "\n" not in str(caught.value)
    file, offset = mysql.binlog_position()
    with pytest.raises(rc.ReplicaClientError) as far:
        await _collect(url, start=f"{file}:{offset + 100000}")
    assert "\n" not in str(far.value)
    with pytest.raises(rc.ReplicaClientError) as inside:
        await _collect(url, start=f"{file}:{offset - 3}")
    assert "\n" not in str(inside.value)
    with pytest.raises(rc.TransportError):
        await _collect("mysql://repl:secret@127.0.0.1:1/", attempts=2)


async def test_missing_privilege_is_named(server) -> None:
    mysql = server("mysql-9.7")
    mysql.execute("CREATE USER IF NOT EXISTS nobody@'%' IDENTIFIED BY 'secret'")
    try:
        with pytest.raises(rc.ServerError, match="REPLICATION"):
            await _collect(mysql.url().replace("repl:", "nobody:"), start="earliest")
    finally:
        mysql.execute("DROP USER nobody@'%'")


async def test_server_without_binlog(fresh_server) -> None:
    server = fresh_server("mysql-9.7", ["skip-log-bin"])
    with pytest.raises(rc.ServerError, match="binlog|binary log"):
        await _collect(server.url(), start="latest")


async def test_purged_gtids_are_named(fresh_server) -> None:
    server = fresh_server("mysql-9.7")
    server.execute("CREATE DATABASE d")
    server.rotate()
    server.execute("CREATE DATABASE e")
    last = server.binlog_files()[-1]
    server.execute(f"PURGE BINARY LOGS TO '{last}'")
    uuid = server.query("SELECT @@server_uuid")[0][0]
    with pytest.raises(rc.ServerError, match=uuid) as caught:
        await _collect(server.url(), start=rc.Position("", 0, rc.GtidSet()))
    assert "\n" not in str(caught.value)


async def test_stream_from_a_container(any_container, new_database) -> None:
    server = any_container
    server.execute("SET GLOBAL binlog_row_metadata = FULL")  # MariaDB's default says nothing
    server.disconnect()
    database = new_database(server)
    async with rc.connect(server.url(), start="latest") as stream:
        at = stream.position
    server.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY, t VARCHAR(20)) CHARSET utf8mb4")
    server.execute(f"INSERT INTO {database}.t VALUES (1, 'ä'), (2, NULL)")
    server.execute(f"UPDATE {database}.t SET t = 'é' WHERE id = 2")
    async with rc.connect(server.url(), start=at, stop_at_end=True) as stream:
        changes = [change async for change in stream.changes()]
    assert [
        (c.kind, c.after["id"] if c.shape.columns[0].resolved else c.after[0]) for c in changes
    ] == [
        ("insert", 1),
        ("insert", 2),
        ("update", 2),
    ]
    assert [c.after[1] for c in changes] == ["ä", None, "é"]
