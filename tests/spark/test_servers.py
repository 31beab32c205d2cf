"""Real servers: what Spark delivers is what SELECT shows."""

import datetime
import json
from decimal import Decimal

import pytest

from tests.spark.binlogs import rows_of
from tests.spark.test_stream import Stream

NAMES = ("mysql-9.7", "mariadb-11.8")
COLUMNS = (
    "id bigint unsigned primary key, small tinyint unsigned, medium mediumint, flag bit(64), "
    "price decimal(65,30), amount decimal(20,4), ratio double, born date, at time(6), "
    "made datetime(3), seen timestamp(6) null, year year, name varchar(40) character set utf8mb4, "
    "old char(10) character set latin1, raw varbinary(8), fixed binary(4), kind enum('a','b''c'), "
    "tags set('x','y','z'), doc json, note text"
)
ROW = (
    "18446744073709551615, 255, -8388608, b'1111111111111111111111111111111111111111111111111111111111111111', "
    "12345678901234567890123456789012345.000000000000000000000000000001, -99.5, 0.1, '1000-01-01', "
    "'-838:59:58.000001', '2026-11-20 08:00:00.123', '2026-11-20 08:00:00.654321', 1901, 'Zoë ✓', "
    "'café', x'00ff', x'01', 'b''c', 'x,z', '{\"a\": [1, null]}', 'text'"
)


@pytest.fixture(params=NAMES)
def source(request, server, new_database):
    """A server with a table that was filled, changed and emptied in part."""
    one = server(request.param)
    database = new_database(one)
    file, offset = one.binlog_position()
    one.execute(f"create table {database}.things ({COLUMNS})")
    one.execute(f"insert into {database}.things values ({ROW})")
    one.execute(f"insert into {database}.things (id, name) values (1, 'one'), (2, 'two')")
    one.execute(f"update {database}.things set name = 'uno' where id = 1")
    one.rotate()
    one.execute(f"delete from {database}.things where id = 2")
    return one, database, f"{file}:{offset}"


def load(spark, source, **options):
    one, _, start = source
    reader = spark.read.format("mysql-binlog").option("url", one.url())
    for name, value in {"startingPosition": start, **options}.items():
        reader = reader.option(name, value)
    return reader.load()


def test_typed_columns(spark, source):
    _, database, _ = source
    frame = load(spark, source, table=f"{database}.things")
    rows = [row.asDict() for row in frame.orderBy("_commit_version", "_row_index").collect()]
    assert [row["_change_type"] for row in rows] == [
        "insert", "insert", "insert", "update_preimage", "update_postimage", "delete",
    ]  # fmt: skip
    first = rows[0]
    assert first["id"] == Decimal(18446744073709551615)
    assert (first["small"], first["medium"]) == (255, -8388608)
    assert first["flag"] == Decimal(18446744073709551615)
    assert first["price"] == "12345678901234567890123456789012345.000000000000000000000000000001"
    assert first["amount"] == Decimal("-99.5000")
    assert first["ratio"] == 0.1
    assert first["born"] == datetime.date(1000, 1, 1)
    assert first["at"] == -datetime.timedelta(hours=838, minutes=59, seconds=58, microseconds=1)
    assert str(first["made"]) == "2026-11-20 08:00:00.123000"
    assert first["year"] == 1901
    assert (first["name"], first["old"]) == ("Zoë ✓", "café")
    assert (bytes(first["raw"]), bytes(first["fixed"])) == (b"\x00\xff", b"\x01\x00\x00\x00")
    assert (first["kind"], first["tags"]) == ("b'c", "x,z")
    assert json.loads(first["doc"]) == {"a": [1, None]}
    assert first["note"] == "text"
    assert (rows[4]["id"], rows[4]["name"]) == (1, "uno")


def test_envelope_as_batch_and_stream(spark, source, tmp_path):
    one, database, start = source
    options = {"tables": f"{database}.*"}
    rows = rows_of(load(spark, source, **options))
    assert [row[8] for row in rows] == ["insert", "insert", "insert", "update", "delete"]
    assert len({row[0] for row in rows}) == 2
    state = {}
    for row in rows:
        if row[9] is not None:
            state.pop(json.loads(row[9])["id"])
        if row[10] is not None:
            state[json.loads(row[10])["id"]] = json.loads(row[10])["name"]
    assert state == dict(one.query(f"select id, name from {database}.things"))
    stream = Stream(
        spark, tmp_path, url=one.url(), startingPosition=start, maxRowsPerTrigger="2", **options
    )
    stream.finish()
    assert stream.rows() == rows
    one.execute(f"insert into {database}.things (id, name) values (3, 'three')")
    stream.finish()
    more = stream.rows()
    assert more[: len(rows)] == rows
    assert [json.loads(row[10])["id"] for row in more[len(rows) :]] == [3]
