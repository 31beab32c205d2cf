"""A table as it was, as the option ``asOf`` of the batch source gives it."""

import pytest
from pyspark.errors import AnalysisException, PythonException, StreamingQueryException

import replica_client as rc
from replica_client.archive.as_of.table_state import write_state
from replica_client.lake.pipeline.workers import cause_of
from tests.spark.binlogs import FILES, served

PATH = ",".join(map(str, FILES))
MOMENTS = ("shop-bin.000002:4", "latest")


def load(spark, tmp_path, **options):
    options = {"path": PATH, "indexDirectory": str(tmp_path), "table": "shop.orders", **options}
    return spark.read.format("mysql-binlog").options(**options).load()


def expected(tmp_path, table, at, **options):
    archive = rc.open_archive(list(FILES), index_directory=tmp_path)
    return archive.as_of(table, at, **options)


def sorted_rows(table):
    return sorted(table.to_pylist(), key=repr)


@pytest.mark.parametrize("at", MOMENTS)
@pytest.mark.parametrize("table", ["shop.orders", "shop.customers", "shop.products"])
def test_equals_the_archive(spark, tmp_path, table, at):
    state = expected(tmp_path, table, at).read_all()
    frame = load(spark, tmp_path, table=table, asOf=at)
    assert frame.columns == state.schema.names
    assert state.num_rows
    assert sorted_rows(frame.toArrow()) == sorted_rows(state)


def test_forward_from_a_copy(spark, tmp_path):
    """The copy goes before what the files tell: a row of it that never changed again stands there as it is."""
    early = expected(tmp_path, "shop.orders", MOMENTS[0])
    write_state(early, str(tmp_path / "early.parquet"), "parquet")
    frame = load(spark, tmp_path, asOf="latest", copy=str(tmp_path / "early.parquet"), columns="id")
    state = expected(tmp_path, "shop.orders", "latest").read_all()
    assert frame.columns == ["id", "_lossless"]
    assert sorted(row.id for row in frame.collect()) == sorted(state["id"].to_pylist())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"asOf": "shop-bin.000009:4"}, "shop-bin.000009"),
        ({"asOf": "latest", "startingPosition": "earliest"}, "startingPosition"),
        ({"asOf": "latest", "copyAt": "shop-bin.000001:4"}, "copyAt"),
        ({"copy": "orders.parquet"}, "copy"),
        ({"asOf": "latest", "table": "shop.nothing"}, "shop.nothing"),
    ],
)
def test_what_cannot_be_is_refused(spark, tmp_path, options, words):
    with pytest.raises((AnalysisException, PythonException)) as caught:
        load(spark, tmp_path, **options).collect()
    error = str(cause_of(caught.value))
    assert words in error
    assert "\n" not in error


def test_a_live_source_and_a_stream_are_refused(spark, tmp_path):
    with served() as source, pytest.raises((AnalysisException, PythonException), match="asOf"):
        spark.read.format("mysql-binlog").options(
            url=source.url, table="shop.orders", asOf="latest"
        ).load()
    stream = spark.readStream.format("mysql-binlog")
    stream = stream.options(
        path=PATH, indexDirectory=str(tmp_path), table="shop.orders", asOf="latest"
    )
    with pytest.raises((AnalysisException, StreamingQueryException), match="asOf"):
        stream.load().writeStream.format("noop").option(
            "checkpointLocation", str(tmp_path / "c")
        ).start().processAllAvailable()


def test_a_copy_needs_only_the_columns_that_are_asked_for(spark, tmp_path):
    early = expected(tmp_path, "shop.orders", MOMENTS[0], without=["state"])
    write_state(early, str(tmp_path / "early.parquet"), "parquet")
    options = {"asOf": "latest", "copy": str(tmp_path / "early.parquet")}
    state = expected(tmp_path, "shop.orders", "latest").read_all()
    frame = load(spark, tmp_path, columns="id,total", **options)
    assert sorted_rows(frame.select("id", "total").toArrow()) == sorted_rows(
        state.select(["id", "total"])
    )
    with pytest.raises((AnalysisException, PythonException)) as caught:
        load(spark, tmp_path, **options).collect()
    assert "the copy lacks state" in str(cause_of(caught.value))
