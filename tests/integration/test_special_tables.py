"""Sequences, versioned tables and invisible columns of MariaDB: what events, mirrors and lakes have of them."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake")

import replica_client as rc
from replica_client.lake.lake_table import cannot_hold
from replica_client.schema.model import TableModel
from replica_client.stream.snapshot.watermarks import read_definitions
from replica_client.stream.transport.connect_options import parse_url
from replica_client.stream.transport.connection import SourceConnection
from tests.integration.daemon_process import DaemonProcess
from tests.integration.postgres_server import PostgresServer
from tests.integration.sink_comparison import compare_sink
from tests.servers.local import LocalServer


async def _definitions(server: Any, database: str) -> dict[str, TableModel]:
    async with await SourceConnection.open(parse_url(server.url())) as connection:
        found = await read_definitions(connection)
    return {name: model for (schema, name), model in found.items() if schema == database}


@pytest.mark.parametrize("name", ["mariadb-10.11", "mariadb-11.8"])
def test_special_tables(server, new_database, name):
    source = server(name)
    database = new_database(source)
    start = rc.Position(*source.binlog_position())
    with source.connected() as connection, connection.cursor() as cursor:
        cursor.execute(f"use {database}")
        cursor.execute("create sequence s cache 2")
        cursor.execute("create table t (id int primary key default nextval(s), v int)")
        for number in range(6):
            cursor.execute(f"insert into t (v) values ({number})")
        cursor.execute("create table v (id int primary key, a int) with system versioning")
        cursor.execute("insert into v values (1, 1)")
        cursor.execute("update v set a = 2")
        cursor.execute("delete from v")
        cursor.execute("create table i (id int primary key, a int invisible default 3)")
        cursor.execute("insert into i (id) values (1)")
        cursor.execute("select next_not_cached_value from s")
        [[state]] = cursor.fetchall()
        cursor.execute("select id, a from i")
        invisible = cursor.fetchall()
    with rc.follow(source.url(), tables=[f"{database}.*"], start=start, stop_at_end=True) as stream:
        changes = [(one.table, one.kind, one.after) for one in stream.changes()]
        streamed = {one: stream.history.table((database, one)) for one in "stvi"}
    present = asyncio.run(_definitions(source, database))
    for models in (streamed, present):
        assert [one for one, model in models.items() if model.is_sequence] == ["s"]
        assert "sequence" in cannot_hold(models["s"])
        assert "SYSTEM VERSIONING" in cannot_hold(models["v"])
        assert cannot_hold(models["t"]) == cannot_hold(models["i"]) == ""
    refills = [after[0] for table, kind, after in changes if (table, kind) == ("s", "insert")]
    assert refills[-1] == state
    assert sorted(set(refills)) == refills
    assert [kind for table, kind, _ in changes if table == "v"] == [
        "insert",
        "update",
        "insert",
        "update",
    ]
    assert [tuple(after) for table, _, after in changes if table == "i"] == list(invisible)


BEFORE = (
    "CREATE SEQUENCE s1 CACHE 2",
    "CREATE TABLE t (id INT PRIMARY KEY DEFAULT NEXTVAL(s1), v INT)",
    *("INSERT INTO t (v) VALUES (1)",) * 6,
    "CREATE TABLE h (id INT PRIMARY KEY, a INT) WITH SYSTEM VERSIONING",
    "INSERT INTO h VALUES (1, 1)",
    "UPDATE h SET a = 2",
    "DELETE FROM h",
    "CREATE TABLE later (id INT PRIMARY KEY, a INT)",
    "INSERT INTO later VALUES (1, 1)",
)
WHILE = (
    *("INSERT INTO t (v) VALUES (2)",) * 5,
    "INSERT INTO h VALUES (2, 2)",
    "CREATE SEQUENCE s2 INCREMENT 5 NOCACHE",
    "INSERT INTO t VALUES (1000, NEXTVAL(s2))",
    "INSERT INTO t VALUES (1001, NEXTVAL(s2))",
    "ALTER SEQUENCE s2 RESTART 900",
    "INSERT INTO t VALUES (1002, NEXTVAL(s2))",
    "SELECT SETVAL(s2, 1200)",
    "CREATE SEQUENCE s3",
    "DO NEXTVAL(s3)",
    "DROP SEQUENCE s3",
    """CREATE TABLE p (id INT PRIMARY KEY, a INT, b TIMESTAMP(6) GENERATED ALWAYS AS ROW START,
    e TIMESTAMP(6) GENERATED ALWAYS AS ROW END, PERIOD FOR SYSTEM_TIME (b, e)) WITH SYSTEM VERSIONING""",
    "INSERT INTO p (id, a) VALUES (1, 1)",
    "UPDATE p SET a = 2",
    "DELETE FROM p",
    "ALTER TABLE later ADD SYSTEM VERSIONING",
    "UPDATE later SET a = 2",
    "DELETE FROM later",
    "CREATE TABLE last (id INT PRIMARY KEY)",
    "INSERT INTO last VALUES (1)",
)


@pytest.fixture
def postgres() -> Iterator[PostgresServer]:
    pytest.importorskip("psycopg", reason="the package psycopg is not installed")
    with tempfile.TemporaryDirectory() as directory:
        server = PostgresServer(Path(directory))
        yield server
        server.stop()


@pytest.mark.integration
@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", ["mariadb-10.11", "mariadb-11.8"])
def test_mirrors_leave_them_out_by_name(
    name: str,
    server: Callable[[str], LocalServer],
    new_database: Callable[[LocalServer], str],
    postgres: PostgresServer,
    tmp_path: Path,
) -> None:
    """Each mirror sets them aside, a copy of its own or statements of the stream, and has all other rows."""
    source, target = server(name), server("mysql-9.7")
    x = new_database(source)

    def run(statements: tuple[str, ...]) -> None:
        with source.connected(database=x) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    state = f"state_{x[-12:]}"
    options: dict[str, dict[str, Any]] = {
        "sqlite": {"path": str(tmp_path / "mirror.sqlite")},
        "duckdb": {"path": str(tmp_path / "mirror.duckdb")},
        "postgres": {"url": postgres.url},
        "mysql": {"url": target.url("root"), "database_prefix": "m_", "state_database": state},
    }
    sinks = [
        {"type": kind, "name": kind, "snapshot": True, "accept_set_aside": [f"{x}.*"], **some}
        for kind, some in options.items()
    ]
    run(BEFORE)
    expected = {f"{x}.{one}" for one in ("s1", "s2", "h", "p", "later")}
    try:
        with DaemonProcess(tmp_path, {"url": source.url(), "tables": [f"{x}.*"]}, sinks) as daemon:
            daemon.until_level()
            run(WHILE)
            daemon.until_level()
            for kind in options:
                aside = {one["table"]: one["reason"] for one in daemon.route(kind)["set_aside"]}
                assert set(aside) == expected, kind
                assert all("exclude it" in reason for reason in aside.values())
                assert all(("sequence" in aside[f"{x}.{one}"]) for one in ("s1", "s2"))
            assert daemon.stop() == 0
        for kind, some in options.items():
            plain = [f"{x}.t", f"{x}.last"]
            assert compare_sink(kind, some, source, tables=plain).tables == len(plain), kind
    finally:
        for made in (state, f"m_{x}"):
            target.execute(f"DROP DATABASE IF EXISTS `{made}`")


@pytest.mark.integration
@pytest.mark.parametrize("metadata", ["MINIMAL", "FULL"])
def test_alter_sequence_as_changes_its_columns(
    fresh_server: Callable[..., LocalServer], metadata: str
) -> None:
    source = fresh_server("mariadb-11.8", [f"binlog-row-metadata={metadata}"])
    start = rc.Position(*source.binlog_position())
    expected = []
    source.execute("CREATE DATABASE x")
    source.execute("CREATE SEQUENCE x.s AS INT")
    for statement in (
        "ALTER SEQUENCE x.s AS BIGINT UNSIGNED",
        "ALTER SEQUENCE x.s RESTART 18000000000000000000 MAXVALUE 18446744073709551614",
        "DO 1",
    ):
        source.execute("DO NEXTVAL(x.s)")
        expected.append(source.query("SELECT * FROM x.s")[0])
        source.execute(statement)
    path = source.binlog_path(source.binlog_files()[-1])
    changes = rc.open_binlog(path, tables="x.*", start=start).changes()
    assert [tuple(change.after) for change in changes] == expected
