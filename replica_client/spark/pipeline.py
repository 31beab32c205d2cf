"""``replica-client pipeline``: row changes from a binlog into a change log, continued where it was."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console

from replica_client.errors import ConfigError
from replica_client.position.position import Position
from replica_client.spark import change_log, source
from replica_client.spark.config import PipelineConfig, load_config
from replica_client.spark.envelope import ENVELOPE_SCHEMA
from replica_client.spark.failures import cause_of
from replica_client.spark.live_plan import LivePlanner
from replica_client.spark.options import SourceOptions
from replica_client.spark.pipeline_state import (
    PipelineState,
    create_state,
    load_state,
    locked,
)
from replica_client.spark.progress import Progress
from replica_client.spark.session import make_session

_LOOK = 0.2


@dataclass(frozen=True)
class PipelineResult:
    """What a run did.

    Attributes:
        rows: changes written by this run.
        position: reached in the source, as text.
        change_log: directory of the Delta table.
        version: of the table.
    """

    rows: int
    position: str
    change_log: Path
    version: int


def run_pipeline(
    config: str | os.PathLike[str], *, console: Console | None = None, verbose: bool = False
) -> PipelineResult:
    """Run the pipeline of a configuration file, from where it was.

    Returns when everything is read (``trigger = "available-now"``), or never (``continuous``) but by
    KeyboardInterrupt.

    Args:
        config: the TOML file.
        console: for progress; standard error.
        verbose: show Spark's own messages.

    Raises:
        ConfigError: the file, an option or the surroundings are wrong.
        ReplicaClientError: the source or the output is faulty; what was committed is whole.
    """
    console = console or Console(stderr=True)
    read = load_config(config)
    with locked(read.output):
        return _run(read, console, verbose)


def _run(config: PipelineConfig, console: Console, verbose: bool) -> PipelineResult:
    state = _state(config)
    arrow_schema = to_arrow_schema(ENVELOPE_SCHEMA, timezone="UTC")
    change_log.open_change_log(config.change_log, arrow_schema)
    progress = Progress(console)
    progress.start("starting Spark")
    spark: SparkSession | None = None
    query: StreamingQuery | None = None
    try:
        spark = make_session(
            "replica-client pipeline",
            master=config.master,
            settings=config.spark,
            verbose=verbose,
        )
        query = _start(spark, config, state)
        while query.isActive:
            progress.update(query.recentProgress)
            time.sleep(_LOOK)
        progress.update(query.recentProgress)
        query.awaitTermination()
    except (PySparkException, StreamingQueryException, Py4JError) as error:
        raise cause_of(error) from None
    finally:
        progress.stop()
        _stop(spark, query)
    version = DeltaTable(str(config.change_log)).version()
    position = progress.position or _checkpoint_position(config)
    return PipelineResult(progress.rows, position, config.change_log, version)


def _start(spark: SparkSession, config: PipelineConfig, state: PipelineState) -> StreamingQuery:
    # Registered here too, for a session whose Spark does not see the package's own registration.
    spark.dataSource.register(source.BinlogDataSource)
    spark.dataSource.register(change_log.ChangeLogSink)
    reader = spark.readStream.format(source.FORMAT)
    for name, value in {**config.source, "startingPosition": state.start}.items():
        reader = reader.option(name, value)
    writer = (
        reader.load()
        .writeStream.format(change_log.FORMAT)
        .option("table", str(config.change_log))
        .option("pipeline", state.pipeline)
        .option("checkpointLocation", str(config.checkpoint))
        .outputMode("append")
        .queryName("change_log")
    )
    if config.trigger == "available-now":
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=config.interval).start()


def _stop(spark: SparkSession | None, query: StreamingQuery | None) -> None:
    try:
        if query is not None and query.isActive:
            query.stop()
        if spark is not None:
            spark.stop()
    except (PySparkException, Py4JError, OSError):
        pass  # Java is gone already; the checkpoint is Spark's last word


def _state(config: PipelineConfig) -> PipelineState:
    """Id and start of the pipeline; made at its first run.

    Raises:
        ConfigError: checkpoint and change log do not belong together.
    """
    state = load_state(config.checkpoint)
    table = _table(config.change_log)
    if state is None:
        if table is not None and table.version() > 0:
            raise ConfigError(
                f"{config.change_log} holds changes, but its checkpoint {config.checkpoint} is gone: "
                "restore it, or remove both to begin anew"
            )
        return create_state(config.checkpoint, _first_start(config))
    if _has_commits(config.checkpoint):
        written = table is not None and table.transaction_version(state.pipeline) is not None
        if not written:
            raise ConfigError(
                f"{config.checkpoint} says that changes were written, but {config.change_log} does not "
                "have them: restore it, or remove both to begin anew"
            )
    return state


def _table(directory: Path) -> DeltaTable | None:
    try:
        return DeltaTable(str(directory))
    except TableNotFoundError:
        return None


def _has_commits(checkpoint: Path) -> bool:
    commits = checkpoint / "commits"
    return commits.is_dir() and any(not p.name.startswith(".") for p in commits.iterdir())


def _first_start(config: PipelineConfig) -> str:
    """The start as it is kept: ``latest`` of a live source becomes the place where that is now."""
    options = SourceOptions.parse(config.source)
    if not options.live or options.starting != "latest":
        return config.source["startingPosition"]
    planner = LivePlanner(options)
    try:
        return str(planner.start(stream=True))
    finally:
        planner.close()


def _checkpoint_position(config: PipelineConfig) -> str:
    """The position in the checkpoint's last offset file."""
    offsets = config.checkpoint / "offsets"
    names = [p for p in offsets.glob("*") if p.name.isdigit()] if offsets.is_dir() else []
    if not names:
        return ""
    last = max(names, key=lambda path: int(path.name)).read_text().splitlines()[-1]
    try:
        return str(Position.from_json(last))
    except ValueError:
        return ""
