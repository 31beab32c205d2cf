"""Sinks of events whose tables, columns or transforms change, and tables that are copied again on request."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests import processes
from tests.integration.daemon_process import DaemonProcess
from tests.integration.event_snapshot_sinks import snapshot_sink
from tests.integration.sink_comparison import file_lines
from tests.servers.local import LocalServer

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]
KINDS = ("file", "kafka", "parquet")
Row = tuple[str, str, dict[str, Any]]


def parquet_rows(directory: Path) -> list[Row]:
    """What the published files have, in order: change type, table, row."""
    found: list[tuple[str, int, int, Row]] = []
    for path in directory.rglob("*.parquet"):
        if "_schema_changes" in path.parts or "_open" in path.parts:
            continue
        table = path.relative_to(directory).parts[1]
        for at, row in enumerate(pq.read_table(path, partitioning=None).to_pylist()):
            kind = row["_change_type"]
            own = {name: value for name, value in row.items() if not name.startswith("_")}
            name = path.name.split("-")  # time, segment, number of the file
            found.append(("-".join(name[1:]), 0, at, (kind, table, own)))
    return [one[-1] for one in sorted(found, key=lambda one: one[:3])]


@contextlib.contextmanager
def sink_of(kind: str, directory: Path) -> Iterator[tuple[dict[str, Any], Callable[[], list[Row]]]]:
    """Options of a sink, and what it has."""
    with contextlib.ExitStack() as stack:
        if kind == "parquet":
            path = directory / "events"
            yield {"type": kind, "path": path}, lambda: parquet_rows(path)
            return
        options, read = snapshot_sink(kind, directory, stack)

        def rows() -> list[Row]:
            lines = map(json.loads, read())
            return [
                ("read" if one["kind"] == "snapshot" else one["kind"], one["table"], one["after"])
                for one in lines
                if one["kind"] in ("snapshot", "insert", "update", "delete")
            ]

        yield options, rows


def read_rows(rows: list[Row], table: str) -> list[dict[str, Any]]:
    return [row for kind, name, row in rows if (kind, name) == ("read", table)]


def hang_up(daemon: DaemonProcess) -> None:
    before = daemon.log.read_text().count("configuration read again")
    daemon.write_config()
    assert daemon.process is not None
    daemon.process.send_signal(signal.SIGHUP)
    daemon.until(lambda one: one.log.read_text().count("configuration read again") > before)


def copies_of(daemon: DaemonProcess) -> bool:
    route = daemon.route("events")
    return bool(route["state"] == "streaming" and route["snapshot_tables"] == 0)


def errors_of(daemon: DaemonProcess) -> str:
    return str(daemon.route("plain")["errors"])


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_that_comes_back_is_copied(
    kind: str, fresh_server: Callable[..., LocalServer], tmp_path: Path
) -> None:
    source = fresh_server("mysql-9.7", ["binlog-row-metadata=FULL"])
    source.execute("CREATE DATABASE x")
    for name in ("t", "u"):
        source.execute(f"CREATE TABLE x.{name} (id INT PRIMARY KEY, n INT)")
        source.execute(f"INSERT INTO x.{name} VALUES (1, 1), (2, 2)")
    with sink_of(kind, tmp_path) as (options, rows):
        sink = {"name": "events", "snapshot": True, "tables": ["x.t", "x.u"], **options}
        with DaemonProcess(tmp_path, {"url": source.url(), "heartbeat": 1.0}, [sink]) as daemon:
            daemon.until(copies_of)
            source.execute("UPDATE x.u SET n = 3")
            daemon.until_level()
            # It leaves, by SIGHUP; its changes do not come.
            sink["tables"] = ["x.t"]
            hang_up(daemon)
            daemon.until(lambda one: "x.u left tables" in one.tail())
            source.execute("UPDATE x.u SET n = 4 WHERE id = 1")
            source.execute("INSERT INTO x.u VALUES (3, 4)")
            source.execute("UPDATE x.t SET n = 5 WHERE id = 1")
            daemon.until_level()
            # It comes back.
            sink["tables"] = ["x.*"]
            hang_up(daemon)
            daemon.until(lambda one: one.route("events")["copied_rows"] == 3)
            daemon.until(copies_of)
            source.execute("UPDATE x.u SET n = 6 WHERE id = 3")
            daemon.until_level()
            # Rows on request, in each sink, with progress; what is refused is named.
            command = [sys.executable, "-m", "replica_client", "snapshot", str(daemon.config)]
            done = processes.run(
                [*command, "--table", "x.t", "--wait"], capture_output=True, timeout=60, check=False
            )
            assert done.returncode == 0, done.stderr
            assert b"is done" in done.stdout
            refused = processes.run(
                [*command, "--table", "x.none", "--wait"],
                capture_output=True,
                timeout=60,
                check=False,
            )
            assert refused.returncode == 1, refused
            assert b"x.none is not there" in refused.stderr
            daemon.until_level()
            assert daemon.stop() == 0
        if kind == "parquet":  # a stopped sink publishes when it is opened
            with DaemonProcess(tmp_path, {"url": source.url(), "heartbeat": 1.0}, [sink]) as again:
                again.until_level()
                assert again.stop() == 0
        found = rows()
        assert [one["n"] for one in read_rows(found, "u")] == [1, 2, 4, 3, 4]
        assert [one["n"] for one in read_rows(found, "t")] == [1, 2, 5, 2]
        assert [(kind, row["n"]) for kind, name, row in found if name == "u"][-1][1] == 6


def test_changed_columns_and_masks(
    fresh_server: Callable[..., LocalServer], tmp_path: Path
) -> None:
    source = fresh_server("mysql-9.7", ["binlog-row-metadata=FULL"])
    source.execute("CREATE DATABASE x")
    for name in ("t", "u"):
        source.execute(f"CREATE TABLE x.{name} (id INT PRIMARY KEY, n INT, s VARCHAR(9))")
        source.execute(f"INSERT INTO x.{name} VALUES (1, 1, 'clear')")
    both = [
        {"name": one, "type": "file", "path": tmp_path / one, "snapshot": one == "events"}
        for one in ("events", "plain")
    ]
    settings: dict[str, Any] = {"url": source.url(), "tables": ["x.t"], "heartbeat": 1.0}
    with DaemonProcess(tmp_path, settings, both) as daemon:
        daemon.until(copies_of)
        source.execute("UPDATE x.t SET n = 2")
        daemon.until_level()
        settings["transform"] = [{"tables": ["x.t"], "mask": {"s": "***"}, "keep": ["*"]}]
        hang_up(daemon)
        daemon.until(lambda one: "its columns or transforms changed" in one.tail())
        daemon.until(lambda one: one.route("events")["copied_rows"] == 1)
        daemon.until(lambda one: "columns or transforms changed" in errors_of(one))
        assert "--sink source.plain" in errors_of(daemon)
        for one in both:
            one["columns"] = ["id", "n"]
        hang_up(daemon)
        daemon.until(copies_of)
        daemon.until(lambda one: one.route("events")["copied_rows"] == 1)
        settings["tables"] = ["x.*"]
        hang_up(daemon)
        daemon.until(copies_of)
        daemon.until(lambda one: one.route("events")["copied_rows"] == 1)
        daemon.until(lambda one: "x.u from here on" in errors_of(one))
        source.execute("UPDATE x.u SET n = 8")  # the scope is saved with the next commit
        daemon.until_level()
        # Nothing is copied, and nothing said, where nothing changed.
        assert daemon.stop() == 0
        daemon.start()
        daemon.until(copies_of)
        daemon.until_level()
        assert daemon.route("events")["copied_rows"] == 0
        assert errors_of(daemon) == "[]"
        assert daemon.stop() == 0
    lines = [json.loads(line) for line in file_lines(tmp_path / "events")]
    texts = [one["after"] for one in lines if one["kind"] == "snapshot" and one["table"] == "t"]
    assert texts[0]["s"] == "clear"
    assert texts[1]["s"] != "clear"
    assert texts[2] == {"id": 1, "n": 2}


def test_copies_of_one_position_have_ids_of_their_own(
    fresh_server: Callable[..., LocalServer], tmp_path: Path
) -> None:
    """A receiver that drops ids it has seen (here NATS) gets each copy of a table whose rows look different."""
    source = fresh_server("mysql-9.7", ["binlog-row-metadata=FULL"])
    source.execute("CREATE DATABASE x")
    source.execute("CREATE TABLE x.t (id INT PRIMARY KEY, s VARCHAR(9))")
    source.execute("CREATE TABLE x.u (id INT PRIMARY KEY)")
    source.execute("INSERT INTO x.t VALUES (1, 'clear')")
    mask = [{"tables": ["x.t"], "mask": {"s": "***"}, "keep": ["*"]}]
    with sink_of("nats", tmp_path) as (options, rows):
        sink = {"name": "events", "snapshot": True, "tables": ["x.t"], **options}
        settings: dict[str, Any] = {"url": source.url(), "heartbeat": 1.0}
        with DaemonProcess(tmp_path, settings, [sink]) as daemon:

            def texts() -> list[str]:
                return [row["s"] for row in read_rows(rows(), "t")]

            daemon.until(lambda one: texts() == ["clear"])
            daemon.until(copies_of)
            # Nothing is written to the source meanwhile: its position stays the same.
            expected = ["clear"]
            for tables, transform, text in (
                (["x.t"], mask, "***"),
                (["x.t"], None, "clear"),
                (["x.t"], mask, "***"),
                (["x.u"], None, ""),
                (["x.t", "x.u"], None, "clear"),
            ):
                sink["tables"] = tables
                settings.pop("transform", None)
                if transform is not None:
                    settings["transform"] = transform
                hang_up(daemon)
                expected += [text] if text else []
                daemon.until(lambda one: texts() == expected, 30)  # noqa: B023
                daemon.until(copies_of)
            assert daemon.stop() == 0
