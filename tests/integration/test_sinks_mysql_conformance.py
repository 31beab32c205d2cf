"""The mirror on a real server, killed at every step, DDL included."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from replica_client.schema.names import mysql_name
from replica_client.sinks.protocol import Sink
from replica_client.sinks.registry import make_sink
from replica_client.testing.sink_conformance import SinkConformance
from tests.integration.mirror_source import source_rows, source_tables
from tests.servers.local import LocalServer

pytestmark = pytest.mark.integration


# Killed before every call instead of some; takes minutes.
ALL = bool(os.environ.get("REPLICA_CLIENT_TEST_ALL_CALLS"))


class TestMysql(SinkConformance):
    server_name = "mysql-9.7"
    step_stride = 1 if ALL else 4

    @pytest.fixture(autouse=True)
    def _server(self, server: Callable[[str], LocalServer]) -> Iterator[None]:
        self.server = server(self.server_name)
        self.prefixes: set[str] = set()
        yield
        for (name,) in self.server.query("SHOW DATABASES"):
            if str(name).startswith(tuple(self.prefixes)):
                self.server.execute(f"DROP DATABASE {mysql_name(str(name))}")

    def prefix(self, target: Path) -> str:
        found = f"p{hashlib.sha256(str(target).encode()).hexdigest()[:10]}_"
        self.prefixes.add(found)
        return found

    def make_sink(self, target: Path) -> Sink:
        prefix = self.prefix(target)
        return make_sink(
            "mysql",
            {
                "url": self.server.url("root"),
                "database_prefix": prefix,
                "state_database": f"{prefix}state",
                "unknown_tables": "create",
            },
        )

    async def abandon(self, sink: Any) -> None:
        if sink._store is not None:
            await asyncio.to_thread(sink._store.close)  # it has an event loop of its own

    async def stored_tables(self, target: Path) -> Any:
        return list((await self.content(target)).values())

    async def content(self, target: Path) -> Any:
        prefix = self.prefix(target)
        return {
            (database.removeprefix(prefix), table): sorted(
                source_rows(self.server, database, table), key=repr
            )
            for database, table in source_tables(self.server)
            if database.startswith(prefix) and database != f"{prefix}state"
        }


class TestMariadb(TestMysql):
    server_name = "mariadb-11.8"
