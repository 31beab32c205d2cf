"""A table that a lake or a mirror shows as current has the source's rows, also behind statements that changed rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")

from replica_client.errors import SinkError
from replica_client.lake.applier import Applier
from replica_client.sinks.registry import make_sink
from tests.integration.row_statements import CASES, run
from tests.integration.sink_comparison import compare_sink
from tests.integration.sink_driver import drive
from tests.integration.test_lake_row_images import log_batch, server_rows
from tests.integration.test_lake_unmerged import run as run_lake
from tests.servers.local import LocalServer

pytestmark = pytest.mark.integration
SERVERS = ("mysql-9.7", "mariadb-11.8")


def rows_of(engine: Applier, table: tuple[str, str]) -> list[dict[str, Any]]:
    found = engine.tables.of(engine.catalog.tables[table]).dataset().to_table()
    kept = [name for name in found.column_names if not name.startswith("_")]
    rows: list[dict[str, Any]] = found.select(kept).to_pylist()
    return rows


def source_rows(server: LocalServer, table: tuple[str, str], columns: list[str]) -> Counter[str]:
    names = ", ".join(f"`{name}`" for name in columns)
    return server_rows(server.query(f"select {names} from `{table[0]}`.`{table[1]}`"))


@pytest.mark.parametrize("source", SERVERS)
@pytest.mark.parametrize("name", CASES)
def test_current_tables_of_a_lake(
    server: Callable[[str], LocalServer], new_database: Any, tmp_path: Path, name: str, source: str
) -> None:
    one, case = server(source), CASES[name]
    database = new_database(one)
    start = ":".join(map(str, one.binlog_position()))
    assert run(one, database, case.before)
    done = run(one, database, case.after)
    log_batch(tmp_path, 0, one.url(), start, database)
    engine = run_lake(tmp_path, "always")
    there = {(database, str(row[0])) for row in one.query(f"show tables from {database}")}
    known = engine.catalog.tables
    assert there == set(known)
    current = {table for table in known if known[table].status == "current"}
    if case.same:
        assert current == there, [one.reason for one in known.values()]
    for table in current:
        rows = rows_of(engine, table)
        columns = [one.name for one in engine.tables.of(known[table]).shape.columns]
        mine = server_rows([tuple(row[one] for one in columns) for row in rows])
        assert mine == source_rows(one, table, columns), (table, done)


@pytest.mark.parametrize("source", SERVERS)
@pytest.mark.parametrize("name", CASES)
async def test_mirrors(
    server: Callable[[str], LocalServer], new_database: Any, tmp_path: Path, name: str, source: str
) -> None:
    one, case = server(source), CASES[name]
    one.rotate()
    start = f"{one.binlog_files()[-1]}:4"
    database = new_database(one)
    assert run(one, database, case.before)
    run(one, database, case.after)
    options, tables = {"path": str(tmp_path / "mirror.db")}, [f"{database}.*"]
    sink = make_sink("sqlite", options)
    try:
        await drive(sink, one, tables, start, commit_every=1)
    except SinkError as error:
        assert not case.same, error
        assert not error.retriable
        await sink.close()
        return
    compare_sink("sqlite", options, one, tables=tables)
