"""A mirror that begins with a copy is the source, whatever dies (short runs of scripts/proofs/daemon_snapshot)."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from tests.integration.daemon_process import DaemonProcess
from tests.integration.first_copies import DATABASE, fill, prove_copies
from tests.integration.sink_comparison import compare_sink
from tests.servers.local import LocalServer

pytestmark = pytest.mark.timeout(240)


@pytest.mark.parametrize(
    ("source_name", "kind"), [("mysql-9.7", "sqlite"), ("mariadb-11.8", "mysql")]
)
def test_copied_under_load_and_killed(source_name, kind, fresh_server, server, tmp_path) -> None:
    source = fresh_server(source_name, ["binlog-row-metadata=FULL"])
    options: dict[str, Any] = {"type": "sqlite", "path": tmp_path / "mirror.db"}
    if kind == "mysql":
        target = server("mysql-9.7")
        options = {
            "type": "mysql",
            "url": target.url("root"),
            "database_prefix": "copy_",
            "state_database": "copy_state",
        }
    try:
        report = prove_copies(
            source, tmp_path, options, kills=3, seed=5, rows=4000, sessions=3, commit_seconds=0.02
        )
    finally:
        if kind == "mysql":
            for name in ("copy_state", f"copy_{DATABASE}"):
                target.execute(f"DROP DATABASE IF EXISTS {name}")
    assert report.kills == 3
    assert report.transactions > 20


def test_a_mirror_is_strict_again_and_copies_what_it_cannot_follow(fresh_server, tmp_path) -> None:
    source: LocalServer = fresh_server("mysql-9.7", ["binlog-row-metadata=FULL"])
    fill(source, 500)
    mirror = tmp_path / "mirror.db"
    sink = {
        "type": "sqlite",
        "name": "mirror",
        "snapshot": True,
        "path": mirror,
        "retry_seconds": 1.0,
    }
    settings = {"url": source.url(), "tables": [f"{DATABASE}.*"], "exclude": [f"{DATABASE}.b"]}
    with DaemonProcess(tmp_path, settings, [sink]) as daemon:
        daemon.until_level()
        assert daemon.metric("replica_client_copied_rows_total", sink="mirror") == 503
        # An expression as default: what it gives is not known, and the table is copied again.
        source.execute(f"ALTER TABLE {DATABASE}.a ADD u VARCHAR(40) DEFAULT (CONCAT('a', 'b'))")
        source.execute(f"UPDATE {DATABASE}.a SET n = 1 WHERE id < 100")
        daemon.until_level()
        assert daemon.metric("replica_client_copied_rows_total", sink="mirror") == 753
        # Another table is wanted now; nothing changes in it.
        settings["exclude"] = []
        assert daemon.stop() == 0
        daemon.start()
        daemon.until_level()
        assert daemon.metric("replica_client_copied_rows_total", sink="mirror") == 250
        compared = compare_sink("sqlite", {"path": mirror}, source, tables=[f"{DATABASE}.*"])
        assert compared.tables == 4
        # A table that somebody dropped is copied again.
        with sqlite3.connect(mirror) as connection:
            connection.execute(f'DROP TABLE "{DATABASE}.b"')
        connection.close()
        source.execute(f"RENAME TABLE {DATABASE}.b TO {DATABASE}.z")
        source.execute(f"RENAME TABLE {DATABASE}.z TO {DATABASE}.b")
        daemon.until_level()
        compared = compare_sink("sqlite", {"path": mirror}, source, tables=[f"{DATABASE}.*"])
        assert compared.tables == 4
        # A row that somebody took out of the mirror is noticed.
        with sqlite3.connect(mirror) as connection:
            connection.execute(f'DELETE FROM "{DATABASE}.a" WHERE id = 0')
        connection.close()
        source.execute(f"UPDATE {DATABASE}.a SET n = 2 WHERE id = 0")
        daemon.until(lambda one: bool(one.route("mirror")["set_aside"]))
        (one,) = daemon.route("mirror")["set_aside"]
        assert one["table"] == f"{DATABASE}.a"
        assert "1 of 1 rows to change are not there" in one["reason"]


def test_a_table_that_is_gone_from_a_mirror_is_copied_again(fresh_server, server, tmp_path) -> None:
    """As when somebody drops it, or a kill falls between the renames of one statement."""
    source: LocalServer = fresh_server("mysql-9.7", ["binlog-row-metadata=FULL"])
    fill(source, 200)
    target = server("mysql-9.7")
    options = {
        "url": target.url("root"),
        "database_prefix": "gone_",
        "state_database": "gone_state",
    }
    sink = {"type": "mysql", "name": "mirror", "snapshot": True, "retry_seconds": 1.0, **options}
    settings = {"url": source.url(), "tables": [f"{DATABASE}.*"], "heartbeat": 1.0}
    swap = f"RENAME TABLE {DATABASE}.a TO {DATABASE}.z, {DATABASE}.b TO {DATABASE}.a, {DATABASE}.z TO {DATABASE}.b"
    try:
        with DaemonProcess(tmp_path, settings, [sink]) as daemon:
            daemon.until_level()
            for statement in (f"UPDATE {DATABASE}.b SET n = n + 1", swap):
                target.execute(f"DROP TABLE gone_{DATABASE}.b")
                source.execute(statement)
                source.execute(f"UPDATE {DATABASE}.b SET n = n + 1 WHERE id < 50")
                daemon.until_level()
            assert daemon.stop() == 0
        compared = compare_sink("mysql", options, source, tables=[f"{DATABASE}.*"])
        assert compared.tables == 4
    finally:
        for name in ("gone_state", f"gone_{DATABASE}"):
            target.execute(f"DROP DATABASE IF EXISTS {name}")


def test_a_table_whose_rows_cascade_is_set_aside(fresh_server, tmp_path) -> None:
    source: LocalServer = fresh_server("mariadb-11.8", ["binlog-row-metadata=FULL"])
    source.execute("CREATE DATABASE cascading")
    source.execute("CREATE TABLE cascading.p (id INT PRIMARY KEY) ENGINE=InnoDB")
    source.execute(
        "CREATE TABLE cascading.c (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES p (id) "
        "ON DELETE CASCADE) ENGINE=InnoDB"
    )
    sink = {"type": "sqlite", "name": "mirror", "snapshot": True, "path": tmp_path / "mirror.db"}
    settings = {"url": source.url(), "tables": ["cascading.*"]}
    with DaemonProcess(tmp_path, settings, [sink]) as daemon:
        daemon.until(lambda one: bool(one.route("mirror")["set_aside"]))
        (aside,) = daemon.route("mirror")["set_aside"]
        assert aside["table"] == "cascading.c"
        assert "foreign keys change its rows" in aside["reason"]


def test_a_mask_that_is_added_and_a_table_that_comes_back_are_copied(
    fresh_server, tmp_path
) -> None:
    source: LocalServer = fresh_server("mysql-9.7", ["binlog-row-metadata=FULL"])
    for statement in (
        "CREATE DATABASE rr",
        "CREATE TABLE rr.t (id INT PRIMARY KEY, name VARCHAR(20), day DATE)",
        "CREATE TABLE rr.u (id INT PRIMARY KEY, n INT)",
        "SET SESSION sql_mode = ''",
    ):
        source.execute(statement)
    source.execute("INSERT INTO rr.t VALUES (1, 'Anna', '2020-01-01'), (2, 'Ben', NULL)")
    source.execute("INSERT INTO rr.u VALUES (1, 1)")
    mirror = tmp_path / "mirror.db"
    sink = {"type": "sqlite", "name": "mirror", "snapshot": True, "path": mirror}
    masked = [{"tables": ["rr.t"], "keep": ["*"], "mask": {"name": "*"}}]
    settings: dict[str, Any] = {"url": source.url(), "tables": ["rr.*"]}

    def rows(table: str) -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(mirror)
        try:
            return connection.execute(f'SELECT * FROM "rr.{table}" ORDER BY id').fetchall()
        finally:
            connection.close()

    with DaemonProcess(tmp_path, settings, [sink]) as daemon:
        daemon.until_level()
        assert daemon.metric("replica_client_copied_rows_total", sink="mirror") == 3

        def with_other(**changed: Any) -> None:
            assert daemon.stop() == 0
            settings.update(changed)
            daemon.start()
            daemon.until_level()

        # A mask, and a table that leaves and comes back, also with the mask.
        with_other(transform=masked)
        assert daemon.metric("replica_client_copied_rows_total", sink="mirror") == 2
        assert not {row[1] for row in rows("t")} & {"Anna", "Ben"}
        with_other()
        assert daemon.metric("replica_client_copied_rows_total", sink="mirror") == 0
        with_other(tables=["rr.t"])
        source.execute("UPDATE rr.u SET n = 5")
        source.execute("INSERT INTO rr.u VALUES (2, 2)")
        daemon.until_level()
        with_other(tables=["rr.*"])
        assert daemon.metric("replica_client_copied_rows_total", sink="mirror") == 2
        assert rows("u") == [(1, 5), (2, 2)]
        # Without the mask the rows are in clear again.
        with_other(transform=[])
        assert [row[1] for row in rows("t")] == ["Anna", "Ben"]
        # A mirror without copies says so.
        sink["snapshot"] = False
        with_other(transform=masked)
        daemon.until(lambda one: "the transforms changed" in str(one.route("mirror")))
        assert daemon.stop() == 0


def test_values_that_are_replaced_are_counted(fresh_server, tmp_path) -> None:
    pytest.importorskip("duckdb", reason="the package duckdb is not installed")
    source: LocalServer = fresh_server("mysql-9.7", ["binlog-row-metadata=FULL", "sql-mode="])
    source.execute("CREATE DATABASE rr")
    source.execute("CREATE TABLE rr.t (id INT PRIMARY KEY, day DATE)")
    source.execute("INSERT INTO rr.t VALUES (1, '0000-00-00')")
    sink = {
        "type": "duckdb",
        "name": "mirror",
        "snapshot": True,
        "path": tmp_path / "mirror.duckdb",
        "unstorable_values": "null",
    }
    settings: dict[str, Any] = {"url": source.url(), "tables": ["rr.*"]}
    with DaemonProcess(tmp_path, settings, [sink]) as daemon:
        daemon.until_level()
        source.execute("INSERT INTO rr.t VALUES (2, '0000-00-00'), (3, '2020-01-01')")
        daemon.until_level()
        assert daemon.metric("replica_client_replaced_values_total", sink="mirror") == 2
        assert daemon.route("mirror")["replaced_values"] == 2
        assert daemon.stop() == 0
