"""A lake of tables with hostile names: what it shows, and where its files are."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replica_client.lake import open_lake
from replica_client.lake.config import load_config
from replica_client.lake.lake_catalog import LakeCatalog
from replica_client.lake.pipeline.runner import run_pipeline
from replica_client.lake.verify.verification import Verification
from replica_client.schema.names import mysql_name, mysql_names
from tests.servers.local import LocalServer

if TYPE_CHECKING:
    from tests.integration.hostile_names import Hostile

_LIGHT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def prove_lake(source: LocalServer, directory: Path, tables: Sequence[Hostile], count: int) -> int:
    """Copy tables into a lake, follow a change of each, and compare; returns rows.

    Raises:
        AssertionError: the lake differs, or is not where it should be.
    """
    directory.mkdir()
    file = directory / "pipeline.toml"
    # A pattern quotes names as SQL does.
    wanted = [table for table in tables if table.plain][:count]
    patterns = [table.sql_name for table in wanted]
    file.write_text(
        f"[source]\nurl = {json.dumps(source.url())}\ntables = {json.dumps(patterns)}\n"
        'start = "snapshot"\n[pipeline]\noutput = "lake"\ntrigger = "available-now"\n'
        f'master = "local[2]"\n[spark]\n"spark.driver.extraJavaOptions" = {json.dumps(_LIGHT)}\n',
        encoding="utf-8",
    )
    run_pipeline(file)
    for table in wanted:
        source.execute(f"DELETE FROM {table.sql_name} WHERE {mysql_name(table.columns[0])} = 1")
    result = run_pipeline(file)
    left_out = {one["table"] for one in result.not_current}
    assert not left_out & {f"{table.database}.{table.name}" for table in wanted}, left_out
    rows = 0
    lake = directory / "lake"
    catalog = LakeCatalog.load(lake)
    assert catalog is not None
    there = {catalog.home(entry) for entry in catalog.tables.values() if entry.files}
    assert set((lake / "tables").iterdir()) == there
    shown = open_lake(lake)
    for table in wanted:
        columns = [*table.columns, table.added]
        with source.connected() as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT {mysql_names(columns)} FROM {table.sql_name}")
            theirs = Counter(tuple(map(_plain, row)) for row in cursor.fetchall())
        files = shown.table((table.database, table.name))
        found = files.dataset().to_table(columns=columns).to_pylist()
        mine = Counter(tuple(_plain(row[name]) for name in columns) for row in found)
        assert mine == theirs, (table, (mine - theirs), (theirs - mine))
        rows += sum(theirs.values())
    verified = Verification(load_config(file)).run()
    equal = {one.table for one in verified.tables if one.outcome == "equal"}
    assert {f"{table.database}.{table.name}" for table in wanted} <= equal, verified.tables
    known = {"pipeline.toml", "lake"}
    assert {path.name for path in directory.iterdir()} <= known, list(directory.iterdir())
    return rows


def _plain(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value
