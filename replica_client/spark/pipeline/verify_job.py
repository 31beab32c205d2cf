"""The Spark job that the command line runs to verify a lake."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from rich.console import Console

from replica_client.lake.config import PipelineConfig, load_config
from replica_client.lake.lake_catalog import LakeCatalog
from replica_client.lake.maintenance import table_sizes
from replica_client.lake.verify.lake_side import FileTask, Mapper, map_here
from replica_client.lake.verify.verification import Verification, VerifyReport
from replica_client.spark.pipeline.executors import on_executors
from replica_client.spark.pipeline.progress import Progress
from replica_client.spark.pipeline.query_failures import cause_of
from replica_client.spark.pipeline.spark_session import make_session

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
