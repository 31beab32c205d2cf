"""``changes --limit`` on mixed transactions of real servers, run after run: each change once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pymysql
import pytest

from tests.unit.cli.limited_runs import all_runs, run

ROWS = "INSERT INTO t (v) SELECT seq.a FROM (SELECT 1 a UNION SELECT 2 UNION SELECT 3) seq"
PROGRAM = (
    ROWS,
    *("XA START 'one'", ROWS, ROWS, "XA END 'one'", "XA PREPARE 'one'"),
    *("XA COMMIT 'one'", "UPDATE t SET v = v + 1"),
    *("XA START 'gone'", ROWS, "XA END 'gone'", "XA PREPARE 'gone'", "XA ROLLBACK 'gone'"),
    *("XA START 'short'", ROWS, ROWS, "XA END 'short'", "XA COMMIT 'short' ONE PHASE"),
    *("BEGIN", ROWS, "CREATE TEMPORARY TABLE x (a INT)", "SAVEPOINT s", ROWS, "ROLLBACK TO s"),
    *(ROWS, "COMMIT", "DROP TEMPORARY TABLE x"),
    *(
        "BEGIN",
        ROWS,
        "INSERT INTO m (v) VALUES (1), (2)",
        ROWS,
        "DELETE FROM t WHERE v = 3",
        "COMMIT",
    ),
    "CREATE TABLE made SELECT * FROM t WHERE id < 5",
    *(
        "XA START 'late'",
        ROWS,
        "UPDATE t SET v = 9 WHERE id < 4",
        "XA END 'late'",
        "XA PREPARE 'late'",
    ),
)
OTHERS = ("INSERT INTO m (v) VALUES (3)", "XA COMMIT 'late'", "INSERT INTO m (v) VALUES (4)")


def make_mixed_transactions(source: Any, database: str) -> None:
    """Two tables, and transactions of all kinds on them; an XA transaction is committed in another session."""
    source.execute(f"CREATE TABLE {database}.t (id INT AUTO_INCREMENT PRIMARY KEY, v INT)")
    source.execute(
        f"CREATE TABLE {database}.m (id INT AUTO_INCREMENT PRIMARY KEY, v INT) ENGINE=MyISAM"
    )
    for statements in (PROGRAM, OTHERS):
        with source.connected(database=database) as connection, connection.cursor() as cursor:
            for statement in statements:
                try:
                    cursor.execute(statement)
                except pymysql.err.MySQLError as error:
                    # MySQL's GTIDs forbid temporary tables and engines without transactions there.
                    assert source.flavor == "mysql", (statement, error)
            session = connection.thread_id()
        # Only at its end have others what it prepared.
        source.wait_until_gone(session)


@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
def test_each_change_once(server: Any, new_database: Any, tmp_path: Path, name: str) -> None:
    source = server(name)
    database = new_database(source)
    source.rotate()
    first = source.binlog_position()[0]
    make_mixed_transactions(source, database)
    files = source.binlog_files()
    paths = [source.binlog_path(one) for one in files[files.index(first) :]]
    tables = f"{database}.*"
    whole = run(paths, None, None, 64 << 20, tables)
    assert len(whole) > 30
    for part_size in (1, 64 << 20):
        for limit in (1, 2, 5):
            state = tmp_path / f"{part_size}-{limit}"
            assert list(all_runs(paths, state, limit, part_size, tables)) == whole
