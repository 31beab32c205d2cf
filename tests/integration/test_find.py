"""What archives of real servers answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import replica_client as rc
from tests.integration.find_questions import prove
from tests.integration.time_questions import prove_times
from tests.servers.local import LocalServer


def test_random_questions(any_server: LocalServer, tmp_path: Path) -> None:
    counts = prove(any_server, tmp_path, 3, 20)
    assert counts["questions"] == 20
    assert not counts["differences"]


def test_history_goes_through_key_changes_and_renames(
    server: Callable[[str], LocalServer],
    new_database: Callable[[LocalServer], str],
    tmp_path: Path,
) -> None:
    source = server("mysql-9.7")
    source.rotate()
    first = source.binlog_position()[0]
    database = new_database(source)
    with source.connected() as connection, connection.cursor() as cursor:
        for statement in (
            "SET SESSION binlog_row_image = MINIMAL",
            "SET SESSION binlog_rows_query_log_events = ON",
            "CREATE TABLE {d}.old (a INT, b VARCHAR(9), v INT, PRIMARY KEY (a, b))",
            "INSERT INTO {d}.old VALUES (1, 'x', 0), (2, 'x', 0)",
            "UPDATE {d}.old SET v = 1 WHERE a = 1",
            "UPDATE {d}.old SET a = 5 WHERE a = 1",
            "RENAME TABLE {d}.old TO {d}.new",
            "CREATE TABLE {d}.old (a INT, b VARCHAR(9), v INT, PRIMARY KEY (a, b))",
            "INSERT INTO {d}.old VALUES (5, 'x', 77), (1, 'x', 77)",
            "INSERT INTO {d}.new VALUES (1, 'x', 88)",
            "UPDATE {d}.new SET b = 'y' WHERE a = 5",
            "UPDATE {d}.new SET v = 2 WHERE a = 5",
            "DELETE FROM {d}.new WHERE a = 5",
            "INSERT INTO {d}.new VALUES (5, 'y', 9)",
        ):
            cursor.execute(statement.format(d=database))
            connection.commit()
    source.rotate()
    names = source.binlog_files()
    files = [source.binlog_path(name) for name in names[names.index(first) : -1]]
    archive = rc.open_archive(files, index_directory=tmp_path)
    found = archive.history(f"{database}.new", [5, "x"])
    kinds = [(one.change.table, one.change.kind) for one in found]
    assert kinds == [
        ("old", "insert"),
        ("old", "update"),
        ("old", "update"),
        ("new", "update"),
        ("new", "update"),
        ("new", "delete"),
    ]
    assert [one.statement for one in found][2] == f"UPDATE {database}.old SET a = 5 WHERE a = 1"
    assert {one.thread_id for one in found} == {found[0].thread_id}


@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
def test_questions_by_times_that_outputs_print(
    server: Callable[[str], LocalServer], tmp_path: Path, name: str
) -> None:
    counts = prove_times(server(name), tmp_path, 5, 42)
    assert not counts["differences"]
    assert counts["questions"] == 42


def test_savepoints_inside_compressed_transactions(
    server: Callable[[str], LocalServer],
    new_database: Callable[[LocalServer], str],
    tmp_path: Path,
) -> None:
    """A statement inside a transaction payload has no checksum, whatever the file's events have."""
    source = server("mysql-9.7")
    source.rotate()
    first = source.binlog_position()[0]
    database = new_database(source)
    with source.connected() as connection, connection.cursor() as cursor:
        for statement in (
            f"CREATE TABLE {database}.t (a INT PRIMARY KEY, v INT)",
            "SET SESSION binlog_transaction_compression = ON",
            "BEGIN",
            f"INSERT INTO {database}.t VALUES (1, 1)",
            "SAVEPOINT one",
            f"INSERT INTO {database}.t VALUES (2, 1)",
            "SAVEPOINT two",
            f"UPDATE {database}.t SET v = 2 WHERE a = 1",
            "ROLLBACK TO SAVEPOINT two",
            f"UPDATE {database}.t SET v = 3 WHERE a = 1",
            "COMMIT",
        ):
            cursor.execute(statement)
    source.rotate()
    names = source.binlog_files()
    files = [source.binlog_path(name) for name in names[names.index(first) : -1]]
    archive = rc.open_archive(files, index_directory=tmp_path)
    found = [
        one.change.after["v"]
        for one in archive.history(f"{database}.t", [1])
        if one.change.after is not None
    ]
    assert found == [1, 3]
    assert source.query(f"SELECT v FROM {database}.t WHERE a = 1") == [(3,)]
