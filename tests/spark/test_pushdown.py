"""Conditions that the source looks at: the same rows, and fewer that are handed over."""

import datetime
import random

import pytest
from pyspark.sql import functions as f
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    Not,
    StringStartsWith,
)

from replica_client.lake.source_options import SourceOptions
from replica_client.lake.spark.source.data_source import BinlogDataSource
from replica_client.lake.spark.source.readers import FilteringBatchReader, PushedFilters
from tests.spark.binlogs import DATA, FILES, served

PATH = str(DATA / "shop-bin.0*")
ORDER = ("_commit_version", "_event_index", "_row_index")


def handed_over(filters, **options):
    """What the source gives for conditions, before Spark looks at it again; and its partitions."""
    source = BinlogDataSource({"path": PATH, "filterPushdown": "true", **options})
    reader = source.reader(source.schema())
    assert isinstance(reader, FilteringBatchReader)
    assert list(reader.pushFilters(filters)) == filters
    parts = reader.partitions()
    return [
        row for part in parts for batch in reader.read(part) for row in batch.to_pylist()
    ], parts


def holds(row, one):
    """What Spark says of a row."""
    if isinstance(one, Not):
        return not holds(row, one.child)
    value = row[one.attribute[0]]
    if isinstance(one, EqualTo | EqualNullSafe):
        return value == one.value
    if isinstance(one, In):
        return value in one.value
    if isinstance(one, GreaterThan):
        return value > one.value
    if isinstance(one, GreaterThanOrEqual):
        return value >= one.value
    if isinstance(one, LessThan):
        return value < one.value
    if isinstance(one, StringStartsWith):
        return value.startswith(one.value)
    assert isinstance(one, IsNotNull)
    return value is not None


@pytest.fixture(scope="module")
def everything():
    rows, _ = handed_over([])
    assert len(rows) > 80
    return rows


def test_nothing_that_holds_is_missing(everything):
    """Conditions by chance: of what the source gives, Spark keeps what it keeps of everything."""
    rng = random.Random(5)
    fewer = 0
    for _ in range(60):
        row = rng.choice(everything)
        choices = [
            EqualTo(("database",), row["database"]),
            EqualTo(("table",), row["table"]),
            EqualNullSafe(("table",), row["table"]),
            In(("table",), (row["table"], "orders", None)),
            EqualTo(("_file",), row["_file"]),
            GreaterThan(("_commit_timestamp",), row["_commit_timestamp"]),
            GreaterThanOrEqual(("_commit_timestamp",), row["_commit_timestamp"]),
            LessThan(("_commit_timestamp",), row["_commit_timestamp"]),
            EqualTo(("_commit_timestamp",), row["_commit_timestamp"]),
            Not(EqualTo(("table",), row["table"])),
            StringStartsWith(("table",), "o"),
            IsNotNull(("table",)),
            EqualTo(("operation",), row["operation"]),
        ]
        filters = rng.sample(choices, rng.randrange(1, 4))
        found, _ = handed_over(filters, partitionSize=rng.choice(["64m", "700"]))
        wanted = [row for row in everything if all(holds(row, one) for one in filters)]
        key = lambda row: tuple(row[name] for name in ORDER)  # noqa: E731
        kept = [row for row in found if all(holds(row, one) for one in filters)]
        assert sorted(kept, key=key) == sorted(wanted, key=key), filters
        fewer += len(found) < len(everything)
    assert fewer > 40


def test_what_is_pushed_is_handed_over_exactly(everything):
    file = FILES[1].name
    found, parts = handed_over([EqualTo(("_file",), file)], partitionSize="700")
    assert len(found) == sum(row["_file"] == file for row in everything) > 0
    assert {one.name for part in parts for one in part.value.files} == {file}
    found, _ = handed_over([EqualTo(("table",), "orders"), EqualTo(("database",), "shop")])
    assert {row["table"] for row in found} == {"orders"}
    assert handed_over([EqualTo(("database",), "none")])[0] == []


def test_tables_are_left_out_before_they_are_decoded():
    options = SourceOptions.parse({"path": PATH})
    pushed = PushedFilters.of(
        [In(("table",), ("a.b", "c`d")), EqualTo(("database",), "x*")], typed=False
    )
    assert pushed.narrowed(options).tables == ("`x*`.`a.b`", "`x*`.`c``d`")
    assert PushedFilters.of([EqualTo(("table",), "t")], typed=False).narrowed(options).tables == (
        "*.`t`",
    )
    empty = PushedFilters.of([EqualTo(("table",), "")], typed=False)
    assert empty and empty.narrowed(options) is options
    # The user's own patterns say more; and a typed query may have such columns itself.
    mine = SourceOptions.parse({"path": PATH, "tables": "shop.*"})
    assert pushed.narrowed(mine) is mine
    assert not PushedFilters.of([EqualTo(("table",), "t")], typed=True)
    assert not PushedFilters.of([EqualNullSafe(("database",), None)], typed=False)
    naive = datetime.datetime(2026, 1, 1)  # noqa: DTZ001
    assert not PushedFilters.of([GreaterThan(("_commit_timestamp",), naive)], typed=False)


def test_through_spark(spark):
    """With its setting, and live, too; without the option Spark does it alone."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        reader = spark.read.format("mysql-binlog").option("path", PATH)
        plain = reader.load()
        middle = sorted(row[0] for row in plain.select("_commit_timestamp").collect())[40]
        with served() as source:
            live = spark.read.format("mysql-binlog").option("url", source.url)
            live = live.option("filterPushdown", "true").load()
            pushed = reader.option("filterPushdown", "true").load()
            for condition in (
                f.col("table") == "orders",
                (f.col("database") == "shop") & f.col("table").isin("orders", "products"),
                f.col("_file") == FILES[1].name,
                f.col("_commit_timestamp") >= middle,
                (f.col("_commit_timestamp") < middle) & (f.col("operation") == "insert"),
            ):
                wanted = [tuple(row) for row in plain.where(condition).orderBy(*ORDER).collect()]
                assert 0 < len(wanted) < plain.count()
                for frame in (pushed, live):
                    found = [tuple(row) for row in frame.where(condition).orderBy(*ORDER).collect()]
                    assert found == wanted, condition
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
