"""Sinks of a real source that share a connection: one dump, a slow one that leaves, a dump that is killed."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.integration.daemon_process import DaemonProcess
from tests.servers.local import LocalServer

pytestmark = pytest.mark.timeout(240)


def dumps(server: LocalServer) -> list[int]:
    """Connections that the server sends its binlog to."""
    return [
        int(row[0])
        for row in server.query("SHOW PROCESSLIST")
        if str(row[4]).startswith("Binlog Dump")
    ]


def lines(directory: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for file in sorted(directory.glob("*.jsonl"))
        for line in file.read_text().splitlines()
    ]


def sharing(daemon: DaemonProcess) -> list[int]:
    return [route["sharing"] for route in daemon.status()["routes"]]


@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
def test_three_sinks_have_one_dump_and_the_same_changes(fresh_server, tmp_path: Path, name: str):
    server = fresh_server(name, ["binlog-row-metadata=FULL"])
    start = server.binlog_position()
    server.execute("CREATE DATABASE shared")
    server.execute("CREATE TABLE shared.t (id INT PRIMARY KEY, n INT, v VARCHAR(40))")
    sinks = [
        {"name": "one", "type": "file", "path": tmp_path / "one"},
        {"name": "two", "type": "file", "path": tmp_path / "two", "format": "debezium"},
        {"name": "mirror", "type": "sqlite", "path": tmp_path / "mirror.db"},
    ]
    source = {
        "url": server.url(),
        "tables": ["shared.*"],
        "start": f"{start[0]}:{start[1]}",
        "server_id": 4000,
        "part_size": "64k",
    }
    count = 0

    def work(transactions: int) -> None:
        nonlocal count
        with server.connected(autocommit=True) as connection, connection.cursor() as cursor:
            for at in range(count, count + transactions):
                cursor.execute("INSERT INTO shared.t (id, n, v) VALUES (%s, 0, 'a')", (at,))
                cursor.execute("UPDATE shared.t SET n = n + 1 WHERE id = %s", (at // 2,))
        count += transactions

    with DaemonProcess(tmp_path, source, sinks) as daemon:
        daemon.until(lambda one: sharing(one) == [3, 3, 3], 60)
        work(150)
        daemon.until_level(60)
        assert len(dumps(server)) == 1
        # A statement stands alone, a large transaction comes in parts, a file ends.
        server.execute("ALTER TABLE shared.t ADD COLUMN c INT DEFAULT 7")
        server.execute("UPDATE shared.t SET v = REPEAT('x', 40), n = n + 1")
        server.execute("FLUSH BINARY LOGS")
        for connection in dumps(server):
            server.execute(f"KILL {connection}")
        work(150)
        daemon.until_level(60)
        assert sharing(daemon) == [3, 3, 3]
        # What is killed begins with all sinks behind their own commits.
        work(50)
        daemon.kill()
        work(50)
        daemon.start()
        daemon.until_level(60)
        work(50)
        daemon.until_level(60)
        deadline = time.monotonic() + 30
        while sharing(daemon) != [3, 3, 3] or len(dumps(server)) != 1:
            assert time.monotonic() < deadline, (sharing(daemon), dumps(server), daemon.tail())
            work(1)
            time.sleep(0.2)
        daemon.until_level(60)
        assert daemon.stop() == 0, daemon.tail()
    rows = server.query("SELECT id, n, v, c FROM shared.t ORDER BY id")
    with closing(sqlite3.connect(tmp_path / "mirror.db")) as connection:
        found = connection.execute('SELECT id, n, v, c FROM "shared.t" ORDER BY id').fetchall()
    assert [tuple(row) for row in found] == [tuple(row) for row in rows]
    one = [line for line in lines(tmp_path / "one") if "before" in line]
    two = [line.get("payload", line) for line in lines(tmp_path / "two")]
    assert [line["after"] for line in one] == [line["after"] for line in two if line.get("op")]
    state: dict[int, dict[str, Any]] = {}
    for line in one:
        after = line["after"]
        before = state.get(after["id"])
        # In order, and each once: every image before is the one after of the change before it.
        expected = None if before is None else {k: before.get(k, 7) for k in (line["before"] or {})}
        assert line["before"] == expected
        state[after["id"]] = after
    assert len(state) == count
