"""Scripts in the clients that people give them to: in no character set does a name become a command of the client."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import processes
from tests.servers.local import LocalServer

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]
ROOT = Path(__file__).parents[2]
CHARSETS = (
    *("latin1", "utf8mb4", "utf8mb3", "gbk", "sjis", "cp932", "big5", "gb2312", "gb18030", "ujis"),
    *("eucjpms", "euckr", "binary", "ascii", "swe7", "koi8r", "cp1251", "latin2", "hp8", "tis620"),
)
CLIENTS = {"mysql-9.7": "mysql", "mariadb-10.11": "mariadb", "mariadb-11.8": "mariadb"}
TABLES = ("t1縗", "ソ", "表", "許`功", "t\u00a0é", "a\nb")
COLUMN = "\\! touch pwned #"


def _client(
    source: LocalServer, charset: str, script: bytes, directory: Path
) -> subprocess.CompletedProcess[bytes]:
    command = [
        *(sys.executable, ROOT / "scripts" / "servers", "tool", source.name, CLIENTS[source.name]),
        *("--no-defaults", "--user=root", f"--socket={source.socket}"),
        f"--default-character-set={charset}",
    ]
    return subprocess.run(command, input=script, capture_output=True, cwd=directory)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@pytest.mark.parametrize("source_name", sorted(CLIENTS))
def test_no_name_is_a_command(source_name: str, fresh_server, tmp_path: Path) -> None:
    source: LocalServer = fresh_server(source_name, ["binlog-row-metadata=FULL"])
    source.execute("CREATE DATABASE d CHARACTER SET utf8mb4")
    for table in TABLES:
        source.execute(
            f"CREATE TABLE d.{_quoted(table)} (id INT PRIMARY KEY, {_quoted(COLUMN)} INT, "
            f"{_quoted('縗')} INT, {_quoted('; system touch pwned')} VARCHAR(50) CHARACTER SET gbk)"
        )
    first = source.query("SHOW BINARY LOGS")[-1][0]
    for at, table in enumerate(TABLES):
        source.execute(f"INSERT INTO d.{_quoted(table)} VALUES (1, {at}, 7, '縗\\\\! touch pwned')")
    path = source.binlog_path(str(first))
    redo, undo = (
        processes.run(
            [sys.executable, "-m", "replica_client", way, str(path), "--table", "d.*"],
            stdout=subprocess.PIPE, cwd=ROOT, check=True,
        ).stdout
        for way in ("redo", "undo")
    )  # fmt: skip
    wanted = [source.query(f"SELECT * FROM d.{_quoted(table)}") for table in TABLES]
    tried = 0
    for charset in CHARSETS:
        directory = tmp_path / charset
        directory.mkdir()
        done = _client(source, charset, undo, directory)
        if done.returncode and b"default character set" in done.stderr:
            continue  # this client does not have it
        assert not done.returncode, (charset, done.stderr)
        assert not any(source.query(f"SELECT * FROM d.{_quoted(table)}") for table in TABLES)
        done = _client(source, charset, redo, directory)
        assert not done.returncode, (charset, done.stderr)
        assert [source.query(f"SELECT * FROM d.{_quoted(table)}") for table in TABLES] == wanted
        assert os.listdir(directory) == [], charset
        tried += 1
    assert tried >= 15
    # The same script without its first line does it.
    bare = redo.replace(b"/*!999999\\C utf8mb4 */ ", b"")
    source.execute(f"DELETE FROM d.{_quoted(TABLES[0])}")
    directory = tmp_path / "bare"
    directory.mkdir()
    _client(source, "gbk", bare, directory)
    assert (os.listdir(directory) == ["pwned"]) == (source_name != "mysql-9.7")
