"""XA transactions through the daemon: rows come to each sink at the XA COMMIT, once, over its restarts."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.daemon_process import DaemonProcess
from tests.integration.sink_comparison import compare_sink, file_lines
from tests.integration.test_xa import OPTIONS, ROTATE, Work
from tests.servers.local import LocalServer

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]


@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_prepared_before_a_restart(
    fresh_server: Callable[..., LocalServer], tmp_path: Path, name: str, end: signal.Signals
) -> None:
    source = fresh_server(name, [*OPTIONS[name], "binlog-row-metadata=FULL"])
    source.execute("CREATE DATABASE d")
    work = Work(source, "d")
    sinks = {
        "file": {"type": "file", "path": tmp_path / "lines"},
        "sqlite": {"type": "sqlite", "path": tmp_path / "mirror.db"},
    }
    daemon = DaemonProcess(
        tmp_path,
        {"url": source.url(), "start": "earliest", "tables": ["d.*"]},
        [{"name": key, **sink} for key, sink in sinks.items()],
    )
    with daemon:
        work.prepare("'a'", 1, 2)
        work.prepare("'b','c',7", 3)
        source.execute(f"INSERT INTO {work.table} VALUES (100, 'between')")
        daemon.until_level(60)
        if end == signal.SIGKILL:
            daemon.kill()
        else:
            assert daemon.stop() == 0
        source.execute(ROTATE)
        source.execute("XA ROLLBACK 'b','c',7")
        daemon.start()
        source.execute(f"INSERT INTO {work.table} VALUES (101, 'between')")
        daemon.until_level(60)
        source.execute("XA COMMIT 'a'")
        source.execute(f"INSERT INTO {work.table} VALUES (102, 'behind')")
        daemon.until_level(60)
        assert not [route for route in daemon.status()["routes"] if route["errors"]], daemon.tail()
        assert daemon.stop() == 0
    assert work.selected() == {1, 2, 100, 101, 102}
    assert (
        compare_sink("sqlite", {"path": sinks["sqlite"]["path"]}, source, tables=["d.*"]).rows == 5
    )
    rows = [json.loads(line) for line in file_lines(tmp_path / "lines", "changes")]
    ids = [row["after"]["id"] for row in rows if row.get("after")]
    assert ids == [100, 101, 1, 2, 102]
