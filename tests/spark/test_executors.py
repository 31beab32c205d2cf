"""Functions run by executors, as over Spark Connect, too."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")

from replica_client.lake.maintenance import run_work
from replica_client.lake.pipeline.workers import PipelineError
from replica_client.lake.rewrite import Rewrite
from replica_client.lake.spark.executors import SparkExecutors, by_data_frame, on_executors

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
    found = SparkExecutors(spark).map(run_work, works)
    written = [pq.read_table(tmp_path / file.path)["id"].to_pylist() for [file] in found]
    assert written == [[1], [1, 2], [1, 2, 3]]
    works[1] = _work(tmp_path, 2, ("away.parquet",))
    with pytest.raises(PipelineError, match=r"away\.parquet"):
        SparkExecutors(spark).map(run_work, works)
