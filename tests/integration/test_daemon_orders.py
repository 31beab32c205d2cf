"""Orders to a service on real servers, with kills between an order and its effect."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from replica_client import open_binlog
from replica_client.cli.app import run_words
from replica_client.errors import ConfigError
from tests.integration.daemon_process import DaemonProcess
from tests.integration.event_receiver import KEY, EventReceiver
from tests.integration.redis_server import RedisServer
from tests.integration.sink_comparison import file_lines, parquet_batches, redis_lines
from tests.servers.local import LocalServer

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
DATABASE = "ordered"


def of_lines(lines: list[str]) -> list[int]:
    """The ids in lines of the native format, in order."""
    found = (json.loads(line) for line in lines)
    return [one["after"]["id"] for one in found if one.get("after") and "kind" in one]


def lake_rows(folder: Path) -> list[dict[str, Any]]:
    """The rows of the table in a folder of Parquet files, in order."""
    found = [row for batch in parquet_batches(folder) for row in batch.to_pylist() if "id" in row]
    return sorted(found, key=lambda row: str(row["_commit_version"]))


def kinds_of(lines: list[str]) -> list[tuple[str, int]]:
    found = (json.loads(line) for line in lines)
    return [(one["kind"], one["after"]["id"]) for one in found if one.get("after")]


def of_rows(connect: Callable[[Any], Any], path: Path, table: str) -> list[int]:
    with contextlib.closing(connect(path)) as found:
        rows: list[tuple[int]] = found.execute(f"SELECT id FROM {table} ORDER BY id").fetchall()
        return [one for (one,) in rows]


def gtid_at(source: LocalServer, begin: str) -> str:
    """The GTID of the transaction that begins at a position."""
    paths = [source.binlog_path(name) for name in source.binlog_files()]
    reader = open_binlog(paths, start=begin, record_losses="all")
    return next(iter(reader.transactions())).gtid


@pytest.mark.parametrize("source_name", ["mysql-9.7", "mariadb-11.8"])
def test_each_kind_of_sink_skips_pauses_and_copies_over_kills(
    source_name: str, fresh_server: Any, tmp_path: Path
) -> None:
    options = ["binlog-row-metadata=FULL"]
    if source_name.startswith("mysql"):
        options += ["gtid-mode=ON", "enforce-gtid-consistency=ON"]
    source: LocalServer = fresh_server(source_name, options)
    source.execute(f"CREATE DATABASE {DATABASE}")
    source.execute(f"CREATE TABLE {DATABASE}.t (id INT PRIMARY KEY, v INT)")
    source.execute(f"INSERT INTO {DATABASE}.t VALUES (1, 1), (2, 2)")
    begin = "{}:{}".format(*source.binlog_position())
    source.execute("SET SESSION binlog_format = STATEMENT")
    source.execute(f"INSERT INTO {DATABASE}.t VALUES (3, 3)")
    source.execute("SET SESSION binlog_format = ROW")
    source.execute(f"INSERT INTO {DATABASE}.t VALUES (4, 4)")
    with contextlib.ExitStack() as stack:
        redis = RedisServer(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        stack.callback(redis.stop)
        receiver = EventReceiver()
        stack.callback(receiver.close)
        mirrors = {"path": tmp_path / "m.db"}, {"path": tmp_path / "m.duckdb"}
        sinks: list[dict[str, Any]] = [
            {"name": "lines", "type": "file", "path": tmp_path / "lines"},
            {"name": "lake", "type": "parquet", "path": tmp_path / "lake"},
            {"name": "sqlite", "type": "sqlite", **mirrors[0]},
            {"name": "duckdb", "type": "duckdb", **mirrors[1]},
            {"name": "redis", "type": "redis", "url": redis.url},
            {"name": "http", "type": "http", "url": f"{receiver.url}/c", "key": KEY},
        ]
        events: dict[str, Callable[[], list[int]]] = {
            "lines": lambda: of_lines(file_lines(tmp_path / "lines")),
            "redis": lambda: of_lines(redis_lines({"url": redis.url})),
            "http": lambda: of_lines(receiver.lines.get("/c", [])),
            "lake": lambda: [row["id"] for row in lake_rows(tmp_path / "lake")],
        }

        def ids(name: str) -> list[int]:
            """The rows that a sink has; a mirror while the service is down."""
            if name == "sqlite":
                return of_rows(sqlite3.connect, tmp_path / "m.db", f'"{DATABASE}.t"')
            if name == "duckdb":
                return of_rows(duckdb.connect, tmp_path / "m.duckdb", f"{DATABASE}.t")
            return events[name]()

        settings = {"url": source.url(), "tables": [f"{DATABASE}.*"], "start": "earliest"}
        daemon = stack.enter_context(DaemonProcess(tmp_path, settings, sinks))
        names = [one["name"] for one in sinks]

        def order(action: str, *words: str) -> None:
            assert run_words(["service", action, str(daemon.config), *words]) == 0

        def states(daemon: DaemonProcess) -> list[str]:
            return [one["state"] for one in daemon.status()["routes"]]

        daemon.until(lambda one: states(one) == ["failed"] * len(names))
        for name in names[::2]:
            order("skip", "--sink", name, "--position", begin)
        gtid = gtid_at(source, begin)
        for name in names[1::2]:
            order("skip", "--sink", name, "--gtid", gtid)
        daemon.kill()  # between the orders and their effect, for some of them
        daemon.start()
        daemon.until_level()
        for route in daemon.status()["routes"]:
            found = {one["kind"]: one["count"] for one in route["losses"]}
            assert set(found) == {"statement", "skipped"}, route["name"]
            assert route["skips"] == []
        assert daemon.metric("replica_client_losses_total", kind="skipped", sink="sqlite") == 1
        daemon.kill()
        assert {name: ids(name) for name in names} == {key: [1, 2, 4] for key in names}
        daemon.start()
        daemon.until_level()
        # What was skipped stays counted once, and is not skipped again.
        assert daemon.metric("replica_client_losses_total", kind="skipped", sink="lines") == 1
        with pytest.raises(ConfigError, match="delivered already"):
            order("skip", "--sink", "lines", "--gtid", gtid)

        # Pause at a place; kill after the order, and at the place.
        source.execute(f"INSERT INTO {DATABASE}.t VALUES (5, 5)")
        order("pause", "--at", "{}:{}".format(*source.binlog_position()))
        daemon.kill()
        source.execute(f"INSERT INTO {DATABASE}.t VALUES (6, 6)")
        daemon.start()
        daemon.until(lambda one: states(one) == ["paused"] * len(names))
        daemon.kill()
        assert {name: ids(name) for name in names} == {key: [1, 2, 4, 5] for key in names}
        daemon.start()
        daemon.until(lambda one: states(one) == ["paused"] * len(names))
        order("resume")
        daemon.until_level()

        # Copy some rows on request; a kill before they are there.
        order("snapshot", "--sink", "lines", "--table", f"{DATABASE}.t", "--where", "id > 4")
        daemon.kill()
        daemon.start()
        daemon.until(lambda one: not list(tmp_path.glob("state/source.lines.snapshots/*")))
        with pytest.raises(ConfigError, match="whole tables"):
            order("snapshot", "--sink", "sqlite", "--table", f"{DATABASE}.t", "--where", "id > 4")
        daemon.until_level()
        daemon.kill()
        assert {name: ids(name)[:5] for name in names} == {key: [1, 2, 4, 5, 6] for key in names}
        copied = [one for one in kinds_of(file_lines(tmp_path / "lines")) if one[0] == "snapshot"]
        assert copied == [("snapshot", 5), ("snapshot", 6)]
        audit = [
            json.loads(line)
            for line in (tmp_path / "state" / "control.jsonl").read_text().splitlines()
        ]
        assert sum(one["command"] == "skip" for one in audit) == len(names) + 1
        assert {one["command"] for one in audit} >= {"skip", "pause", "resume", "snapshot"}
