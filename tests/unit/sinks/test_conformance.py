"""Every sink of ours that needs no server, killed at every step."""

import os
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from replica_client.schema.names import sqlite_name
from replica_client.sinks.formats.line_format import make_format
from replica_client.sinks.line_sinks import StdoutOptions, StdoutSink, make_file
from replica_client.sinks.mirror.sqlite_store import make as make_sqlite
from replica_client.sinks.parquet_sink import make as make_parquet
from replica_client.sinks.protocol import Sink
from replica_client.testing.sink_conformance import SinkConformance
from tests.integration.sink_comparison import file_lines, parquet_changes

POSITION_COLUMNS = ["_commit_version", "_offset"]
# Killed at every system call instead of at some; takes minutes.
ALL = bool(os.environ.get("REPLICA_CLIENT_TEST_ALL_CALLS"))


class TestFile(SinkConformance):
    system_calls = True
    call_stride = 1 if ALL else 3

    def make_sink(self, target: Path) -> Sink:
        return make_file({"path": str(target / "lines")})

    async def content(self, target: Path) -> Any:
        return file_lines(target / "lines")


class TestFileThatRotates(TestFile):
    call_stride = 1 if ALL else 5

    def make_sink(self, target: Path) -> Sink:
        return make_file({"path": str(target / "lines"), "rotate_bytes": 300})


class TestStdout(SinkConformance):
    def make_sink(self, target: Path) -> Sink:
        descriptor = os.open(target / "output", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        sink = StdoutSink(StdoutOptions(), make_format("native", {}), descriptor)
        sink.opened_by_the_test = descriptor
        return sink

    async def abandon(self, sink: Any) -> None:
        os.close(sink.opened_by_the_test)

    async def content(self, target: Path) -> Any:
        path = target / "output"
        return path.read_text().splitlines() if path.exists() else []


class TestSqlite(SinkConformance):
    def make_sink(self, target: Path) -> Sink:
        return make_sqlite({"path": str(target / "mirror.db"), "unknown_tables": "create"})

    async def content(self, target: Path) -> Any:
        path = target / "mirror.db"
        connection = sqlite3.connect(path)
        try:
            names = [
                row[0]
                for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
                if not row[0].startswith("_replica_client_") or "." in row[0]
            ]
            return {
                name: sorted(connection.execute(f"SELECT * FROM {sqlite_name(name)}"), key=repr)
                for name in sorted(names)
            }
        finally:
            connection.close()

    async def stored_tables(self, target: Path) -> Any:
        return list((await self.content(target)).values())


class TestParquet(SinkConformance):
    step_stride = 1 if ALL else 3

    def make_sink(self, target: Path) -> Sink:
        return make_parquet({"path": str(target / "lake")})

    async def content(self, target: Path) -> Any:
        return parquet_changes(target / "lake")

    async def stored_tables(self, target: Path) -> Any:
        """The rows below each directory of a table; what waits in the journal is published first."""
        sink = self.make_sink(target)
        await sink.open()
        await sink.close()
        found: dict[Path, list[Any]] = {}
        for path in (target / "lake").rglob("*.parquet"):
            directory = path.relative_to(target / "lake").parent.parent
            assert len(directory.parts) == 2, path
            assert directory.parts[0] not in ("_open", "_segments", "_schema_changes")
            rows = pq.read_table(path, partitioning=None).drop_columns(POSITION_COLUMNS).to_pylist()
            found.setdefault(directory, []).extend(sorted(map(repr, rows)))
        return list(found.values())


class TestParquetThatRolls(TestParquet):
    system_calls = True
    call_stride = 1 if ALL else 7

    def make_sink(self, target: Path) -> Sink:
        return make_parquet({"path": str(target / "lake"), "roll_rows": 5, "file_rows": 4})
