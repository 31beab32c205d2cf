"""Labels that no listing of a source has, and bytes that are no text of their character set."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

import replica_client as rc
from replica_client.errors import ColumnDecodeError
from replica_client.lake.source.live_plan import shape_of_table
from replica_client.schema.model import TableModel
from replica_client.schema.names import mysql_text
from replica_client.stream.live.live_schema import read_source
from replica_client.stream.transport.connect_options import parse_url
from replica_client.stream.transport.connection import SourceConnection
from tests import processes

SERVERS = {
    "mysql-9.7": "binlog-row-metadata=MINIMAL",
    "mysql-5.6": None,
    "mariadb-10.11": "binlog-row-metadata=NO_LOG",
    "mariadb-11.8": "binlog-row-metadata=MINIMAL",
}


@pytest.fixture(params=list(SERVERS))
def source(request, fresh_server):
    """Each server with the metadata that it writes by default, and tables that came before the binlog."""
    option = SERVERS[request.param]
    server = fresh_server(request.param, [] if option is None else [option])
    server.execute("CREATE DATABASE d CHARACTER SET utf8mb4")
    return server


async def _stated(server: Any, table: str) -> TableModel:
    async with await SourceConnection.open(parse_url(server.url())) as connection:
        history, _ = await read_source(connection.options, rc.DecodeOptions())
    state = history.table(("d", table))
    assert isinstance(state, TableModel)
    return state


async def test_labels_are_those_of_rows_or_refused(source) -> None:
    server = source
    server.execute(
        "CREATE TABLE d.t (e ENUM('🐟x', 'b', '?'), s SET('🐠y', 'c', 'd?') CHARACTER SET utf16)"
    )
    enum, one_set = (await _stated(server, "t")).columns
    if server.flavor == "mariadb":
        assert (enum.labels, enum.unknown_labels) == (("🐟x", "b", "?"), ())
        assert (one_set.labels, one_set.unknown_labels) == (("🐠y", "c", "d?"), ())
    else:
        assert (enum.unknown_labels, one_set.unknown_labels) == ((1, 3), (1, 3))
        async with rc.connect(server.url(), start="latest", tables="d.t") as stream:
            server.execute("INSERT INTO d.t VALUES (2, 2)")
            server.execute("INSERT INTO d.t VALUES (2, 3)")
            changes = stream.changes()
            assert (await anext(changes)).after["e"] == "b"
            with pytest.raises(ColumnDecodeError, match="label 1 of column s is not known"):
                await anext(changes)
    for number in (1, 2, 3):
        server.execute(f"INSERT INTO d.t VALUES ({number}, {1 << (number - 1)})")
    enum, one_set = (await _stated(server, "t")).columns
    assert (enum.labels, enum.unknown_labels) == (("🐟x", "b", "?"), ())
    assert (one_set.labels, one_set.unknown_labels) == (("🐠y", "c", "d?"), ())
    async with rc.connect(server.url(), start="latest", tables="d.t") as stream:
        server.execute("INSERT INTO d.t VALUES (1, 7)")
        change = await anext(stream.changes())
    assert change.after["e"] == "🐟x"
    assert set(change.after["s"].labels) == {"🐠y", "c", "d?"}


def _changes(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "replica_client", "changes", *arguments]
    return processes.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_bytes_that_a_character_set_leaves_undefined(source) -> None:
    server = source
    server.rotate()
    server.execute("CREATE DATABASE c")
    server.execute("CREATE TABLE c.t (v VARCHAR(9) CHARACTER SET hebrew)")
    server.execute("INSERT INTO c.t VALUES (x'61BF62')")
    path = str(server.binlog_path(server.binlog_files()[-1]))
    arguments = (path, "--json", "--tables", "c.t")
    refused = _changes(*arguments)
    assert refused.returncode != 0
    assert "--invalid-text" in refused.stderr
    replaced = _changes(*arguments, "--invalid-text", "replace")
    assert replaced.returncode == 0, replaced.stderr
    assert json.loads(replaced.stdout)["after"] == {"v": "a\ufffdb"}
    assert _changes(*arguments, "--invalid-text", "bytes").returncode == 0


FORMS_OF_UTF8 = (
    "CREATE TABLE d.t (e ENUM('🐟', '?', 'x') CHARACTER SET utf8, t TEXT CHARACTER SET utf8)",
    "CREATE TABLE d.t (e ENUM('🐟', '?', 'x') COLLATE utf8_bin, t TEXT) CHARACTER SET utf8",
    "CREATE TABLE d.t (e ENUM('🐟', '?', 'x'), t TEXT) COLLATE utf8_general_ci",
    "CREATE TABLE d.t (t TEXT CHARACTER SET utf8);"
    "ALTER TABLE d.t ADD e ENUM('🐟', '?', 'x') CHARACTER SET utf8 FIRST",
)


@pytest.fixture(scope="module")
def mariadb(local_servers: Any) -> Any:
    """MariaDB with the metadata that it writes by default."""
    server = local_servers.fresh("mariadb-11.8", ["binlog-row-metadata=NO_LOG"])
    yield server
    local_servers.close_fresh(server)


@pytest.mark.parametrize("old_mode", ["", "UTF8_IS_UTF8MB3"])
@pytest.mark.parametrize("ddl", FORMS_OF_UTF8)
async def test_utf8_of_mariadb_is_what_its_old_mode_says(
    mariadb: Any, new_database: Any, old_mode: str, ddl: str
) -> None:
    """The binlog does not tell old_mode: such a label is refused in files, and asked for in streams."""
    source = mariadb
    database = new_database(source)
    source.execute("FLUSH BINARY LOGS")
    file, offset = source.binlog_position()
    start = f"{file}:{offset}"
    with source.connected() as connection, connection.cursor() as cursor:
        cursor.execute(f"SET old_mode = '{old_mode}', sql_mode = ''")
        for statement in ddl.split(";"):
            cursor.execute(statement.replace("d.t", f"{database}.t"))
        cursor.execute(f"INSERT INTO {database}.t VALUES (3, 'a🐟'), (2, 'b')")
        cursor.execute(f"INSERT INTO {database}.t VALUES (1, 'c')")
        connection.commit()
        cursor.execute(f"SELECT e, t FROM {database}.t")
        selected = list(cursor.fetchall())
    async with rc.connect(
        source.url(), start=start, stop_at_end=True, tables=f"{database}.*"
    ) as stream:
        assert [tuple(change.after) async for change in stream.changes()] == selected
    reader = rc.open_binlog([source.binlog_path(file)], start=start, tables=f"{database}.*")
    changes = reader.changes()
    assert [tuple(next(changes).after) for _ in range(2)] == selected[:2]
    with pytest.raises(ColumnDecodeError, match="label 1 of column e is not known"):
        next(changes)


class _Answers:
    """A source that a typed Spark query asks."""

    def __init__(self, server: Any) -> None:
        self._server, self.is_mariadb = server, server.flavor == "mariadb"

    def query(self, sql: str, args: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        return list(self._server.query(sql, args))


def test_labels_of_a_typed_query(any_server: Any, new_database: Any) -> None:
    """Labels with quotes, backslashes and control characters are those that the source selects."""
    labels = ("a\\b", "it's", "\\'", "x\ny", 'q"', "a;b", "');('", "ä", "%s", "\t\\n")
    texts = ", ".join(mysql_text(label, backslash_escapes=True) for label in labels)
    database = new_database(any_server)
    any_server.execute(
        f"CREATE TABLE {database}.t (id INT PRIMARY KEY, e ENUM({texts}), s SET({texts})) CHARACTER SET utf8mb4"
    )
    rows = ", ".join(f"({number}, {number}, {1 << number - 1})" for number in range(1, 11))
    any_server.execute(f"INSERT INTO {database}.t VALUES {rows}")
    selected = any_server.query(f"SELECT e, s FROM {database}.t ORDER BY id")
    shape = shape_of_table(_Answers(any_server), database, "t")
    assert shape is not None
    for at in (1, 2):
        assert shape.columns[at].labels == tuple(row[at - 1] for row in selected) == labels
