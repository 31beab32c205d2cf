"""The DuckDB mirror: killed at every step, beside the SQLite mirror value for value, and read by other processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("duckdb", reason="the package duckdb is not installed")

import duckdb

from replica_client.sinks.protocol import Sink
from replica_client.sinks.registry import make_sink
from replica_client.testing.sink_conformance import SinkConformance


class TestDuckdb(SinkConformance):
    step_stride = 9

    def make_sink(self, target: Path) -> Sink:
        path = str(target / "mirror.duckdb")
        return make_sink("duckdb", {"path": path, "unknown_tables": "create"})

    async def abandon(self, sink: Any) -> None:
        if sink._store is not None:
            sink._store._database.close()

    async def content(self, target: Path) -> Any:
        # A cursor of a connection that is open in this process sees what it has committed.
        with duckdb.connect(target / "mirror.duckdb") as connection:
            names = connection.execute(
                "SELECT schema_name, table_name FROM duckdb_tables() WHERE schema_name <> '_replica_client' ORDER BY 1, 2"
            ).fetchall()
            found = {}
            for schema, name in names:
                quoted = f'"{schema}"."{name.replace(chr(34), chr(34) * 2)}"'
                rows = connection.execute(f"SELECT CAST(t AS VARCHAR) FROM {quoted} t").fetchall()
                found[schema, name] = sorted(rows)
            return found

    async def stored_tables(self, target: Path) -> Any:
        return list((await self.content(target)).values())
