"""A dlt destination has what the source has, after copies, changes, kills and ALTERs."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.dlt_destinations import DuckdbTarget, PostgresTarget, Target
from tests.integration.table_copies import COLUMNS, TABLES, DltRuns, assert_equal, write
from tests.servers.local import LocalServer

pytest.importorskip("dlt", reason="pip install '.[dlt]'")


@pytest.fixture(params=["duckdb", "postgres"])
def destination(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Target]:
    pytest.importorskip("duckdb" if request.param == "duckdb" else "psycopg2")
    with tempfile.TemporaryDirectory(prefix="pg") as directory:
        make = DuckdbTarget if request.param == "duckdb" else PostgresTarget
        target = make(Path(directory))
        try:
            yield target
        finally:
            target.close()


@pytest.mark.timeout(600)
def test_copy_follow_kill_resume_and_alter(
    server: Callable[[str], LocalServer],
    new_database: Callable[[LocalServer], str],
    destination: Target,
    tmp_path: Path,
) -> None:
    # A MySQL without GTIDs, with a lock for a moment; tests/integration/test_singer.py has one with them.
    source = server("mysql-9.7" if destination.kind == "duckdb" else "mariadb-11.8")
    database, rng = new_database(source), random.Random(20)
    with source.connected(database=database) as connection, connection.cursor() as cursor:
        for statement in TABLES:
            cursor.execute(statement)
    write(source, database, rng, 100)
    where = (source.url("root"), database, "brief", destination.kind, destination.address)
    with DltRuns(*where, str(tmp_path / "pipelines")) as runs:
        runs.run()
        assert_equal(source, database, destination.read, COLUMNS)
        for part in (0.3, 0.7):
            write(source, database, rng, 40)
            runs.run(kill_after=runs.seconds * part)
        # Rows are in the destination, and dlt does not know it.
        write(source, database, rng, 40)
        assert not runs.run(die_behind="pairs")
        write(source, database, rng, 10)
        # An empty table gets its first rows.
        source.execute(f"INSERT INTO {database}.empty_one VALUES (1, 1), (2, 2)")
        runs.run()
        assert_equal(source, database, destination.read, COLUMNS)
        # Rows that were there have the default, of which the binlog does not say a word.
        added = "region VARCHAR(9) NOT NULL DEFAULT 'north'"
        source.execute(f"ALTER TABLE {database}.orders ADD COLUMN {added} AFTER id")
        write(source, database, rng, 30)
        source.execute(f"TRUNCATE TABLE {database}.empty_one")
        source.execute(f"CREATE TABLE {database}.later (id INT PRIMARY KEY, n INT)")
        source.execute(f"INSERT INTO {database}.later VALUES (1, 2)")
        runs.run()
        columns = {**COLUMNS, "orders": [*COLUMNS["orders"], "region"], "later": ["id", "n"]}
        assert_equal(source, database, destination.read, columns)
        write(source, database, rng, 30)
        runs.run()
        assert_equal(source, database, destination.read, columns)
