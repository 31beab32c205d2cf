"""Tables of real servers as they were, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from replica_client.archive.archive import Archive, open_archive
from replica_client.errors import DataLossError
from tests.integration.as_of_instants import as_set, prove, selected, url_of
from tests.servers.local import LocalServer


def test_random_instants(any_server: LocalServer, tmp_path: Path) -> None:
    counts = prove(any_server, tmp_path, 100, 8)
    assert not counts["differences"]
    assert counts["forward"] == counts["backward"] == 8


BEGIN = [
    "CREATE TABLE {d}.p (a INT PRIMARY KEY) ENGINE=InnoDB",
    "CREATE TABLE {d}.t (a INT PRIMARY KEY, b INT) ENGINE=InnoDB",
    "INSERT INTO {d}.t VALUES (1, 1), (2, 1), (3, 1)",
]


@pytest.fixture
def made(
    server: Callable[[str], LocalServer],
    new_database: Callable[[LocalServer], str],
    tmp_path: Path,
) -> Callable[[list[str]], tuple[Archive, str, str, str]]:
    """Statements on a MariaDB; gives the archive, the database, the moment before them, and the URL."""

    def make(statements: list[str]) -> tuple[Archive, str, str, str]:
        source = server("mariadb-11.8")
        source.rotate()
        first = source.binlog_position()[0]
        database = new_database(source)
        with source.connected() as connection, connection.cursor() as cursor:
            for statement in BEGIN:
                cursor.execute(statement.format(d=database))
            connection.commit()
            moment = ":".join(map(str, source.binlog_position()))
            for statement in statements:
                cursor.execute(statement.format(d=database))
                connection.commit()
        names = source.binlog_files()
        files = [source.binlog_path(name) for name in names[names.index(first) :]]
        return open_archive(files, index_directory=tmp_path), database, moment, url_of(source)

    return make


CHANGE = "UPDATE {d}.t SET b = b + 1"
REFUSED = [
    (
        "images",
        [
            "SET SESSION binlog_row_image = MINIMAL",
            CHANGE,
            "SET SESSION binlog_row_image = FULL",
        ],
        "backward",
        "row image lacks b",
    ),
    (
        "statement",
        [
            "SET SESSION binlog_format = STATEMENT",
            CHANGE,
            "SET SESSION binlog_format = ROW",
        ],
        "backward",
        "logged as text",
    ),
    ("truncate", [CHANGE, "TRUNCATE TABLE {d}.t"], "backward", "TRUNCATE"),
    ("dropped column", [CHANGE, "ALTER TABLE {d}.t DROP COLUMN b"], "backward", "dropped column b"),
    ("type", [CHANGE, "ALTER TABLE {d}.t MODIFY b VARCHAR(9)"], "backward", "with its type"),
    (
        "default",
        [CHANGE, "ALTER TABLE {d}.t ADD COLUMN c INT DEFAULT (1 + RAND())"],
        "forward",
        "the default of c is an expression",
    ),
    (
        "cascade",
        ["ALTER TABLE {d}.t ADD FOREIGN KEY (b) REFERENCES {d}.p (a) ON DELETE CASCADE"],
        "backward",
        "foreign key",
    ),
    (
        "unlogged",
        [CHANGE, "SET SESSION sql_log_bin = 0", "DELETE FROM {d}.t", "SET SESSION sql_log_bin = 1"],
        "backward",
        "do not fit together",
    ),
]


@pytest.mark.parametrize(
    ("what", "statements", "direction", "reason"), REFUSED, ids=[one[0] for one in REFUSED]
)
def test_what_cannot_be_followed_is_refused(
    made: Callable[[list[str]], tuple[Archive, str, str, str]],
    what: str,
    statements: list[str],
    direction: str,
    reason: str,
) -> None:
    if what == "cascade":
        statements = ["UPDATE {d}.t SET b = NULL", *statements]
    archive, database, moment, live = made(statements)
    with pytest.raises(DataLossError, match=reason) as raised:
        if direction == "backward":
            archive.as_of(f"{database}.t", moment, live=live).read_all()
        else:
            archive.as_of(f"{database}.t", "latest").read_all()
    assert "\n" not in str(raised.value)


def test_an_archive_that_ends_before_the_live_table_is_refused(
    made: Callable[[list[str]], tuple[Archive, str, str, str]],
    server: Callable[[str], LocalServer],
) -> None:
    archive, database, moment, live = made([CHANGE])
    source = server("mariadb-11.8")
    source.rotate()
    source.rotate()
    with pytest.raises(DataLossError, match="the changes between are missing"):
        archive.as_of(f"{database}.t", moment, live=live)


def test_alterations_and_renames_are_followed_both_ways(
    made: Callable[[list[str]], tuple[Archive, str, str, str]],
    server: Callable[[str], LocalServer],
) -> None:
    archive, database, moment, live = made(
        [
            CHANGE,
            "ALTER TABLE {d}.t CHANGE b c BIGINT NULL, ADD COLUMN n INT NULL, ADD INDEX (c)",
            "UPDATE {d}.t SET c = 70, n = 1 WHERE a = 1",
            "RENAME TABLE {d}.t TO {d}.u",
            "DELETE FROM {d}.u WHERE a = 2",
        ]
    )
    back = archive.as_of(f"{database}.t", moment, live=live)
    assert sorted(row["b"] for row in back.read_all().to_pylist()) == [1, 1, 1]
    assert back.schema.names == ["a", "b", "_lossless"]
    forward = archive.as_of(f"{database}.u", "latest")
    expected = selected(server("mariadb-11.8"), f"{database}.u")
    assert as_set(forward.read_all()) == as_set(expected)
