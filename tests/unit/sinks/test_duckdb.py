"""The DuckDB mirror: killed at every step, beside the SQLite mirror value for value, and read by other processes."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("duckdb", reason="the package duckdb is not installed")

import duckdb

from replica_client.errors import SinkError
from replica_client.protocol.position import Position
from replica_client.schema.model import ColumnModel
from replica_client.sinks.mirror.stored_values import DuckdbOptions, settings
from replica_client.sinks.protocol import Sink
from replica_client.sinks.registry import make_sink
from replica_client.storage.durable import DATA_MODE
from replica_client.stream.position.stores.base import Checkpoint
from replica_client.testing.sink_conformance import SinkConformance
from tests.unit.sinks.formats.cases import LINES, SERVERS
from tests.unit.sinks.mirrored_rows import mirrored

SETTINGS = settings(DuckdbOptions(path="any"))


class TestDuckdb(SinkConformance):
    step_stride = 41

    def make_sink(self, target: Path) -> Sink:
        path = str(target / "mirror.duckdb")
        # A file that stays open costs less; this process can open it again with the same settings.
        return make_sink("duckdb", {"path": path, "unknown_tables": "create", "release": False})

    async def abandon(self, sink: Any) -> None:
        if sink._store is not None:
            sink._store._database.close()

    async def content(self, target: Path) -> Any:
        with duckdb.connect(target / "mirror.duckdb", config=SETTINGS) as connection:
            names = connection.execute(
                "SELECT schema_name, table_name FROM duckdb_tables() "
                "WHERE schema_name <> '_replica_client' ORDER BY 1, 2"
            ).fetchall()
            found = {}
            for schema, name in names:
                quoted = ".".join('"' + one.replace('"', '""') + '"' for one in (schema, name))
                rows = connection.execute(f"SELECT CAST(t AS VARCHAR) FROM {quoted} t").fetchall()
                found[schema, name] = sorted(rows)
            return found

    async def stored_tables(self, target: Path) -> Any:
        return list((await self.content(target)).values())


@pytest.mark.parametrize("server", SERVERS)
async def test_each_value_is_that_of_the_sqlite_mirror(server: str, tmp_path: Path) -> None:
    """Every type of a real server, of which the SQLite mirror is compared with the server's own SELECT."""
    path, common = LINES / f"{server}.binlog", {"unknown_tables": "create"}
    own = {"path": str(tmp_path / "m.duckdb"), "unstorable_values": "null", **common}
    found = await mirrored(make_sink("duckdb", own), path)
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


READER = """
import sys, time, duckdb
deadline = time.monotonic() + 30
while True:
    try:
        with duckdb.connect(sys.argv[1], read_only=True) as connection:
            print(connection.execute("SELECT count(*) FROM duckdb_tables()").fetchone()[0], flush=True)
            sys.stdin.readline()
            break
    except duckdb.IOException:
        assert time.monotonic() < deadline
"""


async def test_another_process_reads_between_commits_and_the_sink_waits_for_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "m.duckdb"
    sink = make_sink("duckdb", {"path": str(path), "wait": 30.0, "unknown_tables": "create"})
    await sink.open()
    position = Position("b.000001", 4)
    await sink.commit(Checkpoint(position))
    reader = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", READER, path),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert reader.stdin is not None
    assert reader.stdout is not None
    assert int(await reader.stdout.readline()) == 3
    hasty = make_sink("duckdb", {"path": str(path), "wait": 0.0})
    with pytest.raises(SinkError, match="another process has had the file open") as caught:
        await hasty.open()
    assert caught.value.retriable
    await hasty.close()
    waiting = asyncio.create_task(sink.commit(Checkpoint(position)))
    reader.stdin.close()
    await waiting
    assert await reader.wait() == 0
    await sink.close()
    assert path.stat().st_mode & 0o777 == DATA_MODE


async def test_a_second_sink_takes_the_mirror_over(tmp_path: Path) -> None:
    path = str(tmp_path / "m.duckdb")
    first, second = (make_sink("duckdb", {"path": path}) for _ in range(2))
    checkpoint = Checkpoint(Position("b.000001", 4))
    await first.open()
    await first.commit(checkpoint)
    assert await second.open() is not None
    await second.commit(checkpoint)
    with pytest.raises(SinkError, match="another process writes this mirror"):
        await first.commit(checkpoint)
    await first.close()
    await second.close()


async def test_what_is_no_duckdb_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "m.duckdb"
    path.write_bytes(b"x" * 5000)
    sink: Any = make_sink("duckdb", {"path": str(path)})
    with pytest.raises(SinkError, match="it is not a DuckDB file"):
        await sink.probe()
    with pytest.raises(SinkError, match="not a valid DuckDB") as caught:
        await sink.open()
    assert not caught.value.retriable
    await sink.close()


@pytest.mark.parametrize("value", ["0000-00-00", "2023-02-31", "2024-00-01"])
async def test_days_that_no_calendar_has(value: str) -> None:
    column = ColumnModel("d", "date")
    strict: Any = make_sink("duckdb", {"path": "any"})
    with pytest.raises(SinkError, match=f"column d: DuckDB has no date {value}"):
        strict._encoder_of(column)(value)
    lax: Any = make_sink("duckdb", {"path": "any", "unstorable_values": "null"})
    assert lax._encoder_of(column)(value) is None
    assert strict._encoder_of(column)("2024-02-29") == "2024-02-29"
