"""Work on Spark's executors.

An RDD runs it where the session has one: the first job of a DataFrame costs two and a half CPU seconds of Java
more, which plans and compiles it. Spark Connect has no RDD; there it is a DataFrame.
"""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import TypeVar

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession, functions
from pyspark.sql.types import BinaryType

from replica_client.lake.config import PipelineConfig
from replica_client.lake.pipeline.workers import cause_of
from replica_client.lake.spark.spark_session import make_session

Task = TypeVar("Task")
Result = TypeVar("Result")


def start(config: PipelineConfig, name: str, *, verbose: bool = False) -> SparkExecutors:
    """Start a session of Spark as the configuration says.

    Raises:
        ConfigError: it does not start.
    """
    session = make_session(name, master=config.master, settings=config.spark, verbose=verbose)
    return SparkExecutors(session)


class SparkExecutors:
    """The executors of a session.

    Args:
        session: of Spark Connect too.
    """

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """Run a function for each task and return the results in order.

        Raises:
            ReplicaClientError: the function failed, or Spark did.
        """
        try:
            return on_executors(self._session, function, tasks)
        except (PySparkException, Py4JError, OSError) as error:
            raise cause_of(error) from None

    def close(self) -> None:
        """End the session."""
        with suppress(PySparkException, Py4JError, OSError):  # Java may be gone already
            self._session.stop()


@cache
def settle() -> None:
    """Exclude all current objects from garbage collection, once in a process (``gc.freeze``).

    Spark's workers collect all garbage after each task. That takes 25 ms and more with the modules that
    are loaded here, which never go, as long as a task that reads a few MB; it takes none afterwards.
    """
    gc.collect()
    gc.freeze()


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
        Py4JError: likewise, or Java ended.
    """
    if not tasks:
        return []
    pickled = [pickle.dumps(task) for task in tasks]

    def run(task: bytes) -> bytes:
        result = pickle.dumps(function(pickle.loads(task)))
        settle()
        return result

    # A session of Spark Connect is of another class, without an RDD.
    collect = _by_rdd if isinstance(spark, SparkSession) else by_data_frame
    return [pickle.loads(one) for one in collect(spark, run, pickled)]


def _by_rdd(
    spark: SparkSession, run: Callable[[bytes], bytes], tasks: Sequence[bytes]
) -> list[bytes]:
    return spark.sparkContext.parallelize(tasks, len(tasks)).map(run).collect()


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
