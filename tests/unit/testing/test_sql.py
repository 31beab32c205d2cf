"""The testing source's little SQL."""

import random
import re

import pytest

from replica_client.errors import ServerError
from replica_client.server import show_events
from replica_client.server.binlog_server import BinlogServer
from replica_client.server.budget import SessionBudget
from replica_client.server.served_library import BinlogLibrary
from replica_client.server.sql_grammar import LikePattern, normal
from replica_client.server.understood_sql import SqlSession
from tests.source.binlogs import SOURCE_UUID, two_files


class Server(BinlogServer):
    """A server that does not listen, with one other connection."""

    def kill(self, connection_id: int, user: str) -> None:
        if (connection_id, user) != (3, "repl"):
            super().kill(connection_id, user)


@pytest.fixture
async def session(tmp_path):
    server = Server(BinlogLibrary(two_files(tmp_path)), (), server_uuid=SOURCE_UUID)
    server.port = 3306
    budget = SessionBudget(server.budget("repl"), server.limits)
    yield SqlSession(server, 7, "repl", budget, {})
    server.worker.close()


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT VERSION()", [["9.7.4"]]),
        ("select version() as v limit 1;", [["9.7.4"]]),
        ("SELECT @@GLOBAL.binlog_checksum, @@session.`sql_mode`", [["CRC32", ""]]),
        ("SELECT 'it''s', \"a\\\"b\", -7, 1.5, NULL", [["it's", 'a"b', -7, "1.5", None]]),
        ("/* a comment */ SELECT CONNECTION_ID()", [[7]]),
        ("SELECT @@global.gtid_executed", [[f"{SOURCE_UUID}:1-10"]]),
        ("SHOW VARIABLES LIKE 'gtid_m%'", [("gtid_mode", "ON")]),
        ("SHOW VARIABLES LIKE 'gtid\\_mode'", [("gtid_mode", "ON")]),
        ("SHOW VARIABLES LIKE '" + "%" * 3000 + "x'", []),
        ("SHOW VARIABLES LIKE '" + "%_" * 1500 + "'", []),
        ("SHOW VARIABLES LIKE '" + "%e" * 1500 + "'", []),
        ("SHOW GLOBAL VARIABLES WHERE Variable_name IN ('log_bin')", [("log_bin", "ON")]),
        ("SHOW WARNINGS", []),
        (
            f"SELECT GTID_SUBTRACT('{SOURCE_UUID}:1-9', '{SOURCE_UUID}:2-5')",
            [[f"{SOURCE_UUID}:1:6-9"]],
        ),
        (f"SELECT GTID_SUBSET('{SOURCE_UUID}:3', @@global.gtid_executed)", [[1]]),
        (f"SELECT GTID_SUBSET('{SOURCE_UUID}:11', @@global.gtid_executed)", [[0]]),
        ("SELECT GTID_SUBSET(NULL, '')", [[None]]),
    ],
    ids=lambda value: str(value)[:30],
)
async def test_answers(session, sql, rows) -> None:
    result = await session.execute(sql)
    assert result is not None
    assert [type(row)(row) for row in result[1]] == rows


async def test_user_variables(session) -> None:
    assert await session.execute("SET @a = 1, @B := @@server_id, @c = 'x', autocommit = 1") is None
    assert (await session.execute("SELECT @a, @b, @`c`, @none"))[1] == [[1, 11, "x", None]]
    for sql in (
        *("SET NAMES utf8mb4", "SET SESSION net_write_timeout = 60", "BEGIN", "COMMIT", ""),
        "/*x" * 300_000,
    ):
        assert await session.execute(sql) is None


@pytest.mark.parametrize(
    ("sql", "errno"),
    [
        ("SELECT * FROM t", 1064),
        ("DROP TABLE t", 1064),
        ("SELECT @@no_such_variable", 1193),
        ("SELECT no_such_function()", 1305),
        ("KILL 99", 1094),
        ("SELECT (", 1064),
        ("SET @a", 1064),
        ("SELECT " + "f(" * 5000, 1064),
        ("SELECT " + "9" * 5000 + "(", 1064),
        ("SELECT '" + "\\'" * 100_000, 1064),
        ("SHOW VARIABLES WHERE " + "\\'" * 100_000, 1064),
        ("\n" * 400_000 + "x", 1064),
        ("SELECT " + "x" * (1 << 20), 1153),
        ("SET @a = '" + "x" * (300 << 10) + "'", 1041),
        ("SET " + ", ".join(f"@a{number} = 1" for number in range(101)), 1041),
        ("SELECT BINLOG_GTID_POS('binlog.000001', 'x')", None),
        ("SELECT BINLOG_GTID_POS('binlog.000001', 99999999999999999999999)", None),
        ("KILL " + "9" * 30, 1064),
        ("KILL 3x", 1064),
    ],
    ids=lambda value: str(value)[:30],
)
async def test_refusals(session, sql, errno) -> None:
    if errno is None:
        assert (await session.execute(sql))[1] == [[None]]
        return
    with pytest.raises(ServerError) as caught:
        await session.execute(sql)
    assert caught.value.errno == errno


async def test_kill(session) -> None:
    assert await session.execute("KILL CONNECTION 3") is None


def test_normal_form() -> None:
    assert normal(" select\n 1 ;") == "SELECT 1"


async def listed(session, sql):
    names, pieces = await session.execute(sql)
    return names, [row async for piece in pieces for row in piece]


async def test_events_of_a_file(session) -> None:
    names, rows = await listed(session, "SHOW BINLOG EVENTS")
    assert names == ("Log_name", "Pos", "Event_type", "Server_id", "End_log_pos", "Info")
    assert [row[2] for row in rows[:5]] == [
        "Format_desc",
        "Previous_gtids",
        "Gtid",
        "Query",
        "Query",
    ]
    assert rows[0][:2] == ("binlog.000001", 4)
    assert rows[2][5] == f"SET @@SESSION.GTID_NEXT= '{SOURCE_UUID}:1'"
    assert [row[1] for row in rows[1:]] == [row[4] for row in rows[:-1]]
    _, some = await listed(
        session, f"show binlog events in 'binlog.000001' from {rows[2][1]} limit 1, 2"
    )
    assert list(some) == rows[3:5]
    for sql in (
        "SHOW BINLOG EVENTS IN 'binlog.000099'",
        "SHOW BINLOG EVENTS FROM 5",
        "SHOW BINLOG EVENTS IN '../etc/passwd'",
    ):
        with pytest.raises(ServerError, match="SHOW BINLOG EVENTS"):
            await session.execute(sql)


async def test_events_too_large_to_be_opened(session, monkeypatch) -> None:
    _, whole = await listed(session, "SHOW BINLOG EVENTS")
    monkeypatch.setattr(show_events, "MAX_DECODED", 20)
    _, heads = await listed(session, "SHOW BINLOG EVENTS")
    assert [row[:5] for row in heads] == [row[:5] for row in whole]
    for head, row in zip(heads, whole, strict=True):
        assert head[5].startswith(row[5]) or head[5] == f"{row[4] - row[1]} bytes"
    assert any(head[5].startswith("use `shop`") for head in heads)


def test_like_is_as_sql_says() -> None:
    rng = random.Random(1)
    for _ in range(3000):
        text = "".join(rng.choices("ab_", k=rng.randrange(6)))
        pattern = "".join(rng.choices("ab%_", k=rng.randrange(6)))
        wanted = re.fullmatch(pattern.replace("%", ".*").replace("_", "."), text) is not None
        assert LikePattern(pattern).matches(text) == wanted, (text, pattern)
    assert LikePattern(r"a\_b").matches("a_b")
    assert not LikePattern(r"a\_b").matches("axb")
