"""A Python function run by Spark's executors, once for each of its tasks.

By a DataFrame and not by an RDD, so that it also works over Spark Connect, which has none.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession, functions
from pyspark.sql.types import BinaryType

Task = TypeVar("Task")
Result = TypeVar("Result")


def on_executors(
    spark: SparkSession, function: Callable[[Task], Result], tasks: Sequence[Task]
) -> list[Result]:
    """What a function gives for each task, in their order.

    Args:
        spark: a session, of Spark Connect too.
        function: of a module that executors can import.
        tasks: can be pickled; each is a Spark task of its own.

    Raises:
        PySparkException: the function failed; its error's line is in the text.
    """
    if not tasks:
        return []
    rows = pa.table(
        {
            "number": pa.array(range(len(tasks)), pa.int32()),
            "task": pa.array([pickle.dumps(task) for task in tasks], pa.binary()),
        }
    )

    def run(task: bytes) -> bytes:
        return pickle.dumps(function(pickle.loads(task)))

    # Nondeterministic, so that Spark neither runs it twice nor before the rows are spread.
    made = functions.udf(run, BinaryType(), useArrow=False).asNondeterministic()
    spread = spark.createDataFrame(rows).repartitionById(len(tasks), "number")
    found = spread.select("number", made("task").alias("result")).collect()
    return [pickle.loads(bytes(row.result)) for row in sorted(found)]
