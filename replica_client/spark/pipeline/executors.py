"""A Python function run by Spark's executors, once for each of its tasks.

An RDD runs it where the session has one: the first job of a DataFrame costs two and a half CPU seconds of Java
more, which plans and compiles it. Spark Connect has no RDD; there it is a DataFrame.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import TypeVar

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession, functions
from pyspark.sql.types import BinaryType

Task = TypeVar("Task")
Result = TypeVar("Result")


def on_executors(
    spark: SparkSession, function: Callable[[Task], Result], tasks: Sequence[Task]
) -> list[Result]:
    """Run a function on Spark's executors for each task and return the results in order.

    Args:
        spark: a session, of Spark Connect too.
        function: of a module that executors can import.
        tasks: can be pickled; each is a Spark task of its own.

    Raises:
        PySparkException: the function failed; its error's line is in the text.
    """
    if not tasks:
        return []
    pickled = [pickle.dumps(task) for task in tasks]

    def run(task: bytes) -> bytes:
        return pickle.dumps(function(pickle.loads(task)))

    # A session of Spark Connect is of another class, without an RDD.
    collect = _by_rdd if isinstance(spark, SparkSession) else by_data_frame
    return [pickle.loads(one) for one in collect(spark, run, pickled)]


def _by_rdd(
    spark: SparkSession, run: Callable[[bytes], bytes], tasks: Sequence[bytes]
) -> list[bytes]:
    try:
        return spark.sparkContext.parallelize(tasks, len(tasks)).map(run).collect()
    except Py4JJavaError as error:
        raise PySparkException(str(error)) from None


def by_data_frame(
    spark: SparkSession, run: Callable[[bytes], bytes], tasks: Sequence[bytes]
) -> list[bytes]:
    """Run a function for each task through a data frame and return the results in order.

    Spark Connect supports this, too.

    Raises:
        PySparkException: the function failed; its error's line is in the text.
    """
    rows = pa.table(
        {
            "number": pa.array(range(len(tasks)), pa.int32()),
            "task": pa.array(tasks, pa.binary()),
        }
    )
    # Nondeterministic, so that Spark neither runs it twice nor before the rows are spread.
    made = functions.udf(run, BinaryType(), useArrow=False).asNondeterministic()
    spread = spark.createDataFrame(rows).repartitionById(len(tasks), "number")
    found = spread.select("number", made("task").alias("result")).collect()
    return [bytes(row.result) for row in sorted(found)]
