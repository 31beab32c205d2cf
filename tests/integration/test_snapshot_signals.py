"""Rows of a table of the source that ask for snapshots: marks as the engine gives them, mirrors, gaps, kills."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.integration.daemon_process import DaemonProcess
from tests.integration.sink_comparison import compare_sink, file_lines
from tests.integration.test_daemon_losses import purge
from tests.servers.local import LocalServer

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]
ORDERS = ["shop.orders"]


def _made(source: LocalServer) -> None:
    source.execute("CREATE DATABASE shop")
    source.execute(
        "CREATE TABLE shop.signals (id VARCHAR(42) PRIMARY KEY, type VARCHAR(32), data TEXT)"
    )
    for name, rows in (("orders", 5), ("items", 3), ("nothing", 0)):
        source.execute(f"CREATE TABLE shop.{name} (id INT PRIMARY KEY, n INT)")
        for at in range(rows):
            source.execute(f"INSERT INTO shop.{name} VALUES ({at}, {at})")


def _ask(source: LocalServer, name: str, document: Any, kind: str = "execute-snapshot") -> None:
    text = document if isinstance(document, str) else json.dumps(document)
    text = text.replace("\\", "\\\\").replace("'", "''")
    source.execute(f"INSERT INTO shop.signals VALUES ('{name}', '{kind}', '{text}')")


class _Lines:
    """The rows of snapshots that came since the last look: table, key and mark."""

    def __init__(self, daemon: DaemonProcess, path: Any, sink: str = "lines") -> None:
        self._daemon, self._path, self._sink, self._seen = daemon, path, sink, 0

    def come(self, count: int) -> list[tuple[str, int, str]]:
        def here(_: DaemonProcess) -> bool:
            return len(self._found()) >= count

        self._daemon.until(here, 60)
        self._daemon.until_level()
        found = self._found()
        self._seen = len(list(file_lines(self._path)))
        return found

    def _found(self) -> list[tuple[str, int, str]]:
        lines = [json.loads(one) for one in list(file_lines(self._path))[self._seen :]]
        assert not [one for one in lines if "after" in one and "data" in (one["after"] or {})]
        return [
            (one["source"]["table"], one["after"]["id"], one["source"]["snapshot"])
            for one in lines
            if one.get("op") == "r"
        ]


def _all(table: str, count: int, mark: str = "incremental", since: int = 0) -> list[Any]:
    return [(table, at, mark) for at in range(since, count)]


@pytest.mark.parametrize("source_name", ["mysql-9.7", "mariadb-11.8"])
def test_rows_come_as_the_engine_gives_them(source_name, fresh_server, tmp_path) -> None:
    source: LocalServer = fresh_server(source_name, ["binlog-row-metadata=FULL"])
    _made(source)
    path = tmp_path / "events"
    sink = {"name": "lines", "type": "file", "path": path, "format": "debezium", "snapshot_rows": 2}
    mirror = {"name": "mirror", "type": "sqlite", "path": tmp_path / "m.db", "snapshot": True}
    settings = {
        "url": source.url(), "signals": "shop.signals", "heartbeat": 1.0,
        "tables": ["shop.orders", "shop.items", "shop.nothing"],
    }  # fmt: skip
    with DaemonProcess(tmp_path, settings, [sink, mirror]) as daemon:
        daemon.until_level()
        lines = _Lines(daemon, path)
        _ask(
            source, "1", {"data-collections": ["shop.orders", "shop.items"], "type": "incremental"}
        )
        assert lines.come(8) == _all("orders", 5) + _all("items", 3)
        where = [{"data-collection": "shop.orders", "filter": "id > 2"}]
        _ask(source, "2", {"data-collections": ORDERS, "additional-conditions": where})
        assert lines.come(2) == _all("orders", 5, since=3)
        _ask(source, "3", {"data-collections": [r"shop\..*"]})
        assert lines.come(8) == _all("items", 3) + _all("orders", 5)
        _ask(
            source,
            "4",
            {"data-collections": ["shop.items", *ORDERS, "shop.nothing"], "type": "blocking"},
        )
        marks = ["first", "true", "last_in_data_collection"]
        marks += ["first_in_data_collection", "true", "true", "true", "last"]
        assert [one[2] for one in lines.come(8)] == marks
        where[0]["filter"] = "SELECT * FROM shop.orders WHERE id < 2"
        _ask(
            source,
            "5",
            {"data-collections": ORDERS, "type": "BLOCKING", "additional-conditions": where},
        )
        assert lines.come(2) == [("orders", 0, "first"), ("orders", 1, "last")]
        # Asked for and taken back in one transaction.
        with source.connected(autocommit=False) as connection, connection.cursor() as cursor:
            for name, kind in (("6", "execute-snapshot"), ("7", "stop-snapshot")):
                data = json.dumps({"data-collections": ORDERS})
                cursor.execute("INSERT INTO shop.signals VALUES (%s, %s, %s)", (name, kind, data))
            connection.commit()
        _ask(source, "8", "no json")
        _ask(source, "9", {"data-collections": ["shop.none"]})
        _ask(source, "10", "{}", kind="log")
        daemon.until(lambda one: len(one.route("lines")["errors"]) == 2, 60)
        assert lines.come(0) == []
        texts = str(daemon.route("lines")["errors"])
        assert "signal '8': data is not JSON" in texts
        assert "signal 9: the sink has no table of that name" in texts
        # A mirror copied its tables, and takes no part of one.
        errors = str(daemon.route("mirror")["errors"])
        assert "signal 2: a mirror copies whole tables" in errors
        assert daemon.metric("replica_client_copied_rows_total", sink="mirror") >= 8 * 3
        compared = compare_sink("sqlite", mirror, source, tables=settings["tables"])
        assert (compared.tables, compared.rows) == (3, 8)
        assert daemon.stop() == 0


def test_a_signal_survives_a_kill(fresh_server, tmp_path) -> None:
    source: LocalServer = fresh_server("mysql-9.7", ["binlog-row-metadata=FULL"])
    _made(source)
    path = tmp_path / "events"
    sink = {"name": "lines", "type": "file", "path": path, "format": "debezium", "snapshot_rows": 1}
    mirror = {"name": "mirror", "type": "sqlite", "path": tmp_path / "m.db", "snapshot": True}
    settings = {"url": source.url(), "signals": "shop.signals", "tables": ["shop.orders"]}
    with DaemonProcess(tmp_path, settings, [sink, mirror]) as daemon:
        daemon.until_level()
        lines = _Lines(daemon, path)
        for number in range(4):
            # A row that the mirror has and the source has not is gone with the copy.
            with source.connected() as connection, connection.cursor() as cursor:
                cursor.execute("SET sql_log_bin = 0")
                cursor.execute(f"UPDATE shop.orders SET n = {number} + 100 WHERE id = {number}")
            _ask(source, str(number), {"data-collections": ORDERS})
            if number % 2:
                daemon.until(lambda one: bool(one.route("lines")["copying"]), 60)
            daemon.kill()
            daemon.start()
            assert lines.come(5) == _all("orders", 5)
            compare_sink("sqlite", mirror, source, tables=ORDERS)
        assert daemon.stop() == 0


def test_a_sink_of_events_gets_its_tables_again_behind_a_gap(fresh_server, tmp_path) -> None:
    source: LocalServer = fresh_server("mysql-9.7", ["binlog-row-metadata=FULL"])
    _made(source)
    path = tmp_path / "events"
    sink = {"name": "lines", "type": "file", "path": path, "format": "debezium", "snapshot": True}
    settings = {"url": source.url(), "tables": ORDERS, "record_losses": ["gtid_gap"]}
    with DaemonProcess(tmp_path, settings, [sink]) as daemon:
        daemon.until_level()
        lines = _Lines(daemon, path)
        assert len(lines.come(5)) == 5
        assert daemon.stop() == 0
        source.execute("UPDATE shop.orders SET n = 50 WHERE id = 3")
        purge(source)
        source.execute("INSERT INTO shop.orders VALUES (5, 5)")
        daemon.start()
        assert lines.come(5)[:5] == _all("orders", 5)
        assert daemon.stop() == 0
    last = {}
    for one in map(json.loads, file_lines(path)):
        if one.get("op") in ("r", "c"):
            last[one["after"]["id"]] = one["after"]["n"]
    assert last == {0: 0, 1: 1, 2: 2, 3: 50, 4: 4, 5: 5}


_ATTACKS = (
    "1=0) UNION ALL SELECT amount, who FROM private.salaries WHERE (1=1",
    "id = 2 AND (SELECT MAX(amount) FROM private.salaries) = 5150",
    "SLEEP(600) = 0",
    "id = 1 OR EXTRACTVALUE(1, CONCAT(0x7e, (SELECT who FROM private.salaries LIMIT 1)))",
    "email LIKE 'b%'",
    "email = 'bob@example.com'",
    "id = 2 AND phone = '555'",
)


@pytest.mark.parametrize("source_name", ["mysql-9.7", "mariadb-11.8"])
def test_who_may_insert_a_signal_reads_nothing_else(source_name, fresh_server, tmp_path) -> None:
    source: LocalServer = fresh_server(source_name, ["binlog-row-metadata=FULL"])
    _made(source)
    source.execute("CREATE DATABASE private")
    source.execute("CREATE TABLE private.salaries (amount INT PRIMARY KEY, who VARCHAR(20))")
    source.execute("INSERT INTO private.salaries VALUES (5150, 'S4LARY')")
    source.execute(
        "CREATE TABLE shop.people (id INT PRIMARY KEY, email VARCHAR(50), phone VARCHAR(9), city VARCHAR(9))"
    )
    source.execute("INSERT INTO shop.people VALUES (1, 'bob@example.com', '555', 'Ulm')")
    source.execute("INSERT INTO shop.people VALUES (2, 'eve@example.com', '556', 'Bonn')")
    path = tmp_path / "events"
    sink = {"name": "lines", "type": "file", "path": path, "format": "debezium"}
    settings: dict[str, Any] = {
        "url": source.url(), "signals": "shop.signals", "tables": ["shop.orders", "shop.people"],
        "transform": [
            {"tables": ["shop.people"], "keep": ["id", "city"], "drop": ["email"],
             "mask": {"phone": "***"}}
        ],
    }  # fmt: skip
    with DaemonProcess(tmp_path, settings, [sink]) as daemon:
        daemon.until_level()
        lines = _Lines(daemon, path)
        asked = 0
        for table in ("orders", "people"):
            for attack in _ATTACKS:
                asked += 1
                where = [{"data-collection": f"shop.{table}", "filter": attack}]
                _ask(
                    source,
                    f"x{asked}",
                    {"data-collections": [f"shop.{table}"], "additional-conditions": where},
                )
        _ask(source, "re", {"data-collections": ["(.*)*(.*)*(.*)*(.*)*(.*)*(.*)*(.*)*(.*)*(.*)*!"]})
        where = [{"data-collection": "shop.people", "filter": "city = 'Bonn' AND id > 0"}]
        _ask(
            source,
            "good",
            {"data-collections": ["shop.p*"], "additional-conditions": []},
        )
        assert lines.come(2) == _all("people", 3, since=1)
        _ask(
            source,
            "part",
            {"data-collections": ["shop.people"], "additional-conditions": where},
        )
        assert lines.come(1) == [("people", 2, "incremental")]
        shown = str(daemon.route("lines")) + daemon.log.read_text()
        assert "signal_raw_filters" in shown
        for secret in ("S4LARY", "eve@example.com", "Duplicate entry"):
            assert secret not in shown and secret not in path_text(path)
        # No statement of a signal runs or holds a lock.
        source.execute("SET SESSION lock_wait_timeout = 2")
        source.execute("ALTER TABLE shop.orders ADD COLUMN extra INT")
        assert daemon.stop() == 0


def test_sql_of_signals_is_bounded_in_time_and_says_nothing(fresh_server, tmp_path) -> None:
    source: LocalServer = fresh_server("mysql-9.7", ["binlog-row-metadata=FULL"])
    _made(source)
    path = tmp_path / "events"
    sink = {"name": "lines", "type": "file", "path": path, "format": "debezium"}
    settings = {
        "url": source.url(), "signals": "shop.signals", "tables": ORDERS, "signal_raw_filters": True,
    }  # fmt: skip
    with DaemonProcess(tmp_path, settings, [sink]) as daemon:
        daemon.until_level()
        lines = _Lines(daemon, path)
        for name, attack in (
            ("loud", "EXTRACTVALUE(1, CONCAT(0x7e, 'S4LARY')) = 1"),
            ("good", "id BETWEEN 2 AND 3"),
        ):
            where = [{"data-collection": ORDERS[0], "filter": attack}]
            _ask(source, name, {"data-collections": ORDERS, "additional-conditions": where})
        assert lines.come(2) == _all("orders", 4, since=2)
        errors = str(daemon.route("lines")["errors"])
        assert "signal loud: shop.orders: the source refuses it with error 1105" in errors
        assert "S4LARY" not in errors + daemon.log.read_text()
        slow = [{"data-collection": ORDERS[0], "filter": "SLEEP(100) = 0"}]
        _ask(source, "slow", {"data-collections": ORDERS, "additional-conditions": slow})
        daemon.until(lambda one: "signal slow" in str(one.route("lines")["errors"]), 90)
        assert "error 3024" in str(daemon.route("lines")["errors"])
        assert daemon.stop() == 0


def path_text(path: Any) -> str:
    """All lines of a file sink."""
    return "\n".join(map(str, file_lines(path)))
