"""Undo and redo on real servers, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from replica_client.archive.archive import make_question, open_archive
from replica_client.archive.undo import make_statements
from replica_client.errors import DataLossError
from tests.integration.undo_histories import prove
from tests.servers.local import LocalServer


def test_random_histories(any_server: LocalServer, tmp_path: Path) -> None:
    # Tables with and without a key, and with a FLOAT that finds the row.
    counts = prove(any_server, tmp_path, 35)
    assert not counts["differences"]
    assert not counts["missed"]
    assert counts["changes"]


REFUSED = [
    (
        "images",
        [
            "SET SESSION binlog_row_image = MINIMAL",
            "UPDATE {d}.t SET b = 2",
            "SET SESSION binlog_row_image = FULL",
        ],
        "lacks columns",
    ),
    ("ddl", ["UPDATE {d}.t SET b = 2", "ALTER TABLE {d}.t ADD c INT"], "ALTER TABLE"),
    ("truncate", ["UPDATE {d}.t SET b = 2", "TRUNCATE TABLE {d}.t"], "TRUNCATE"),
    (
        "statement",
        [
            "SET SESSION binlog_format = STATEMENT",
            "UPDATE {d}.t SET b = 2",
            "SET SESSION binlog_format = ROW",
        ],
        "logged as text",
    ),
    (
        "cascade",
        [
            "CREATE TABLE {d}.child (a INT, FOREIGN KEY (a) REFERENCES {d}.t (a) ON DELETE CASCADE)",
            "DELETE FROM {d}.t",
        ],
        "foreign keys",
    ),
]


@pytest.mark.parametrize(("what", "statements", "reason"), REFUSED, ids=[one[0] for one in REFUSED])
def test_what_would_not_be_exact_is_refused(
    server: Callable[[str], LocalServer],
    new_database: Callable[[LocalServer], str],
    tmp_path: Path,
    what: str,
    statements: list[str],
    reason: str,
) -> None:
    source = server("mariadb-11.8")
    source.rotate()
    first = source.binlog_position()[0]
    database = new_database(source)
    with source.connected() as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {database}.t (a INT PRIMARY KEY, b INT) ENGINE=InnoDB")
        cursor.execute(f"INSERT INTO {database}.t VALUES (1, 1), (2, 1)")
        connection.commit()
        for statement in statements:
            cursor.execute(statement.format(d=database))
            connection.commit()
    source.rotate()
    names = source.binlog_files()
    files = [source.binlog_path(name) for name in names[names.index(first) : -1]]
    archive = open_archive(files, index_directory=tmp_path)
    with pytest.raises(DataLossError, match=reason):
        make_statements(archive, make_question([f"{database}.*"]), "undo")
