"""Mirrored tables without a key take changes of many rows in a time that is linear; keys of FLOAT are found."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="the package psycopg is not installed")

from replica_client.sinks.registry import make_sink
from tests.integration.postgres_server import PostgresServer
from tests.integration.sink_comparison import compare_sink
from tests.integration.sink_driver import drive
from tests.servers.local import LocalServer

pytestmark = pytest.mark.integration
TARGETS = ("sqlite", "postgres", "duckdb", "mysql-9.7", "mariadb-11.8")
ROWS = 40_000
SECONDS = 120
"""Ten on a quiet machine."""


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with tempfile.TemporaryDirectory() as directory:
        server = PostgresServer(Path(directory))
        yield server
        server.stop()


@pytest.fixture(params=TARGETS)
def target(
    request: pytest.FixtureRequest,
    server: Callable[[str], LocalServer],
    postgres: PostgresServer,
    tmp_path: Path,
) -> Iterator[tuple[str, dict[str, Any]]]:
    kind = request.param.partition("-")[0]
    if kind in ("sqlite", "duckdb"):
        yield kind, {"path": str(tmp_path / f"mirror.{kind}")}
    elif kind == "postgres":
        yield kind, {"url": postgres.url}
    else:
        mirror = server(request.param)
        prefix = f"m{time.time_ns() % 10**9}_"
        yield (
            "mysql",
            {"url": mirror.url("root"), "database_prefix": prefix, "state_database": prefix},
        )
        for (name,) in mirror.query("SHOW DATABASES"):
            if str(name).startswith(prefix):
                mirror.execute(f"DROP DATABASE `{name}`")


async def test_one_update_of_all_rows_is_linear(
    target: tuple[str, dict[str, Any]],
    server: Callable[[str], LocalServer],
    new_database: Callable[..., str],
) -> None:
    source, (kind, options) = server("mysql-9.7"), target
    source.rotate()
    start, database = f"{source.binlog_files()[-1]}:4", new_database(source)
    run = source.execute
    run(f"CREATE TABLE {database}.t (d INT, n FLOAT, found VARCHAR(20), b VARBINARY(9), e BIGINT)")
    run(
        f"INSERT INTO {database}.t WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s "
        f"WHERE n < {ROWS}) SELECT /*+ SET_VAR(cte_max_recursion_depth = 100000) */ n, n / 7, "
        "IF(n % 3, NULL, CONCAT('x%', n)), UNHEX('00FF'), n DIV 3 FROM s"
    )
    # Equal rows, of which some go.
    run(f"INSERT INTO {database}.t SELECT 0, 1, 'same', NULL, 2 FROM {database}.t LIMIT 1000")
    tables = [f"{database}.*"]
    await drive(make_sink(kind, options), source, tables, start)
    for change in (
        f"UPDATE {database}.t SET e = e + 1, d = d + 1 WHERE found <> 'same' OR found IS NULL",
        f"DELETE FROM {database}.t WHERE found = 'same' LIMIT 400",
        f"DELETE FROM {database}.t WHERE d % 2 = 0 OR found = 'same' LIMIT 20100",
    ):
        run(change)
        begun = time.monotonic()
        await drive(make_sink(kind, options), source, tables, start)
        spent = time.monotonic() - begun
        print(f"{kind}: {spent:.1f} s: {change}")
        assert spent < SECONDS
        compare_sink(kind, options, source, tables=tables)


async def test_rows_with_a_float_for_a_key_are_found(
    target: tuple[str, dict[str, Any]],
    server: Callable[[str], LocalServer],
    new_database: Callable[..., str],
) -> None:
    source, (kind, options) = server("mysql-9.7"), target
    source.rotate()
    start, database = f"{source.binlog_files()[-1]}:4", new_database(source)
    for statement in (
        "CREATE TABLE {0}.t (k FLOAT PRIMARY KEY, n INT)",
        "CREATE TABLE {0}.u (k FLOAT, m INT, n INT, PRIMARY KEY (m, k))",
        "INSERT INTO {0}.t VALUES (0.1, 1), (3.3, 2), (1e-30, 3), (0.7, 4)",
        "INSERT INTO {0}.u VALUES (0.1, 1, 1), (3.3, 2, 2), (1e-30, 3, 3)",
        "UPDATE {0}.t SET n = n + 10",
        "UPDATE {0}.u SET n = n + 10",
        "UPDATE {0}.t SET k = k * 3 WHERE n = 12",
        "SET binlog_row_image = MINIMAL",
        "UPDATE {0}.t SET n = n + 10",
        "DELETE FROM {0}.u WHERE n = 11",
    ):
        source.execute(statement.format(database))
        await drive(make_sink(kind, options), source, [f"{database}.*"], start)
    compare_sink(kind, options, source, tables=[f"{database}.*"])
