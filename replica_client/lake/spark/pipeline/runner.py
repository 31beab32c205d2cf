"""``replica-client pipeline``: a change log and current tables of a source, continued where they were."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession, functions
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console

from replica_client.errors import ConfigError, ReplicaClientError, TransportError
from replica_client.lake.change_log_files import CHANGE_LOG_SCHEMA, open_change_log
from replica_client.lake.config import PipelineConfig, load_config
from replica_client.lake.data_files import open_delta
from replica_client.lake.lake_catalog import LakeCatalog
from replica_client.lake.log_versions import Retention
from replica_client.lake.pipeline_state import (
    SCHEMA_KEY,
    PipelineState,
    create_state,
    keep_schema,
    kept_schema,
    load_state,
    locked,
)
from replica_client.lake.source_options import SourceOptions
from replica_client.lake.spark.pipeline import change_log
from replica_client.lake.spark.pipeline.executors import PurgedRangeError, cause_of, is_transient
from replica_client.lake.spark.pipeline.lake_run import LakeRun, check_image, prepare_lake
from replica_client.lake.spark.pipeline.report import PipelineResult, write_report
from replica_client.lake.spark.pipeline.run_history import (
    CHANGES,
    LAST_COMMIT,
    OBSERVED,
    Progress,
    RunHistory,
)
from replica_client.lake.spark.pipeline.run_pages import RunState, pages_of
from replica_client.lake.spark.pipeline.spark_session import make_session
from replica_client.lake.spark.source import change_file_source
from replica_client.lake.spark.source.live_plan import LivePlanner
from replica_client.lake.spark.source.readers import make_planner
from replica_client.protocol.position import Position
from replica_client.schema.history import SchemaHistory
from replica_client.storage.location import Location, ObjectUrl, location
from replica_client.stream.pages.http_server import served

_LOOK = 0.2
_TRIES = 10
"""Tries in a row to reach a source that is unavailable."""

_BATCHES_AT_ONCE = 8
"""Micro-batches of a run to the end that are merged together: a table is written once for all of them."""

_GO_ON = '; or let the tables be copied again: record_losses = ["gtid_gap"] in [source]'
_ROUNDS = 20
"""Times that tables are copied again because statements changed them meanwhile."""


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
    progress = Progress(console)
    progress.start("waiting for the output")
    try:
        standby = None if read.trigger == "available-now" else _standby(progress)
        with locked(read.output, stand_by=standby):
            result = _run(read, progress, verbose)
    except KeyboardInterrupt:
        progress.stop(tell=False)
        console.print(
            f"interrupted: {progress.rows:,} changes were written; the next run goes on "
            f"{f'at {progress.position}' if progress.position else 'where this one was'}",
            highlight=False,
            soft_wrap=True,
        )
        raise
    except BaseException:
        progress.stop()
        raise
    progress.stop()
    return result


def _standby(progress: Progress) -> Callable[[ConfigError], None]:
    """Return a function that shows that this pipeline waits for another one to end."""
    return lambda error: progress.say(f"standby, takes over when the other ends: {error}")


def _run(config: PipelineConfig, progress: Progress, verbose: bool) -> PipelineResult:
    progress.say("looking at the source")
    state = _state(config)
    open_change_log(config.change_log, CHANGE_LOG_SCHEMA)
    view = RunState(config.origin, progress, RunHistory())
    with _pages(config, view):
        progress.say("looking for changes")
        return _follow(config, state, view, verbose)


def _pages(config: PipelineConfig, view: RunState) -> AbstractContextManager[object]:
    """Serve the run's pages where the configuration asks for them."""
    if not config.listen:
        return nullcontext()
    return served(config.listen, pages_of(view), "listen in [pipeline]", config.hosts)


def _follow(
    config: PipelineConfig, state: PipelineState, view: RunState, verbose: bool
) -> PipelineResult:
    progress, history = view.progress, view.history
    spark: SparkSession | None = None
    run: _Run | None = None
    lake: LakeRun | None = None

    def session() -> SparkSession:
        """Spark, which takes longer to start than most else: only where there is work for it."""
        nonlocal spark
        if spark is None:
            progress.say("starting Spark")
            spark = make_session(
                "replica-client pipeline",
                master=config.master,
                settings=config.spark,
                verbose=verbose,
            )
        return spark

    try:
        if config.lake.current:
            lake = LakeRun(config, state.pipeline, CHANGE_LOG_SCHEMA, session, progress.say)
            view.lake = lake
            _apply(lake, view)  # what a run that was killed has left
            lake.adopt_selection()
        retention = Retention(config)
        retention.apply(None if lake is None else lake.catalog)
        run = _Run(session, config, state, lake, view, retention)
        run.ended = _nothing_new(config, state) and (lake is None or lake.complete)
        patience = _Patience(progress, SourceOptions.parse(config.source).passes_gaps)
        while not run.ended:
            try:
                run.once()
            except (PySparkException, StreamingQueryException, TransportError) as error:
                view.streams, view.error = False, str(cause_of(error))
                view.retries += 1
                patience.wait(error, run.moved)
    except (PySparkException, StreamingQueryException, Py4JError) as error:
        cause = cause_of(error)
        if isinstance(cause, PurgedRangeError):
            raise PurgedRangeError(f"{cause}{_GO_ON}") from None
        raise cause from None
    finally:
        view.streams = False
        _stop(spark, None if run is None else run.query)
    version = open_delta(config.change_log).version()
    position = progress.position or _checkpoint_position(config)
    result = PipelineResult(progress.rows, position, config.change_log, version)
    if lake is None:
        return result
    current = [t for t in lake.catalog.tables.values() if t.status == "current"]
    result = replace(
        result,
        tables=len(current),
        copied=lake.copied.rows,
        lag=history.lag,
        not_current=tuple(lake.catalog.report()),
    )
    if config.lake.report:
        path = location(config.lake.report)
        if isinstance(path, Path):
            path = config.output / str(path)
        write_report(path, config.origin, result, lake, history)
        result = replace(result, report=path)
    return result


class _Run:
    """A session's work: the stream into the change log, the change log into the tables, copies.

    Attributes:
        query: the stream that was started last.
        ended: whether there is nothing left to do.
    """

    def __init__(
        self,
        spark: Callable[[], SparkSession],
        config: PipelineConfig,
        state: PipelineState,
        lake: LakeRun | None,
        view: RunState,
        retention: Retention,
    ) -> None:
        self._retention = retention
        self._view = view
        self._spark = spark
        self._config = config
        self._state = state
        self._lake = lake
        self._progress, self._history = view.progress, view.history
        self._rounds, self._position = 0, ""
        self.query: StreamingQuery | None = None
        self.ended = False

    def moved(self) -> bool:
        """Return whether the stream has moved since the last call."""
        before, self._position = self._position, self._progress.position
        return before != self._position

    def once(self) -> None:
        """Run the stream to its end, and keep the tables in step with it."""
        lake, config = self._lake, self._config
        if self.query is not None and self.query.isActive:
            self.query.stop()  # something else than the stream failed
        if lake is not None and config.trigger == "available-now":
            lake.read_copies()
        query = self.query = _start(self._spark(), config, self._state)
        self._view.streams, self._view.error = True, ""
        merged = self._progress.batches
        while query.isActive:
            self._watch(query)
            waits = self._progress.batches - merged < _BATCHES_AT_ONCE
            if waits and config.trigger == "available-now":
                time.sleep(_LOOK)
                continue
            merged = self._progress.batches
            if not self._step():
                time.sleep(_LOOK)
        self._watch(query)
        query.awaitTermination()
        while self._step():
            pass
        self._rounds += 1
        self.ended = lake is None or lake.complete or self._rounds >= _ROUNDS

    def _watch(self, query: StreamingQuery) -> None:
        self._progress.update(query.recentProgress)
        self._history.take(query.recentProgress)

    def _step(self) -> bool:
        """Merge the stream's changes into the tables, copy tables, and return whether anything was done."""
        lake = self._lake
        self._retention.apply(None if lake is None else lake.catalog)
        if lake is None:
            return False
        lake.take_requests()
        reached = _reached(self._config, self._state)
        done = _apply(lake, self._view)
        if self._config.trigger == "continuous" and lake.to_copy:
            lake.read_copies()
            return True
        if lake.log_copies(reached):
            _apply(lake, self._view)
            return True
        return done


class _Patience:
    """Pauses of a run whose source is unavailable."""

    def __init__(self, progress: Progress, passes_gaps: bool) -> None:
        self._progress = progress
        self._passes_gaps = passes_gaps
        self._tries = 0

    def wait(self, error: Exception, moved: Callable[[], bool]) -> None:
        """Wait a while; raises the error when it is another one, or was waited for in vain."""
        self._tries = 1 if moved() else self._tries + 1
        purged = self._passes_gaps and isinstance(cause_of(error), PurgedRangeError)
        if self._tries > _TRIES or not (purged or is_transient(error)):
            raise error
        seconds = min(30.0, 0.5 * 2**self._tries)
        self._progress.say(f"the source went away; again in {seconds:g} s ({cause_of(error)})")
        time.sleep(seconds)


def _apply(lake: LakeRun, view: RunState) -> bool:
    begun = time.monotonic()
    view.progress.say("merging changes into the current tables")
    done = lake.apply()
    view.progress.say("")
    if done.changes:
        view.history.applied(done, time.monotonic() - begun)
    return bool(done.changes)


def _reached(config: PipelineConfig, state: PipelineState) -> Position | None:
    """Return the last position that the change log has at least, or None when it cannot be read."""
    numbers = _numbers(config.checkpoint / "commits")
    try:
        if not numbers:
            return Position.parse(state.start)
        text = (config.checkpoint / "offsets" / str(max(numbers))).read_text().splitlines()[-1]
        return Position.from_json(text)
    except (OSError, ValueError):
        return None


def _nothing_new(config: PipelineConfig, state: PipelineState) -> bool:
    """Return whether a run to the end of the source would have no change.

    The start is the offset that Spark's checkpoint has committed. Spark does a batch that is only planned.
    """
    if config.trigger != "available-now":
        return False
    offsets, commits = (_numbers(config.checkpoint / name) for name in ("offsets", "commits"))
    if not commits or max(offsets, default=-1) != max(commits):
        return False
    path = config.checkpoint / "offsets" / str(max(commits))
    try:
        saved = json.loads(path.read_text(encoding="utf-8").splitlines()[-1])
        planner = make_planner(SourceOptions.parse(_source_options(config, state)), stream=True)
        try:
            planner.freeze()
            start = planner.resume(saved)
            return planner.latest(start) == start
        finally:
            planner.close()
    except (ReplicaClientError, OSError, ValueError, IndexError):
        return False  # the stream reports the error, and waits for an unavailable source


def _numbers(directory: Path) -> list[int]:
    """Return the numbers of the batches that a directory of Spark's checkpoint has files of."""
    if not directory.is_dir():
        return []
    return [int(path.name) for path in directory.iterdir() if path.name.isdecimal()]


def _source_options(config: PipelineConfig, state: PipelineState) -> dict[str, str]:
    """Return the options of the stream's data source."""
    options = {**config.source, "startingPosition": state.start}
    schema = kept_schema(config.checkpoint)
    if schema is not None:
        options["schemaFile"] = str(schema)
    return options


def _start(spark: SparkSession, config: PipelineConfig, state: PipelineState) -> StreamingQuery:
    # Registered here too, for a session whose Spark does not see the package's own registration.
    spark.dataSource.register(change_file_source.ChangeFileSource)
    spark.dataSource.register(change_log.ChangeLogSink)
    stored = config.output.options if isinstance(config.output, ObjectUrl) else ()
    reader = spark.readStream.format(change_file_source.FORMAT)
    reader = reader.option(change_file_source.LOG_OPTION, str(config.change_log))
    for name, value in stored:
        reader = reader.option(f"{change_file_source.STORE_PREFIX}{name}", value)
    for name, value in _source_options(config, state).items():
        reader = reader.option(name, value)
    last = functions.max("_commit_timestamp").cast("double").alias(LAST_COMMIT)
    writer = (
        reader.load()
        .observe(OBSERVED, last, functions.sum("changes").alias(CHANGES))
        .writeStream.format(change_log.FORMAT)
        .option("table", str(config.change_log))
        .option("pipeline", state.pipeline)
        .options(**{f"storage.{name}": value for name, value in stored})
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
                "restore it, or remove both to start over"
            )
        if config.lake.current:
            check_image(config)
        return create_state(config.checkpoint, _first_start(config))
    if _has_commits(config.checkpoint):
        written = table is not None and table.transaction_version(state.pipeline) is not None
        if not written:
            raise ConfigError(
                f"{config.checkpoint} says that changes were written, but {config.change_log} does not "
                "have them: restore it, or remove both to start over"
            )
    if config.lake.current:
        check_image(config)
    return state


def _table(directory: Location) -> DeltaTable | None:
    try:
        return open_delta(directory)
    except TableNotFoundError:
        return None


def _has_commits(checkpoint: Path) -> bool:
    commits = checkpoint / "commits"
    return commits.is_dir() and any(not p.name.startswith(".") for p in commits.iterdir())


def _first_start(config: PipelineConfig) -> str:
    """Return the first start as it is saved: ``latest`` of a live source becomes its current position."""
    if config.lake.copies:
        start = prepare_lake(config)
        catalog = LakeCatalog.load(config.output)
        assert catalog is not None
        keep_schema(config.checkpoint, catalog.history)
        return start
    options = SourceOptions.parse(config.source)
    if not options.live or options.starting != "latest":
        return config.source["startingPosition"]
    planner = LivePlanner(options)
    try:
        position = planner.start(stream=True)
        schema = planner.offset(position).get(SCHEMA_KEY)
        if schema is not None:
            keep_schema(config.checkpoint, SchemaHistory.from_state(schema))
        return str(position)
    finally:
        planner.close()


def _checkpoint_position(config: PipelineConfig) -> str:
    """Return the position in the last offset file of the checkpoint, or ``""``."""
    offsets = config.checkpoint / "offsets"
    names = [p for p in offsets.glob("*") if p.name.isdigit()] if offsets.is_dir() else []
    if not names:
        return ""
    last = max(names, key=lambda path: int(path.name)).read_text().splitlines()[-1]
    try:
        return str(Position.from_json(last))
    except ValueError:
        return ""
