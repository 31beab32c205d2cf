"""One table that cannot go on is set aside: the others go on, it is named everywhere, and a copy takes it back."""

from __future__ import annotations

import json
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="the package psycopg is not installed")

import psycopg

from tests import processes
from tests.integration.daemon_process import DaemonProcess
from tests.integration.postgres_server import PostgresServer
from tests.integration.sink_comparison import compare_sink
from tests.servers.local import LocalServer

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]
TABLES = 60


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with tempfile.TemporaryDirectory() as directory:
        server = PostgresServer(Path(directory))
        yield server
        server.stop()


@pytest.fixture(params=["mysql-9.7", "mariadb-11.8"])
def source(request: pytest.FixtureRequest, fresh_server: Callable[..., LocalServer]) -> LocalServer:
    made = fresh_server(request.param, ["binlog-row-metadata=FULL"])
    made.execute("CREATE DATABASE x")
    return made


def ask(url: str, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as connection:
        return list(connection.execute(query.encode()).fetchall())


def aside(daemon: DaemonProcess) -> list[str]:
    return [one["table"] for one in daemon.route("mirror")["set_aside"]]


def copy_again(daemon: DaemonProcess, table: str) -> None:
    command = [sys.executable, "-m", "replica_client", "snapshot", str(daemon.config)]
    command += ["--sink", "source.mirror", "--table", table]
    processes.run(command, check=True, capture_output=True)
    daemon.until(lambda one: table not in aside(one))


def test_one_poisoned_table_of_many(
    source: LocalServer, postgres: PostgresServer, tmp_path: Path
) -> None:
    for number in range(TABLES):
        source.execute(f"CREATE TABLE x.t{number} (id INT PRIMARY KEY, s VARCHAR(20))")
        source.execute(f"INSERT INTO x.t{number} VALUES (1, 'a')")
    name = source.name.replace("-", "_").replace(".", "_")
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    url = f"{postgres.url.rpartition('/')[0]}/{name}"
    sink = {"type": "postgres", "name": "mirror", "snapshot": True, "url": url}
    settings = {"url": source.url(), "tables": ["x.*"]}
    with DaemonProcess(tmp_path, settings, [sink]) as daemon:
        daemon.until_level()
        assert daemon.get("/readyz")[0] == 200
        source.execute("UPDATE x.t7 SET s = CONCAT('a', CHAR(0), 'b')")
        begun = time.monotonic()
        for number in range(TABLES):
            source.execute(f"INSERT INTO x.t{number} VALUES (2, 'b')")
        written = time.monotonic()
        others = " UNION ALL ".join(
            f"SELECT count(*) AS n FROM x.t{number}" for number in range(TABLES) if number != 7
        )
        while ask(url, f"SELECT sum(n) FROM ({others}) AS s") != [(2 * TABLES - 2,)]:
            assert time.monotonic() < written + 15
            time.sleep(0.1)
        print(
            f"others are current {time.monotonic() - written:.1f} s after ({written - begun:.1f} s)"
        )
        assert aside(daemon) == ["x.t7"]
        assert daemon.metric("replica_client_tables_set_aside", sink="mirror") == 1
        code, text = daemon.get("/readyz")
        assert code == 503
        (one,) = json.loads(text)["set_aside"]["source.mirror"]
        assert one["table"] == "x.t7"
        assert "U+0000" in one["reason"]
        assert "snapshot CONFIG --sink source.mirror --table x.t7" in daemon.tail()
        assert ask(url, "SELECT * FROM x.t7") == [(1, "a")]
        # It survives a kill, and the operator may accept it.
        daemon.kill()
        sink["accept_set_aside"] = ["x.t7"]
        daemon.start()
        daemon.until_level()
        assert aside(daemon) == ["x.t7"]
        assert daemon.get("/readyz")[0] == 200
        # The cause is still there: the copy fails, and the others still go on.
        source.execute("INSERT INTO x.t8 VALUES (3, 'c')")
        source.execute("UPDATE x.t7 SET s = 'mended'")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE VIEW x.v AS SELECT id FROM x.t7")
        begun = time.monotonic()
        copy_again(daemon, "x.t7")
        print(f"taken back in {time.monotonic() - begun:.1f} s")
        source.execute("INSERT INTO x.t7 VALUES (3, 'c')")
        daemon.until_level()
        assert daemon.get("/readyz")[0] == 200
        assert sorted(ask(url, "SELECT * FROM x.v")) == [(1,), (2,), (3,)]
        assert compare_sink("postgres", {"url": url}, source, tables=["x.*"]).tables == TABLES


def test_a_table_whose_names_are_not_known_stops_no_other(
    fresh_server: Callable[..., LocalServer], tmp_path: Path
) -> None:
    source = fresh_server("mysql-9.7", ["binlog-row-metadata=MINIMAL"])
    source.execute("CREATE DATABASE x")
    source.execute("CREATE TABLE x.t (id INT PRIMARY KEY)")
    source.execute("CREATE TABLE x.short (id INT PRIMARY KEY)")
    sinks = [
        {"type": kind, "name": kind, "snapshot": True, "path": str(tmp_path / kind)}
        for kind in ("sqlite", "duckdb")
    ]
    settings = {"url": source.url(), "tables": ["x.*"], "exclude": ["x.short"]}
    with DaemonProcess(tmp_path, settings, sinks) as daemon:
        daemon.until_level()
        daemon.kill()
        # What was left out is wanted now, but its rows are of a definition that nobody has any more.
        source.execute("INSERT INTO x.short VALUES (1)")
        source.execute(
            "ALTER TABLE x.short CONVERT TO CHARACTER SET latin1, ADD n TEXT, ADD m INT FIRST"
        )
        source.execute("INSERT INTO x.short (id, n) VALUES (2, 'b')")
        source.execute("INSERT INTO x.t VALUES (1)")
        del settings["exclude"]
        daemon.start()
        daemon.until_level()
        assert daemon.get("/readyz")[0] == 200
    for kind in ("sqlite", "duckdb"):
        options = {"path": str(tmp_path / kind)}
        assert compare_sink(kind, options, source, tables=["x.*"]).tables == 2


def test_a_row_that_is_missing_sets_its_table_aside(source: LocalServer, tmp_path: Path) -> None:
    source.execute("CREATE TABLE x.t (id INT PRIMARY KEY, n INT)")
    source.execute("CREATE TABLE x.u (id INT PRIMARY KEY, n INT)")
    source.execute("INSERT INTO x.t VALUES (1, 1), (2, 2)")
    mirror = tmp_path / "mirror.db"
    sink = {"type": "sqlite", "name": "mirror", "snapshot": True, "path": mirror}
    with DaemonProcess(tmp_path, {"url": source.url(), "tables": ["x.*"]}, [sink]) as daemon:
        daemon.until_level()
        with sqlite3.connect(mirror) as connection:
            connection.execute('CREATE INDEX mine ON "x.t" (n)')
            connection.execute('CREATE VIEW v AS SELECT n FROM "x.t"')
            connection.execute('DELETE FROM "x.t" WHERE id = 1')
        connection.close()
        source.execute("UPDATE x.t SET n = n + 1")
        source.execute("INSERT INTO x.u VALUES (1, 1)")
        daemon.until(lambda one: aside(one) == ["x.t"])
        daemon.until_level()
        source.execute("ALTER TABLE x.t ADD m INT")
        source.execute("RENAME TABLE x.t TO x.w")
        daemon.until_level()
        assert aside(daemon) == ["x.w"]
        copy_again(daemon, "x.w")
        source.execute("UPDATE x.w SET m = 5")
        daemon.until_level()
        assert compare_sink("sqlite", {"path": mirror}, source, tables=["x.*"]).tables == 2
        with sqlite3.connect(mirror) as connection:
            names = connection.execute("SELECT name FROM sqlite_master WHERE name = 'mine'")
            assert names.fetchall() == [("mine",)]
        connection.close()


def test_dead_letters_work_in_mirrors(
    source: LocalServer, postgres: PostgresServer, tmp_path: Path
) -> None:
    source.execute("CREATE TABLE x.t (id INT PRIMARY KEY, s VARCHAR(20))")
    name = "letters_" + source.name.replace("-", "_").replace(".", "_")
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    url = f"{postgres.url.rpartition('/')[0]}/{name}"
    sink = {"type": "postgres", "name": "mirror", "snapshot": True, "url": url}
    sink["on_poison"] = "dead-letter"
    with DaemonProcess(tmp_path, {"url": source.url(), "tables": ["x.*"]}, [sink]) as daemon:
        daemon.until_level()
        source.execute("INSERT INTO x.t VALUES (1, 'a'), (2, CONCAT('a', CHAR(0), 'b')), (3, 'c')")
        source.execute("INSERT INTO x.t VALUES (4, 'd')")
        daemon.until_level()
        assert ask(url, "SELECT id FROM x.t ORDER BY 1") == [(1,), (3,), (4,)]
        assert daemon.route("mirror")["dead_letters"] == 1
        (letter,) = Path(daemon.route("mirror")["dead_letter_file"]).read_text().splitlines()
        assert "U+0000" in json.loads(letter)["error"]
        assert json.loads(letter)["row"]["after"]["id"] == 2
        assert aside(daemon) == []


def test_a_name_that_the_mirror_cannot_have_sets_its_table_aside(
    source: LocalServer, postgres: PostgresServer, tmp_path: Path
) -> None:
    for column in ("xmin", "xmax", "cmin", "cmax", "tableoid"):
        source.execute(f"CREATE TABLE x.of_{column} (id INT PRIMARY KEY, {column} INT)")
        source.execute(f"INSERT INTO x.of_{column} VALUES (1, 1)")
    source.execute("CREATE TABLE x.u (id INT PRIMARY KEY)")
    name = "names_" + source.name.replace("-", "_").replace(".", "_")
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    url = f"{postgres.url.rpartition('/')[0]}/{name}"
    sink = {"type": "postgres", "name": "mirror", "snapshot": True, "url": url}
    with DaemonProcess(tmp_path, {"url": source.url(), "tables": ["x.*"]}, [sink]) as daemon:
        daemon.until_level()
        source.execute("INSERT INTO x.u VALUES (1)")
        source.execute("CREATE TABLE x.v (id INT PRIMARY KEY, ctid INT)")
        source.execute("INSERT INTO x.v VALUES (1, 1)")
        source.execute("INSERT INTO x.u VALUES (2)")
        daemon.until_level()
        assert ask(url, "SELECT id FROM x.u ORDER BY 1") == [(1,), (2,)]
        columns = ("cmax", "cmin", "tableoid", "xmax", "xmin")
        assert sorted(aside(daemon)) == [*(f"x.of_{column}" for column in columns), "x.v"]
        assert all(f"column {column} has the name" in daemon.tail() for column in ("xmin", "ctid"))


def test_a_named_table_that_the_source_does_not_show_is_set_aside_until_it_is_made(
    source: LocalServer, tmp_path: Path
) -> None:
    source.execute("CREATE TABLE x.there (id INT PRIMARY KEY)")
    source.execute("INSERT INTO x.there VALUES (1)")
    path = tmp_path / "mirror.db"
    sink = {"type": "sqlite", "name": "mirror", "snapshot": True, "path": path}
    settings = {"url": source.url(), "tables": ["x.there", "x.nosuch", "x.n*"]}
    with DaemonProcess(tmp_path, settings, [sink]) as daemon:
        daemon.until_level()
        assert aside(daemon) == ["x.nosuch"]
        assert daemon.get("/readyz")[0] == 503
        assert "the source shows no such table" in daemon.tail()
        source.execute("INSERT INTO x.there VALUES (2)")
        daemon.until_level()
        with closing(sqlite3.connect(path)) as one:
            assert one.execute('SELECT count(*) FROM "x.there"').fetchall() == [(2,)]
        source.execute("CREATE TABLE x.nosuch (id INT PRIMARY KEY)")
        source.execute("INSERT INTO x.nosuch VALUES (7)")
        daemon.until(lambda one: not aside(one))
        daemon.until_level()
        assert daemon.get("/readyz")[0] == 200
        with closing(sqlite3.connect(path)) as one:
            assert one.execute('SELECT id FROM "x.nosuch"').fetchall() == [(7,)]


def test_a_mirror_on_its_own_source_is_refused(source: LocalServer, tmp_path: Path) -> None:
    sink = {"type": "mysql", "name": "mirror", "url": source.url("root"), "database_prefix": "m_"}
    settings = {"url": source.url(), "tables": ["x.*"]}
    with DaemonProcess(tmp_path, settings, [sink]) as daemon:
        daemon.until(lambda one: one.route("mirror")["state"] == "failed")
        assert "is the source itself" in daemon.route("mirror")["error"]
        command = [sys.executable, "-m", "replica_client", "run", str(daemon.config)]
        done = processes.run([*command, "--check", "--connect"], capture_output=True, check=False)
        assert done.returncode == 1
        assert b"is the source itself" in done.stderr
    assert not source.query(
        "SELECT 1 FROM information_schema.schemata WHERE schema_name = 'replica_client'"
    )
