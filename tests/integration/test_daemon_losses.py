"""A mirror behind a gap: it copies its tables again, or the option is refused; losses are told."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from tests import processes
from tests.integration.daemon_process import DaemonProcess
from tests.integration.sink_comparison import compare_sink
from tests.servers.local import LocalServer

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]
DATABASE = "gapped"


def purge(source: LocalServer) -> None:
    """Leave only the newest binlog file."""
    source.rotate()
    source.execute(f"PURGE BINARY LOGS TO '{source.binlog_files()[-1]}'")


@pytest.mark.parametrize(
    ("source_name", "kind"), [("mysql-9.7", "sqlite"), ("mysql-9.7", "mysql"), ("mariadb-11.8", "sqlite")]
)  # fmt: skip
def test_a_mirror_copies_again_what_was_purged(
    source_name, kind, fresh_server, server, tmp_path
) -> None:
    options = ["binlog-row-metadata=FULL"]
    if source_name.startswith("mysql"):
        options += ["gtid-mode=ON", "enforce-gtid-consistency=ON"]
    source: LocalServer = fresh_server(source_name, options)
    source.execute(f"CREATE DATABASE {DATABASE}")
    for name in ("a", "b", "gone"):
        source.execute(f"CREATE TABLE {DATABASE}.{name} (id INT PRIMARY KEY, v INT)")
        source.execute(f"INSERT INTO {DATABASE}.{name} VALUES (1, 1), (2, 2)")
    own: dict[str, Any] = {"type": "sqlite", "path": tmp_path / "mirror.db"}
    if kind == "mysql":
        target = server("mariadb-11.8")
        own = {
            "type": "mysql",
            "url": target.url("root"),
            "database_prefix": "gap_",
            "state_database": "gap_state",
        }
    sink = {"name": "mirror", "snapshot": True, **own}
    settings = {
        "url": source.url(), "tables": [f"{DATABASE}.*"], "record_losses": ["gtid_gap"],
    }  # fmt: skip
    try:
        with DaemonProcess(tmp_path, settings, [sink]) as daemon:
            daemon.until_level()
            assert daemon.metric("replica_client_losses_total", kind="gtid_gap") == 0
            assert daemon.stop() == 0
            source.execute(f"INSERT INTO {DATABASE}.a VALUES (3, 3)")
            source.execute(f"UPDATE {DATABASE}.b SET v = 20 WHERE id = 2")
            source.execute(f"DROP TABLE {DATABASE}.gone")
            source.execute(f"CREATE TABLE {DATABASE}.new (id INT PRIMARY KEY)")
            source.execute(f"INSERT INTO {DATABASE}.new VALUES (1)")
            purge(source)
            source.execute(f"INSERT INTO {DATABASE}.a VALUES (4, 4)")
            daemon.start()
            daemon.until_level()
            compared = compare_sink(kind, own, source, tables=[f"{DATABASE}.*"])
            assert (compared.tables, compared.rows) == (3, 7)
            assert daemon.metric("replica_client_losses_total", kind="gtid_gap") == 5
            [loss] = daemon.route("mirror")["losses"]
            assert (loss["kind"], loss["count"]) == ("gtid_gap", 5)
            code, ready = daemon.get("/readyz")
            assert code == 200
            assert "gtid_gap: 5 transactions" in json.loads(ready)["losses"]["source.mirror"][0]
            # It goes on as ever, and a restart copies nothing again.
            source.execute(f"DELETE FROM {DATABASE}.a WHERE id = 1")
            daemon.until_level()
            assert daemon.stop() == 0
            daemon.start()
            daemon.until_level()
            assert daemon.metric("replica_client_copied_rows_total", sink="mirror") == 0
            assert compare_sink(kind, own, source, tables=[f"{DATABASE}.*"]).rows == 6
    finally:
        if kind == "mysql":
            for name in ("gap_state", f"gap_{DATABASE}"):
                target.execute(f"DROP DATABASE IF EXISTS {name}")


def test_a_statement_is_copied_too(fresh_server, tmp_path) -> None:
    source: LocalServer = fresh_server("mysql-9.7", ["binlog-row-metadata=FULL"])
    source.execute(f"CREATE DATABASE {DATABASE}")
    source.execute(f"CREATE TABLE {DATABASE}.t (id INT PRIMARY KEY, v INT)")
    source.execute(f"INSERT INTO {DATABASE}.t VALUES (1, 1)")
    own = {"type": "sqlite", "path": tmp_path / "mirror.db"}
    settings = {"url": source.url(), "tables": [f"{DATABASE}.*"], "record_losses": ["all"]}
    with DaemonProcess(tmp_path, settings, [{"name": "mirror", "snapshot": True, **own}]) as daemon:
        daemon.until_level()
        with source.connected() as connection, connection.cursor() as cursor:
            cursor.execute("SET binlog_format = STATEMENT")
            cursor.execute(f"UPDATE {DATABASE}.t SET v = v + 1")
            connection.commit()
        daemon.until_level()
        compare_sink("sqlite", own, source, tables=[f"{DATABASE}.*"])
        assert [one["kind"] for one in daemon.route("mirror")["losses"]] == ["statement"]


@pytest.mark.parametrize("kinds", [["gtid_gap"], ["all"], ["statement"], ["unknown_table"]])
def test_a_mirror_without_a_snapshot_refuses_the_option(kinds, tmp_path) -> None:
    settings = {"url": "mysql://nobody@127.0.0.1:1", "record_losses": kinds}
    sinks = [
        {"type": "sqlite", "name": "mirror", "path": tmp_path / "mirror.db"},
        {"type": "file", "name": "lines", "path": tmp_path / "lines"},
    ]
    daemon = DaemonProcess(tmp_path, settings, sinks)
    daemon.write_config()
    checked = processes.run(
        [sys.executable, "-m", "replica_client", "run", "--check", str(daemon.config)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode != 0
    stated = checked.stdout + checked.stderr
    assert stated.count("record_losses") == 1, stated
    assert "source.mirror" in stated
    assert "snapshot = true" in stated
