"""Work on Spark's executors, and the failures of a query.

An RDD runs it where the session has one: the first job of a DataFrame costs two and a half CPU seconds of Java
more, which plans and compiles it. Spark Connect has no RDD; there it is a DataFrame.
"""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession, functions
from pyspark.sql.types import BinaryType
from rich.console import Console

from replica_client import errors
from replica_client.errors import (
    BinlogPurgedError,
    ConfigError,
    ReplicaClientError,
    TlsError,
    TransportError,
)
from replica_client.lake.config import PipelineConfig, load_config
from replica_client.lake.lake_catalog import LakeCatalog
from replica_client.lake.maintenance import table_sizes
from replica_client.lake.spark.pipeline.run_history import Progress
from replica_client.lake.spark.pipeline.spark_session import make_session
from replica_client.lake.verify.sides import FileTask, Mapper, map_here
from replica_client.lake.verify.verification import Verification, VerifyReport

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


_OURS = re.compile(r"replica_client\.errors\.(\w+): (.+)")
_PYTHON = re.compile(r"^((?:\w+\.)*\w*(?:Error|Exception|Interrupt)): (.+)$", re.MULTILINE)
_MAX_TEXT = 600


class PipelineError(ReplicaClientError):
    """A query failed; the message is that of the error inside it."""


class PurgedRangeError(PipelineError):
    """The source purged changes that were not read: only a new snapshot can go on from here.

    The message names the gap.
    """


def cause_of(error: BaseException) -> ReplicaClientError:
    """Our own error inside one of Spark's, by its line; else Spark's message on one line."""
    text = str(error)
    ours = _OURS.findall(text)
    if ours:
        name, message = ours[-1]
        kind = getattr(errors, name, None)
        message = message.strip()
        if kind is ConfigError:
            return ConfigError(message)
        if kind is BinlogPurgedError:
            return PurgedRangeError(message)
        return PipelineError(message)
    python = _PYTHON.findall(text)
    if python:
        return PipelineError(f"{python[-1][0]}: {python[-1][1]}"[:_MAX_TEXT])
    return PipelineError(" ".join(text.split())[:_MAX_TEXT])


_TRANSIENT = frozenset(
    ("ConnectError", "ConnectionLostError", "StreamEndedError", "TransportTimeoutError")
)
_SERVER_GOES = re.compile(r"\b(1053|1317|1927|2006|2013|3169)\b")


def is_transient(error: BaseException) -> bool:
    """Return whether a query failed because of a lost connection or worker, so that a retry may succeed."""
    if isinstance(error, TransportError):
        return not isinstance(error, TlsError)
    ours = _OURS.findall(str(error))
    if not ours:
        return "Python worker failed to connect back" in str(error)  # a machine that is too busy
    name, message = ours[-1]
    # A server that shuts down, or whose session was killed, says so in an error of its own.
    return name in _TRANSIENT or (name == "ServerError" and bool(_SERVER_GOES.search(message)))


SPARK_ABOVE: Final = 256 << 20
"""Bytes of current tables above which Spark reads them."""


def verify_lake(
    config: str | os.PathLike[str], *, console: Console | None = None, spark: bool = False
) -> VerifyReport:
    """Compare the lake of a configuration with its source.

    Args:
        config: the TOML file.
        console: for progress; standard error.
        spark: read the lake with Spark whatever its size.

    Raises:
        ConfigError: the file is wrong, or there is no lake.
        ReplicaClientError: source or lake cannot be read.
    """
    console = console or Console(stderr=True)
    read = load_config(config)
    progress = Progress(console)
    progress.start("comparing")
    try:
        if not spark and _size(read) <= SPARK_ABOVE:
            return Verification(read, map_here, progress.say).run()
        progress.say("starting Spark")
        session = make_session("replica-client verify", master=read.master, settings=read.spark)
        try:
            return Verification(read, _map_on(session), progress.say).run()
        except (PySparkException, Py4JError) as error:
            raise cause_of(error) from None
        finally:
            session.stop()
    finally:
        progress.stop()


def _map_on(session: SparkSession) -> Mapper:
    def run(function: Callable[[FileTask], Any], tasks: Sequence[FileTask]) -> list[Any]:
        return on_executors(session, function, tasks)

    return run


def _size(config: PipelineConfig) -> int:
    catalog = LakeCatalog.load(config.output)
    if catalog is None:
        return 0
    return sum(one.size for one in table_sizes(catalog) if one.status)
