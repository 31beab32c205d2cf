"""The first copy on real servers: values as the stream has them, and no change lost or taken back."""

import asyncio
import random

import pymysql
import pytest

import replica_client as rc
from replica_client.errors import ConfigError
from replica_client.protocol.binlog.event import DecodeOptions
from replica_client.protocol.position import Position
from replica_client.rows.json_values import row_to_json
from replica_client.stream.live.live_schema import read_source
from replica_client.stream.snapshot import (
    KeyRange,
    begin_between,
    chunks,
    key_ranges,
    low_watermark,
    read_chunk,
    reading,
    snapshot,
)
from replica_client.stream.transport.connect_options import parse_url
from replica_client.stream.transport.connection import SourceConnection

COLUMNS = """
    i1 tinyint, i2 smallint unsigned, i3 mediumint, i4 int unsigned, i8 bigint unsigned, f float, d double,
    de decimal(65,30), b1 bit(1), b64 bit(64), y year, da date, ti time(6), dt datetime(3),
    ts timestamp(6) null, c char(5), v varchar(20), l varchar(20) character set latin1, bi binary(4),
    vb varbinary(9), tx longtext, bl blob, e enum('a','b''c',''), s set('x','y','z'), g point, j json
"""
ROWS = (
    "127, 65535, -8388608, 4294967295, 18446744073709551615, 16777217.1, 1e-300, "
    "-12345678901234567890123456789012345.000000000000000000000000000001, b'1', "
    "b'1000000000000000000000000000000000000000000000000000000000000001', 2155, '9999-12-31', "
    "'-838:59:58.999999', '2026-02-03 04:05:06.789', '2038-01-19 03:14:07.000001', 'ab', 'é ✓😀', 'café', "
    "x'0100', x'', 'long \\\\ \\n \\\"', x'00ff', 'b''c', 'x,z', point(1,-2), '{\"b\": [1, null, 2.5]}'",
    "0, 0, 0, 0, 0, 0.1, -0.0, 0, b'0', 0, 0, '0000-00-00', '00:00:00', '0000-00-00 00:00:00', "
    "'1970-01-01 00:00:01', '', '', '', '', '', '', '', 1, '', null, '[]'",
    ", ".join(["null"] * 26),
    "-1, 1, 1, 1, 1, 5.61, 123456789.125, 0.5, b'1', 5, 1999, '2026-02-00', '838:59:59', "
    "'2026-00-10 01:02:03', '2026-06-01 12:00:00.5', 'x', ' y ', 'ÿ', 'abcd', 'z', 't', 'b', 'a', 'y', "
    "point(0,0), '\"text\"'",
)


async def connected(server):
    return await SourceConnection.open(parse_url(server.url("root")))


def locking_of(server):
    return "brief" if server.version < (8, 0) and server.flavor == "mysql" else "never"


async def definition(connection, database, name):
    history, _ = await read_source(connection.options, DecodeOptions())
    found = history.table((database, name))
    assert found is not None
    return found


async def streamed(server, database, start):
    """The rows of all inserts from a place on, as JSON."""
    rows = {}
    url = server.url("root")
    async with rc.connect(url, tables=[f"{database}.*"], start=start, stop_at_end=True) as stream:
        async for transaction in stream.transactions():
            for change in transaction.changes:
                rows[change.after["id"]] = row_to_json(change.after)
    return rows


async def test_values_are_the_streams(any_server, new_database):
    server, database = any_server, new_database(any_server)
    columns, rows = COLUMNS, list(ROWS)
    if server.flavor == "mysql" and server.version < (5, 7):
        columns = columns.replace("j json", "j text")
    start = Position(*server.binlog_position())
    with server.connected() as connection, connection.cursor() as cursor:
        cursor.execute("set sql_mode = '', time_zone = '+00:00', names utf8mb4")
        cursor.execute(
            f"create table {database}.t (id int primary key, {columns}) character set utf8mb4"
        )
        for number, row in enumerate(rows):
            cursor.execute(f"insert into {database}.t values ({number}, {row})")
    expected = await streamed(server, database, start)
    async with await connected(server) as connection:
        table = await definition(connection, database, "t")
        chunk = await read_chunk(connection, table, locking=locking_of(server))
    assert {row["id"]: row_to_json(row) for row in chunk.rows} == expected
    assert len(expected) == len(rows)
    assert chunk.window.high >= chunk.window.low > start


@pytest.mark.parametrize(
    ("key", "make"),
    [
        ("id int", lambda n: n * 7 - 50),
        ("id varchar(20) character set utf8mb4 collate utf8mb4_general_ci", lambda n: f"{'aÄb%é'[n % 5]}{n}"),
        ("id varbinary(8)", lambda n: bytes([n % 256, n % 7])),
        ("id decimal(20,3)", lambda n: f"{n * 37 % 101}.{n:03}"),
        ("id datetime(3)", lambda n: f"2026-01-{n % 28 + 1:02} 00:00:00.{n:03}"),
        ("id bigint unsigned", lambda n: 2**64 - 1 - n),
    ],
    ids=["int", "text", "bytes", "decimal", "datetime", "unsigned"],
)  # fmt: skip
async def test_ranges_have_every_row_once(server, new_database, key, make):
    for name in ("mysql-9.7", "mariadb-11.8"):
        one = server(name)
        database = new_database(one)
        one.execute(f"create table {database}.`t%s` ({key}, `b%` int, primary key (id, `b%`))")
        with one.connected() as connection, connection.cursor() as cursor:
            values = [(make(n // 2), n % 2) for n in range(200)]
            cursor.executemany(f"insert into {database}.`t%%s` values (%s, %s)", values)
        async with await connected(one) as connection:
            table = await definition(connection, database, "t%s")
            ranges = [part async for part in key_ranges(connection, table, 30)]
            assert len(ranges) == 7
            parts = [KeyRange.from_json(part.to_json()) for part in ranges]
            found = [
                row for part in parts for row in (await read_chunk(connection, table, part)).rows
            ]
            assert len(found) == len({tuple(map(str, row)) for row in found}) == 200
            after = (database, "t%s", parts[3])
            rest = [
                chunk async for chunk in snapshot(connection, [table], chunk_rows=30, after=after)
            ]
            assert [chunk.range for chunk in rest] == parts[4:]


@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8", "mariadb-10.11"])
async def test_copied_under_load_and_caught_up_it_is_the_source(server, new_database, name):
    """Chunks while rows change, then the stream from the lowest low mark: what the source has."""
    one = server(name)
    database = new_database(one)
    one.execute(f"create table {database}.t (id int primary key, v int)")
    numbers = ", ".join(f"({n}, 0)" for n in range(0, 2000, 2))
    one.execute(f"insert into {database}.t values {numbers}")
    stop = asyncio.Event()

    def load(seed):
        rng = random.Random(seed)
        with one.connected() as connection, connection.cursor() as cursor:
            count = 0
            while not stop.is_set() or count < 300:
                at = rng.randrange(2000)
                cursor.execute(
                    rng.choice(
                        (
                            f"update {database}.t set v = v + 1 where id = {at}",
                            f"delete from {database}.t where id = {at}",
                            f"insert ignore into {database}.t values ({at}, 1)",
                            f"update ignore {database}.t set id = id + 1 where id = {at}",
                        )
                    )
                )
                count += 1

    workers = [asyncio.create_task(asyncio.to_thread(load, seed)) for seed in (1, 2)]
    state, low = {}, None
    async with await connected(one) as connection:
        table = await definition(connection, database, "t")
        async for chunk in snapshot(connection, [table], chunk_rows=100):
            state |= {row["id"]: row["v"] for row in chunk.rows}
            low = min(low or chunk.window.low, chunk.window.low)
            await asyncio.sleep(0.02)
    stop.set()
    await asyncio.gather(*workers)
    url = one.url("root")
    async with rc.connect(url, tables=[f"{database}.*"], start=low, stop_at_end=True) as stream:
        async for transaction in stream.transactions():
            for change in transaction.changes:
                if change.before is not None:
                    state.pop(change.before["id"], None)
                if change.after is not None:
                    state[change.after["id"]] = change.after["v"]
    assert state == dict(one.query(f"select id, v from {database}.t"))


async def test_mysql_without_gtids_wants_a_lock(fresh_server):
    one = fresh_server("mysql-9.7", ["gtid-mode=OFF", "enforce-gtid-consistency=OFF"])
    one.execute("create database d")
    one.execute("create table d.t (id int primary key)")
    async with await connected(one) as connection:
        with pytest.raises(ConfigError, match="locking=brief"):
            await low_watermark(connection)
        table = await definition(connection, "d", "t")
        chunk = await read_chunk(connection, table, locking="brief")
        assert chunk.window.exact


async def test_names_and_definitions_stay_until_the_end(any_server, new_database, monkeypatch):
    """Names are exchanged between the transaction's begin and its SELECT: its rows are of the other table."""
    server, database = any_server, new_database(any_server)
    for name, number in (("a", 1), ("b", 2)):
        server.execute(f"create table {database}.{name} (id int primary key)")
        server.execute(f"insert into {database}.{name} values ({number})")
    exchange = f"rename table {database}.a to {database}.c, {database}.b to {database}.a"

    async def begin(connection, locking):
        window = await begin_between(connection, locking)
        server.execute(exchange)
        return window

    monkeypatch.setattr(chunks, "begin_between", begin)
    async with await connected(server) as connection:
        table = await definition(connection, database, "a")
        async with reading(connection, table, locking=locking_of(server)) as chunk:
            assert chunk.window.named == Position(*server.binlog_position()) > chunk.window.high
            with server.connected() as other, other.cursor() as cursor:
                cursor.execute("set session lock_wait_timeout = 1")
                with pytest.raises(pymysql.err.OperationalError, match="Lock wait timeout"):
                    cursor.execute(f"rename table {database}.a to {database}.d")
            assert [row["id"] async for rows in chunk.rows() for row in rows] == [2]


async def test_a_refused_statement_leaves_the_connection_as_it_is(server) -> None:
    """A snapshot goes on with it where a table was altered."""
    connection = await SourceConnection.open(parse_url(server("mysql-9.7").url()))
    async with connection:
        for sql in ("SELECT none FROM mysql.user", "SELECT 1 FROM mysql.none", "SELEC"):
            with pytest.raises(rc.ServerError):
                async for _ in connection.stream(sql):
                    pass
            assert await connection.query("SELECT 5") == [(5,)]
            assert [rows async for rows in connection.stream("SELECT 7")] == [[(7,)]]
