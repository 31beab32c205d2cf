"""What users put on mirrored tables: kept, taken along, or told, whatever the source does to its tables."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="the package psycopg is not installed")

import psycopg

from replica_client import open_binlog
from replica_client.sinks.registry import make_sink
from replica_client.stream.position.stores.base import Checkpoint
from tests.integration.postgres_server import PostgresServer
from tests.integration.sink_comparison import compare_sink
from tests.servers.local import LocalServer

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with tempfile.TemporaryDirectory() as directory:
        server = PostgresServer(Path(directory))
        yield server
        server.stop()


class Mirror:
    """A source's database, and a mirror of it in PostgreSQL."""

    def __init__(self, source: LocalServer, database: str, url: str) -> None:
        source.rotate()
        self.source, self.database = source, database
        self.start = f"{source.binlog_files()[-1]}:4"
        self.options: dict[str, Any] = {"url": url}
        self.tables = [f"{database}.*"]

    async def after(self, *statements: str) -> None:
        """Run statements on the source, mirror them, and compare."""
        for statement in statements:
            self.source.execute(statement.format(db=self.database))
        sink = make_sink("postgres", self.options)
        try:
            done = await sink.open()
            paths = [self.source.binlog_path(name) for name in self.source.binlog_files()]
            reader = open_binlog(paths, tables=self.tables, start=self.start)
            for transaction in reader.transactions():
                # Read from the beginning, where the tables are made, each time.
                if done is None or transaction.start >= done.position:
                    await sink.write(transaction)
                    await sink.commit(Checkpoint(transaction.position))
        finally:
            await sink.close()
        compare_sink("postgres", self.options, self.source, tables=self.tables)

    def run(self, *statements: str) -> None:
        """Run statements on the mirror's database."""
        with psycopg.connect(self.options["url"], autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.format(db=self.database).encode())

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.options["url"]) as connection:
            return list(connection.execute(query.format(db=self.database).encode()).fetchall())


@pytest.fixture(params=["mysql-9.7", "mariadb-11.8"])
def mirror(
    request: pytest.FixtureRequest,
    server: Callable[[str], LocalServer],
    new_database: Callable[..., str],
    postgres: PostgresServer,
) -> Mirror:
    source = server(request.param)
    database = new_database(source)
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {database}".encode())
    return Mirror(source, database, f"{postgres.url.rpartition('/')[0]}/{database}")


OBJECTS = (
    "DO $$ BEGIN CREATE ROLE bi; EXCEPTION WHEN duplicate_object THEN NULL; END $$",
    "GRANT USAGE ON SCHEMA {db} TO bi",
    "GRANT SELECT ON {db}.t TO bi",
    "CREATE INDEX ib ON {db}.t (b)",
    "CREATE VIEW {db}.v AS SELECT id, b FROM {db}.t",
    "GRANT SELECT ON {db}.v TO bi",
    "CREATE VIEW {db}.vv AS SELECT b, count(*) AS n FROM {db}.v GROUP BY b",
    "CREATE MATERIALIZED VIEW {db}.m AS SELECT id, b FROM {db}.t",
    "CREATE INDEX im ON {db}.m (b)",
    "COMMENT ON TABLE {db}.t IS 'of the shop'",
    "COMMENT ON COLUMN {db}.t.b IS 'what'",
    "ALTER TABLE {db}.t SET (fillfactor = 70)",
    "ALTER TABLE {db}.t ADD COLUMN note text DEFAULT 'mine'",
    "ALTER TABLE {db}.t OWNER TO bi",
)
STATE = (
    "SELECT indexrelid::regclass::text FROM pg_index WHERE indrelid = '{db}.t'::regclass AND NOT indisprimary",
    "SELECT has_table_privilege('bi', '{db}.t', 'SELECT'), has_table_privilege('bi', '{db}.v', 'SELECT')",
    "SELECT obj_description('{db}.t'::regclass), reloptions, relowner::regrole::text FROM pg_class "
    "WHERE oid = '{db}.t'::regclass",
    "SELECT indexrelid::regclass::text FROM pg_index WHERE indrelid = '{db}.m'::regclass",
    "SELECT DISTINCT note FROM {db}.t",
)
ALTERS = {
    "add": ("ALTER TABLE {db}.t ADD c INT NULL",),
    "add with default": ("ALTER TABLE {db}.t ADD c VARCHAR(9) NOT NULL DEFAULT '50%' FIRST",),
    "drop": ("ALTER TABLE {db}.t DROP d",),
    "widen": ("ALTER TABLE {db}.t MODIFY b BIGINT",),
    "to text": ("ALTER TABLE {db}.t MODIFY b VARCHAR(30)",),
    "not null": ("ALTER TABLE {db}.t MODIFY b INT NOT NULL",),
    "rename column": ("ALTER TABLE {db}.t CHANGE b bb INT",),
    "exchange names": ("ALTER TABLE {db}.t CHANGE b d INT, CHANGE d b INT",),
    "key": ("ALTER TABLE {db}.t DROP PRIMARY KEY, ADD PRIMARY KEY (id, b)",),
    "no key": ("ALTER TABLE {db}.t DROP PRIMARY KEY",),
    "update": ("UPDATE {db}.t SET d = d + 1",),
}


@pytest.mark.parametrize("alter", ALTERS)
async def test_an_alter_keeps_what_users_made(mirror: Mirror, alter: str) -> None:
    await mirror.after(
        "CREATE TABLE {db}.t (id INT PRIMARY KEY, b INT, d INT)",
        "INSERT INTO {db}.t VALUES (1, 5, 7), (2, 6, 8)",
    )
    mirror.run(*OBJECTS)
    before = [mirror.ask(query) for query in STATE]
    await mirror.after(
        *ALTERS[alter],
        "INSERT INTO {db}.t (id, {0}) VALUES (3, 9)".replace(
            "{0}", "bb" if alter == "rename column" else "b"
        ),
    )
    assert [mirror.ask(query) for query in STATE] == before
    assert len(mirror.ask("SELECT * FROM {db}.v")) == 3
    mirror.run("REFRESH MATERIALIZED VIEW {db}.m")
    assert len(mirror.ask("SELECT * FROM {db}.m")) == 3
    assert mirror.ask("SELECT note FROM {db}.t WHERE id = 1") == [("mine",)]


async def test_a_rename_swap_leaves_views_on_the_name(mirror: Mirror) -> None:
    await mirror.after(
        "CREATE TABLE {db}.t (id INT PRIMARY KEY, b INT, d INT)",
        "INSERT INTO {db}.t VALUES (1, 5, 7), (2, 6, 8)",
    )
    mirror.run(*OBJECTS)
    before = [mirror.ask(query) for query in STATE[:4]]
    await mirror.after(
        "CREATE TABLE {db}._t_new LIKE {db}.t",
        "ALTER TABLE {db}._t_new ADD e INT",
        "INSERT INTO {db}._t_new (id, b, d) SELECT id, b, d FROM {db}.t",
        "RENAME TABLE {db}.t TO {db}._t_old, {db}._t_new TO {db}.t",
        "INSERT INTO {db}.t VALUES (3, 9, 9, 9)",
        "DROP TABLE {db}._t_old",
    )
    assert sorted(mirror.ask("SELECT * FROM {db}.v")) == [(1, 5), (2, 6), (3, 9)]
    assert [mirror.ask(query) for query in STATE[:4]] == before


async def test_an_emptied_table_stays_the_same_table(mirror: Mirror) -> None:
    await mirror.after("CREATE TABLE {db}.t (id INT PRIMARY KEY, b INT, d INT)")
    mirror.run(*OBJECTS)
    before = [mirror.ask(query) for query in STATE[:4]]
    await mirror.after(
        "ALTER TABLE {db}.t MODIFY b VARCHAR(9), ADD e INT",
        "TRUNCATE TABLE {db}.t",
        "INSERT INTO {db}.t (id, d) VALUES (3, 9)",
    )
    assert [mirror.ask(query) for query in STATE[:4]] == before
    assert mirror.ask("SELECT id FROM {db}.v") == [(3,)]
