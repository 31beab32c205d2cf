"""The tracker on what real servers send, against where the events are in their files."""

import contextlib
import struct

import pymysql
import pytest

from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.event import BinlogFormat, EventHeader
from replica_client.protocol.codec.byte_fields import ByteReader
from replica_client.protocol.constants.event_types import ChecksumAlgorithm, EventType
from replica_client.protocol.gtid import GtidSet, MariadbGtidSet
from replica_client.stream.position import Position, PositionTracker

pytestmark = pytest.mark.integration

COM_BINLOG_DUMP, COM_BINLOG_DUMP_GTID, NON_BLOCK = 0x12, 0x1E, 1


def dump(server, tracker, command, payload, setup=()):
    """Feeds a dump to its end; gives (file, position, type) of each event and the boundaries."""
    positions, boundaries = [], []
    with server.connected() as connection:
        with connection.cursor() as cursor:
            cursor.execute("SET @master_binlog_checksum='CRC32', @source_binlog_checksum='CRC32'")
            for statement in setup:
                cursor.execute(statement)
        connection._execute_command(command, payload)
        decoder = BinlogDecoder(format=BinlogFormat(checksum_algorithm=ChecksumAlgorithm.CRC32))
        while True:
            packet = connection._read_packet()
            if packet.is_eof_packet():
                break
            data = packet._data[1:]
            header = EventHeader.decode(ByteReader(data))
            event = decoder.decode(data, tracker.locate(header), tracker.file)
            offset = tracker.offset
            ended = tracker.feed(event)
            if header.type_code != EventType.ROTATE_EVENT and tracker.offset != offset:
                positions.append((tracker.file, event.position))
            if header.type_code == EventType.TRANSACTION_PAYLOAD_EVENT:
                for inner in decoder.inner_events(event):
                    ended = tracker.feed(inner) or ended
            if ended:
                boundaries.append((ended, tracker.position))
    return positions, boundaries


def workload(server, database):
    """Transactions of all kinds over three files; the files' names."""
    with server.connected() as connection, connection.cursor() as cursor:
        cursor.execute(f"USE {database}")
        cursor.execute("CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(5000)) ENGINE=InnoDB")
        with contextlib.suppress(pymysql.Error):  # none in some servers
            cursor.execute("CREATE TABLE m (a INT) ENGINE=MyISAM")
            cursor.execute("INSERT INTO m VALUES (1), (2)")
            cursor.execute("CREATE TEMPORARY TABLE x (a INT)")
            cursor.execute("DROP TEMPORARY TABLE x")
        files = []
        for part in range(3):
            for n in range(20):
                cursor.execute("BEGIN")
                cursor.execute(
                    "INSERT INTO t VALUES (%s, REPEAT('x', %s))", (part * 100 + n, n * 200)
                )
                cursor.execute("SAVEPOINT s")
                cursor.execute("UPDATE t SET b = 'y' WHERE a = %s", (part * 100 + n,))
                cursor.execute("ROLLBACK TO s" if n % 2 else "RELEASE SAVEPOINT s")
                cursor.execute("COMMIT" if n % 5 else "ROLLBACK")
            with contextlib.suppress(pymysql.Error):
                cursor.execute("SET SESSION binlog_transaction_compression = ON")
                cursor.execute("INSERT INTO t VALUES (%s, REPEAT('z', 4000))", (part * 100 + 50,))
                cursor.execute("SET SESSION binlog_transaction_compression = OFF")
            cursor.execute("XA START 'one'")
            cursor.execute("DELETE FROM t WHERE a = %s", (part * 100 + 3,))
            cursor.execute("XA END 'one'")
            cursor.execute("XA PREPARE 'one'")
            cursor.execute("XA COMMIT 'one'")
            cursor.execute(f"CREATE TABLE d{part} (a INT)")
            files.append(server.binlog_position()[0])
            server.rotate()
    return [*files, server.binlog_position()[0]]


def on_disk(server, files):
    """Places of all events but ROTATE; those inside a payload are listed at the payload's place."""
    positions = {}
    with server.connected() as connection, connection.cursor() as cursor:
        for file in files:
            cursor.execute(f"SHOW BINLOG EVENTS IN '{file}'")
            for _, position, name, *_ in cursor.fetchall():
                if name != "Rotate":
                    positions[file, position] = None
    return list(positions)


def test_positions_of_a_stream_are_those_in_the_files(fresh_server, any_server_name):
    server = fresh_server(any_server_name)
    files = workload(server, server.create_database("tracker"))
    payload = struct.pack("<IHI", 4, NON_BLOCK, 990001) + files[0].encode()
    setup = []
    if server.flavor == "mariadb":
        setup = ["SET @mariadb_slave_capability=4"]
        payload = struct.pack("<IHI", 4, NON_BLOCK | 2, 990001) + files[0].encode()
    tracker = PositionTracker()
    positions, boundaries = dump(server, tracker, COM_BINLOG_DUMP, payload, setup)
    expected = on_disk(server, files)
    assert len(positions) > 200 and {file for file, _ in positions} == set(files)
    assert positions == expected
    assert not tracker.in_transaction
    assert all(boundary.outcome != "abandoned" for boundary, _ in boundaries)
    sql = "SELECT @@GLOBAL.gtid_executed"
    if server.flavor == "mariadb":
        executed = MariadbGtidSet.parse(server.query("SELECT @@GLOBAL.gtid_binlog_pos")[0][0])
        assert tracker.position.gtid_set.positions() == executed.positions()
    else:
        assert tracker.position.gtid_set == GtidSet.parse(server.query(sql)[0][0])
    assert (tracker.position.file, tracker.position.offset) == tuple(server.binlog_position()[:2])

    # Resumed at any boundary, by place and by GTID, the rest is the same.
    for at in range(0, len(boundaries), 9):
        rest = [boundary for boundary, _ in boundaries[at + 1 :]]
        position = boundaries[at][1]
        again = PositionTracker(Position(position.file, position.offset, position.gtid_set))
        payload = struct.pack("<IHI", position.offset, payload[4], 990002) + position.file.encode()
        _, ended = dump(server, again, COM_BINLOG_DUMP, payload, setup)
        assert [boundary for boundary, _ in ended] == rest
        assert again.position == tracker.position
        if server.flavor == "mysql":
            again = PositionTracker(position)
            gtids = position.gtid_set.encode()
            payload_gtid = struct.pack("<HII", NON_BLOCK | 4, 990003, 0)
            payload_gtid += struct.pack("<QI", 4, len(gtids)) + gtids
            _, ended = dump(server, again, COM_BINLOG_DUMP_GTID, payload_gtid, setup)
        else:
            again = PositionTracker(Position("", 0, position.gtid_set))
            state = position.gtid_set.slave_connect_state()
            gtid_setup = [*setup, f"SET @slave_connect_state='{state}'"]
            payload_gtid = struct.pack("<IHI", 4, NON_BLOCK | 2, 990003)
            _, ended = dump(server, again, COM_BINLOG_DUMP, payload_gtid, gtid_setup)
        assert [boundary for boundary, _ in ended] == rest
        assert again.position.gtid_set == tracker.position.gtid_set
        if rest:
            assert again.position == tracker.position


@pytest.fixture(params=["mysql-9.7", "mariadb-10.11", "mariadb-11.8", "mysql-5.6"])
def any_server_name(request):
    return request.param
