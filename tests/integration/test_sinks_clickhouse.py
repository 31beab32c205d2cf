"""The ClickHouse mirror on ClickHouse's own engine."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("chdb", reason="the package chdb is not installed")

from replica_client import open_binlog
from replica_client.errors import SinkError
from replica_client.protocol.position import Position
from replica_client.sinks.mirror.clickhouse_client import quoted
from replica_client.sinks.protocol import Sink
from replica_client.sinks.registry import make_sink
from replica_client.stream.position.stores.base import Checkpoint
from replica_client.testing.sink_conformance import SinkConformance
from tests.integration import mirror_statements as statements
from tests.integration.clickhouse_server import ClickhouseServer
from tests.integration.sink_comparison import compare_sink
from tests.integration.sink_driver import drive
from tests.servers.local import LocalServer
from tests.unit.sinks.formats.cases import LINES, SERVERS
from tests.unit.sinks.mirrored_rows import mirrored

NUMBERS = count(1)


@pytest.fixture(scope="module")
def clickhouse() -> Iterator[ClickhouseServer]:
    with tempfile.TemporaryDirectory() as directory:
        server = ClickhouseServer(Path(directory))
        yield server
        server.stop()


def tables(server: ClickhouseServer, prefix: str) -> dict[tuple[str, str], list[str]]:
    """The rows of each mirrored table, as ``SELECT * … FINAL`` gives them."""
    listed = server.text(
        f"SELECT database, name FROM system.tables WHERE startsWith(database, '{prefix}') "
        "AND NOT endsWith(database, '_replica_client') ORDER BY ALL FORMAT JSONCompactEachRow"
    )
    found = {}
    for database, name in map(json.loads, listed.splitlines()):
        table = f"{quoted(database)}.{quoted(name)}"
        rows = server.text(f"SELECT * FROM {table} FINAL FORMAT TabSeparated").splitlines()
        found[database.removeprefix(prefix), name] = sorted(rows)
    return found


class TestClickhouse(SinkConformance):
    step_stride = 60

    @pytest.fixture(autouse=True)
    def _server(self, clickhouse: ClickhouseServer) -> None:
        self.clickhouse = clickhouse
        self.made: dict[str, str] = {}

    def prefix(self, target: Path) -> str:
        """Of the databases of each target."""
        return self.made.setdefault(str(target), f"p{next(NUMBERS)}_")

    def make_sink(self, target: Path) -> Sink:
        options = {"url": self.clickhouse.url, "unknown_tables": "create"}
        return make_sink("clickhouse", {**options, "database_prefix": self.prefix(target)})

    async def abandon(self, sink: Any) -> None:
        if sink._store is not None:
            sink._store._database._client.close()

    async def content(self, target: Path) -> Any:
        return tables(self.clickhouse, self.prefix(target))

    async def stored_tables(self, target: Path) -> Any:
        return list((await self.content(target)).values())


@pytest.mark.parametrize("server", SERVERS)
async def test_each_value_is_that_of_the_sqlite_mirror(
    server: str, clickhouse: ClickhouseServer, tmp_path: Path
) -> None:
    """Every type of a real server, of which the SQLite mirror is compared with the server's own SELECT."""
    path, common = LINES / f"{server}.binlog", {"unknown_tables": "create"}
    own = {"url": clickhouse.url, "database_prefix": f"{server}_", "unstorable_values": "null"}
    found = await mirrored(make_sink("clickhouse", {**own, **common}), path)
    expected = await mirrored(make_sink("sqlite", {"path": str(tmp_path / "m.db"), **common}), path)
    assert found.keys() == expected.keys()
    compared = 0
    for table, rows in expected.items():
        assert len(found[table]) == len(rows)
        for mine, theirs in zip(found[table], rows, strict=True):
            for column, value in theirs.items():
                if isinstance(value, str) and mine[column] is None:
                    assert value.startswith("0000-") or "-00" in value, column
                else:
                    assert str(mine[column]) == str(value), (table, column)
                compared += 1
    assert compared > 100


@pytest.mark.integration
@pytest.mark.parametrize("source_name", ["mysql-9.7", "mariadb-11.8"])
async def test_it_equals_the_source(
    source_name: str,
    clickhouse: ClickhouseServer,
    server: Callable[[str], LocalServer],
    new_database: Callable[..., str],
) -> None:
    """All types, keys that change, partial images and DDL, by its own ``SELECT … FINAL``."""
    source = server(source_name)
    source.rotate()
    start = f"{source.binlog_files()[-1]}:4"
    database = new_database(source)
    options = {"url": clickhouse.url, "database_prefix": f"live_{source_name}_"}
    tables = [f"{database}.*"]
    for group in (statements.VALUES, statements.KEYS, statements.DDL, statements.JSON):
        for statement in group:
            source.execute(statement.format(db=database))
        # Each time a new sink goes on at the checkpoint of the one before.
        await drive(make_sink("clickhouse", options), source, tables, start, commit_every=3)
        compared = compare_sink("clickhouse", options, source, tables=tables)
    assert compared.tables == len(source.query(f"SHOW TABLES FROM {database}"))


@pytest.mark.parametrize("strict", [True, False])
async def test_partial_images_and_rows_that_are_missing(
    strict: bool,
    clickhouse: ClickhouseServer,
    server: Callable[[str], LocalServer],
    new_database: Callable[..., str],
) -> None:
    """Rows of MINIMAL images are completed from the mirror; one that is not there is an error."""
    source = server("mysql-9.7")
    source.rotate()
    start = f"{source.binlog_files()[-1]}:4"
    database = new_database(source)
    options = {"url": clickhouse.url, "database_prefix": f"minimal{strict}_"}
    options["missing_rows"] = "error" if strict else "ignore"
    tables = [f"{database}.*"]
    with source.connected() as connection, connection.cursor() as cursor:
        for statement in (
            "CREATE TABLE {db}.t (id INT PRIMARY KEY, a VARCHAR(20), b DOUBLE)",
            "INSERT INTO {db}.t VALUES (1, 'one', -0.0), (2, 'two', 2), (3, 'three', 3)",
            "SET SESSION binlog_row_image = MINIMAL",
            "UPDATE {db}.t SET a = 'zwei' WHERE id = 2",
            "UPDATE {db}.t SET b = 2.5 WHERE id = 2",
            "UPDATE {db}.t SET id = 4 WHERE id = 3",
            "DELETE FROM {db}.t WHERE id = 1",
            "INSERT INTO {db}.t VALUES (1, 'new', 1)",
            "UPDATE {db}.t SET a = 'newer' WHERE id = 1",
            "COMMIT",
        ):
            cursor.execute(statement.format(db=database))
    await drive(make_sink("clickhouse", options), source, tables, start, commit_every=50)
    assert compare_sink("clickhouse", options, source, tables=tables).rows == 3
    clickhouse.text(f"DELETE FROM minimal{strict}_{database}.t WHERE id = 4")
    source.execute(f"UPDATE {database}.t SET b = 9 WHERE id = 4")
    if strict:
        with pytest.raises(SinkError, match="1 of 1 rows to change are not there"):
            await drive(make_sink("clickhouse", options), source, tables, start)
    else:
        await drive(make_sink("clickhouse", options), source, tables, start)


async def test_a_second_writer_takes_the_mirror_over(clickhouse: ClickhouseServer) -> None:
    options = {"url": clickhouse.url, "database_prefix": "two_"}
    first, second = (make_sink("clickhouse", options) for _ in range(2))
    checkpoint = Checkpoint(Position("b.000001", 4))
    await first.open()
    await first.commit(checkpoint)
    store: Any = first
    store._store.begin()  # it has looked who writes, and goes on behind the other one's opening
    assert (await second.open()).position == checkpoint.position
    with pytest.raises(SinkError, match="another process writes this mirror"):
        await first.commit(Checkpoint(Position("b.000001", 9)))
    await second.commit(Checkpoint(Position("b.000001", 7)))
    for sink in (first, second):
        await sink.close()
    third = make_sink("clickhouse", options)
    assert (await third.open()).position == Position("b.000001", 7)
    await third.close()


async def test_a_table_of_others_is_left_alone(
    clickhouse: ClickhouseServer, tmp_path: Path
) -> None:
    clickhouse.text("CREATE DATABASE others_shop")
    clickhouse.text("CREATE TABLE others_shop.customers (id Int32) ENGINE = MergeTree ORDER BY id")
    clickhouse.text("INSERT INTO others_shop.customers VALUES (7)")
    sink = make_sink("clickhouse", {"url": clickhouse.url, "database_prefix": "others_"})
    await sink.open()
    with pytest.raises(SinkError, match="which is not the mirror's; drop or rename it"):
        for transaction in SinkConformance().transactions():
            await sink.write(transaction)
            await sink.commit(Checkpoint(transaction.position))
    await sink.close()
    assert clickhouse.text("SELECT * FROM others_shop.customers").split() == ["7"]


async def test_the_password_is_in_no_message() -> None:
    options = {"url": "http://127.0.0.1:1", "password": "hush"}
    sink = make_sink("clickhouse", options)
    with pytest.raises(SinkError, match=r"ClickHouse at 127\.0\.0\.1:1") as caught:
        await sink.open()
    assert caught.value.retriable
    assert "hush" not in str(caught.value) + repr(sink._options)
    await sink.close()


async def test_staged_rows_that_were_not_committed_are_removed(
    clickhouse: ClickhouseServer,
) -> None:
    options = {"url": clickhouse.url, "database_prefix": "staged_", "unknown_tables": "create"}
    transactions = SinkConformance().transactions()
    first = next(at for at, one in enumerate(transactions) if one.rows)
    sink: Any = make_sink("clickhouse", options)
    await sink.open()
    for transaction in transactions[: first + 1]:
        await sink.write(transaction)
        await sink.commit(Checkpoint(transaction.position))
    before = tables(clickhouse, "staged_")
    staged = 0
    for transaction in transactions[first + 1 :]:
        if not transaction.schema_changes:
            await sink.write(transaction)
            staged += len(transaction.rows)
    await sink._batches.flush()
    await sink._worker.run(
        lambda: [sink._do(sink._store, step) for step in list(sink._collector.flush())]
    )
    assert staged
    assert "staged_" in clickhouse.text(
        "SELECT name FROM system.tables WHERE database = 'staged__replica_client'"
    )
    sink._store._database._client.close()  # a kill: nothing else is done
    again: Any = make_sink("clickhouse", options)
    await again.open()
    assert tables(clickhouse, "staged_") == before
    left = clickhouse.text(
        "SELECT name FROM system.tables WHERE database = 'staged__replica_client' ORDER BY name"
    )
    assert not [name for name in left.split() if name.startswith(("staged_", "made_"))]
    await again.close()


async def test_materialized_views_see_each_version_of_a_row_whatever_table_has_the_name(
    clickhouse: ClickhouseServer,
    server: Callable[[str], LocalServer],
    new_database: Callable[..., str],
) -> None:
    source = server("mysql-9.7")
    database = new_database(source)
    source.rotate()
    start = f"{source.binlog_files()[-1]}:4"
    options = {"url": clickhouse.url, "database_prefix": "views_"}
    schema = f"views_{database}"

    async def follow(*statements: str) -> None:
        for statement in statements:
            source.execute(statement.format(db=database))
        sink = make_sink("clickhouse", options)
        try:
            done = await sink.open()
            paths = [source.binlog_path(one) for one in source.binlog_files()]
            reader = open_binlog(paths, tables=[f"{database}.*"], start=start)
            for transaction in reader.transactions():
                # Read from the beginning, where the table is made, each time.
                if done is None or transaction.start >= done.position:
                    await sink.write(transaction)
                    await sink.commit(Checkpoint(transaction.position))
        finally:
            await sink.close()

    await follow("CREATE TABLE {db}.t (id INT PRIMARY KEY, b INT)")
    clickhouse.text(
        f"CREATE TABLE {schema}.seen (id Int32, b Nullable(Int32), v UInt64, d UInt8) "
        "ENGINE = ReplacingMergeTree(v, d) ORDER BY id"
    )
    clickhouse.text(
        f"CREATE MATERIALIZED VIEW {schema}.mv TO {schema}.seen AS SELECT id, b, _replica_client_version AS v, "
        f"_replica_client_deleted AS d FROM {schema}.t"
    )
    clickhouse.text(f"ALTER TABLE {schema}.t ADD COLUMN note String DEFAULT 'mine'")
    await follow(
        "INSERT INTO {db}.t VALUES (2, 2), (3, 3)",
        "UPDATE {db}.t SET b = 20 WHERE id = 2",
        "DELETE FROM {db}.t WHERE id = 3",
    )
    assert clickhouse.text(f"SELECT id, b FROM {schema}.seen FINAL") == "2\t20\n"
    await follow(
        "CREATE TABLE {db}.new LIKE {db}.t",
        "RENAME TABLE {db}.t TO {db}.old, {db}.new TO {db}.t",
        "INSERT INTO {db}.t VALUES (8, 8)",
        "INSERT INTO {db}.old VALUES (9, 9)",
    )
    seen = clickhouse.text(f"SELECT id, b FROM {schema}.seen FINAL ORDER BY id")
    assert seen == "2\t20\n8\t8\n"
    # A view that cannot take rows holds nothing up.
    clickhouse.text(f"DROP TABLE {schema}.seen")
    await follow("INSERT INTO {db}.t VALUES (10, 10)")
    assert clickhouse.text(f"SELECT id FROM {schema}.t FINAL ORDER BY id") == "8\n10\n"
