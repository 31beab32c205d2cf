"""Names and ENUM labels of sessions in many character sets, with bytes that are no text there."""

from __future__ import annotations

from itertools import product
from typing import Any

import pymysql
import pytest

from replica_client import open_binlog
from replica_client.errors import ColumnDecodeError
from replica_client.rows.change import RowsOfEvent
from replica_client.schema.history import SchemaHistory

SERVERS = {
    "mysql-9.7": ["binlog-row-metadata=MINIMAL"],
    "mysql-5.6": [],
    "mariadb-10.11": ["binlog-row-metadata=NO_LOG"],
    "mariadb-11.8": ["binlog-row-metadata=MINIMAL"],
}
SESSIONS = (
    *(("utf8", "utf8"), ("utf8mb4", "utf8mb4"), ("latin1", "latin1"), ("gbk", "gbk")),
    *(("sjis", "sjis"), ("hebrew", "hebrew"), ("tis620", "tis620"), ("ascii", "ascii")),
    *(("binary", "binary"), ("utf8mb4", "latin1"), ("utf8mb4", "ascii"), ("utf8mb4", "binary")),
    *(("utf8mb4", "utf8"), ("utf8mb4", "ucs2"), ("gbk", "latin1"), ("binary", "latin1")),
)
COLUMNS = ("utf8mb4", "utf8", "latin1", "gbk", "ucs2", "ascii", "binary")
LABELS = ("ü", "表", "🐟", b"\xff", b"\x80x", b"\xed\xa0\x80", b"\xfb\xfc")
ENCODINGS = {"latin1": "cp1252", "gbk": "gbk", "sjis": "shift_jis", "ascii": "ascii"}


def _label(label: str | bytes, client: str) -> bytes:
    if isinstance(label, bytes):
        return label
    return label.encode(ENCODINGS.get(client, "utf-8"), "replace")


@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", SERVERS)
def test_no_label_is_guessed(fresh_server, name: str) -> None:
    server = fresh_server(name, ["sync-binlog=0", *SERVERS[name]])
    server.execute("CREATE DATABASE d CHARACTER SET utf8mb4")
    start = server.binlog_position()
    made: dict[str, tuple[str, str, str, bytes]] = {}
    connection: Any = server.connect(conv={}, use_unicode=False)
    cases = product(SESSIONS, COLUMNS, LABELS)
    for number, ((client, literals), charset, label) in enumerate(cases):
        text = _label(label, client)
        connection.query(f"SET NAMES {client}".encode())
        connection.query(f"SET sql_mode = '', character_set_connection = {literals}".encode())
        try:
            connection.query(
                b"CREATE TABLE d.t%d (e ENUM('x','q%sz') CHARACTER SET %s)"
                % (number, text, charset.encode())
            )
            connection.query(b"INSERT INTO d.t%d VALUES (2)" % number)
        except pymysql.err.MySQLError:
            continue
        made[f"t{number}"] = (client, literals, charset, text)
    connection.query(b"SET NAMES utf8mb4")
    found = _delivered(server, start)
    assert len(made) > 600
    assert found.keys() == made.keys()
    shown = {table: _selected(connection, table) for table in made}
    differences = [
        (made[table], shown[table], label)
        for table, label in found.items()
        if label is not None and label != shown[table]
    ]
    assert differences == []
    # What is text everywhere, and what utf8mb3 lacks, is known.
    refused = {made[table] for table, label in found.items() if label is None}
    plain = [
        (client, literals, charset, text)
        for client, literals, charset, text in refused
        if "binary" not in (client, literals, charset)
        and text in ("ü".encode(), "表".encode(), "🐟".encode())
        and client in ("utf8", "utf8mb4")
        # What MariaDB's utf8 is, its old_mode says.
        and not (server.flavor == "mariadb" and charset == "utf8")
    ]
    assert plain == []
    assert len(refused) < len(made) * 2 // 3


def _selected(connection: Any, table: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT e FROM d.{table}")
        [(value,)] = cursor.fetchall()
    return str(value.decode("utf-8", "surrogateescape"))


def _delivered(server: Any, start: tuple[str, int]) -> dict[str, str | None]:
    files = [server.binlog_path(one) for one in server.binlog_files()]
    reader = open_binlog(
        files, start=f"{start[0]}:{start[1]}", schema=SchemaHistory(lower_case_names=False)
    )
    found: dict[str, str | None] = {}
    for transaction in reader.transactions():
        for item in transaction.items:
            if not isinstance(item, RowsOfEvent):
                continue
            try:
                for change in item:
                    assert change.after is not None
                    found[change.table] = str(change.after["e"])
            except ColumnDecodeError as error:
                assert "label 2 of column e is not known" in str(error)
                found[item.shape.table] = None
    return found


@pytest.mark.parametrize("name", ["mysql-9.7", "mysql-5.6"])
def test_names_are_kept_in_utf8mb3(fresh_server, name: str) -> None:
    server = fresh_server(name, SERVERS[name])
    server.execute("CREATE DATABASE d CHARACTER SET utf8mb4")
    start = server.binlog_position()
    server.execute("CREATE TABLE d.`t🐟` (`a🐟b` INT, c INT)")
    server.execute("ALTER TABLE d.`t🐟` DROP COLUMN c, ADD COLUMN `ü🐟` INT")
    server.execute("INSERT INTO d.`t🐟` VALUES (1, 2)")
    files = [server.binlog_path(one) for one in server.binlog_files()]
    [change] = open_binlog(
        files, start=f"{start[0]}:{start[1]}", schema=SchemaHistory(lower_case_names=False)
    ).changes()
    assert (change.table, dict(change.after.items())) == ("t?", {"a?b": 1, "ü?": 2})
