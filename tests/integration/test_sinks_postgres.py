"""The PostgreSQL mirror on a real server."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="the package psycopg is not installed")

import psycopg

from replica_client.errors import SinkError
from replica_client.rows.selection import Selection
from replica_client.schema.model import ColumnModel, TableModel
from replica_client.sinks.mirror.postgres_store import PostgresDatabase
from replica_client.sinks.protocol import Sink
from replica_client.sinks.registry import make_sink
from replica_client.stream.files.binlog_file import open_binlog
from replica_client.stream.position.stores.base import Checkpoint
from replica_client.stream.transactions.assembler import AssemblyOptions
from replica_client.testing.sink_conformance import SinkConformance
from tests.integration.postgres_server import PostgresServer
from tests.unit.sinks.formats.cases import LINES, SERVERS


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with tempfile.TemporaryDirectory() as directory:
        server = PostgresServer(Path(directory))
        yield server
        server.stop()


class TestPostgres(SinkConformance):
    step_stride = 25

    @pytest.fixture(autouse=True)
    def _server(self, postgres: PostgresServer) -> None:
        self.postgres = postgres
        self.made: dict[str, str] = {}

    def url(self, target: Path) -> str:
        """Of a database of its own for each target."""
        name = self.made.get(str(target))
        if name is None:
            with psycopg.connect(self.postgres.url, autocommit=True) as connection:
                ((count,),) = connection.execute("SELECT count(*) FROM pg_database")
                name = self.made[str(target)] = f"place_{count}"
                connection.execute(f"CREATE DATABASE {name} STRATEGY file_copy")
        return f"{self.postgres.url.rpartition('/')[0]}/{name}"

    def make_sink(self, target: Path) -> Sink:
        return make_sink("postgres", {"url": self.url(target), "unknown_tables": "create"})

    async def abandon(self, sink: Any) -> None:
        if sink._store is not None:
            sink._store._database._connection.close()

    async def content(self, target: Path) -> Any:
        with psycopg.connect(self.url(target)) as connection:
            names = connection.execute(
                "SELECT schemaname, tablename FROM pg_tables WHERE schemaname NOT IN "
                "('_replica_client', 'pg_catalog', 'information_schema') ORDER BY 1, 2"
            ).fetchall()
            found = {}
            for schema, name in names:
                table = psycopg.sql.Identifier(schema, name).as_string(connection)
                rows = connection.execute(f"SELECT t::text FROM {table} t".encode()).fetchall()
                found[schema, name] = sorted(rows)
            return found

    async def stored_tables(self, target: Path) -> Any:
        return list((await self.content(target)).values())


async def mirrored(sink: Any, path: Path) -> dict[tuple[str, str], list[Any]]:
    """All rows that a mirror has of a binlog, as mirrors are handed values."""
    assembly = AssemblyOptions(Selection(["kinds.*"]))
    try:
        await sink.open()
        for transaction in open_binlog(path, assembly=assembly).transactions():
            await sink.write(transaction)
            await sink.commit(Checkpoint(transaction.position))
        store = sink._store
        return {
            name: [dict(zip(model.column_names, row, strict=True)) for row in sorted_rows]
            for name, model in store.tables.items()
            for sorted_rows in [sorted(store.rows(model, model.column_names), key=repr)]
        }
    finally:
        await sink.close()


@pytest.mark.parametrize("server", SERVERS)
async def test_each_value_is_that_of_the_sqlite_mirror(
    server: str, postgres: PostgresServer, tmp_path: Path
) -> None:
    """Every type of a real server, of which the SQLite mirror is compared with the server's own SELECT."""
    path, common = LINES / f"{server}.binlog", {"unknown_tables": "create"}
    name = f"kinds_{server}".replace("-", "_").replace(".", "_")
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    url = f"{postgres.url.rpartition('/')[0]}/{name}"
    sink = make_sink("postgres", {"url": url, "unstorable_values": "null", **common})
    found = await mirrored(sink, path)
    expected = await mirrored(make_sink("sqlite", {"path": str(tmp_path / "m.db"), **common}), path)
    assert found.keys() == expected.keys()
    compared = 0
    for table, rows in expected.items():
        assert len(found[table]) == len(rows)
        for mine, theirs in zip(found[table], rows, strict=True):
            for column, value in theirs.items():
                stored = mine[column]
                if isinstance(value, str) and stored is None:
                    assert value.startswith("0000-") or "-00" in value or "\0" in value, column
                else:
                    assert str(stored) == str(value), (table, column)
                compared += 1
    assert compared > 100


async def test_the_password_is_in_no_message() -> None:
    url = "postgresql://user:hush@127.0.0.1:1/none"
    for table in ({"url": url}, {"url": url.replace(":hush", ""), "password": "hush"}):
        sink = make_sink("postgres", table)
        with pytest.raises(SinkError, match=r"127\.0\.0\.1:1/none") as caught:
            await sink.open()
        assert caught.value.retriable
        assert "hush" not in str(caught.value)
        await sink.close()


def test_sinks_that_make_one_schema_at_once_do_not_disturb_each_other(
    postgres: PostgresServer,
) -> None:
    def connect() -> psycopg.Connection[Any]:
        return psycopg.connect(postgres.url, autocommit=True)

    def make(database: PostgresDatabase, table: str) -> None:
        database.begin()
        model = TableModel("shared", table, (ColumnModel("id", "int"),), (("id", 0),))
        database.change(database.definition(model, f"shared.{table}"))

    with contextlib.ExitStack() as stack, ThreadPoolExecutor(1) as other:
        one, two = (
            stack.enter_context(contextlib.closing(PostgresDatabase(connect, "here")))
            for _ in range(2)
        )
        make(one, "t")
        late = other.submit(make, two, "u")
        with contextlib.suppress(TimeoutError):
            late.result(0.5)
        one.commit()
        late.result(20)
        two.commit()
        assert list(one.rows("SELECT count(*) FROM pg_tables WHERE schemaname = 'shared'")) == [
            (2,)
        ]
