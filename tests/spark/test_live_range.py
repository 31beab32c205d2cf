"""Ranges of real sources, read without Spark's Java."""

import json
import threading
import time

import pytest

from replica_client.errors import BinlogPurgedError, SchemaMismatchError
from replica_client.lake.source import live_partition as live_range
from replica_client.lake.source.live_plan import LivePlanner
from replica_client.lake.source.live_source import LiveSource
from replica_client.lake.source_options import SourceOptions
from replica_client.lake.spark.source.data_source import typed_table
from replica_client.lake.spark.source.shape_batches import batches
from tests.integration.test_limited_runs import make_mixed_transactions

NAMES = ("mysql-9.7", "mariadb-11.8")


@pytest.fixture(params=NAMES)
def source(request, server, new_database):
    one = server(request.param)
    database = new_database(one)
    one.execute(f"create table {database}.t (id int primary key, v varchar(20))")
    file, offset = one.binlog_position()
    yield one, database, f"{file}:{offset}"
    while live_range._KEPT:
        live_range._KEPT.pop().close()


@pytest.fixture
def planned(source):
    """Planners of queries, closed at the end."""
    made = []

    def plan(**options):
        one, database, start = source
        given = {"url": one.url(), "startingPosition": start, **options}
        if "table" not in given:
            given["tables"] = f"{database}.*"
        parsed = SourceOptions.parse(given)
        made.append(LivePlanner(parsed, stream=True))
        return parsed, made[-1]

    yield plan
    for planner in made:
        planner.close()


def rows_of(options, parts, table=None):
    rows = []
    for part in parts:
        for batch in batches(options, table, part):
            rows += batch.to_pylist()
    return rows


def dumps(one):
    text = "select count(*) from information_schema.processlist where command like 'Binlog Dump%'"
    return int(one.query(text)[0][0])


def test_connection_stays_for_the_next_range(source, planned):
    one, database, _ = source
    options, planner = planned()
    before = dumps(one)
    position = planner.start(stream=True)
    ids = []
    for number in range(4):
        one.execute(f"insert into {database}.t values ({number}, 'x')")
        end = planner.latest(position)
        rows = rows_of(options, planner.ranges(position, end))
        ids += [row["after"] for row in rows]
        position = end
        [kept] = live_range._KEPT
        assert kept.stream.generation == 1
        assert dumps(one) == before + 1
    assert len(ids) == 4
    # Another worker read a range meanwhile: this one passes it over.
    one.execute(f"insert into {database}.t values (10, 'passed over')")
    position = planner.latest(position)
    one.execute(f"insert into {database}.t values (11, 'taken')")
    end = planner.latest(position)
    [row] = rows_of(options, planner.ranges(position, end))
    assert "taken" in row["after"]
    assert live_range._KEPT[0].stream.generation == 1
    # A failed batch is read again from before where the connection stands.
    [again] = rows_of(options, planner.ranges(position, end))
    assert again == row


def test_wait_ends_with_the_next_transaction(source, planned):
    one, database, _ = source
    _, planner = planned()
    position = planner.latest(planner.start(stream=True))
    begun = time.monotonic()
    assert planner.latest(position, wait=1.0) == position
    assert time.monotonic() - begun >= 1.0
    writer = threading.Timer(0.5, one.execute, [f"insert into {database}.t values (1, 'x')"])
    writer.start()
    begun = time.monotonic()
    reached = planner.latest(position, wait=30.0)
    took = time.monotonic() - begun
    writer.join()
    assert reached > position
    assert took < 10


def test_source_that_rotates_while_it_is_followed(source, planned):
    one, database, _ = source
    options, planner = planned()
    position = planner.start(stream=True)
    found = []
    for number in range(3):
        one.execute(f"insert into {database}.t values ({number}, 'x')")
        one.rotate()
        end = planner.latest(position)
        parts = planner.ranges(position, end)
        found += [row["after"] for row in rows_of(options, parts)]
        position = end
    assert len(found) == 3


def test_limits_in_bytes_and_rows_together(source, planned):
    one, database, _ = source
    for number in range(12):
        one.execute(f"insert into {database}.t values ({2 * number}, 'a'), ({2 * number + 1}, 'b')")
    options, planner = planned()
    position, counts = planner.start(stream=True), []
    while (end := planner.latest(position, max_bytes=100_000, max_rows=5)) != position:
        counts.append(len(rows_of(options, planner.ranges(position, end))))
        position = end
    assert sum(counts) == 24
    assert set(counts) <= {0, 4}


def test_for_a_limit_in_rows_the_rest_of_the_backlog_is_not_looked_at(source, planned, monkeypatch):
    one, database, _ = source
    for number in range(6):
        one.execute(f"insert into {database}.t values ({number}, 'a')")
    options, planner = planned(partitionSize="1")
    position = planner.start(stream=True)
    with monkeypatch.context() as patch:
        patch.setattr(LiveSource, "cut_positions", None)
        end = planner.latest(position, max_rows=2)
    parts = planner.ranges(position, end)
    assert len(parts) > 1
    assert len(rows_of(options, parts)) == 2


def test_purged_range_fails_naming_the_gap(source, planned):
    one, database, _ = source
    _, planner = planned()
    position = planner.start(stream=True)
    one.execute(f"insert into {database}.t values (1, 'lost')")
    one.rotate()
    file, _ = one.binlog_position()
    if one.url().startswith("mariadb"):
        one.execute("set global slave_connections_needed_for_purge = 0")
    deadline = time.monotonic() + 60
    # MariaDB keeps a file until its transactions are safe in the tables.
    while one.query("show binary logs")[0][0] != file:
        assert time.monotonic() < deadline
        one.execute(f"purge binary logs to '{file}'")
        time.sleep(0.2)
    with pytest.raises(BinlogPurgedError, match="has purged") as caught:
        planner.ranges(position, planner.latest(position))
    assert str(position) in caught.value.missing


def test_typed_query_stops_or_evolves(source, planned):
    one, database, _ = source
    table = f"{database}.t"
    one.execute(f"insert into {table} values (1, 'before')")
    strict, strict_planner = planned(table=table)
    strict_table = typed_table(strict_planner, strict)
    options, planner = planned(table=table, onSchemaChange="evolve")
    first = typed_table(planner, options)
    one.execute(f"alter table {table} modify id bigint, add n int, drop v")
    one.execute(f"insert into {table} values (5000000000, 7)")
    start = planner.start(stream=True)
    end = planner.latest(start)
    parts = planner.ranges(start, end)
    with pytest.raises(SchemaMismatchError, match="planned with") as caught:
        rows_of(strict, parts, strict_table)
    assert "int64" in str(caught.value)
    assert "v string" in str(caught.value)
    with pytest.raises(SchemaMismatchError, match="another one"):
        rows_of(options, parts, first)  # a number became larger than its column
    again = typed_table(planner, options)
    assert [name for name, _ in again.fields] == ["id", "n"]
    rows = rows_of(options, parts, again)
    assert [(row["id"], row["n"], row["_absent"]) for row in rows] == [
        (1, None, ["n"]),
        (5000000000, 7, None),
    ]
    one.execute(f"alter table {table} add more text")
    one.execute(f"insert into {table} values (2, 3, 'new')")
    later = planner.latest(end)
    with pytest.raises(SchemaMismatchError, match="more was added"):
        rows_of(options, planner.ranges(end, later), again)
    assert rows_of(options, planner.ranges(end, later), typed_table(planner, options))


def test_statement_that_empties_a_typed_table_is_a_row(source, planned):
    one, database, _ = source
    one.execute(f"insert into {database}.t values (1, 'x'), (2, 'y')")
    one.execute(f"truncate table {database}.t")
    one.execute(f"insert into {database}.t values (1, 'z')")
    one.execute(f"alter table {database}.t partition by hash (id) partitions 2")
    one.execute(f"alter table {database}.t truncate partition p1")
    options, planner = planned(table=f"{database}.t")
    start = planner.start(stream=True)
    rows = rows_of(
        options, planner.ranges(start, planner.latest(start)), typed_table(planner, options)
    )
    assert [(row["_change_type"], row["id"]) for row in rows] == [
        ("insert", 1),
        ("insert", 2),
        ("truncate_table", None),
        ("insert", 1),
        ("alter_table", None),
    ]


def test_statement_that_made_a_table_is_a_row(source, planned):
    """Who begins to read here does not know whether the table was there; the event's xid tells."""
    one, database, _ = source
    one.execute(f"drop table {database}.t")
    options, planner = planned(startingPosition=":".join(map(str, one.binlog_position())))
    one.execute(f"create table if not exists {database}.t (id int primary key)")
    one.execute(f"insert into {database}.t values (1)")
    start = planner.start(stream=True)
    statement, row = rows_of(options, planner.ranges(start, planner.latest(start)))
    assert (statement["operation"], statement["table"]) == ("create_table", "t")
    assert "create table if not exists" in json.loads(statement["after"])["statement"]
    assert (row["operation"], json.loads(row["after"])) == ("insert", {"id": 1})


@pytest.mark.parametrize("stays", [True, False])
def test_rows_of_an_xa_transaction_come_with_its_commit(source, planned, stays):
    """Prepared in one range, committed in another, whoever reads it."""
    one, database, _ = source
    options, planner = planned()
    position = planner.start(stream=True)
    found = []
    for xid, id in (("'a'", 1), ("'b'", 2)):
        with one.connected() as connection, connection.cursor() as cursor:
            cursor.execute(f"xa start {xid}")
            cursor.execute(f"insert into {database}.t values ({id}, 'xa')")
            cursor.execute(f"xa end {xid}")
            cursor.execute(f"xa prepare {xid}")
            session = connection.thread_id()
        one.wait_until_gone(session)  # others have what it prepared at its end
    steps = (
        f"insert into {database}.t values (3, 'x')",
        "flush binary logs",
        "xa commit 'b'",
        f"insert into {database}.t values (4, 'x')",
        "xa commit 'a'",
        f"insert into {database}.t values (5, 'x')",
    )
    for step in steps:
        one.execute(step)
        end = planner.latest(position)
        for row in rows_of(options, planner.ranges(position, end)):
            found.append((row["_commit_version"], json.loads(row["after"])["id"]))
        position = end
        while live_range._KEPT and not stays:
            live_range._KEPT.pop().close()
    assert [id for _, id in found] == [3, 2, 4, 1, 5]
    assert found == sorted(found)
    # The whole again, in the order of commits, and cut by rows.
    start = planner.start(stream=True)
    whole = rows_of(options, planner.ranges(start, position))
    assert [json.loads(row["after"])["id"] for row in whole] == [3, 2, 4, 1, 5]
    for rows in (1, 2, 4):
        few, limited = planned(maxRowsPerTrigger=str(rows))
        at, ids = limited.start(stream=True), []
        while at < position:
            end = limited.latest(at, max_rows=rows)
            assert end > at
            ids += rows_of(few, limited.ranges(at, end))
            at = end
        assert [json.loads(row["after"])["id"] for row in ids] == [3, 2, 4, 1, 5]


def test_cut_inside_of_files_each_row_comes_once_and_in_order(source, planned):
    one, database, _ = source
    one.execute(f"drop table {database}.t")
    make_mixed_transactions(one, database)
    _, planner = planned()
    start = planner.start(stream=True)
    stop = planner.latest(start)
    options, planner = planned(partitionSize="1g")
    whole = rows_of(options, planner.ranges(start, stop))
    assert len(whole) > 40
    counts = []
    for size in (1, 300, 1000, 5000):
        options, planner = planned(partitionSize=str(size), serverIdBase="4000000")
        parts = planner.ranges(start, stop)
        counts.append(len(parts))
        assert rows_of(options, parts) == whole
        at, rows = start, []
        while (end := planner.latest(at, max_bytes=2 * size)) != at:
            rows += rows_of(options, planner.ranges(at, end))
            at = end
        assert rows == whole
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > 15
