"""Live sources whose binlog tells no names: executors know tables that were changed since."""

import json

import pytest

from replica_client.errors import ConfigError, UnknownTableError
from replica_client.lake.pipeline_state import SCHEMA_KEY
from replica_client.lake.source import live_partition as live_range
from replica_client.lake.source.live_plan import LivePlanner
from replica_client.lake.source_options import SourceOptions
from replica_client.lake.spark.source.shape_batches import batches
from replica_client.schema.history import SchemaHistory


@pytest.fixture(params=["mysql-5.6", "mariadb-11.8"])
def source(request, server, fresh_server):
    """A server of minimal metadata with tables."""
    if request.param == "mysql-5.6":
        one = server(request.param)
    else:
        one = fresh_server(request.param, ["binlog-row-metadata=MINIMAL"])
    one.execute("drop database if exists d")
    one.execute("create database d")
    one.execute("create table d.t (id int primary key, v varchar(20), w int)")
    one.execute("create table d.other (id int primary key, v varchar(20))")
    yield one
    one.execute("drop database d")
    while live_range._KEPT:
        live_range._KEPT.pop().close()


class Query:
    """What Spark does with a query: plans in one process, reads in others that know nothing."""

    def __init__(self, one, **options):
        self.options = SourceOptions.parse({"url": one.url(), "tables": "d.*", **options})
        self.planner = LivePlanner(self.options, stream=True)

    def first(self):
        return self.planner.offset(self.planner.start(stream=True))

    def step(self, offset):
        """The next offset, and the rows before it; offsets go through JSON, as Spark's log has them."""
        saved = json.loads(json.dumps(offset))
        start = self.planner.resume(saved)
        end = self.planner.latest(start)
        after = self.planner.offset(end)
        rows = []
        for part in self.planner.ranges(start, end):
            while live_range._KEPT:
                live_range._KEPT.pop().close()
            for batch in batches(self.options, None, part):
                rows += [row for row in batch.to_pylist() if row["operation"] == "insert"]
        return after, [json.loads(row["after"]) for row in rows]


def change(one, number):
    """A row, then a statement that keeps the types and changes a name: only the order tells which."""
    one.execute(f"insert into d.t values ({number}, 'a', {number})")
    old, new = ("w", "x") if number % 2 else ("x", "w")
    one.execute(f"alter table d.t change column {old} {new} int")


def test_rows_before_statements_that_follow_have_their_names(source):
    query = Query(source)
    offset = query.first()
    assert SCHEMA_KEY in offset
    for number in range(1, 5):
        change(source, number)
        source.rotate()
    end, rows = query.step(offset)
    assert [next(reversed(row)) for row in rows] == ["w", "x", "w", "x"]
    assert len(query.planner.ranges(query.planner.resume(offset), query.planner.resume(end))) == 5
    query.planner.close()
    # A new process has it from the offset: the source cannot tell any more.
    change(source, 5)
    change(source, 6)
    again = Query(source)
    _, rows = again.step(end)
    assert [next(reversed(row)) for row in rows] == ["w", "x"]
    assert again.planner.offset(again.planner.resume(end))[SCHEMA_KEY] == end[SCHEMA_KEY]
    again.planner.close()
    # A checkpoint without it: what the binlog and the source prove still, and an error for the rest.
    del end[SCHEMA_KEY]
    third = Query(source)
    with pytest.raises(UnknownTableError, match=r"d\.t: the names of its columns"):
        third.step(end)
    third.planner.close()


def test_from_an_earlier_position_the_statements_tell(source):
    file, offset = source.binlog_position()
    source.execute("insert into d.other values (1, 'untouched')")
    source.execute("create table d.made (id int primary key, a int)")
    source.execute("insert into d.made values (1, 1)")
    source.execute("alter table d.made change a b int")
    source.execute("insert into d.made values (2, 2)")
    source.execute("alter table d.t change w x int")
    source.execute("insert into d.t values (1, 'known again', 5)")
    query = Query(source, startingPosition=f"{file}:{offset}")
    _, rows = query.step(query.first())
    assert rows == [
        {"id": 1, "v": "untouched"},
        {"id": 1, "a": 1},
        {"id": 2, "b": 2},
        {"id": 1, "v": "known again", "x": 5},
    ]
    query.planner.close()


def test_start_that_lies_behind_is_known_from_a_file(source, tmp_path):
    """A pipeline looks at the tables when it is made, and may read its first batch much later."""
    first = Query(source)
    offset = first.first()
    first.planner.close()
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(SchemaHistory.from_state(offset[SCHEMA_KEY]).to_json()))
    change(source, 1)
    change(source, 2)
    start = {"startingPosition": f"{offset['file']}:{offset['offset']}"}
    without = Query(source, **start)
    with pytest.raises(UnknownTableError):
        without.step(without.first())
    without.planner.close()
    query = Query(source, **start, schemaFile=str(file))
    _, rows = query.step(query.first())
    assert [next(reversed(row)) for row in rows] == ["w", "x"]
    query.planner.close()
    file.write_text("{")
    query = Query(source, **start, schemaFile=str(file))
    with pytest.raises(ConfigError, match="schemaFile"):
        query.first()
    query.planner.close()
