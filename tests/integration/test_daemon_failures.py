"""What befalls a daemon in months: nothing is lost, it says what is wrong, and goes on by itself."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.daemon_outages import outage
from tests.integration.daemon_process import DaemonProcess
from tests.integration.daemon_sinks import proved_sinks
from tests.integration.frozen_destinations import prove_frozen
from tests.integration.sink_comparison import compare_sink
from tests.servers.local import LocalServer, LocalServers
from tests.servers.plugin import unavailable

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def source(local_servers: LocalServers) -> Iterator[LocalServer]:
    one = local_servers.fresh("mysql-9.7", ["binlog-row-metadata=FULL"])
    yield one
    local_servers.close_fresh(one)


class Rows:
    """A table of the test's own."""

    def __init__(self, server: LocalServer) -> None:
        self.server = server
        self.name = server.create_database("failing")
        server.execute(f"CREATE TABLE {self.name}.t (id INT PRIMARY KEY, s TEXT)")
        server.rotate()
        self.first = server.binlog_files()[-1]
        self.count = 0

    def add(self, count: int = 1, size: int = 10) -> None:
        with self.server.connected() as connection, connection.cursor() as cursor:
            for _ in range(count):
                self.count += 1
                cursor.execute(
                    f"INSERT INTO {self.name}.t VALUES (%s, %s)", (self.count, "x" * size)
                )

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "url": self.server.url(),
            "tables": [f"{self.name}.*"],
            "start": f"{self.first}:4",
            "heartbeat": 1.0,
        }

    def compare(self, options: dict[str, Any]) -> int:
        found = compare_sink(
            "file", options, self.server, tables=[f"{self.name}.*"], start=f"{self.first}:4"
        )
        return found.rows

    @staticmethod
    def ids(path: Path) -> list[int]:
        """Of the lines that were written to standard output."""
        lines = path.read_text().splitlines()
        return [json.loads(line)["after"]["id"] for line in lines if line.startswith("{")]


@pytest.fixture
def rows(source: LocalServer) -> Rows:
    return Rows(source)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """`small_disk(options)`: a file system of its own; again: mounted with other options."""
    directory = tmp_path / "disk"
    directory.mkdir()
    mounted = []

    def mount(options: str) -> Path:
        given = f"remount,{options}" if mounted else options
        command = ["mount", "-t", "tmpfs", "-o", given, "tmpfs", str(directory)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            unavailable(f"no small file system: {done.stderr.strip()}")
        mounted.append(options)
        return directory

    yield mount
    if mounted:
        subprocess.run(["umount", "-l", str(directory)], check=True)


def test_a_full_disk_of_a_sink_is_waited_for(rows, small_disk, tmp_path) -> None:
    options = {"path": str(small_disk("size=200k") / "lines")}
    sinks = [{"type": "file", "name": "file", "retry_seconds": 1.0, **options}]
    with DaemonProcess(tmp_path, rows.settings, sinks) as daemon:
        daemon.until(lambda one: one.route("file")["state"] == "streaming")
        rows.add(60, 5000)
        daemon.until(lambda one: one.route("file")["retries"] > 1)
        assert "No space left on device" in daemon.route("file")["error"]
        assert daemon.metric("replica_client_up", sink="file") == 0
        assert daemon.metric("replica_client_lag_seconds", sink="file") > 0
        assert daemon.get("/readyz")[0] == 503
        small_disk("size=8m")
        daemon.until_level()
        assert daemon.get("/readyz")[0] == 200
        assert daemon.stop() == 0
    assert rows.compare(options) == 60


def test_servers_of_sinks_that_are_away(local_servers, fresh_server, tmp_path) -> None:
    """The short run of scripts/proofs/daemon_outage."""
    source = fresh_server("mysql-9.7", ["binlog-row-metadata=FULL"])
    with proved_sinks(["file", "redis"], tmp_path, local_servers) as sinks:
        outage(source, tmp_path, sinks, seconds=4, seed=1, retry_seconds=1.0)


def test_a_store_that_is_read_only_for_a_while(rows, small_disk, tmp_path) -> None:
    store = {"path": str(small_disk("size=1m"))}
    sinks = [{"type": "stdout", "name": "out", "retry_seconds": 1.0}]
    daemon = DaemonProcess(tmp_path, rows.settings, sinks, store=store)
    output = tmp_path / "out.jsonl"
    with output.open("ab") as stream:
        daemon.output = stream.fileno()
        with daemon:
            rows.add(3)
            daemon.until_level()
            small_disk("ro")
            rows.add(3)
            daemon.until(lambda one: one.route("out")["retries"] > 1)
            assert "Read-only file system" in daemon.route("out")["error"]
            assert daemon.route("out")["state"] in ("retrying", "opening sink", "connecting")
            assert daemon.metric("replica_client_up", sink="out") == 0
            assert daemon.metric("replica_client_lag_seconds", sink="out") > 0
            assert daemon.get("/readyz")[0] == 503
            small_disk("rw")
            daemon.until_level()
            assert daemon.stop() == 0
    ids = rows.ids(output)
    # At least once, and in order but for repetitions from the last saved position on.
    assert list(dict.fromkeys(ids)) == list(range(1, 7))
    assert ids.count(1) == 1


def test_a_damaged_position_is_refused_until_it_is_whole_again(rows, tmp_path) -> None:
    sinks = [{"type": "stdout", "name": "out", "retry_seconds": 1.0}]
    daemon = DaemonProcess(tmp_path, rows.settings, sinks)
    output = tmp_path / "out.jsonl"
    with output.open("ab") as stream:
        daemon.output = stream.fileno()
        with daemon:
            rows.add(3)
            daemon.until_level()
            assert daemon.stop() == 0
            position = tmp_path / "state" / "source.out.position"
            whole = position.read_bytes()
            # Lines that are gone at the end are saves that a crash cut off; what stands before them is whole.
            damaged = bytearray(whole)
            damaged[len(whole.splitlines()[0]) // 2] ^= 1
            position.write_bytes(damaged)
            rows.add(3)
            daemon.start()
            daemon.until(lambda one: one.route("out")["state"] == "failed")
            assert "is damaged" in daemon.route("out")["error"]
            assert "restore it from a copy" in daemon.route("out")["error"]
            daemon.until(
                lambda one: one.metric("replica_client_state", sink="out", state="failed") == 1
            )
            assert daemon.metric("replica_client_up", sink="out") == 0
            assert daemon.get("/readyz")[0] == 503
            assert rows.ids(output) == [1, 2, 3]
            position.write_bytes(whole)
            daemon.until_level()
            assert daemon.stop() == 0
    assert rows.ids(output) == [1, 2, 3, 4, 5, 6]


JUMPING_CLOCK = """\
import os, time
_now = time.time
def _jumping():
    try:
        with open(os.environ["JUMP"]) as file:
            return _now() + float(file.read() or 0)
    except OSError:
        return _now()
time.time = _jumping
"""


def test_a_clock_that_jumps_moves_neither_timers_nor_lag(rows, tmp_path) -> None:
    (tmp_path / "sitecustomize.py").write_text(JUMPING_CLOCK)
    jump = tmp_path / "jump"
    options = {"path": str(tmp_path / "lines")}
    sinks = [{"type": "file", "name": "file", **options}]
    environment = {"PYTHONPATH": str(tmp_path), "JUMP": str(jump)}
    daemon = DaemonProcess(tmp_path, {**rows.settings, "poll": 0.2}, sinks, environment=environment)
    with daemon:
        rows.add(3)
        daemon.until_level()
        for seconds in (86_400, -86_400, 0):
            jump.write_text(str(seconds))
            time.sleep(1.5)
            rows.add(3)
            assert abs(daemon.status()["now"] - time.time() - seconds) < 60  # it did jump
            daemon.until_level()
        assert daemon.metric("replica_client_lag_seconds", sink="file") < 60
        lags = [sample[1] for sample in daemon.route("file")["history"]]
        assert max(lags) < 60, lags
        assert daemon.route("file")["retries"] == daemon.route("file")["reconnects"] == 0
        assert daemon.stop() == 0
    assert rows.compare(options) == 12


def test_a_sink_that_nobody_reads_holds_the_source_back(rows, tmp_path) -> None:
    file = {"type": "file", "name": "file", "path": str(tmp_path / "lines")}
    daemon = DaemonProcess(tmp_path, rows.settings, [{"type": "stdout", "name": "out"}, file])
    reading, writing = os.pipe()
    daemon.output = writing
    got: list[bytes] = []

    def read() -> None:
        while data := os.read(reading, 1 << 16):
            got.append(data)

    with daemon:
        os.close(writing)
        rows.add(200, 65_000)  # 13 MB: more than all buffers on the way to the pipe
        # The other sink is done, and this one says how far behind it is.
        daemon.until(lambda one: one.route("file")["rows"] == 200)
        daemon.until(lambda one: one.route("out")["lag_seconds"] > 1)
        assert daemon.route("out")["state"] == "streaming"
        assert daemon.route("out")["lag_bytes"] > 1_000_000
        assert daemon.metric("replica_client_queue_bytes", sink="out") > 0
        assert daemon.metric("replica_client_lag_seconds", sink="out") > 1
        reader = threading.Thread(target=read)
        reader.start()
        daemon.until_level()
        assert daemon.stop() == 0
    reader.join(30)
    os.close(reading)
    ids = [json.loads(line)["after"]["id"] for line in b"".join(got).splitlines()]
    assert ids == list(range(1, 201))


def test_a_source_that_restarts(rows, source, tmp_path) -> None:
    options = {"path": str(tmp_path / "lines")}
    sinks = [{"type": "file", "name": "file", "retry_seconds": 1.0, **options}]
    with DaemonProcess(tmp_path, rows.settings, sinks) as daemon:
        rows.add(3)
        daemon.until_level()
        source.kill()
        daemon.until(lambda one: one.route("file")["state"] in ("reconnecting", "retrying"))
        daemon.until(lambda one: bool(one.route("file")["error"]))
        assert daemon.metric("replica_client_up", sink="file") == 0
        assert daemon.get("/readyz")[0] == 503
        source.restart()
        rows.add(3)
        daemon.until_level()
        assert daemon.metric("replica_client_reconnects_total", sink="file") >= 1
        assert daemon.stop() == 0
    assert rows.compare(options) == 6


def test_a_password_that_changes(rows, source, tmp_path) -> None:
    source.execute("CREATE USER rotated IDENTIFIED BY 'first'")
    source.execute("GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT ON *.* TO rotated")
    secret = tmp_path / "secret"
    secret.write_text("first\n")
    options = {"path": str(tmp_path / "lines")}
    settings = {
        **rows.settings,
        "url": f"mysql://rotated@{source.host}:{source.port}/",
        "password": "file:secret",
    }
    sinks = [{"type": "file", "name": "file", "retry_seconds": 1.0, **options}]
    with DaemonProcess(tmp_path, settings, sinks) as daemon:
        rows.add(3)
        daemon.until_level()
        source.execute("ALTER USER rotated IDENTIFIED BY 'second'")
        for row in source.query("SHOW PROCESSLIST"):
            if row[1] == "rotated":
                source.execute(f"KILL {row[0]}")
        rows.add(3)
        daemon.until(lambda one: one.route("file")["state"] == "failed")
        assert "Access denied" in daemon.route("file")["error"]
        daemon.until(
            lambda one: one.metric("replica_client_state", sink="file", state="failed") == 1
        )
        assert daemon.metric("replica_client_lag_seconds", sink="file") > 0
        assert daemon.get("/readyz")[0] == 503
        secret.write_text("second\n")
        daemon.until_level()
        assert daemon.stop() == 0
        log = daemon.log.read_text()
    assert "second" not in log
    assert rows.compare(options) == 6


@pytest.mark.slow
def test_a_destination_that_stands_still(
    fresh_server: Callable[..., LocalServer], tmp_path: Path
) -> None:
    """The short form of scripts/proofs/frozen."""
    source = fresh_server("mysql-9.7", ["binlog-row-metadata=FULL"])
    other = fresh_server("mysql-9.7", ["skip-log-bin"])
    kinds = ("mysql", "http")
    prove_frozen(source, other, tmp_path, kinds, commit_timeout=2.0, seconds=8.0, say=print)
