"""Snapshots into sinks of events: rows as the stream has them, whatever dies (short runs of prove_event_snapshot)."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import processes
from tests.integration.daemon_process import DaemonProcess
from tests.integration.event_snapshot_sinks import snapshot_sink
from tests.integration.event_snapshots import prove_snapshot
from tests.integration.large_snapshot import prove_large_snapshot
from tests.integration.shown_tables import make_shown_tables
from tests.integration.sink_comparison import file_lines
from tests.servers.local import LocalServer

pytestmark = pytest.mark.timeout(240)

FORMATS = ("native", "debezium", "maxwell", "canal")


@pytest.mark.parametrize(("source_name", "kind"), [("mysql-9.7", "file")])
def test_killed_under_load(source_name, kind, fresh_server, tmp_path) -> None:
    source: LocalServer = fresh_server(source_name, ["binlog-row-metadata=FULL"])
    with contextlib.ExitStack() as stack:
        options, read = snapshot_sink(kind, tmp_path, stack)
        report = prove_snapshot(
            source, tmp_path, options, read, kills=2, seed=5, rows=4000, sessions=2
        )
    assert report.kills == 2
    assert report.again == 0
    assert report.copied > 3000


def _images(line_format: str, lines: list[str]) -> tuple[dict[str, list[Any]], ...]:
    """Rows of snapshots, and those that the stream changed, as they were before, by table."""
    copied: dict[str, list[Any]] = {}
    before: dict[str, list[Any]] = {}
    for one in map(json.loads, lines):
        if line_format == "native":
            target = copied if one["kind"] == "snapshot" else before
            if one["after"]["n"] > 1:
                continue
            row = one["after"] if target is copied else one["before"]
            nulls = one.get("json_null", {}).get("after", [])
            target.setdefault(one["table"], []).append((row, nulls))
        elif line_format == "debezium":
            if one["source"]["snapshot"] == "incremental" or one["after"]["n"] > 1:
                continue
            row = one["after"] if one["op"] == "r" else one["before"]
            target = copied if one["op"] == "r" else before
            target.setdefault(one["source"]["table"], []).append(row)
        elif line_format == "maxwell":
            if one["type"] in ("bootstrap-start", "bootstrap-complete"):
                continue
            if one["data"]["n"] > 1:
                continue
            target = copied if one["type"] == "bootstrap-insert" else before
            target.setdefault(one["table"], []).append({**one["data"], "n": 0})
        else:
            if one["data"][0]["n"] == "2":
                continue
            target = copied if one["type"] == "INSERT" else before
            target.setdefault(one["table"], []).extend({**row, "n": "0"} for row in one["data"])
    return copied, before


@pytest.mark.parametrize("source_name", ["mysql-9.7", "mariadb-11.8"])
def test_rows_are_those_of_the_stream(source_name, fresh_server, tmp_path) -> None:
    source: LocalServer = fresh_server(source_name, ["binlog-row-metadata=FULL"])
    make_shown_tables(source, is_mariadb=source_name.startswith("mariadb"))
    sinks = [
        {"name": one, "type": "file", "path": tmp_path / one, "format": one, "snapshot": True}
        for one in FORMATS
    ]
    settings = {"url": source.url(), "tables": ["shown.*"], "heartbeat": 1.0}
    tables = [row[0] for row in source.query("SHOW TABLES FROM shown")]
    with DaemonProcess(tmp_path, settings, sinks) as daemon:
        daemon.until(lambda one: all(_is_done(one, name) for name in FORMATS), 120)
        for table in tables:
            source.execute(f"UPDATE shown.{table} SET n = n + 1")
        daemon.until_level()
        _ask_again(daemon, source)
        assert daemon.stop() == 0
    for name in FORMATS:
        copied, before = _images(name, file_lines(tmp_path / name))
        assert sorted(copied) == sorted(tables)
        for table in tables:
            ours, theirs = (sorted(map(_text, one[table])) for one in (copied, before))
            assert ours == theirs, f"{name}: {table}"
    _check_marks(tmp_path)


def _ask_again(daemon: DaemonProcess, source: LocalServer) -> None:
    """Some rows on request, and what cannot be had: it is told, and nothing stops."""
    for words in (
        "--table shown.types --where id<5",
        "--table shown.none",
        "--table shown.types --where-sql id<<>5",
    ):
        command = [sys.executable, "-m", "replica_client", "snapshot", str(daemon.config)]
        processes.run([*command, "--sink", "debezium", *words.split()], check=True)
    daemon.until(lambda one: len(one.route("debezium")["errors"]) == 2, 60)
    requests = daemon.directory / "state" / "source.debezium.snapshots"
    source.execute("UPDATE shown.types SET n = n + 1")
    daemon.until(lambda one: not list(requests.glob("*.json")), 60)
    daemon.until_level()


def _text(row: Any) -> str:
    return json.dumps(row, sort_keys=True)


def _is_done(daemon: DaemonProcess, sink: str) -> bool:
    route = daemon.route(sink)
    assert route["state"] != "failed", route["error"]
    return bool(route["snapshot_tables"] == 0)


def _check_marks(directory: Path) -> None:
    """As the engine gives them: from the first row to the last of all, and at the ends of each table."""
    marks: dict[str, list[str]] = {}
    again: list[int] = []
    for one in map(json.loads, file_lines(directory / "debezium")):
        if one["op"] == "r" and one["source"]["snapshot"] == "incremental":
            again.append(one["after"]["id"])
        elif one["op"] == "r":
            assert one["source"]["gtid"] is None
            marks.setdefault(one["source"]["table"], []).append(one["source"]["snapshot"])
    assert again == [0, 1, 2, 3, 4]
    names = list(marks)
    assert marks[names[0]][0] == "first"
    assert marks[names[-1]][-1] == "last"
    assert [marks[name][0] for name in names[1:]] == ["first_in_data_collection"] * (len(names) - 1)
    assert {marks[name][-1] for name in names[:-1]} == {"last_in_data_collection"}
    assert set(marks["types"][1:-1]) == {"true"}
    lines = [json.loads(line) for line in file_lines(directory / "maxwell")]
    kinds = [line["type"] for line in lines if line["table"] == "key0"]
    copied = ["bootstrap-start"] + 3 * ["bootstrap-insert"] + ["bootstrap-complete"]
    assert kinds == copied + 3 * ["update"]


@pytest.mark.timeout(240)
def test_a_table_that_changes_at_a_rate_is_copied_on_request(fresh_server, tmp_path: Path):
    """Killed in the middle; the short run of scripts/proofs/large_snapshot."""
    source = fresh_server("mysql-9.7", ["binlog-row-metadata=FULL"])
    report = prove_large_snapshot(source, tmp_path, rows=60_000, rate=500, seed=3)
    assert report.copied >= 59_000
    assert report.changes > 100
