"""With ``semi_sync = true`` a commit of the source returns when the sink has the change on disk."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path

import pytest

from tests.integration.daemon_process import DaemonProcess
from tests.integration.sink_comparison import file_lines
from tests.servers.local import LocalServer

pytestmark = pytest.mark.timeout(120)
SETTINGS = (
    "plugin-load-add=semisync_source.so",
    "rpl-semi-sync-source-enabled=1",
    "rpl-semi-sync-source-timeout=60000",
    "rpl-semi-sync-source-wait-no-replica=0",
    "binlog-row-metadata=FULL",
)


def ids(directory: Path) -> list[int]:
    rows = (json.loads(line) for line in file_lines(directory))
    return [row["after"]["id"] for row in rows if row["kind"] == "insert"]


def unacknowledged(source: LocalServer) -> int:
    return int(source.query("SHOW STATUS LIKE 'Rpl_semi_sync_source_no_tx'")[0][1])


def waits_for_the_daemon(source: LocalServer) -> bool:
    """Whether commits wait: the replica is known, and has what was committed before it came."""
    found = dict(source.query("SHOW STATUS LIKE 'Rpl_semi_sync_source_%'"))
    state = (found["Rpl_semi_sync_source_clients"], found["Rpl_semi_sync_source_status"])
    return state == ("1", "ON")


def test_the_sink_has_what_the_source_committed(fresh_server, tmp_path) -> None:
    source = fresh_server("mysql-9.7", list(SETTINGS))
    source.execute("CREATE DATABASE waits")
    source.execute("CREATE TABLE waits.t (id INT PRIMARY KEY)")
    lines = tmp_path / "lines"
    settings = {"url": source.url(), "tables": ["waits.*"], "semi_sync": True}
    # Batches would wait for a minute, were it not for the source.
    sink = {"type": "file", "name": "file", "path": lines, "batch_seconds": 60}
    with DaemonProcess(tmp_path, settings, [sink]) as daemon:
        daemon.until_level()
        daemon.until(lambda _: waits_for_the_daemon(source))
        before = unacknowledged(source)
        for number in range(10):
            source.execute(f"INSERT INTO waits.t VALUES ({number})")
            assert ids(lines) == list(range(number + 1))
        assert unacknowledged(source) == before  # none went on because it took too long
        # A sink that stands still holds the commit.
        assert daemon.process is not None
        os.kill(daemon.process.pid, signal.SIGSTOP)
        commit = threading.Thread(
            target=source.execute, args=("INSERT INTO waits.t VALUES (10)",), daemon=True
        )
        commit.start()
        commit.join(1.0)
        assert commit.is_alive()
        assert ids(lines) == list(range(10))
        os.kill(daemon.process.pid, signal.SIGCONT)
        commit.join(30)
        assert not commit.is_alive()
        assert ids(lines) == list(range(11))
        assert daemon.stop() == 0
