"""Temporary tables that have the names of others, on real servers: those stay as they are."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import nullcontext
from itertools import product
from typing import Any

import pymysql
import pytest

import replica_client as rc

CREATE = "CREATE TEMPORARY TABLE t (x INT, y VARCHAR(9)) CHARSET sjis"
# Statements of a session with that table, and what they do to others.
CASES = [
    (["ALTER TABLE t ADD z INT FIRST"], []),
    (["TRUNCATE TABLE t"], []),
    (["ALTER TABLE t RENAME TO w", "ALTER TABLE w ADD z INT", "DROP TABLE w"], []),
    (["CREATE INDEX i ON t (x)", "DROP TABLE t", "TRUNCATE TABLE t"], ["truncate_table t"]),
    (["DROP TABLE t, u"], ["drop_table u"]),
    (["RENAME TABLE t TO w"], []),
    (["RENAME TABLE t TO w, u TO v", "TRUNCATE TABLE v"], ["rename_table u", "truncate_table v"]),
]
HIDES_AGAIN = (["RENAME TABLE t TO u"], [])
"""MariaDB only: to MySQL the name is taken."""
FAILS = (
    ["!CREATE OR REPLACE TABLE t (k INT PRIMARY KEY) ENGINE=MyISAM SELECT 1 k UNION ALL SELECT 1"],
    ["drop_table t"],
)
"""MariaDB only: the table that it replaces is gone, the temporary one stays. The server must refuse it."""
# MySQL renames what is hidden, and no temporary table.
MYSQL = {
    "RENAME TABLE t TO w": ["rename_table t"],
    "RENAME TABLE t TO w, u TO v": ["rename_table t", "rename_table u", "truncate_table v"],
}


async def _changes(server: Any, pattern: str, start: rc.Position) -> dict[str, list[str]]:
    """What is told of the tables of each database."""
    found: dict[str, list[str]] = defaultdict(list)
    async with rc.connect(server.url(), tables=pattern, start=start, stop_at_end=True) as stream:
        async for one in stream.changes(notices=True):
            if isinstance(one, rc.SchemaChange) and one.table:
                found[one.database].append(f"{one.kind} {one.table}")
    return found


@pytest.mark.parametrize("name", ["mysql-5.6", "mariadb-11.8"])
def test_what_a_session_does_to_its_own(server: Any, name: str) -> None:
    """Where the CREATE TEMPORARY TABLE is read, where it is not, and where it is not logged."""
    source = server(name)
    cases = CASES if name == "mysql-5.6" else [*CASES, HIDES_AGAIN, FAILS]
    prefix = source.create_database("temporary")
    begin = rc.Position(*source.binlog_position())
    wanted: dict[str, list[str]] = {}
    sessions = []
    for number, (logged, (statements, expected)) in enumerate(product(("ROW", "MIXED"), cases)):
        database = f"{prefix}_{number}"
        first = statements[0]
        wanted[database] = MYSQL.get(first, expected) if name == "mysql-5.6" else expected
        source.execute(f"CREATE DATABASE {database}")
        source.execute(f"CREATE TABLE {database}.t (a INT, b VARCHAR(9))")
        source.execute(f"CREATE TABLE {database}.u (c INT)")
        sessions.append((source.connect(database=database), statements))
        sessions[-1][0].query(f"SET SESSION binlog_format = {logged}")
        sessions[-1][0].query(CREATE)
    within = rc.Position(*source.binlog_position())
    for session, statements in sessions:
        for statement in statements:
            with pytest.raises(pymysql.err.MySQLError) if statement[0] == "!" else nullcontext():
                session.query(statement.lstrip("!"))
    for start, made in ((begin, ["create_table t", "create_table u"]), (within, [])):
        found = asyncio.run(_changes(source, f"{prefix}*.*", start))
        for number, (database, changes) in enumerate(wanted.items()):
            assert found[database] == made + changes, (start, sessions[number][1])
    for database in (prefix, *wanted):
        source.drop_database(database)


@pytest.mark.parametrize("name", ["mysql-5.6", "mariadb-11.8"])
def test_one_that_is_made_like_one(server: Any, name: str) -> None:
    """Its columns are known; its text is in a character set that no statement has."""
    source = server(name)
    database = source.create_database()
    begin = source.binlog_position()
    with source.connected(database=database) as connection, connection.cursor() as cursor:
        cursor.execute(CREATE)
        cursor.execute("CREATE TABLE made LIKE t")
        cursor.execute("INSERT INTO made VALUES (1, _utf8'表')")
    files = source.binlog_files()
    paths = [source.binlog_path(one) for one in files[files.index(begin[0]) :]]
    reader = rc.open_binlog(paths, tables=f"{database}.*", start=rc.Position(*begin))
    made, change = reader.changes(notices=True)
    assert isinstance(made, rc.SchemaChange) and isinstance(change, rc.Change)
    assert (made.kind, made.table, made.understood) == ("create_table", "made", True)
    assert made.after is not None and [one.charset for one in made.after.columns] == [None, None]
    # The table maps of the tests' MariaDB have the character set.
    text = "表" if name.startswith("mariadb") else "表".encode("sjis")
    assert change.after is not None and tuple(change.after) == (1, text)
    source.drop_database(database)
