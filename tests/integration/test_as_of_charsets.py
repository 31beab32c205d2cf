"""Tables as they were whose text has the default of a database that was made before the archive begins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replica_client.archive.archive import open_archive
from replica_client.archive.as_of.reconstruction import planned_state
from replica_client.rows.special_values import ABSENT
from tests.servers.local import LocalServer

CHARSETS = ("utf8mb4", "latin1", "cp1251", "binary")
TYPES = ("VARCHAR(40)", "CHAR(9)", "TEXT", "MEDIUMTEXT")
TABLE = ", ".join(f"c{at} {kind}" for at, kind in enumerate(TYPES))
VALUES = ", ".join(f"'{at} äö'" for at in range(len(TYPES)))


@pytest.mark.parametrize("charset", CHARSETS)
@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
def test_as_of_and_its_plan_have_the_types_of_the_table_maps(
    charset: str, name: str, server: Callable[[str], LocalServer], tmp_path: Path
) -> None:
    """The names at the moment count, also where the table was renamed or converted later."""
    source = server(name)
    database = f"asof_{charset}"
    with source.connected() as connection, connection.cursor() as cursor:
        cursor.execute("SET NAMES utf8mb4")
        cursor.execute(f"DROP DATABASE IF EXISTS {database}")
        cursor.execute(f"CREATE DATABASE {database} CHARACTER SET {charset}")
        source.rotate()
        first = source.binlog_position()[0]
        for table in ("kept", "old", "later", "empty"):
            cursor.execute(f"CREATE TABLE {database}.{table} (id INT PRIMARY KEY, {TABLE})")
        # ä and ö are in none of the letters of cp1251.
        values = VALUES.replace("ä", "ж").replace("ö", "я") if charset == "cp1251" else VALUES
        for table in ("kept", "old", "later"):
            cursor.execute(f"INSERT INTO {database}.{table} VALUES (1, {values})")
        connection.commit()
        cursor.execute(f"SELECT * FROM {database}.kept")
        (row,) = cursor.fetchall()
        cursor.execute(f"RENAME TABLE {database}.old TO {database}.renamed")
        moment = ":".join(map(str, source.binlog_position()))
        if charset in ("latin1", "utf8mb4"):
            other = "latin1" if charset == "utf8mb4" else "utf8mb4"
            cursor.execute(f"ALTER TABLE {database}.later CONVERT TO CHARACTER SET {other}")
            cursor.execute(f"UPDATE {database}.later SET c0 = 'more' WHERE id = 1")
        connection.commit()
    names = source.binlog_files()
    files = [source.binlog_path(one) for one in names[names.index(first) :]]
    archive = open_archive(files, index_directory=tmp_path)
    expected = dict(zip(("id", *(f"c{at}" for at in range(len(TYPES)))), row, strict=True))
    for table in ("kept", "renamed", "later"):
        state = archive.as_of(f"{database}.{table}", moment)
        assert [_plain(one) for one in state.read_all().to_pylist()] == [expected], table
        _, shape = planned_state(archive, f"{database}.{table}", moment)
        kinds = {column.name: column.collation_id == 63 for column in shape.columns[1:]}
        assert set(kinds.values()) == {charset == "binary"}, (table, kinds)
    assert archive.as_of(f"{database}.empty", moment).read_all().num_rows == 0


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value for name, value in row.items() if name != "_lossless" and value is not ABSENT
    }
