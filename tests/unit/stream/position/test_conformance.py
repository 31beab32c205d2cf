"""Every position store keeps what was saved last, wholly or not at all."""

from __future__ import annotations

import sqlite3

import pytest

from replica_client.errors import PositionStoreError
from replica_client.protocol.position import Position
from replica_client.stream.position.stores.file import FilePositionStore
from replica_client.stream.position.stores.sql_table import SqliteDatabase, SqlitePositionStore
from tests.integration.position_stores import StoreConformance


class TestFile(StoreConformance):
    @pytest.fixture
    def make(self, tmp_path):
        return lambda name="a": FilePositionStore(tmp_path / name)

    def damage(self, store):
        store.path.write_text('{"format": "replica-client-position"')


class TestSqlite(StoreConformance):
    @pytest.fixture
    def make(self, tmp_path):
        database = SqliteDatabase(tmp_path / "positions.sqlite")
        yield lambda name="a": SqlitePositionStore(database, name)
        database.close()

    def damage(self, store):
        with sqlite3.connect(store.database.path) as connection:
            connection.execute("UPDATE replica_client_positions SET checkpoint = 'x'")
        connection.close()


def test_a_file_that_is_no_database(tmp_path):
    path = tmp_path / "positions.sqlite"
    path.write_bytes(b"not a database" * 100)
    store = SqlitePositionStore(path, "a")
    with pytest.raises(
        PositionStoreError, match=r"positions\.sqlite: file is not a database; check"
    ):
        store.save(Position("binlog.000001", 4))
    store.close()


def test_a_directory_that_is_not_there(tmp_path):
    store = SqlitePositionStore(tmp_path / "none" / "positions.sqlite", "a")
    with pytest.raises(PositionStoreError, match="unable to open"):
        store.load()
    # It is tried anew each time: a disk that comes back is taken.
    (tmp_path / "none").mkdir()
    assert store.load() is None
    store.close()


@pytest.mark.parametrize("table", ["", "a b", "a;b", "1a", "x" * 64])
def test_names_of_tables_are_names(tmp_path, table):
    with pytest.raises(PositionStoreError):
        SqlitePositionStore(tmp_path / "x", "a", table)


def test_a_store_that_is_closed_has_no_connection(tmp_path):
    store = SqlitePositionStore(tmp_path / "positions.sqlite", "a")
    store.save(Position("binlog.000001", 4))
    write_ahead = tmp_path / "positions.sqlite-wal"
    assert write_ahead.exists()
    store.close()
    assert not write_ahead.exists(), "SQLite removes it with the last connection"
    assert store.load() == Position("binlog.000001", 4)
    store.close()
