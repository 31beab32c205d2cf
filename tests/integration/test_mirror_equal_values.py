"""Mirrors store values that databases or Python take for equal to the old ones, but that differ from them.

The expected value is the source's own text. SQLite and DuckDB have one zero.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("psycopg", reason="the package psycopg is not installed")
pytest.importorskip("duckdb", reason="the package duckdb is not installed")

from replica_client.sinks.registry import make_sink
from tests.integration.postgres_server import PostgresServer
from tests.integration.sink_comparison import stored_name
from tests.integration.sink_driver import drive
from tests.integration.truth_kinds import delivered, selected
from tests.servers.local import LocalServer

pytestmark = pytest.mark.integration
TARGETS = ("sqlite", "duckdb", "postgres", "mysql-9.7", "mysql-5.6", "mariadb-11.8")
MANY = 40


class Case(NamedTuple):
    """A change of a value.

    Attributes:
        family: see :mod:`tests.integration.truth_kinds`.
        key: whether the type can be that of a key.
    """

    family: str
    type: str
    old: str
    new: str
    key: bool = True


_GENERAL = "VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"
_SWEDISH = "VARCHAR(9) CHARACTER SET latin1 COLLATE latin1_swedish_ci"
CASES = {
    "double": Case("double", "DOUBLE", "0e0", "-0e0"),
    "double_plus": Case("double", "DOUBLE", "-0e0", "0e0"),
    "float": Case("float", "FLOAT", "0e0", "-0e0"),
    "float_plus": Case("float", "FLOAT", "-0e0", "0e0"),
    "letters": Case("text", _GENERAL, "'Strasse'", "'STRASSE'"),
    "accents": Case("text", _GENERAL, "'e'", "'É'"),
    "spaces": Case("text", _GENERAL, "'a'", "'a  '"),
    "no_spaces": Case("text", _SWEDISH, "'a  '", "'a'"),
    "composed": Case("text", _GENERAL, "'é'", "CONCAT('e', CONVERT(x'CC81' USING utf8mb4))"),
    "label": Case("text", "ENUM('a', 'á') COLLATE utf8mb4_bin", "'a'", "'á'"),
    "octets": Case("bytes", "VARBINARY(9)", "x'61'", "x'6100'"),
    "padded": Case("bytes", "VARBINARY(9)", "x'61'", "x'6120'"),
    "scale": Case("decimal", "DECIMAL(30, 10)", "1", "1.0000000001"),
    "long_scale": Case("decimal", "DECIMAL(60, 30)", "0", "1e-30"),
    "hours": Case("time", "TIME(3)", "'24:00:00'", "'24:00:00.001'"),
    "whole": Case("document", "JSON", """'{"a": 1}'""", """'{"a": 1.0}'""", False),
    "zero": Case("document", "JSON", """'{"a": 0.0}'""", """'{"a": -0.0}'""", False),
    "digits": Case("document", "JSON", "JSON_ARRAY(1.0)", "JSON_ARRAY(1.000)", False),
}
_SELECTED = {
    "bytes": "HEX({})",
    "text": "HEX(CONVERT({} USING utf8mb4))",
    "document": "HEX(CONVERT({} USING utf8mb4))",
    "double": "{} * 1e0",
    "float": "{} * 1e0",
}
Rows = list[tuple[Any, Any]]
Read = Callable[[str, str, str], Rows]
Target = tuple[str, dict[str, Any], Read]


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with tempfile.TemporaryDirectory() as directory:
        server = PostgresServer(Path(directory))
        yield server
        server.stop()


def _of_mysql(server: LocalServer, prefix: str) -> Read:
    def read(family: str, database: str, table: str) -> Rows:
        shown = _SELECTED.get(family, "CAST({} AS CHAR)").format("v")
        with server.connected() as connection, connection.cursor() as cursor:
            cursor.execute("SET NAMES utf8mb4")
            cursor.execute(f"SELECT n, {shown} FROM {prefix}{database}.{table}")
            form = "text" if family == "document" else family
            return [(n, selected(form, _plain(value))) for n, value in cursor.fetchall()]

    return read


def _forms(family: str, rows: Rows) -> Rows:
    form = "text" if family == "document" else family
    return [(n, delivered(form, value)) for n, value in rows]


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return repr(value)
    return value.decode() if isinstance(value, bytes) else str(value)


@pytest.fixture(params=TARGETS)
def target(
    request: pytest.FixtureRequest, server: Callable[[str], LocalServer], tmp_path: Path
) -> Iterator[Target]:
    """Yield a sink's kind and options, and a function that reads a table's numbers and values."""
    kind = request.param.partition("-")[0]
    path = tmp_path / f"mirror.{kind}"
    if kind == "sqlite":
        import sqlite3

        def of_sqlite(family: str, database: str, table: str) -> Rows:
            with closing(sqlite3.connect(path)) as connection:
                name = stored_name(connection, database, table)
                rows = connection.execute(f'SELECT n, v FROM "{name}"').fetchall()
            return _forms(family, rows)

        yield kind, {"path": str(path)}, of_sqlite
    elif kind == "duckdb":
        import duckdb

        def of_duckdb(family: str, database: str, table: str) -> Rows:
            with duckdb.connect(str(path), read_only=True) as connection:
                rows = connection.execute(f"SELECT n, v FROM {database}.{table}").fetchall()
            return _forms(family, rows)

        yield kind, {"path": str(path)}, of_duckdb
    elif kind == "postgres":
        import psycopg

        url = request.getfixturevalue("postgres").url

        def of_postgres(family: str, database: str, table: str) -> Rows:
            shown = "v::text" if family == "document" else "v"
            with psycopg.connect(url) as connection:
                sql = f"SELECT n, {shown} FROM {database}.{table}"
                return _forms(family, connection.execute(sql.encode()).fetchall())

        yield kind, {"url": url}, of_postgres
    else:
        mirror = server(request.param)
        prefix = f"equal{os.getpid()}_"
        options = {"url": mirror.url("root"), "database_prefix": prefix, "state_database": prefix}
        yield "mysql", options, _of_mysql(mirror, prefix)
        for (name,) in mirror.query("SHOW DATABASES"):
            if str(name).startswith(prefix):
                mirror.execute(f"DROP DATABASE `{name}`")


def _with_zeros(case: Case, kind: str, form: Any) -> Any:
    """Return a value as the mirror's database can have it."""
    if kind in ("sqlite", "duckdb") and case.family in ("double", "float"):
        return form.replace("80", "00")  # one zero
    return form


def _statements(name: str, case: Case) -> list[str]:
    old, new = case.old, case.new
    found = [
        f"CREATE TABLE {name}_whole (n INT PRIMARY KEY, v {case.type})",
        f"CREATE TABLE {name}_changed (n INT PRIMARY KEY, v {case.type})",
        f"CREATE TABLE {name}_counted (n INT, v {case.type})",
        f"INSERT INTO {name}_whole VALUES (1, {old}), (2, {new}), (3, {old})",
        f"INSERT INTO {name}_changed VALUES (1, {old}), (2, {new}), (3, {old})",
        f"INSERT INTO {name}_counted VALUES (1, {old}), (2, {old}), (3, {old})",
        f"INSERT INTO {name}_counted VALUES (3, {new})",
        *(f"INSERT INTO {name}_counted VALUES " + ", ".join(f"({n}, {value})" for n in range(10, 10 + MANY))
          for value in (old, new)),
        "-",
        f"UPDATE {name}_whole SET v = {new} WHERE n = 1",
        f"UPDATE {name}_counted SET v = {new} WHERE n = 1",
        "-",
        f"DELETE FROM {name}_counted WHERE n = 3 LIMIT 1",
        "-",
        f"DELETE FROM {name}_counted WHERE n >= 10 LIMIT {MANY}",
        "-",
        "SET binlog_row_image = MINIMAL",
        f"UPDATE {name}_changed SET v = {new} WHERE n = 1",
        "SET binlog_row_image = FULL",
    ]  # fmt: skip
    if case.key:
        found[3:3] = [
            f"CREATE TABLE {name}_key (v {case.type} PRIMARY KEY, n INT)",
            f"INSERT INTO {name}_key VALUES ({old}, 1)",
            f"CREATE TABLE {name}_moved (v {case.type} PRIMARY KEY, n INT)",
            f"INSERT INTO {name}_moved VALUES ({old}, 1)",
        ]
        found += [f"UPDATE {name}_key SET v = {new}", "SET binlog_row_image = MINIMAL",
                  f"UPDATE {name}_moved SET v = {new}", "SET binlog_row_image = FULL"]  # fmt: skip
    return found


def _phases(names: list[str]) -> Iterator[list[str]]:
    """Yield the statements of all cases; a mirror is written after each group."""
    groups = [" ;; ".join(_statements(name, CASES[name])).split(" ;; - ;; ") for name in names]
    for parts in zip(*groups, strict=True):
        yield [statement for part in parts for statement in part.split(" ;; ")]


@pytest.mark.timeout(300)
async def test_values_that_equal_the_old_ones_are_stored(
    target: Target, server: Callable[[str], LocalServer], new_database: Callable[..., str]
) -> None:
    source, (kind, options, read) = server("mysql-9.7"), target
    # A mirror in MySQL reads documents as text: a decimal in it becomes a double there.
    names = [one for one in CASES if one != "digits" or kind != "mysql"]
    source.rotate()
    start, database = f"{source.binlog_files()[-1]}:4", new_database(source)
    with source.connected() as connection, connection.cursor() as cursor:
        cursor.execute(f"USE {database}")
        cursor.execute("SET NAMES utf8mb4")
        for statements in _phases(names):
            for statement in statements:
                cursor.execute(statement)
            await drive(make_sink(kind, options), source, [f"{database}.*"], start)
    expect = _of_mysql(source, "")
    for (table,) in source.query(f"SHOW TABLES FROM {database}"):
        case = CASES[str(table).rpartition("_")[0]]
        expected = [
            (n, _with_zeros(case, kind, form)) for n, form in expect(case.family, database, table)
        ]
        if kind == "mysql" and options["url"].startswith("mariadb"):
            expected = [(n, _with_zeros(case, "sqlite", form)) for n, form in expected]
        assert sorted(read(case.family, database, table)) == sorted(expected), table
