"""python-mysql-replication's interface on real servers: its events, and what it gave wrongly."""

import datetime
from decimal import Decimal

import pytest

from replica_client.compat.pymysqlreplication import BinLogStreamReader
from replica_client.compat.pymysqlreplication.event import (
    FormatDescriptionEvent,
    QueryEvent,
    RotateEvent,
    XidEvent,
)
from replica_client.compat.pymysqlreplication.json_binary import JsonDiff
from replica_client.compat.pymysqlreplication.row_event import (
    DeleteRowsEvent,
    TableMapEvent,
    UpdateRowsEvent,
    WriteRowsEvent,
)

ROWS = [WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent]


def _settings(server):
    address = server.address
    return {
        "host": address.host,
        "port": address.port,
        "user": address.user,
        "password": address.password,
    }


def _start(server):
    server.rotate()
    return server.binlog_files()[-1]


def _reader(server, file, **arguments):
    given = {"log_file": file, "log_pos": 4, "resume_stream": True, "enable_logging": False}
    return BinLogStreamReader(_settings(server), 70_001, **(given | arguments))


def _cut(stream):
    """Lose the connection, and what was received and not taken."""
    stream._drop()
    stream._inner = None


def _first_values(event):
    return [next(iter(row["values"].values())) for row in event.rows]


def _rows(server, file, **arguments):
    stream = _reader(server, file, only_events=ROWS, **arguments)
    rows = [row for event in stream for row in event.rows]
    stream.close()
    return rows


WRONG_VALUES = """INSERT INTO {}.t VALUES
  ('-00:00:00.000001', 0, 0, 'ab', '', '', 255, '-838:59:59')"""


def test_what_was_wrong_is_right_and_theirs_on_request(any_server, new_database):
    database = new_database(any_server)
    any_server.execute(
        f"CREATE TABLE {database}.t (tm TIME(6), y YEAR, ts TIMESTAMP NULL, b BINARY(4), vb VARBINARY(4),"
        " bl BLOB, u TINYINT UNSIGNED, t0 TIME)"
    )
    any_server.execute("SET SESSION sql_mode = ''")
    file = _start(any_server)
    any_server.execute(WRONG_VALUES.format(database))
    ((values, sources),) = [
        (list(row["values"].values()), row["none_sources"]) for row in _rows(any_server, file)
    ]
    named = any_server.name != "mysql-5.6"
    assert values[0] == -datetime.timedelta(microseconds=1)
    assert values[1:3] == [0, None]
    assert list(sources.values()) == ["out of datetime2 range"]
    assert values[7] == -datetime.timedelta(hours=838, minutes=59, seconds=59)
    if named:
        assert values[3:7] == [b"ab\0\0", b"", b"", 255]
    ((theirs, _),) = [
        (list(row["values"].values()), row["none_sources"])
        for row in _rows(any_server, file, strict_compat=True)
    ]
    assert theirs[0] == datetime.timedelta(microseconds=1 - 1_000_000)
    assert theirs[1:3] == [1900, datetime.datetime(1970, 1, 1)]  # noqa: DTZ001
    if named:
        assert theirs[3:6] == [b"ab", "", ""]


def test_events_in_order_with_their_positions(any_server, new_database):
    database = new_database(any_server)
    any_server.execute(f"CREATE TABLE {database}.t (a INT PRIMARY KEY, b DECIMAL(5,2))")
    file = _start(any_server)
    any_server.execute(f"INSERT INTO {database}.t VALUES (1, 1.5), (2, NULL)")
    any_server.execute(f"UPDATE {database}.t SET b = 2 WHERE a = 2")
    any_server.execute(f"DELETE FROM {database}.t")
    wanted = [RotateEvent, FormatDescriptionEvent, TableMapEvent, XidEvent, *ROWS]
    stream = _reader(any_server, file, only_events=wanted)
    events = list(stream)
    assert [type(event).__name__ for event in events[:2]] == [
        "RotateEvent",
        "FormatDescriptionEvent",
    ]
    assert [type(event) for event in events[2:]] == [
        *(TableMapEvent, WriteRowsEvent, XidEvent),
        *(TableMapEvent, UpdateRowsEvent, XidEvent),
        *(TableMapEvent, DeleteRowsEvent, XidEvent),
    ]
    assert (events[3].schema, events[3].table) == (database, "t")
    after = list(events[6].rows[0]["after_values"].values())
    assert after == [2, Decimal("2.00")]
    assert stream.log_pos == events[-1].packet.log_pos
    assert stream.fetchone() is not None  # the source says again where it is
    assert all(type(event) in (RotateEvent, FormatDescriptionEvent) for event in stream)
    any_server.execute(f"INSERT INTO {database}.t VALUES (3, 0)")
    later = [event for event in stream if isinstance(event, WriteRowsEvent)]
    assert [row for event in later for row in _first_values(event)] == [3]
    stream.close()


def test_a_killed_connection_loses_and_repeats_nothing(any_server, new_database):
    database = new_database(any_server)
    any_server.execute(f"CREATE TABLE {database}.t (a INT PRIMARY KEY, pad VARCHAR(3000))")
    file = _start(any_server)
    for at in range(0, 600, 100):
        values = ",".join(f"({n}, REPEAT('x', 3000))" for n in range(at, at + 100))
        any_server.execute(f"INSERT INTO {database}.t VALUES {values}")
    for given in (1, 3, 7, 20, 60):
        stream = _reader(any_server, file, only_events=ROWS)
        found = []
        for number, event in enumerate(stream):
            found += _first_values(event)
            if number == given:
                _cut(stream)
        stream.close()
        assert found == list(range(600)), given


def test_a_connection_lost_inside_a_compressed_transaction(server, new_database):
    source = server("mysql-9.7")
    database = new_database(source)
    source.execute(f"CREATE TABLE {database}.t (a INT PRIMARY KEY, pad VARCHAR(3000))")
    file = _start(source)
    source.execute("SET SESSION binlog_transaction_compression = ON")
    values = ",".join(f"({n}, REPEAT('x', 3000))" for n in range(60))
    source.execute(f"INSERT INTO {database}.t VALUES {values}")
    source.execute("SET SESSION binlog_transaction_compression = OFF")
    for given in range(1, 18, 3):
        stream = _reader(source, file, only_events=ROWS)
        found = []
        for number, event in enumerate(stream):
            found += [row["values"]["a"] for row in event.rows]
            if number == given:
                _cut(stream)
        stream.close()
        assert found == list(range(60)), given


def test_compressed_transactions_are_delivered(server, new_database):
    source = server("mysql-9.7")
    database = new_database(source)
    source.execute(f"CREATE TABLE {database}.t (a INT PRIMARY KEY)")
    file = _start(source)
    source.execute("SET SESSION binlog_transaction_compression = ON")
    source.execute(f"INSERT INTO {database}.t VALUES (1), (2)")
    source.execute("SET SESSION binlog_transaction_compression = OFF")
    assert [row["values"] for row in _rows(source, file)] == [{"a": 1}, {"a": 2}]
    assert _rows(source, file, strict_compat=True) == []


def test_partial_updates_of_one_document_are_all_there(server, new_database):
    source = server("mysql-9.7")
    database = new_database(source)
    source.execute(f"CREATE TABLE {database}.t (a INT PRIMARY KEY, j JSON)")
    source.execute(f"""INSERT INTO {database}.t VALUES (1, '{{"a": "xxxxx", "b": "yyyyyy"}}')""")
    file = _start(source)
    source.execute("SET SESSION binlog_row_value_options = 'PARTIAL_JSON'")
    source.execute(f"UPDATE {database}.t SET j = JSON_SET(j, '$.a', 1, '$.b', 2)")
    source.execute("SET SESSION binlog_row_value_options = ''")
    stream = _reader(source, file)
    (row,) = [row for event in stream if hasattr(event, "rows") for row in event.rows]
    stream.close()
    diffs = row["after_values"]["j"]
    assert [(diff.path, diff.value) for diff in diffs] == [(b"$.a", 1), (b"$.b", 2)]
    assert all(type(diff) is JsonDiff for diff in diffs)


def test_names_from_the_server_where_the_binlog_has_none(server, new_database):
    source = server("mysql-5.6")
    database = new_database(source)
    source.execute(f"CREATE TABLE {database}.named (first INT, second VARCHAR(9))")
    file = _start(source)
    source.execute(f"INSERT INTO {database}.named VALUES (1, 'x')")
    (row,) = _rows(source, file)
    assert row["values"] == {"UNKNOWN_COL0": 1, "UNKNOWN_COL1": "x"}
    (row,) = _rows(source, file, use_column_name_cache=True)
    assert row["values"] == {"first": 1, "second": "x"}


@pytest.mark.parametrize(
    ("rule", "tables"),
    [
        ({"only_tables": ["t1"]}, ["t1"]),
        ({"ignored_tables": ["t1"]}, ["t2"]),
        ({"only_schemas": ["no"]}, []),
    ],
)
def test_tables_by_name(server, new_database, rule, tables):
    source = server("mariadb-11.8")
    database = new_database(source)
    for table in ("t1", "t2"):
        source.execute(f"CREATE TABLE {database}.{table} (a INT)")
    file = _start(source)
    for table in ("t1", "t2"):
        source.execute(f"INSERT INTO {database}.{table} VALUES (1)")
    stream = _reader(source, file, only_events=ROWS, **rule)
    assert [event.table for event in stream] == tables
    stream.close()


def test_a_file_that_is_not_there_is_an_error_of_the_driver(server):
    source = server("mysql-9.7")
    stream = _reader(source, "nope.000001")
    with pytest.raises(Exception, match="1236") as caught:
        stream.fetchone()
    assert type(caught.value).__name__ == "OperationalError"
    assert not isinstance(caught.value, QueryEvent)
    stream.close()


def test_is_mariadb_alone_begins_with_the_oldest_event(any_server, new_database):
    """On MariaDB; elsewhere, and where a file is told, as without it."""
    database = new_database(any_server)
    any_server.execute(f"CREATE TABLE {database}.t (a INT)")
    # MariaDB refuses an empty GTID position once a file with GTIDs has been purged.
    any_server.reset_binlog()
    oldest = any_server.binlog_files()[-1]
    any_server.execute(f"INSERT INTO {database}.t VALUES (0)")
    file = _start(any_server)
    any_server.execute(f"INSERT INTO {database}.t VALUES (1)")
    begins = {}
    for name, arguments in {
        "alone": {"log_file": None, "log_pos": None, "resume_stream": False},
        "with a file": {},
        "with a file, as theirs": {"strict_compat": True},
    }.items():
        stream = _reader(any_server, file, is_mariadb=True, **arguments)
        stream.fetchone()
        begins[name] = stream.log_file
        stream.close()
    is_mariadb = any_server.name.startswith("mariadb")
    assert begins == {
        "alone": oldest if is_mariadb else file,
        "with a file": file,
        "with a file, as theirs": oldest if is_mariadb else file,
    }


class _WithNames(BinLogStreamReader):
    names_from_source = True


def test_names_come_from_the_source_where_the_binlog_has_none(any_server, new_database):
    """As with releases before 1.0; the definition is asked for again when the table was altered."""
    database = new_database(any_server)
    any_server.execute(
        f"CREATE TABLE {database}.t (a INT PRIMARY KEY, e ENUM('x','y'), u TINYINT UNSIGNED)"
    )
    file = _start(any_server)
    stream = _WithNames(
        _settings(any_server),
        70_001,
        log_file=file,
        log_pos=4,
        resume_stream=True,
        only_events=ROWS,
    )
    any_server.execute(f"INSERT INTO {database}.t VALUES (1, 'y', 255)")
    rows = [row["values"] for event in stream for row in event.rows]
    assert rows == [{"a": 1, "e": "y", "u": 255}]
    any_server.execute(f"ALTER TABLE {database}.t CHANGE u w TINYINT UNSIGNED")
    any_server.execute(f"INSERT INTO {database}.t VALUES (2, 'x', 254)")
    rows = [row["values"] for event in stream for row in event.rows]
    assert rows == [{"a": 2, "e": "x", "w": 254}]
    stream.close()
