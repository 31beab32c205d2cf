"""What a scan of the binlog finds is what reading every event finds, in one connection or several."""

from __future__ import annotations

import asyncio

import pytest

from replica_client import DecodeOptions, open_binlog
from replica_client.protocol.binlog.event import BinlogFormat
from replica_client.schema.ddl.steps import tables_touched
from replica_client.stream.live import binlog_scan
from replica_client.stream.live.binlog_scan import BinlogScan
from replica_client.stream.transactions.query_text import read_query
from replica_client.stream.transport.connect_options import parse_url

STATEMENTS = (
    "CREATE DATABASE scanned",
    "CREATE TABLE scanned.a (id INT PRIMARY KEY, t TEXT)",
    "INSERT INTO scanned.a VALUES (1, 'BEGIN'), (2, 'COMMIT')",
    "CREATE TABLE scanned.b SELECT * FROM scanned.a",
    "ALTER TABLE scanned.a ADD c INT",
    "UPDATE scanned.a SET c = id",
    "CREATE TABLE scanned.m (id INT) ENGINE=MyISAM",
    "INSERT INTO scanned.m VALUES (1)",
    "FLUSH BINARY LOGS",
    "INSERT INTO scanned.a VALUES (3, REPEAT('x', 60000), 1)",
    "RENAME TABLE scanned.b TO scanned.c, scanned.m TO scanned.b",
    "FLUSH BINARY LOGS",
    "XA START 'x'",
    "INSERT INTO scanned.a VALUES (4, '', 1)",
    "XA END 'x'",
    "XA PREPARE 'x'",
    "XA COMMIT 'x'",
    "TRUNCATE TABLE scanned.c",
    "DROP TABLE scanned.a",
    "SET SESSION binlog_format = STATEMENT",
    "INSERT INTO scanned.c VALUES (5, 'as text')",
    "FLUSH BINARY LOGS",
    "ALTER DATABASE scanned CHARACTER SET latin1",
    "DROP DATABASE scanned",
)


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mysql-9.7", []),
        ("mysql-9.7", ["gtid-mode=ON", "enforce-gtid-consistency=ON"]),
        ("mysql-9.7", ["binlog-transaction-compression=ON"]),
        ("mysql-9.7", ["binlog-checksum=NONE"]),
        ("mysql-5.6", []),
        ("mariadb-10.11", []),
        ("mariadb-11.8", ["log-bin-compress=ON", "log-bin-compress-min-len=10"]),
    ],
)
def test_a_scan_finds_what_reading_finds(
    fresh_server, monkeypatch, name: str, options: list[str]
) -> None:
    server = fresh_server(name, options)
    first, offset = server.binlog_position()
    with server.connected() as connection, connection.cursor() as cursor:
        for statement in STATEMENTS:
            if "gtid-mode=ON" in options and "STATEMENT" in statement:
                continue
            if name == "mysql-5.6" and "SELECT" in statement:
                statement = "CREATE TABLE scanned.b (id INT PRIMARY KEY, t TEXT)"  # it has GTIDs
            cursor.execute(statement)
    files = server.binlog_files()
    paths = [server.binlog_path(one) for one in files[files.index(first) :]]
    layout = BinlogFormat()
    expected = []
    for event in open_binlog(paths).events():
        if event.header.type_name == "FORMAT_DESCRIPTION_EVENT":
            layout = BinlogFormat(server_version=event.body.server_version.rstrip(b"\0").decode())
        if event.header.type_name not in ("QUERY_EVENT", "QUERY_COMPRESSED_EVENT"):
            continue
        if (event.file, event.position) < (first, offset):
            continue
        if any(tables_touched(read_query(event, layout).meaning)):
            expected.append(f"{event.file}:{event.position}")
    assert len(expected) >= 8
    for size in (1 << 40, 1):
        monkeypatch.setattr(binlog_scan, "_PART_SIZE", size)
        scan = BinlogScan(parse_url(server.url()), DecodeOptions())
        asyncio.run(scan.extend(first, offset))
        assert [str(one.position) for one in scan.touches.all] == expected
        assert str(scan.end).rpartition(":")[0] == files[-1]
        assert scan.end.offset == server.binlog_path(files[-1]).stat().st_size
        # What was read is not read again, and what comes is.
        asyncio.run(scan.extend(first, offset))
        assert len(scan.touches.all) == len(expected)
        server.execute(f"CREATE DATABASE later_{size}")
        asyncio.run(scan.extend(first, offset))
        assert len(scan.touches.all) == len(expected) + 1
        expected = [str(one.position) for one in scan.touches.all]


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
def test_what_lies_before_is_read_without_what_was_read(
    fresh_server, monkeypatch, name: str
) -> None:
    server = fresh_server(name, [])
    first, offset = server.binlog_position()
    positions = []
    for statement in (*STATEMENTS[:11], "CREATE TABLE scanned.z (id INT, t MEDIUMTEXT)"):
        positions.append(server.binlog_position())
        server.execute(statement)
    for number in range(8):
        server.execute(f"INSERT INTO scanned.z VALUES ({number}, REPEAT('x', 2000000))")
    options = parse_url(server.url())
    whole = BinlogScan(options, DecodeOptions())
    asyncio.run(whole.extend(first, offset))
    assert len(whole.touches.all) == 7
    sizes: list[int] = []
    real = binlog_scan._Part.read

    async def counted(part, *arguments):
        begin = part.end
        await real(part, *arguments)
        if part.end.file == begin.file:
            sizes.append(part.end.offset - begin.offset)

    monkeypatch.setattr(binlog_scan._Part, "read", counted)
    scan = BinlogScan(options, DecodeOptions())
    for file, at in reversed(positions):
        asyncio.run(scan.extend(file, at))
    assert sum(sizes) < 2 * 16_000_000  # the large rows were read once
    assert sorted(one.position for one in scan.touches.all) == [
        one.position for one in whole.touches.all
    ]
    assert (scan.begin, scan.end) == (whole.begin, whole.end)
