"""Windows of copies, with what MySQL 9.7 and MariaDB 11.8 answered."""

from __future__ import annotations

import pytest

from replica_client.errors import (
    ConfigError,
    MalformedPacketError,
    ServerError,
    TransportTimeoutError,
)
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.protocol.position import Position
from replica_client.stream.snapshot import begin_between, low_watermark, watermarks
from replica_client.stream.snapshot.watermarks import cascaded_tables
from tests.unit.stream.snapshot.answers import Answers, Rows

STATUS = "SHOW BINARY LOG STATUS"
BEGIN = [
    "SET SESSION time_zone = '+00:00', sql_mode = ''",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "START TRANSACTION WITH CONSISTENT SNAPSHOT",
]
UUID = "7f99a819-e73f-11f1-a881-02fc00000001"
OTHER = "00000000-0000-0000-0000-000000000001"
OWNED = "SELECT @@global.gtid_owned"
MODE = "SELECT @@global.gtid_mode"


def mysql(*owned: str | None, mode: str = "ON") -> Answers:
    answers: dict[str, list[Rows | ServerError]] = {
        "gtid_mode": [[(mode,)]],
        "gtid_owned": [[(one,)] for one in owned],
        STATUS: [[("binlog.000024", 158)], [("binlog.000024", 900)]],
    }
    return Answers(ServerFlavor.MYSQL, answers)


async def test_a_low_mark_waits_for_those_that_were_committing() -> None:
    connection = mysql(f"{UUID}:5#1:4#2", f"{OTHER}:9#8{UUID}:5#1", f"{OTHER}:9#8{UUID}:6#2")
    assert await low_watermark(connection) == Position("binlog.000024", 158)
    # The position is taken first; who comes later is not waited for.
    assert connection.asked == [MODE, STATUS, OWNED, OWNED, OWNED]


async def test_a_low_mark_where_nobody_commits() -> None:
    connection = mysql(None)
    assert await low_watermark(connection) == Position("binlog.000024", 158)
    assert connection.asked == [MODE, STATUS, OWNED]


async def test_a_transaction_that_commits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watermarks, "_COMMITTING_WAIT", 0.02)
    with pytest.raises(TransportTimeoutError, match=rf"since 0\.02 s \({UUID}:5 …\)"):
        await low_watermark(mysql(f"{UUID}:5#1"))


async def test_an_answer_of_another_form() -> None:
    with pytest.raises(MalformedPacketError, match="gtid_owned at db1:3306"):
        await low_watermark(mysql("u:5#1"))


async def test_a_source_without_gtids() -> None:
    with pytest.raises(ConfigError, match="db1:3306 has gtid_mode=OFF_PERMISSIVE.*locking=brief"):
        await low_watermark(mysql("", mode="OFF_PERMISSIVE"))


async def test_a_window_without_a_lock() -> None:
    connection = mysql("")
    window = await begin_between(connection)
    assert (window.low, window.high) == (
        Position("binlog.000024", 158),
        Position("binlog.000024", 900),
    )
    assert not window.exact
    assert connection.asked == [MODE, STATUS, OWNED, *BEGIN, STATUS]


async def test_a_window_under_a_lock() -> None:
    connection = mysql("")
    window = await begin_between(connection, "brief")
    assert window.exact
    assert window.low == Position("binlog.000024", 158)
    assert connection.asked == ["FLUSH TABLES WITH READ LOCK", *BEGIN, STATUS, "UNLOCK TABLES"]


async def test_the_lock_is_given_back_when_the_snapshot_fails() -> None:
    refused = ServerError(1227, "42000", "Access denied")
    connection = Answers(ServerFlavor.MYSQL, {"START": [refused]})
    with pytest.raises(ServerError):
        await begin_between(connection, "brief")
    assert connection.asked[-1] == "UNLOCK TABLES"


async def test_mariadb_tells_the_position_of_a_snapshot() -> None:
    rows = [("Binlog_snapshot_file", "mariadb-bin.000002"), ("binlog_snapshot_position", "1472")]
    connection = Answers(ServerFlavor.MARIADB, {"SHOW STATUS": [rows]})
    for locking in ("never", "brief"):
        window = await begin_between(connection, locking)
        assert window.exact
        assert window.high == Position("mariadb-bin.000002", 1472)
    assert connection.asked == [*BEGIN, "SHOW STATUS LIKE 'binlog_snapshot_%'"] * 2
    assert await low_watermark(connection) == window.low
    assert connection.asked[-1] == "ROLLBACK"
    for faulty in ([], rows[:1], [rows[0], ("binlog_snapshot_position", "")]):
        with pytest.raises(MalformedPacketError, match="does not report"):
            await begin_between(Answers(ServerFlavor.MARIADB, {"SHOW STATUS": [faulty]}))


PARENT = "CREATE TABLE `p` (\n  `id` int NOT NULL,\n  PRIMARY KEY (`id`)\n) ENGINE=InnoDB"
CHILD = (
    "CREATE TABLE `c` (\n  `p` int DEFAULT NULL,\n  KEY `p` (`p`),\n"
    "  CONSTRAINT `c_ibfk_1` FOREIGN KEY (`p`) REFERENCES `p` (`id`) ON DELETE {}\n) ENGINE=InnoDB"
)


@pytest.mark.parametrize(
    ("action", "native", "expected"),
    [
        ("CASCADE", [], {("d", "c")}),
        ("SET NULL", [("innodb_native_foreign_keys", "ON")], {("d", "c")}),
        ("CASCADE", [("innodb_native_foreign_keys", "OFF")], set()),
        ("RESTRICT", [], set()),
    ],
)
async def test_tables_whose_rows_foreign_keys_change(
    action: str, native: Rows, expected: set[tuple[str, str]]
) -> None:
    connection = Answers(
        ServerFlavor.MYSQL,
        {
            "innodb_native": [native],
            "`c`": [[("c", CHILD.format(action).encode())]],
            "`p`": [[("p", PARENT)]],
            "`gone`": [ServerError(1146, "42S02", "no such table")],
        },
    )
    found = await cascaded_tables(connection, [("d", "p"), ("d", "gone"), ("d", "c")])
    assert found == expected
