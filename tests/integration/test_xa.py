"""XA transactions on real servers: rows come at the XA COMMIT, whatever lies between it and the XA PREPARE."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest

import replica_client as rc
from replica_client.errors import DataLossError, PositionStoreError
from replica_client.rows.selection import Selection
from replica_client.stream.position.losses import LossLedger
from replica_client.stream.position.prepared import PREPARED_KEY, PreparedLedger
from replica_client.stream.position.stores.file import FilePositionStore
from replica_client.stream.transactions.assembler import AssemblyOptions

XA_SERVERS = ("mysql-9.7", "mariadb-10.11", "mariadb-11.8")
OPTIONS = {
    "mysql-9.7": (
        "innodb_flush_log_at_trx_commit=1",  # a killed server loses prepared transactions otherwise
        "gtid_mode=ON",
        "enforce_gtid_consistency=ON",
        "log_replica_updates=ON",
    ),
    "mariadb-10.11": ("log_slave_updates=ON", "innodb_flush_log_at_trx_commit=1"),
    "mariadb-11.8": ("log_slave_updates=ON", "innodb_flush_log_at_trx_commit=1"),
}
ROTATE = "FLUSH BINARY LOGS"
HOSTILE = (
    "'plain'",
    "X'00ff27225c60',X'0a0d1a00',7",
    "'it''s','b\\\\q',0",
    "X'" + "ff" * 64 + "',X'" + "00" * 64 + "',2147483647",
    "'ONE PHASE','XA COMMIT'",
    "X'00'",
)
# After a restart, MySQL 9.7 has rolled back prepared transactions, for all that they are in its binlog, when there are
# xids of several formats: 25 of 112 were lost after crashes, and none of 112 with one format.
OF_ONE_FORMAT = tuple(re.sub(r",[0-9]+$", "", xid) for xid in HOSTILE)


class Work:
    """A table, and XA transactions on it."""

    def __init__(self, server: Any, database: str) -> None:
        self.server = server
        self.table = f"{database}.t"
        self.tables = f"{database}.*"
        self.first = self.start()
        server.execute(f"CREATE TABLE {self.table} (id INT PRIMARY KEY, v LONGTEXT)")

    @contextlib.contextmanager
    def session(self) -> Iterator[Any]:
        with self.server.connected() as connection, connection.cursor() as cursor:
            yield cursor

    def prepare(self, xid: str, *ids: int) -> None:
        """Prepare a transaction in a session that ends then."""
        with self.session() as cursor:
            self.run(cursor, f"XA START {xid}", *ids, f"XA END {xid}", f"XA PREPARE {xid}")
            session = cursor.connection.thread_id()
        # Other sessions have the transaction at the end of this one.
        self.server.wait_until_gone(session)

    def run(self, cursor: Any, *steps: str | int) -> None:
        """Statements; a number inserts a row with it."""
        for step in steps:
            if step == ROTATE:  # not in a session that has prepared
                self.server.execute(ROTATE)
                continue
            insert = f"INSERT INTO {self.table} VALUES ({step}, 'row {step}')"
            cursor.execute(insert if isinstance(step, int) else step)

    def start(self) -> str:
        file, offset = self.server.binlog_position()
        return f"{file}:{offset}"

    def selected(self) -> set[int]:
        return {row[0] for row in self.server.query(f"SELECT id FROM {self.table}")}

    def live(self, **options: Any) -> list[int]:
        return [row[0] for row in asyncio.run(self.follow(**options))]

    async def follow(self, **options: Any) -> list[tuple[int, str, str]]:
        """Rows with the GTID and commit version of their transaction, acknowledged one by one."""
        found = []
        url = options.pop("url", self.server.url())
        async with asyncio.timeout(60):
            async with rc.connect(url, tables=self.tables, stop_at_end=True, **options) as stream:
                await stream.acknowledge(stream.position)
                async for transaction in stream.transactions():
                    for change in transaction.changes:
                        assert change.gtid == transaction.gtid
                        row = change.after or change.before
                        found.append((row["id"], transaction.gtid, transaction.commit_version))
                    await stream.acknowledge(transaction.position)
        return found

    async def batches(self, start: str) -> list[tuple[str, int, int, int]]:
        found: list[tuple[str, int, int, int]] = []
        url = self.server.url()
        async with rc.connect(url, tables=self.tables, start=start, stop_at_end=True) as stream:
            async for batch in stream.batches():
                found += _ordered(batch)
        return found

    def paths(self, first: str) -> list[Path]:
        names = self.server.binlog_files()
        return [self.server.binlog_path(name) for name in names[names.index(first) :]]


def _ordered(batch: Any) -> list[tuple[str, int, int, int]]:
    names = ("_commit_version", "_event_index", "_row_index", "id")
    return list(zip(*(batch.column(name).to_pylist() for name in names), strict=True))


def _ids(reader: Any) -> list[int]:
    return [(change.after or change.before)["id"] for change in reader.changes()]


CASES: dict[str, tuple[list[str | int], list[int]]] = {
    "commit": (["XA START 'a'", 1, 2, "XA END 'a'", "XA PREPARE 'a'", "XA COMMIT 'a'"], [1, 2]),
    "rollback": (["XA START 'a'", 1, "XA END 'a'", "XA PREPARE 'a'", "XA ROLLBACK 'a'", 2], [2]),
    "one phase": (["XA START 'a'", 1, "XA END 'a'", "XA COMMIT 'a' ONE PHASE"], [1]),
    "rollback before it is prepared": (
        ["XA START 'a'", 1, "XA END 'a'", "XA ROLLBACK 'a'", 2],
        [2],
    ),
    "without rows": (["XA START 'a'", "XA END 'a'", "XA PREPARE 'a'", "XA COMMIT 'a'", 1], [1]),
    "xid used again": (
        [
            *("XA START 'a'", 1, "XA END 'a'", "XA PREPARE 'a'", "XA ROLLBACK 'a'"),
            *("XA START 'a'", 2, "XA END 'a'", "XA PREPARE 'a'", "XA COMMIT 'a'"),
            *("XA START 'a'", 3, "XA END 'a'", "XA COMMIT 'a' ONE PHASE"),
        ],
        [2, 3],
    ),
    "savepoint": (
        [
            *("XA START 'a'", 1, "SAVEPOINT s", 2, "ROLLBACK TO s", 3),
            *("XA END 'a'", "XA PREPARE 'a'", "XA COMMIT 'a'"),
        ],
        [1, 3],
    ),
    "files between": (
        [
            *("XA START 'a'", 1, "XA END 'a'", "XA PREPARE 'a'", ROTATE, ROTATE),
            *("XA COMMIT 'a'", 2),
        ],
        [1, 2],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_rows_come_with_the_commit(any_server, new_database, case) -> None:
    work = Work(any_server, new_database(any_server))
    steps, expected = CASES[case]
    start = work.first
    with work.session() as cursor:
        work.run(cursor, *steps)
    assert work.selected() == set(expected)
    found = asyncio.run(work.follow(start=start))
    assert [row[0] for row in found] == expected
    versions = [row[2] for row in found]
    assert versions == sorted(versions)
    batches = asyncio.run(work.batches(start))
    assert [row[3] for row in batches] == expected
    assert batches == sorted(batches)
    assert len({row[:3] for row in batches}) == len(expected)
    paths = work.paths(start.split(":")[0])
    assert _ids(rc.open_binlog(paths, start=start, tables=work.tables)) == expected
    reader = rc.open_binlog(paths, start=start, tables=work.tables)
    assert [row[3] for batch in reader.batches() for row in _ordered(batch)] == expected


@pytest.mark.parametrize("name", XA_SERVERS)
def test_order_is_that_of_the_commits(server, new_database, name) -> None:
    work = Work(server(name), new_database(server(name)))
    start = work.start()
    for number, xid in enumerate(HOSTILE):
        work.prepare(xid, 10 * number, 10 * number + 1)
    work.server.execute(f"INSERT INTO {work.table} VALUES (1000, 'in between')")
    expected = [1000]
    for number, xid in reversed(list(enumerate(HOSTILE))):
        work.server.execute(f"XA {'ROLLBACK' if number == 2 else 'COMMIT'} {xid}")
        if number != 2:
            expected += [10 * number, 10 * number + 1]
    found = asyncio.run(work.follow(start=start))
    assert [row[0] for row in found] == expected
    versions = [row[2] for row in found]
    assert versions == sorted(versions) and len(set(versions)) == len(HOSTILE)
    paths = work.paths(start.split(":")[0])
    assert _ids(rc.open_binlog(paths, start=start, tables=work.tables)) == expected


@pytest.mark.parametrize("name", XA_SERVERS)
@pytest.mark.parametrize("ends", ["rest", "restart", "kill"])
def test_restarts_of_client_and_source_between(fresh_server, tmp_path, name, ends) -> None:
    source = fresh_server(name, OPTIONS[name])
    source.execute("CREATE DATABASE d")
    work = Work(source, "d")
    store = tmp_path / "position"
    start = work.start()
    xids = OF_ONE_FORMAT if name == "mysql-9.7" and ends != "rest" else HOSTILE
    for number, xid in enumerate(xids):
        work.prepare(xid, number)
    source.execute(f"INSERT INTO {work.table} VALUES (100, '')")
    assert work.live(start=start, position_store=store) == [100]
    state = FilePositionStore(store).load_checkpoint().state
    assert len(PreparedLedger.from_state(state[PREPARED_KEY])) == len(xids)
    if ends == "restart":
        source.restart()
    elif ends == "kill":
        source.kill()
        source.restart()
    source.execute(ROTATE)
    for number, xid in enumerate(xids):
        source.execute(f"XA {'ROLLBACK' if number == 1 else 'COMMIT'} {xid}")
    expected = [number for number in range(len(xids)) if number != 1]
    assert work.live(position_store=store) == expected
    assert work.selected() == {100, *expected}
    assert not FilePositionStore(store).load_checkpoint().state.get(PREPARED_KEY)


@pytest.mark.parametrize("name", XA_SERVERS)
def test_prepared_before_the_start(server, new_database, name) -> None:
    work = Work(server(name), new_database(server(name)))
    first = work.start()
    work.prepare("'a'", 1)
    work.server.execute("XA ROLLBACK 'a'")
    work.prepare("'a'", 2)  # this one is committed
    work.prepare("'b'", 3)
    work.server.execute("FLUSH BINARY LOGS")
    start = work.start()
    work.server.execute("XA COMMIT 'a'")
    work.server.execute("XA ROLLBACK 'b'")
    assert work.live(start=start) == [2]
    paths = work.paths(first.split(":")[0])
    assert _ids(rc.open_binlog(paths, start=start, tables=work.tables)) == [2]
    # The file with the XA PREPARE is not among those given.
    paths = work.paths(start.split(":")[0])
    with pytest.raises(DataLossError, match=r"XA COMMIT X'61',X'',1.*purged.*record_losses"):
        _ids(rc.open_binlog(paths, tables=work.tables))
    reader = rc.open_binlog(paths, tables=work.tables, record_losses=["xa_prepare"])
    assert _ids(reader) == []
    assert [(loss.kind, loss.events) for loss in reader.losses.counts] == [("xa_prepare", 1)]


@pytest.mark.parametrize("name", XA_SERVERS)
def test_prepared_before_the_start_and_altered_since(server, new_database, tmp_path, name) -> None:
    source = server(name)
    work = Work(source, new_database(source))
    store = tmp_path / "position"
    source.execute("SET GLOBAL binlog_row_metadata = MINIMAL")
    try:
        work.prepare("'a'", 1)
        source.execute("FLUSH BINARY LOGS")
        assert work.live(start="latest", position_store=store) == []
        # Neither the binlog from the start on nor the source knows now what the table was then.
        source.execute("XA COMMIT 'a'")
        source.execute(f"ALTER TABLE {work.table} ADD COLUMN later INT FIRST")
        source.execute(f"INSERT INTO {work.table} (id) VALUES (2)")
        assert work.live(position_store=store) == [1, 2]
    finally:
        source.execute("SET GLOBAL binlog_row_metadata = FULL")


@pytest.mark.parametrize("name", XA_SERVERS)
def test_purged_meanwhile(fresh_server, tmp_path, name) -> None:
    source = fresh_server(name, OPTIONS[name])
    source.execute("CREATE DATABASE d")
    work = Work(source, "d")
    store = tmp_path / "position"
    start = work.start()
    work.prepare("'a'", 1)
    source.execute("FLUSH BINARY LOGS")
    source.execute(f"INSERT INTO {work.table} VALUES (2, '')")
    assert work.live(start=start, position_store=store) == [2]
    with contextlib.suppress(pymysql.Error):
        source.execute("SET GLOBAL slave_connections_needed_for_purge = 0")
    source.execute(f"PURGE BINARY LOGS TO '{source.binlog_files()[-1]}'")
    for _ in range(100):
        if start.split(":")[0] not in source.binlog_files():
            break
        source.execute(ROTATE)  # MariaDB keeps what its last checkpoint needs
        source.execute(f"PURGE BINARY LOGS TO '{source.binlog_files()[-1]}'")
        time.sleep(0.1)
    assert start.split(":")[0] not in source.binlog_files()
    source.execute("XA COMMIT 'a'")
    with pytest.raises(DataLossError, match=r"X'61',X'',1.*take a new snapshot"):
        work.live(position_store=store)
    # It may be recorded, once.
    for _ in range(2):
        assert work.live(position_store=store, record_losses="xa_prepare") == []
    losses = LossLedger.from_state(FilePositionStore(store).load_checkpoint().state["losses"])
    assert [(loss.kind, loss.events) for loss in losses.counts] == [("xa_prepare", 1)]


@pytest.mark.parametrize("name", XA_SERVERS)
def test_files_resumed_at_any_transaction(server, new_database, name) -> None:
    work = Work(server(name), new_database(server(name)))
    start = work.start()
    for number, xid in enumerate(HOSTILE):
        work.prepare(xid, number)
        if number % 2:
            work.server.execute("FLUSH BINARY LOGS")
    for xid in HOSTILE:
        work.server.execute(f"XA COMMIT {xid}")
    paths = work.paths(start.split(":")[0])
    reader = rc.open_binlog(paths, start=start, tables=work.tables)
    expected = list(range(len(HOSTILE)))
    done: list[int] = []
    saved: list[tuple[list[int], Any, dict[str, Any]]] = []
    for transaction in reader.transactions():
        done += [change.after["id"] for change in transaction.changes]
        saved.append((list(done), transaction.position, reader.state(transaction.position)))
    assert done == expected
    for before, position, state in saved:
        ledger = PreparedLedger.from_state(state.get(PREPARED_KEY, []))
        again = rc.open_binlog(paths, start=position, tables=work.tables, prepared=ledger)
        assert before + _ids(again) == expected
        # Without what was saved, it is looked for.
        again = rc.open_binlog(paths, start=position, tables=work.tables)
        assert before + _ids(again) == expected


@pytest.mark.parametrize("name", XA_SERVERS)
def test_large_transaction_in_parts(server, new_database, tmp_path, name) -> None:
    work = Work(server(name), new_database(server(name)))
    start = work.start()
    with work.session() as cursor:
        cursor.execute("XA START 'large'")
        for number in range(40):
            cursor.execute(f"INSERT INTO {work.table} VALUES ({number}, REPEAT('x', 100000))")
        cursor.execute("XA END 'large'")
        cursor.execute("XA PREPARE 'large'")
    work.server.execute("FLUSH BINARY LOGS")
    after_prepare = work.start()
    work.server.execute("XA COMMIT 'large'")
    assembly = AssemblyOptions(Selection(work.tables), part_size=300_000)

    async def read(first: Any, stop_after: int, store: Path | None = None) -> list[int]:
        ids: list[int] = []
        url, parts = work.server.url(), 0
        async with rc.connect(
            url, start=first, assembly=assembly, stop_at_end=True, position_store=store
        ) as stream:
            stream.prepared.storage.memory_limit = 1 << 20
            async for transaction in stream.transactions():
                assert stream.prepared.storage.memory_used <= 3 << 19
                ids += [change.after["id"] for change in transaction.changes]
                await stream.acknowledge(transaction.position)
                parts += bool(transaction.rows)
                if parts >= stop_after:
                    break
        return ids

    expected = list(range(40))
    assert asyncio.run(read(start, 1000)) == expected
    assert asyncio.run(read(after_prepare, 1000)) == expected
    # Acknowledged after any number of parts, it goes on behind them.
    for parts in (1, 2, 7):
        store = tmp_path / f"position {parts}"
        first = asyncio.run(read(after_prepare, parts, store))
        assert 0 < len(first) < 40
        assert first + asyncio.run(read(None, 1000, store)) == expected


def _replicate(source: Any, replica: Any) -> None:
    with replica.connected() as connection, connection.cursor() as cursor:
        host = (source.host, source.port, source.user, source.password)
        if source.flavor == "mariadb":
            cursor.execute(
                "CHANGE MASTER TO MASTER_HOST=%s, MASTER_PORT=%s, MASTER_USER=%s, MASTER_PASSWORD=%s, "
                "MASTER_USE_GTID=slave_pos",
                host,
            )
            cursor.execute("START SLAVE")
        else:
            cursor.execute(
                "CHANGE REPLICATION SOURCE TO SOURCE_HOST=%s, SOURCE_PORT=%s, SOURCE_USER=%s, "
                "SOURCE_PASSWORD=%s, SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1",
                host,
            )
            cursor.execute("START REPLICA")


async def _reached(replica: Any, source: Any) -> None:
    name = "gtid_binlog_pos" if source.flavor == "mariadb" else "gtid_executed"
    wanted = source.query(f"SELECT @@global.{name}")[0][0]
    async with asyncio.timeout(60):
        while replica.query(f"SELECT @@global.{name}")[0][0] != wanted:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
async def test_failover_between(fresh_server, tmp_path, name) -> None:
    source, replica = (fresh_server(name, OPTIONS[name]) for _ in range(2))
    _replicate(source, replica)
    source.execute("CREATE DATABASE d")
    work = Work(source, "d")
    store = tmp_path / "position"
    start = rc.Position.parse("@" + ("-" if source.flavor == "mariadb" else ""))
    if source.flavor != "mariadb":
        start = await _position(source)
    for number in range(4):
        work.prepare(f"'x{number}','b'", number)
    source.execute(f"INSERT INTO {work.table} VALUES (100, '')")
    found = await work.follow(start=start, position_store=store)
    assert [row[0] for row in found] == [100]
    await _reached(replica, source)
    replica.execute("STOP SLAVE" if source.flavor == "mariadb" else "STOP REPLICA")
    source.kill()
    replica.execute("FLUSH BINARY LOGS")
    with contextlib.suppress(pymysql.Error):
        replica.execute("SET GLOBAL read_only = 0")
    for number in (3, 1, 0):
        replica.execute(f"XA COMMIT 'x{number}','b'")
    replica.execute("XA ROLLBACK 'x2','b'")
    found = await work.follow(url=replica.url(), position_store=store)
    assert [row[0] for row in found] == [3, 1, 0]


async def _position(source: Any) -> rc.Position:
    async with rc.connect(source.url(), start="latest", stop_at_end=True) as stream:
        return stream.position


def test_damaged_state_is_reported(tmp_path: Path) -> None:
    with pytest.raises(PositionStoreError, match="XA transactions"):
        PreparedLedger.from_state([{"xid": "X'zz'"}])
