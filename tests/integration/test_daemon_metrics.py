"""Metrics of tables that were dropped go, those of others stay."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.daemon_process import DaemonProcess
from tests.servers.local import LocalServer

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]


def _tables(daemon: DaemonProcess, family: str) -> set[str]:
    text = daemon.get("/metrics")[1].decode()
    return set(re.findall(rf'^{family}{{[^}}]*table="([^"]*)"', text, re.MULTILINE))


@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
def test_a_dropped_table_has_no_metrics(
    fresh_server: Callable[..., LocalServer], tmp_path: Path, name: str
) -> None:
    source = fresh_server(name, ["binlog-row-metadata=FULL"])
    for database, table in (("d", "t"), ("d", "u"), ("d", "w"), ("e", "v")):
        source.execute(f"CREATE DATABASE IF NOT EXISTS {database}")
        source.execute(f"CREATE TABLE {database}.{table} (id INT PRIMARY KEY)")
        source.execute(f"INSERT INTO {database}.{table} VALUES (1)")
    sink = {"name": "file", "type": "file", "path": tmp_path / "lines"}
    settings = {"url": source.url(), "start": "earliest", "tables": ["d.*", "e.*"]}
    families = ("replica_client_rows_total", "replica_client_bytes_total")
    with DaemonProcess(tmp_path, settings, [sink]) as daemon:
        daemon.until_level(60)
        for family in families:
            assert _tables(daemon, family) == {"d.t", "d.u", "d.w", "e.v"}
        source.execute("DROP TABLE d.u")
        source.execute("RENAME TABLE d.w TO d.x")
        source.execute("DROP DATABASE e")
        source.execute("INSERT INTO d.x VALUES (2)")
        daemon.until_level(60)
        for family in families:
            assert _tables(daemon, family) == {"d.t", "d.x"}
        assert daemon.stop() == 0
