"""Columns that the source computes: some releases of MariaDB leave them out of row images, changed or not."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from replica_client import ABSENT, open_binlog
from replica_client.archive.archive import Archive, make_question, open_archive
from replica_client.archive.undo import make_statements
from replica_client.errors import DataLossError, SinkError
from replica_client.schema.history import SchemaHistory
from replica_client.sinks.registry import make_sink
from replica_client.stream.position.stores.base import Checkpoint
from replica_client.stream.transforms.transformer import Transformer
from tests.servers.local import LocalServer

COLUMNS = (
    "id INT PRIMARY KEY, b INT, s INT GENERATED ALWAYS AS (b + 1) STORED, "
    "v INT GENERATED ALWAYS AS (b + 2) VIRTUAL"
)
CHANGES = (
    "INSERT INTO {t} (id, b) VALUES (1, 5), (2, 6), (3, 7)",
    "UPDATE {t} SET b = 9 WHERE id = 1",
    "DELETE FROM {t} WHERE id = 2",
)
MODERN = ["mysql-9.7", "mariadb-10.11", "mariadb-11.8"]


class Made:
    """A table with changes, and the files they are in."""

    def __init__(self, server: LocalServer, database: str, columns: str) -> None:
        self.server, self.table = server, f"{database}.t"
        server.rotate()
        self.files = [server.binlog_path(server.binlog_files()[-1])]
        self.run(f"CREATE TABLE {{t}} ({columns}) ENGINE=InnoDB")

    def run(self, *statements: str) -> None:
        """Each statement as a transaction."""
        for statement in statements:
            self.server.execute(statement.format(t=self.table))

    @property
    def here(self) -> str:
        """The end of the binlog."""
        return ":".join(map(str, self.server.binlog_position()))

    def selected(self, columns: str = "*") -> list[Any]:
        """The rows."""
        return self.server.query(f"SELECT {columns} FROM {self.table} ORDER BY 1")

    def changes(self) -> list[Any]:
        """What the binlog has."""
        known = SchemaHistory(lower_case_names=False)
        return list(open_binlog(self.files, tables=self.table, schema=known).changes())

    @property
    def leaves_out(self) -> bool:
        """Whether the images of this server's updates lack what it computes."""
        updates = [one for one in self.changes() if one.kind == "update"]
        assert updates
        return all(one.after["s"] is ABSENT for one in updates)

    def archive(self, directory: Path) -> Archive:
        """The files."""
        self.server.rotate()
        return open_archive(self.files, index_directory=directory)

    def undo(self, begin: str, directory: Path) -> None:
        """Take back what was done since."""
        question = make_question([self.table], since=begin)
        with make_statements(self.archive(directory), question, "undo") as statements:
            lines = [line for line in statements.lines() if not line.startswith("--")]
        with self.server.connected() as connection, connection.cursor() as cursor:
            for line in lines:
                cursor.execute(line.removesuffix(";"))

    async def mirrored(self, path: Path, *transforms: dict[str, Any]) -> list[Any]:
        """What a mirror in SQLite has."""
        sink = make_sink("sqlite", {"path": str(path)})
        transformer = Transformer.of(transforms)
        await sink.open()
        try:
            known = SchemaHistory(lower_case_names=False)
            for one in open_binlog(self.files, tables=self.table, schema=known).transactions():
                await sink.write(one if transformer is None else transformer.transaction(one))
                await sink.commit(Checkpoint(one.position))
        finally:
            await sink.close()
        with closing(sqlite3.connect(path)) as connection:
            return connection.execute(f'SELECT * FROM "{self.table}" ORDER BY 1').fetchall()


@pytest.fixture(params=MODERN)
def source(request: pytest.FixtureRequest, server: Callable[[str], LocalServer]) -> LocalServer:
    found: LocalServer = server(request.param)
    return found


@pytest.fixture
def made(source: LocalServer, new_database: Callable[[LocalServer], str]) -> Made:
    table = Made(source, new_database(source), COLUMNS)
    table.run(*CHANGES)
    return table


def test_what_is_computed_is_known_and_whole_or_absent(made: Made) -> None:
    for change in made.changes():
        shape = {column.name: column.computed for column in change.shape.columns}
        assert shape == {"id": False, "b": False, "s": True, "v": True}
        for image in (change.before, change.after):
            if image is not None:
                assert image["s"] in (ABSENT, image["b"] + 1)
                assert image["v"] in (ABSENT, image["b"] + 2)
        if change.kind == "insert":
            assert ABSENT not in tuple(change.after)


async def test_a_mirror_is_equal_or_refuses(made: Made, tmp_path: Path) -> None:
    if made.leaves_out:
        with pytest.raises(SinkError, match="leaves out s, v: the source computes it"):
            await made.mirrored(tmp_path / "mirror.db")
    else:
        assert await made.mirrored(tmp_path / "mirror.db") == made.selected()


async def test_a_mirror_without_what_is_computed_is_equal(made: Made, tmp_path: Path) -> None:
    drop = {"tables": [made.table], "keep": ["id", "b"], "drop": ["s", "v"]}
    assert await made.mirrored(tmp_path / "mirror.db", drop) == made.selected("id, b")


async def test_a_long_unique_key_is_mirrored(
    server: Callable[[str], LocalServer],
    new_database: Callable[[LocalServer], str],
    tmp_path: Path,
) -> None:
    for name in ("mariadb-10.11", "mariadb-11.8"):
        source = server(name)
        made = Made(source, new_database(source), "id INT PRIMARY KEY, b BLOB UNIQUE")
        made.run(
            "INSERT INTO {t} VALUES (1, 'x'), (2, 'y')",
            "UPDATE {t} SET b = 'z' WHERE id = 1",
            "DELETE FROM {t} WHERE id = 2",
        )
        assert await made.mirrored(tmp_path / f"{name}.db") == made.selected() == [(1, b"z")]
        moment = made.here
        rows = made.archive(tmp_path).as_of(made.table, moment).read_all().select(["id", "b"])
        assert rows.to_pylist() == [{"id": 1, "b": b"z"}]


def test_undo_takes_all_back(made: Made, tmp_path: Path) -> None:
    begin = made.here
    before = made.selected()
    made.run("UPDATE {t} SET b = b + 10", "DELETE FROM {t} WHERE id = 3")
    made.undo(begin, tmp_path)
    assert made.selected() == before


def test_a_column_that_is_computed_no_longer_is_undone(made: Made, tmp_path: Path) -> None:
    made.run("ALTER TABLE {t} MODIFY s INT", "UPDATE {t} SET s = 77 WHERE id = 1")
    begin = made.here
    before = made.selected()
    made.run("UPDATE {t} SET s = 8 WHERE id = 1", "DELETE FROM {t}")
    made.undo(begin, tmp_path)
    assert made.selected() == before


def test_the_table_as_it_was_is_equal_or_refused(made: Made, tmp_path: Path) -> None:
    moment = made.here
    archive = made.archive(tmp_path)
    if made.leaves_out:
        with pytest.raises(DataLossError, match="row image lacks s, v .*generated column"):
            archive.as_of(made.table, moment).read_all()
        return
    rows = archive.as_of(made.table, moment).read_all().select(["id", "b", "s", "v"])
    assert sorted(tuple(row.values()) for row in rows.to_pylist()) == made.selected()


def test_a_step_of_such_a_column_is_found_or_refused(made: Made, tmp_path: Path) -> None:
    leaves_out = made.leaves_out
    archive = made.archive(tmp_path)
    if leaves_out:
        with pytest.raises(DataLossError, match="left out column 's', so that --from cannot"):
            list(archive.find(made.table, column="s", before=6))
        return
    (found,) = archive.find(made.table, column="s", before=6, after=10)
    assert found.change.after["id"] == 1
