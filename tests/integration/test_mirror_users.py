"""What becomes of everything that users put on a mirrored table, by database and by what the source does.

The page on sinks has the tables; this test makes it again, and compares.
"""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="the package psycopg is not installed")
pytest.importorskip("duckdb", reason="the package duckdb is not installed")

import duckdb
import httpx
import psycopg

from replica_client import open_binlog
from replica_client.sinks.registry import make_sink
from replica_client.stream.position.stores.base import Checkpoint
from replica_client.stream.tables.net_changes import TableRefusedError
from tests.integration.clickhouse_server import ClickhouseServer
from tests.integration.postgres_server import PostgresServer
from tests.servers.local import LocalServer

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
PAGE = Path(__file__).parents[2] / "docs/content/how-to/sinks.md"
CHANGES = {
    "ADD COLUMN": "ALTER TABLE {t} ADD c INT NULL",
    "ADD … FIRST": "ALTER TABLE {t} ADD c VARCHAR(9) NOT NULL DEFAULT '50%' FIRST",
    "DROP COLUMN": "ALTER TABLE {t} DROP d",
    "wider type": "ALTER TABLE {t} MODIFY b BIGINT",
    "other type": "ALTER TABLE {t} MODIFY b VARCHAR(30)",
    "NOT NULL": "ALTER TABLE {t} MODIFY b INT NOT NULL",
    "other key": "ALTER TABLE {t} DROP PRIMARY KEY, ADD PRIMARY KEY (id, b)",
    "RENAME COLUMN": "ALTER TABLE {t} CHANGE b bb INT",
    "TRUNCATE": "TRUNCATE TABLE {t}",
}
# What is made on a mirror, and a query that has a row while it is there and works.
VIEW = (
    "CREATE VIEW {s}v1 AS SELECT id, d FROM {t}",
    "SELECT 1 FROM (SELECT COUNT(*) AS n FROM {s}v1) q",
)
OBJECTS: dict[str, dict[str, tuple[str, str]]] = {
    "sqlite": {
        "view": VIEW,
        "index": (
            "CREATE INDEX x1 ON {t} (id, b)",
            "SELECT 1 FROM sqlite_master WHERE name = 'x1'",
        ),
        "unique index": (
            "CREATE UNIQUE INDEX x2 ON {t} (b)",
            "SELECT 1 FROM sqlite_master WHERE name = 'x2'",
        ),
        "trigger": (
            "CREATE TRIGGER g1 AFTER INSERT ON {t} BEGIN SELECT 1; END",
            "SELECT 1 FROM sqlite_master WHERE name = 'g1'",
        ),
        "extra column": (
            "ALTER TABLE {t} ADD COLUMN note TEXT DEFAULT 'mine'",
            "SELECT 1 FROM pragma_table_info('{n}') WHERE name = 'note'",
        ),
    },
    "duckdb": {
        "view": VIEW,
        "index": (
            "CREATE INDEX x1 ON {t} (b)",
            "SELECT 1 FROM duckdb_indexes() WHERE index_name = 'x1'",
        ),
        "comment": (
            "COMMENT ON TABLE {t} IS 'mine'",
            "SELECT 1 FROM duckdb_tables() WHERE comment = 'mine'",
        ),
        "extra column": (
            "ALTER TABLE {t} ADD COLUMN note VARCHAR DEFAULT 'mine'",
            "SELECT 1 FROM duckdb_columns() WHERE column_name = 'note'",
        ),
    },
    "clickhouse": {
        "view": VIEW,
        "materialized view": (
            "CREATE MATERIALIZED VIEW {s}m1 ENGINE = MergeTree ORDER BY id AS SELECT id, d FROM {t}",
            "SELECT 1 FROM (SELECT countIf(id = 3) AS n FROM {s}m1) q WHERE n = 1",
        ),
        "index": (
            "ALTER TABLE {t} ADD INDEX x1 b TYPE minmax GRANULARITY 1",
            "SELECT 1 FROM system.data_skipping_indices WHERE name = 'x1' AND database = '{n}'",
        ),
        "comment": (
            "ALTER TABLE {t} MODIFY COMMENT 'mine'",
            "SELECT 1 FROM system.tables WHERE comment = 'mine' AND database = '{n}'",
        ),
        "extra column": (
            "ALTER TABLE {t} ADD COLUMN note String DEFAULT 'mine'",
            "SELECT 1 FROM system.columns WHERE name = 'note' AND database = '{n}'",
        ),
        "alias column": (
            "ALTER TABLE {t} ADD COLUMN made Int64 ALIAS id + 1",
            "SELECT 1 FROM system.columns WHERE name = 'made' AND database = '{n}'",
        ),
    },
    "mysql": {
        "view": VIEW,
        "index": (
            "CREATE INDEX x1 ON {t} (b)",
            "SELECT 1 FROM information_schema.statistics WHERE index_name = 'x1' AND table_schema = '{n}'",
        ),
        "unique index": (
            "CREATE UNIQUE INDEX x2 ON {t} (b)",
            "SELECT 1 FROM information_schema.statistics WHERE index_name = 'x2' AND table_schema = '{n}'",
        ),
        "trigger": (
            "CREATE TRIGGER {s}g1 AFTER INSERT ON {t} FOR EACH ROW SET @mine = 1",
            "SELECT 1 FROM information_schema.triggers WHERE trigger_name = 'g1' AND trigger_schema = '{n}'",
        ),
        "extra column": (
            "ALTER TABLE {t} ADD COLUMN note VARCHAR(9) DEFAULT 'mine'",
            "SELECT 1 FROM information_schema.columns WHERE column_name = 'note' AND table_schema = '{n}'",
        ),
        "generated column": (
            "ALTER TABLE {t} ADD COLUMN made INT AS (id + 1) VIRTUAL",
            "SELECT 1 FROM information_schema.columns WHERE column_name = 'made' AND table_schema = '{n}'",
        ),
        "grant": (
            "GRANT SELECT ON {t} TO repl@'%'",
            "SELECT 1 FROM information_schema.table_privileges WHERE table_schema = '{n}'",
        ),
        "foreign key": (
            "CREATE TABLE {s}f1 (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES {t} (id))",
            "SELECT 1 FROM information_schema.referential_constraints WHERE constraint_schema = '{n}' AND "
            "referenced_table_name = 't'",
        ),
        "comment": (
            "ALTER TABLE {t} COMMENT = 'mine'",
            "SELECT 1 FROM information_schema.tables WHERE table_comment = 'mine' AND table_schema = '{n}'",
        ),
    },
    "postgres": {
        "view": VIEW,
        "materialized view": (
            "CREATE MATERIALIZED VIEW {s}m1 AS SELECT id, d FROM {t}",
            "SELECT 1 FROM (SELECT COUNT(*) AS n FROM {s}m1) q",
        ),
        "index": ("CREATE INDEX x1 ON {t} (b)", "SELECT 1 FROM pg_indexes WHERE indexname = 'x1'"),
        "unique index": (
            "CREATE UNIQUE INDEX x2 ON {t} (b)",
            "SELECT 1 FROM pg_indexes WHERE indexname = 'x2'",
        ),
        "trigger": (
            "CREATE TRIGGER g1 BEFORE UPDATE ON {t} FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
            "SELECT 1 FROM pg_trigger WHERE tgname = 'g1'",
        ),
        "comment": (
            "COMMENT ON TABLE {t} IS 'mine'",
            "SELECT 1 WHERE obj_description('{t}'::regclass) = 'mine'",
        ),
        "extra column": (
            "ALTER TABLE {t} ADD COLUMN note text DEFAULT 'mine'",
            "SELECT 1 FROM information_schema.columns WHERE column_name = 'note'",
        ),
        "generated column": (
            "ALTER TABLE {t} ADD COLUMN made int GENERATED ALWAYS AS (id + 1) STORED",
            "SELECT 1 FROM information_schema.columns WHERE column_name = 'made'",
        ),
        "grant": (
            "DO $$ BEGIN CREATE ROLE bi; EXCEPTION WHEN duplicate_object THEN NULL; END $$; GRANT SELECT ON {t} TO bi",
            "SELECT 1 WHERE has_table_privilege('bi', '{t}', 'SELECT')",
        ),
        "owner": (
            "DO $$ BEGIN CREATE ROLE own1; EXCEPTION WHEN duplicate_object THEN NULL; END $$; "
            "ALTER TABLE {t} OWNER TO own1",
            "SELECT 1 FROM pg_class WHERE oid = '{t}'::regclass AND relowner::regrole::text = 'own1'",
        ),
        "foreign key": (
            "CREATE TABLE {s}f1 (id bigint REFERENCES {t} (id))",
            "SELECT 1 FROM pg_constraint WHERE contype = 'f' AND confrelid = '{t}'::regclass",
        ),
        "publication": (
            "CREATE PUBLICATION p1 FOR TABLE {t}",
            "SELECT 1 FROM pg_publication_tables WHERE pubname = 'p1'",
        ),
    },
}


Url = Callable[[str], str]


@pytest.fixture(scope="module")
def url() -> Iterator[Url]:
    """Give the URL of a server of a kind, which starts when it is needed first."""
    made: dict[str, PostgresServer | ClickhouseServer] = {}
    with contextlib.ExitStack() as stack:

        def find(kind: str) -> str:
            if kind not in made:
                maker = {"postgres": PostgresServer, "clickhouse": ClickhouseServer}[kind]
                # One for each: both servers make a directory "data".
                directory = stack.enter_context(tempfile.TemporaryDirectory())
                server = made[kind] = maker(Path(directory))
                stack.callback(server.stop)
            return made[kind].url

        yield find


async def becomes(
    kind: str,
    change: str,
    source: LocalServer,
    target: LocalServer,
    url: Url,
    directory: Path,
    database: str,
    objects: dict[str, tuple[str, str]],
) -> dict[str, str]:
    """Return what becomes of each object.

    It is kept, gone (told in the log), does not work any more, or the table is set aside because of it.
    """
    source.rotate()
    start, table = f"{source.binlog_files()[-1]}:4", f"{database}.t"
    mirrored, name, schema = table, database, f"{database}."
    if kind == "sqlite":
        options: dict[str, Any] = {"path": str(directory / f"{database}.db")}
        mirrored, name, schema = f'"{table}"', table, ""
    elif kind == "duckdb":
        options = {"path": str(directory / f"file_{database}.duckdb")}
    elif kind == "mysql":
        options = {
            "url": target.url("root"),
            "database_prefix": "u_",
            "state_database": f"s_{database}",
        }
        mirrored, name, schema = f"u_{table}", f"u_{database}", f"u_{database}."
    elif kind == "clickhouse":
        options = {"url": url(kind), "database_prefix": "u_"}
        mirrored, name, schema = f"u_{table}", f"u_{database}", f"u_{database}."
    else:
        with psycopg.connect(url(kind), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {database}".encode())
        options = {"url": f"{url(kind).rpartition('/')[0]}/{database}"}

    @contextlib.contextmanager
    def connected() -> Iterator[Callable[[str], list[Any]]]:
        if kind == "mysql":
            yield lambda sql: [*target.query(sql)]
        elif kind == "clickhouse":
            yield lambda sql: _answer(url(kind), sql)
        elif kind == "sqlite":
            with contextlib.closing(sqlite3.connect(options["path"], isolation_level=None)) as one:
                yield lambda sql: one.execute(sql).fetchall()
        elif kind == "duckdb":
            with duckdb.connect(options["path"]) as two:
                yield lambda sql: two.execute(sql).fetchall()
        else:
            with psycopg.connect(options["url"], autocommit=True) as three:

                def run(sql: str) -> list[Any]:
                    cursor = three.execute(sql.encode())
                    return cursor.fetchall() if cursor.description else []

                yield run

    async def follow() -> None:
        sink = make_sink(kind, options)
        try:
            done = await sink.open()
            paths = [source.binlog_path(one) for one in source.binlog_files()]
            for transaction in open_binlog(
                paths, tables=[f"{database}.*"], start=start
            ).transactions():
                # Read from the beginning, where the table is made, each time.
                if done is None or transaction.start >= done.position:
                    await sink.write(transaction)
                    await sink.commit(Checkpoint(transaction.position))
        finally:
            await sink.close()

    def filled(sql: str) -> str:
        return sql.format(t=mirrored, n=name, s=schema)

    source.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, b INT, d INT, e INT)")
    source.execute(f"INSERT INTO {table} VALUES (1, 5, 7, 1), (2, 6, 8, 1)")
    await follow()
    with connected() as run:
        for made, _ in objects.values():
            run(filled(made))
    source.execute(CHANGES[change].format(t=table))
    source.execute(
        f"INSERT INTO {table} (id, {'bb' if 'bb' in CHANGES[change] else 'b'}) VALUES (3, 9)"
    )
    found = {}
    try:
        await follow()
    except TableRefusedError:
        return dict.fromkeys(objects, "set aside")
    with connected() as run:
        for what, (_, query) in objects.items():
            try:
                found[what] = "kept" if run(filled(query)) else "told"
            except Exception as error:
                assert "d" in str(error)
                found[what] = "fails"
    if kind == "mysql":
        for one in (f"u_{database}", f"s_{database}"):
            target.execute(f"DROP DATABASE IF EXISTS {one}")
    return found


def _answer(url: str, sql: str) -> list[Any]:
    answer = httpx.post(url, content=sql.encode(), timeout=60)
    assert answer.status_code == 200, answer.text
    return [*answer.text.splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(OBJECTS))
async def test_what_becomes_of_objects_is_what_the_page_says(
    kind: str,
    server: Callable[[str], LocalServer],
    new_database: Callable[..., str],
    url: Url,
    tmp_path: Path,
) -> None:
    source, target = server("mysql-9.7"), server("mariadb-11.8" if kind == "mysql" else "mysql-9.7")
    cells: dict[str, dict[str, str]] = {}
    # A foreign key may keep the database from the change.
    alone = {what: one for what, one in OBJECTS[kind].items() if what == "foreign key"}
    together = {what: one for what, one in OBJECTS[kind].items() if what not in alone}
    for change in CHANGES:
        cells[change] = {}
        for objects in filter(None, (together, alone)):
            cells[change] |= await becomes(
                kind, change, source, target, url, tmp_path, new_database(source), objects
            )
    lines = ["| on the mirror | " + " | ".join(CHANGES) + " |", "|---" * (len(CHANGES) + 1) + "|"]
    for what in OBJECTS[kind]:
        lines.append("| " + " | ".join([what, *(cells[change][what] for change in CHANGES)]) + " |")
    print("\n".join([f"## {kind}", *lines]))
    text = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    assert "\n".join(lines) in text
