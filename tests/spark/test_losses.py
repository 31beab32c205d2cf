"""What cannot be delivered is a row where the user chose so, and the lake copies what it concerns."""

import json

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")

from replica_client.errors import DataLossError
from replica_client.lake.source.envelope import lost_batch
from replica_client.lake.source.live_plan import LivePlanner
from replica_client.lake.source_options import SourceOptions
from replica_client.lake.spark.source.data_source import typed_table
from replica_client.lake.spark.source.shape_batches import batches
from replica_client.protocol.position import Position
from replica_client.schema.history import SchemaHistory
from tests.spark.binlogs import FILES, served
from tests.unit.lake.lakes import CONTEXT, HandLog, applier


def read(options, planner, start, stop, table=None):
    return [
        row
        for part in planner.ranges(start, stop)
        for batch in batches(options, table, part)
        for row in batch.to_pylist()
    ]


def test_statement_logged_as_text_is_a_row(server, new_database):
    one = server("mysql-9.7")
    database = new_database(one)
    one.execute(f"create table {database}.t (id int primary key, v int)")
    file, offset = one.binlog_position()
    with one.connected() as connection, connection.cursor() as cursor:
        cursor.execute("set binlog_format = statement")
        cursor.execute(f"insert into {database}.t values (1, 1)")
        connection.commit()
    one.execute(f"insert into {database}.t values (2, 2)")
    given = {"url": one.url(), "startingPosition": f"{file}:{offset}"}
    with pytest.raises(DataLossError, match="logged as text"):
        parsed = SourceOptions.parse({**given, "tables": f"{database}.*"})
        read_all(parsed)
    for names in ({"tables": f"{database}.*"}, {"table": f"{database}.t"}):
        lost, row = read_all(SourceOptions.parse({**given, **names, "recordLosses": "statement"}))
        if "table" in names:
            assert (lost["_change_type"], lost["id"], row["id"]) == ("loss", None, 2)
            stated = dict(lost["_lossless"])["loss"]
        else:
            assert (lost["operation"], lost["table"], lost["before"]) == ("loss", "t", None)
            stated = lost["after"]
        assert json.loads(stated)["kind"] == "statement"
        assert lost["_commit_version"] < row["_commit_version"]


def read_all(options):
    planner = LivePlanner(options)
    try:
        table = typed_table(planner, options)
        return read(options, planner, planner.start(), planner.stop(), table)
    finally:
        planner.close()


@pytest.mark.parametrize("typed", [False, True], ids=["envelope", "typed"])
def test_purged_range_is_a_row_and_reading_goes_on(typed):
    names = {"table": "shop.orders"} if typed else {}
    with served(FILES[0]) as source:
        given = {"url": source.url, "startingPosition": "earliest", "recordLosses": "gtid_gap"}
        options = SourceOptions.parse({**given, **names})
        planner = LivePlanner(options, stream=True)
        table = typed_table(planner, options)
        offset = planner.offset(planner.start(stream=True))
        start = planner.latest(planner.resume(offset), max_bytes=3000)
        source.add_file(FILES[1])
        source.purge_to(FILES[1].name)
        end = planner.latest(start)
        for _ in range(2):  # a batch that failed is the same when it comes again
            [row] = read(options, planner, start, end, table)
            stated = json.loads(dict(row["_lossless"])["loss"] if typed else row["after"])
            assert (stated["kind"], stated["from"], stated["to"]) == (
                "gtid_gap",
                str(start),
                str(end),
            )
            assert row["_commit_version"] < end.sort_key()
        assert planner.latest(end) == end
        planner.close()


@pytest.fixture
def lake(tmp_path):
    log = HandLog(tmp_path / "change_log")
    log.ddl("create table a (id int primary key)").ddl("create table b (id int primary key)")
    log.insert("a", id=1).insert("b", id=1).commit()
    engine = applier(tmp_path / "lake", log, can_copy=True)
    engine.run()
    return log, engine


def test_table_that_lost_rows_is_copied_again(lake):
    log, engine = lake
    log.offset += 100
    log.add("loss", "a", None, {"kind": "statement", "reason": "as text"})
    log.insert("b", id=2).commit()
    engine.run()
    found = {name[1]: entry for name, entry in engine.catalog.tables.items()}
    assert (found["a"].status, found["b"].status) == ("copying", "current")
    assert "as text" in found["a"].reason


def test_lake_begins_anew_behind_a_gap(lake):
    log, engine = lake
    behind = SchemaHistory()
    for text in (
        "create table b (id int primary key, more int)",
        "create table c (id int primary key)",
    ):
        behind.run(text, CONTEXT, "b.000002", 50)
    log.offset += 10_000
    position = Position("b.000002", log.offset)
    batch = lost_batch(Position("b.000001", 400), position, behind.to_state())
    log.add("loss", "", None, batch.column("after")[0].as_py(), database="")
    log.commit()
    engine.run()
    found = {name[1]: entry for name, entry in engine.catalog.tables.items()}
    assert {name: entry.status for name, entry in found.items()} == {"b": "copying", "c": "copying"}
    assert [column.name for column in found["b"].model.columns] == ["id", "more"]
    # Rows of before are shown until it is copied; those of a table that is gone are not.
    assert [path.name for path in (engine.catalog.directory / "tables").iterdir()] == [
        found["b"].files
    ]
    engine.run()
    assert found["b"].copy == engine.catalog.tables["d", "b"].copy
