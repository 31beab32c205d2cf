"""Functions run by executors, and what Spark tells of a stream, as over Spark Connect, too."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")

from pyspark.errors import PySparkException
from pyspark.sql import functions
from pyspark.sql.streaming.listener import StreamingQueryProgress

from replica_client.lake.rewrite import Rewrite
from replica_client.lake.spark.pipeline.executors import by_data_frame, cause_of, on_executors
from replica_client.lake.spark.pipeline.lake_run import spark_runner
from replica_client.lake.spark.pipeline.run_history import (
    LAST_COMMIT,
    OBSERVED,
    lag_of,
    position_of,
    rows_of,
)
from tests.spark.binlogs import DATA

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


def _work(directory, number, paths=()):
    removed = pa.table({"id": pa.array([number], pa.int64())})
    return Rewrite(directory, paths, 100, ROWS.schema, ("id",), True, removed, ROWS[:number])


def test_each_task_once_and_in_order(spark):
    assert on_executors(spark, str.upper, [f"task {n}" for n in range(5)]) == [
        f"TASK {n}" for n in range(5)
    ]
    assert on_executors(spark, str.upper, []) == []


def test_the_way_of_spark_connect(spark):
    tasks = [b"task %d" % n for n in range(5)]
    assert by_data_frame(spark, bytes.upper, tasks) == [one.upper() for one in tasks]


def test_files_rewritten_by_executors(spark, tmp_path):
    works = [_work(tmp_path, number) for number in (1, 2, 3)]
    found = spark_runner(lambda: spark, 0)(works)
    written = [pq.read_table(tmp_path / file.path)["id"].to_pylist() for [file] in found]
    assert written == [[1], [1, 2], [1, 2, 3]]
    works[1] = _work(tmp_path, 2, ("away.parquet",))
    with pytest.raises(PySparkException) as caught:
        spark_runner(lambda: spark, 0)(works)
    assert "away.parquet" in str(cause_of(caught.value))


def test_progress_as_spark_connect_gives_it(spark, tmp_path):
    """There the client makes it of JSON, in which the sum of rows is not."""
    last = functions.max("_commit_timestamp").cast("double").alias(LAST_COMMIT)
    reader = spark.readStream.format("mysql-binlog").option("path", str(DATA / "shop-bin.0*"))
    query = (
        reader.load()
        .observe(OBSERVED, last)
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    for report in query.recentProgress:
        other = StreamingQueryProgress.fromJson(json.loads(report.json))
        assert rows_of(other) == rows_of(report)
        assert position_of(other) == position_of(report)
        assert lag_of(other) == lag_of(report)
    assert any(map(rows_of, query.recentProgress))
