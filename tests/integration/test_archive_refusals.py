"""Each question that an archive cannot answer exactly is refused by name, in one line."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from replica_client.archive.archive import Archive, make_question, open_archive
from replica_client.archive.undo import make_statements
from replica_client.cli.main import main
from replica_client.errors import ConfigError, DataLossError
from tests.integration.as_of_instants import url_of
from tests.servers.local import LocalServer

KEYED = "CREATE TABLE {t} (a INT, b INT, c INT, PRIMARY KEY (a, b)) ENGINE=InnoDB"
ROWS = "INSERT INTO {t} VALUES (1, 1, 1), (2, 1, 1)"


class Made:
    """A table, and an archive of the files that were written since."""

    def __init__(self, server: LocalServer, database: str, directory: Path) -> None:
        self.server, self.table, self._directory = server, f"{database}.t", directory
        self.first = self._next_file()

    def _next_file(self) -> str:
        self.server.rotate()
        return str(self.server.binlog_files()[-1])

    def run(self, *statements: str) -> None:
        """In one session, each as a transaction."""
        with self.server.connected() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement.format(t=self.table))

    def forget(self) -> None:
        """Begin the archive here."""
        self.first = self._next_file()

    @property
    def files(self) -> list[Path]:
        """From the first one on."""
        names = self.server.binlog_files()
        return [self.server.binlog_path(name) for name in names[names.index(self.first) :]]

    @property
    def here(self) -> str:
        """The end of the binlog."""
        return ":".join(map(str, self.server.binlog_position()))

    def archive(self) -> Archive:
        """Of all files but the one that is written."""
        self._next_file()
        return open_archive(self.files, index_directory=self._directory)


@pytest.fixture
def made(
    server: Callable[[str], LocalServer],
    new_database: Callable[[LocalServer], str],
    tmp_path: Path,
) -> Made:
    source = server("mariadb-11.8")
    return Made(source, new_database(source), tmp_path)


@pytest.fixture
def made_by_mysql(
    server: Callable[[str], LocalServer],
    new_database: Callable[[LocalServer], str],
    tmp_path: Path,
) -> Made:
    source = server("mysql-9.7")
    return Made(source, new_database(source), tmp_path)


@pytest.fixture
def made_without_names(
    server: Callable[[str], LocalServer],
    new_database: Callable[[LocalServer], str],
    tmp_path: Path,
) -> Made:
    """Of a server that never logs the names of columns."""
    source = server("mysql-5.6")
    return Made(source, new_database(source), tmp_path)


def refused(kind: type[Exception], reason: str, ask: Callable[[], Any]) -> None:
    """The question ends with this error, in one line."""
    with pytest.raises(kind, match=reason) as raised:
        ask()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("image", ["FULL", "NOBLOB", "MINIMAL"])
def test_partial_json_updates(made_by_mysql: Made, image: str) -> None:
    made = made_by_mysql
    made.run(
        "CREATE TABLE {t} (a INT PRIMARY KEY, j JSON) ENGINE=InnoDB",
        """INSERT INTO {t} VALUES (1, '{{"x": "some text that is long enough", "y": 1}}')""",
    )
    moment = made.here
    made.run(
        "SET SESSION binlog_row_value_options = PARTIAL_JSON",
        f"SET SESSION binlog_row_image = {image}",
        "UPDATE {t} SET j = JSON_SET(j, '$.y', 2)",
    )
    archive = made.archive()
    question = make_question([made.table], since=moment)
    if image != "MINIMAL":  # NOBLOB leaves out BLOB and TEXT, not JSON
        with make_statements(archive, question, "redo") as statements:
            assert statements.changes == 1
        (row,) = archive.as_of(made.table, "latest").read_all().to_pylist()
        assert json.loads(row["j"])["y"] == 2
        return
    reason = "a row image lacks j"
    refused(DataLossError, reason, lambda: make_statements(archive, question, "undo"))
    refused(DataLossError, reason, lambda: make_statements(archive, question, "redo"))
    reason = "the row image lacks a, j|is a partial JSON update|the row image lacks j"
    refused(DataLossError, reason, lambda: archive.as_of(made.table, "latest").read_all())


def test_names_that_are_not_known(made_without_names: Made) -> None:
    made = made_without_names
    made.run(KEYED, ROWS)
    made.forget()
    made.run("UPDATE {t} SET c = 2")
    archive = made.archive()
    question = make_question([made.table])
    reason = "the names of its columns are not known; give the schema"
    refused(DataLossError, reason, lambda: make_statements(archive, question, "undo"))
    reason = "the definition of .* is not known|no CREATE TABLE"
    refused(DataLossError, reason, lambda: archive.as_of(made.table, "latest").read_all())


def test_definition_changed_between(made: Made) -> None:
    made.run(KEYED, ROWS)
    moment = made.here
    made.run("UPDATE {t} SET c = 2", "ALTER TABLE {t} ADD d INT", "UPDATE {t} SET c = 3")
    archive = made.archive()
    question = make_question([made.table], since=moment)
    for direction in ("undo", "redo"):
        refused(
            DataLossError,
            f"was changed by a statement at .*ALTER TABLE .*; {direction} one side of it",
            lambda direction=direction: make_statements(archive, question, direction),  # type: ignore[misc]
        )


def test_keys_that_do_not_fit(made: Made) -> None:
    made.run(KEYED, ROWS)
    archive = made.archive()
    table = made.table
    refused(ConfigError, "1 values, but the primary key", lambda: list(archive.find(table, 1)))
    refused(ConfigError, "no column 'x'", lambda: list(archive.find(table, {"x": 1})))
    reason = "name the column whose values"
    refused(ConfigError, reason, lambda: list(archive.find(table, before="1")))
    refused(ConfigError, "no column 'x'", lambda: list(archive.find(table, column="x", before="1")))
    refused(
        ConfigError,
        "kind: unknown 'dropped'; there are",
        lambda: list(archive.find(table, kind="dropped")),
    )


def test_a_key_that_nobody_knows(made_without_names: Made) -> None:
    made = made_without_names
    made.run(KEYED, ROWS)
    made.forget()
    made.run("UPDATE {t} SET c = 2")
    archive = made.archive()
    reason = "the primary key of .* is not known here; name the columns"
    refused(ConfigError, reason, lambda: list(archive.find(made.table, (1, 1))))


def test_a_history_of_what_images_leave_out(made: Made) -> None:
    made.run(
        KEYED, ROWS, "SET SESSION binlog_row_image = MINIMAL", "UPDATE {t} SET a = 7 WHERE a = 1"
    )
    archive = made.archive()
    assert len(archive.history(made.table, (7, 1))) == 2
    reason = "left out column 'c' of the key|does not tell column 'c' of the key"
    refused(DataLossError, reason, lambda: archive.history(made.table, {"c": 1}))


def test_moments_that_are_none(made: Made) -> None:
    made.run(KEYED, ROWS)
    archive = made.archive()
    last = made.files[-2].name
    for moment, reason in (
        ("0-1-999999999", "no such transaction in the archive"),
        ("nofile.000001:4", "is not among the files"),
        (f"{last}:999999999", "the last whole transaction of .* ends at"),
        (datetime(2001, 1, 1, tzinfo=UTC), "the archive begins"),
        (datetime.now(UTC) + timedelta(days=1), "the last transaction of the archive is of"),
    ):
        refused(ConfigError, reason, lambda moment=moment: archive.as_of(made.table, moment))  # type: ignore[misc]


def test_copies_that_are_none(made: Made, tmp_path: Path) -> None:
    made.run(KEYED, ROWS)
    moment = made.here
    archive = made.archive()
    table, live = made.table, url_of(made.server)
    reason = "a copy is Arrow, a file or a server's URL, not int"
    refused(ConfigError, reason, lambda: archive.as_of(table, moment, copy=3, copy_at=moment))
    damaged = tmp_path / "copy.parquet"
    damaged.write_bytes(b"PAR1 and no more")
    reason = "not a readable Parquet or Arrow file"
    refused(
        ConfigError, reason, lambda: archive.as_of(table, moment, copy=str(damaged), copy_at=moment)
    )
    reason = "give live, to go backward, or copy"
    refused(ConfigError, reason, lambda: archive.as_of(table, moment, copy=damaged, live=live))
    reason = "does not contain its position"
    state = archive.as_of(table, moment).read_all().replace_schema_metadata(None)
    refused(ConfigError, reason, lambda: archive.as_of(table, moment, copy=state))


def test_live_tables_that_cannot_be_gone_back_from(made: Made) -> None:
    made.run("CREATE TABLE {t} (a INT PRIMARY KEY, b BLOB UNIQUE) ENGINE=InnoDB")
    moment = made.here
    made.run("INSERT INTO {t} VALUES (1, 'x')")
    archive = open_archive(made.files, index_directory=made.files[0].parent / "none")
    live = url_of(made.server)
    reason = "has no table .*absent"
    refused(ConfigError, reason, lambda: archive.as_of(f"{made.table}absent", moment, live=live))


def test_an_archive_of_another_server(made: Made, server: Callable[[str], LocalServer]) -> None:
    made.run(KEYED, ROWS)
    moment = made.here
    archive = made.archive()
    other = server("mariadb-10.11")
    other.execute(f"CREATE DATABASE IF NOT EXISTS {made.table.partition('.')[0]}")
    try:
        other.execute(KEYED.format(t=made.table))
        reason = "the changes between are missing"
        refused(
            DataLossError, reason, lambda: archive.as_of(made.table, moment, live=url_of(other))
        )
    finally:
        other.execute(f"DROP DATABASE {made.table.partition('.')[0]}")


def test_a_table_without_key_wants_a_lock(made_by_mysql: Made) -> None:
    made = made_by_mysql
    made.run("CREATE TABLE {t} (a INT, b VARCHAR(200)) ENGINE=InnoDB")
    made.run("INSERT INTO {t} VALUES " + ", ".join(f"({number}, 'x')" for number in range(500)))
    moment = made.here
    expected = made.server.query(f"SELECT a, b FROM {made.table} ORDER BY a")
    stop = threading.Event()

    def write() -> None:
        with made.server.connected() as connection, connection.cursor() as cursor:
            number = 1000
            while not stop.is_set():
                cursor.execute(f"INSERT INTO {made.table} VALUES ({number}, 'y')")
                number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        archive = open_archive(made.files, index_directory=None)
        state = archive.as_of(made.table, moment, live=url_of(made.server), lock=True)
        rows = sorted((row["a"], row["b"]) for row in state.read_all().to_pylist())
        assert rows == list(expected)
        seen = ""
        for _ in range(50):
            try:
                archive.as_of(made.table, moment, live=url_of(made.server)).read_all()
            except DataLossError as error:
                seen = str(error)
                break
        assert (
            "has no primary key, and changed while it was read; take a brief lock (--lock)" in seen
        )
    finally:
        stop.set()
        writer.join()


def test_as_commands(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    made.run(KEYED, ROWS)
    files = [str(path) for path in made.files]
    as_of = ["as-of", *files, "--table", made.table, "--at", "latest"]
    for arguments, reason in (
        ([*as_of, "--parquet", "-"], "only an Arrow stream goes to standard output"),
        ([*as_of, "--prove"], "--prove needs --live"),
        ([*as_of, "--json", "--parquet", "x"], "give one of --json"),
        ([*as_of[:-1], "nofile.1:4"], "nofile.1 is not among the files"),
    ):
        assert main(arguments), arguments
        out, errors = capsys.readouterr()
        assert not out
        assert reason in errors
        assert len(errors.splitlines()) == 1
