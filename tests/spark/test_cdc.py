"""``shape=cdc``: rows that a reader applies by their key and ``_sequence``, as Auto CDC and MERGE do."""

import pytest

from replica_client.errors import ConfigError, DataLossError
from replica_client.lake.source.live_plan import LivePlanner
from replica_client.lake.source_options import SourceOptions
from replica_client.lake.spark.source.data_source import typed_table
from replica_client.lake.spark.source.shape_batches import batches
from tests.spark.binlogs import FILES, expected_tables, served
from tests.spark.test_live_range import planned, source
from tests.spark.test_stream import PATH, Stream

__all__ = ["planned", "source"]

OURS = ("_sequence", "_deleted", "_replica")
TABLE = "shop.customers"


class Planned:
    """A typed query of a real source with ``shape=cdc``, read without Spark's Java."""

    def __init__(self, planned, database, **options):
        self.options, self.planner = planned(table=f"{database}.t", shape="cdc", **options)
        self.table = typed_table(self.planner, self.options)
        self.at = self.planner.start(stream=True)

    def rows(self):
        """What came since the last call."""
        begin, self.at = self.at, self.planner.latest(self.at)
        return [
            row
            for part in self.planner.ranges(begin, self.at)
            for batch in batches(self.options, self.table, part)
            for row in batch.to_pylist()
        ]


def applied(rows, key, target=None):
    """The rows after SCD 1: of each key the last by ``_sequence``, in whatever order they come."""
    target = {} if target is None else target
    for row in sorted(rows, key=lambda row: hash(row["_sequence"])):
        known = target.get(row[key])
        if known is None or known["_sequence"] < row["_sequence"]:
            target[row[key]] = row
    return target


def values(target):
    return sorted(
        tuple(value for name, value in row.items() if name not in OURS)
        for row in target.values()
        if not row["_deleted"]
    )


def test_a_target_equals_the_source_through_key_changes_and_restarts(source, planned):
    one, database, _ = source
    table = f"{database}.t"
    query, target = Planned(planned, database), {}
    for statements in (
        [f"insert into {table} values (1, 'a'), (2, 'b'), (3, 'c'), (4, null)"],
        [f"update {table} set v = 'x' where id < 3", f"update {table} set id = id + 10 where id = 2"],
        [f"delete from {table} where id = 1", f"insert into {table} values (1, 'again'), (2, 'y')"],
        # Keys that change places, and one that comes and goes in one transaction.
        [
            "begin", f"update {table} set id = 99 where id = 3", f"update {table} set id = 3 where id = 4",
            f"update {table} set id = 4 where id = 99", f"insert into {table} values (7, 'z')",
            f"delete from {table} where id = 7", "commit",
        ],
    ):  # fmt: skip
        with one.connected() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
        rows = query.rows()
        assert len({row["_sequence"] for row in rows}) == len(rows)
        assert [row["_sequence"] for row in rows] == sorted(row["_sequence"] for row in rows)
        applied(rows, "id", target)
        applied(rows, "id", target)  # a micro-batch that is repeated changes nothing
        assert values(target) == sorted(one.query(f"select id, v from {table}"))
        begin = query.at
        query = Planned(planned, database)
        query.at = begin


def test_an_update_is_one_row_and_two_where_its_key_changes(source, planned):
    one, database, _ = source
    query = Planned(planned, database)
    one.execute(f"insert into {database}.t values (1, 'a')")
    one.execute(f"update {database}.t set v = 'b'")
    one.execute(f"update {database}.t set id = 2")
    found = [(row["_deleted"], row["id"], row["v"]) for row in query.rows()]
    assert found == [(False, 1, "a"), (False, 1, "b"), (True, 1, "b"), (False, 2, "b")]
    one.execute(f"alter table {database}.t drop primary key")
    query = Planned(planned, database)
    begin = query.at
    assert query.table.key == ()
    one.execute(f"update {database}.t set v = 'c'")
    found = [(row["_deleted"], row["id"], row["v"]) for row in query.rows()[-2:]]
    assert found == [(True, 2, "b"), (False, 2, "c")], begin  # any column may be the reader's key


def test_the_position_is_one_column(source, planned):
    one, database, _ = source
    query = Planned(planned, database)
    one.execute(f"insert into {database}.t values (1, 'a')")
    (row,) = query.rows()
    place = row["_replica"]
    assert place["change_type"] == "insert"
    assert place["file"] == one.binlog_position()[0]
    assert row["_sequence"].startswith(place["commit_version"])
    assert {"commit_timestamp", "gtid", "offset", "event_index", "row_index"} <= place.keys()


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("truncate table {}", "TRUNCATE TABLE"),
        ("drop table {}", "DROP TABLE"),
        ("rename table {0} to {0}_old", "RENAME TABLE"),
    ],
)
def test_rows_that_a_statement_takes_away(source, planned, caplog, statement, name):
    one, database, _ = source
    table = f"{database}.t"
    strict = Planned(planned, database)
    lenient = Planned(planned, database, onTruncate="skip")
    one.execute(f"insert into {table} values (1, 'a'), (2, 'b')")
    one.execute(statement.format(table))
    with pytest.raises(DataLossError, match=f"{table} at .*{name} took rows away.*onTruncate=skip"):
        strict.rows()
    rows = lenient.rows()
    assert [(row["_deleted"], row["id"]) for row in rows] == [(False, 1), (False, 2)]
    assert f"{name} took rows away without row changes; it is left out" in caplog.text


@pytest.mark.parametrize("image", ["minimal", "noblob"])
def test_an_image_that_lacks_values_does_not_become_null(source, planned, image):
    one, database, _ = source
    table = f"{database}.t"
    one.execute(f"alter table {table} add t text")
    query = Planned(planned, database)
    one.execute(f"insert into {table} values (1, 'a', 'long')")
    with one.connected() as connection, connection.cursor() as cursor:
        cursor.execute(f"set binlog_row_image = {image}")
        cursor.execute(f"update {table} set v = 'b'")
    with pytest.raises(DataLossError, match="the row image lacks .*t, and .*binlog_row_image=FULL"):
        query.rows()
    one.execute(f"delete from {table}")
    # A delete needs no more than its key.
    without = Planned(planned, database, startingPosition=":".join(map(str, one.binlog_position())))
    with one.connected() as connection, connection.cursor() as cursor:
        cursor.execute(f"set binlog_row_image = {image}")
        cursor.execute(f"insert into {table} values (3, 'c', 'd')")
        cursor.execute(f"delete from {table}")
    assert [(row["_deleted"], row["id"]) for row in without.rows()] == [(False, 3), (True, 3)]


def test_a_difference_to_a_document_is_refused(server, new_database, request):
    one = server("mysql-9.7")
    database = new_database(one)
    one.execute(f"create table {database}.t (id int primary key, d json)")
    start = ":".join(map(str, one.binlog_position()))
    given = {"url": one.url(), "startingPosition": start, "table": f"{database}.t", "shape": "cdc"}
    options = SourceOptions.parse(given)
    planner = LivePlanner(options)
    request.addfinalizer(planner.close)
    with one.connected() as connection, connection.cursor() as cursor:
        cursor.execute("set binlog_row_value_options = 'PARTIAL_JSON', binlog_row_image = minimal")
        document = '{"a": 1, "b": "%s"}' % ("x" * 200)
        cursor.execute(f"insert into {database}.t values (1, '{document}')")
        cursor.execute(f"update {database}.t set id = 2, d = json_set(d, '$.a', 2)")
    parts = planner.ranges(planner.start(), planner.stop())
    with pytest.raises(DataLossError, match="lacks d, .*binlog_row_value_options"):
        for part in parts:
            list(batches(options, typed_table(planner, options), part))


def test_a_key_that_spark_cannot_hold_is_named(source, planned):
    one, database, _ = source
    one.execute(f"drop table {database}.t")
    one.execute(f"create table {database}.t (d date primary key, v int)")
    start = ":".join(map(str, one.binlog_position()))
    query = Planned(planned, database, startingPosition=start)
    with one.connected() as connection, connection.cursor() as cursor:
        cursor.execute("set sql_mode = ''")
        cursor.execute(f"insert into {database}.t values ('0000-00-00', 1)")
    with pytest.raises(DataLossError, match="d of the key is 0000-00-00.*read the envelope"):
        query.rows()


@pytest.mark.parametrize(
    ("column", "options", "message"),
    [
        ("_Deleted", {}, "it has a column _Deleted, and shape=cdc has one of this name"),
        ("w", {"columns": "v"}, "shape=cdc needs the primary key of .*: add id"),
    ],
)
def test_columns_that_do_not_go_with_it(source, planned, column, options, message):
    one, database, _ = source
    one.execute(f"alter table {database}.t add {column} int")
    with pytest.raises(ConfigError, match=message):
        Planned(planned, database, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shape": "cdc"}, "shape=cdc is of one table"),
        ({"shape": "cdc", "tables": "a.*"}, "shape=cdc is of one table"),
        ({"shape": "cdc", "table": "a.b", "recordLosses": "statement"}, "recordLosses does not go"),
        ({"table": "a.b", "onTruncate": "skip"}, "onTruncate is for shape=cdc"),
        ({"table": "a.b", "asOf": "latest", "shape": "cdc"}, "shape is for changes"),
        ({"table": "a.b", "shape": "scd"}, "option shape"),
    ],
)
def test_options_that_do_not_go_with_it(options, message):
    with pytest.raises(ConfigError, match=message):
        SourceOptions.parse({"path": PATH, **options})


def frame_rows(frame):
    return [row.asDict(recursive=True) for row in frame.collect()]


def expected():
    """The server's SELECT of the table: its keys, with a column that changed."""
    return sorted((int(row["id"]), row["name"]) for row in expected_tables()["customers"])


def test_a_batch_and_a_stream_of_spark(spark, tmp_path):
    options = {"table": TABLE, "shape": "cdc"}
    frame = spark.read.format("mysql-binlog").option("path", PATH).options(**options).load()
    assert frame.columns[:3] == list(OURS)
    assert frame.schema["_sequence"].nullable is False
    rows = frame_rows(frame)
    left = [row for row in applied(rows, "id").values() if not row["_deleted"]]
    assert sorted((row["id"], row["name"]) for row in left) == expected()
    with served(FILES[0]) as source:
        stream = Stream(spark, tmp_path, url=source.url, startingPosition="earliest", **options)
        stream.finish()
        source.add_file(FILES[1])
        stream.finish()  # from its checkpoint
        streamed = frame_rows(spark.read.parquet(str(tmp_path / "out")))
    assert {row["_sequence"] for row in streamed} == {row["_sequence"] for row in rows}
    assert len(streamed) == len(rows)
    assert values(applied(streamed, "id")) == values(applied(rows, "id"))
