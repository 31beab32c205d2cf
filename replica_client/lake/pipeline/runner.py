"""``replica-client pipeline``: a change log and current tables of a source, continued where they were."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from rich.console import Console

from replica_client.errors import ConfigError, ReplicaClientError
from replica_client.lake.change_log_files import CHANGE_LOG_SCHEMA, open_change_log
from replica_client.lake.config import Engine, PipelineConfig, load_config
from replica_client.lake.data_files import open_delta
from replica_client.lake.lake_catalog import LakeCatalog
from replica_client.lake.log_versions import Retention
from replica_client.lake.maintenance import table_sizes
from replica_client.lake.pipeline.change_stream import ChangeStream, source_options_of
from replica_client.lake.pipeline.lake_run import LakeRun, check_image, prepare_lake
from replica_client.lake.pipeline.report import PipelineResult, RunState, pages_of, write_report
from replica_client.lake.pipeline.run_history import Progress, RunHistory
from replica_client.lake.pipeline.workers import PurgedRangeError, Workers, cause_of, is_transient
from replica_client.lake.pipeline_state import SCHEMA_KEY, Checkpoint, OutputInUseError, locked
from replica_client.lake.source.live_plan import make_planner
from replica_client.lake.source_options import SourceOptions
from replica_client.lake.verify.sides import Mapper, map_here
from replica_client.lake.verify.verification import Verification, VerifyReport
from replica_client.protocol.position import Position
from replica_client.storage.location import Location, location

T = TypeVar("T")

_LOOK = 0.2
_TRIES = 10
"""Tries in a row of a run to the end to reach a source that is unavailable."""

_BATCHES_AT_ONCE = 8
"""Micro-batches of a run to the end that are merged together: a table is written once for all of them."""

_GO_ON = '; or let the tables be copied again: record_losses = ["gtid_gap"] in [source]'
_ROUNDS = 20
"""Times that tables are copied again because statements changed them meanwhile."""


def run_pipeline(
    config: str | os.PathLike[str],
    *,
    console: Console | None = None,
    verbose: bool = False,
    engine: Engine | None = None,
) -> PipelineResult:
    """Run the pipeline of a configuration file, from where it was.

    Returns when everything is read (``trigger = "available-now"``), or never (``continuous``) but by
    KeyboardInterrupt.

    Args:
        config: the TOML file.
        console: for progress; standard error.
        verbose: show Spark's own messages.
        engine: what works, in place of the configuration's.

    Raises:
        ConfigError: the file, an option or the surroundings are wrong.
        ReplicaClientError: the source or the output is faulty; what was committed is whole.
    """
    console = console or Console(stderr=True)
    read = load_config(config)
    if engine is not None:
        read = replace(read, engine=engine)
    progress = Progress(console)
    progress.start("waiting for the output")
    try:
        standby = None if read.trigger == "available-now" else _standby(progress)
        with locked(read.output, stand_by=standby) as is_owner:
            while True:
                try:
                    result = _run(read, progress, verbose)
                    break
                except OutputInUseError:
                    if not is_owner():
                        raise
                    progress.note(
                        "a write of the pipeline before arrived late; this one goes on from it"
                    )
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
    return lambda error: progress.note(f"standby, takes over when the other ends: {error}")


def _run(config: PipelineConfig, progress: Progress, verbose: bool) -> PipelineResult:
    progress.say("looking at the source")
    patience = _Patience(progress, config)
    checkpoint = _checkpoint(config, patience)
    view = RunState(config.origin, progress, RunHistory())
    with _pages(config, view):
        progress.say("looking for changes")
        workers = Workers(config, "replica-client pipeline", progress.say, verbose=verbose)
        try:
            return _follow(config, checkpoint, view, workers, patience)
        finally:
            workers.close()


def _pages(config: PipelineConfig, view: RunState) -> AbstractContextManager[object]:
    """Serve the run's pages where the configuration asks for them."""
    if not config.listen:
        return nullcontext()
    # Only where pages are asked for: it needs h11, which the extra "lake" does not bring.
    from replica_client.stream.pages.http_server import served

    return served(config.listen, pages_of(view), "listen in [pipeline]", config.hosts)


def _follow(
    config: PipelineConfig,
    checkpoint: Checkpoint,
    view: RunState,
    workers: Workers,
    patience: _Patience,
) -> PipelineResult:
    progress, history = view.progress, view.history
    run: _Run | None = None
    lake: LakeRun | None = None
    assert checkpoint.state is not None
    try:
        if config.lake.current:
            lake = LakeRun(
                config, checkpoint.state.pipeline, CHANGE_LOG_SCHEMA, workers, progress.say
            )
            view.lake = lake
            _apply(lake, view)  # what a run that was killed has left
            lake.adopt_selection()
        retention = Retention(config)
        retention.apply(None if lake is None else lake.catalog)
        run = _Run(config, checkpoint, workers, lake, view, retention)
        run.ended = _nothing_new(config, checkpoint) and (lake is None or lake.complete)
        while not run.ended:
            try:
                run.once()
            except ReplicaClientError as error:
                view.streams, view.error = False, str(cause_of(error))
                view.retries += 1
                patience.wait(error, run.moved)
    except ReplicaClientError as error:
        cause = cause_of(error)
        if isinstance(cause, PurgedRangeError):
            raise PurgedRangeError(f"{cause}{_GO_ON}") from None
        raise cause from None
    finally:
        view.streams = False
        if run is not None and run.stream is not None:
            workers.close()  # a range that executors read ends with it
            run.stream.stop()
    version = open_delta(config.change_log).version()
    reached = checkpoint.position
    position = progress.position or (f"{reached.file}:{reached.offset}" if reached.file else "")
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
    """A run's work: the stream into the change log, the change log into the tables, copies.

    Attributes:
        stream: the stream that was started last.
        ended: whether there is nothing left to do.
    """

    def __init__(
        self,
        config: PipelineConfig,
        checkpoint: Checkpoint,
        workers: Workers,
        lake: LakeRun | None,
        view: RunState,
        retention: Retention,
    ) -> None:
        self._config, self._checkpoint, self._workers = config, checkpoint, workers
        self._retention = retention
        self._view = view
        self._lake = lake
        self._progress, self._history = view.progress, view.history
        self._rounds, self._position = 0, ""
        self.stream: ChangeStream | None = None
        self.ended = False

    def moved(self) -> bool:
        """Return whether the stream has moved since the last call."""
        before, self._position = self._position, self._progress.position
        return before != self._position

    def once(self) -> None:
        """Run the stream to its end, and keep the tables in step with it."""
        lake, until = self._lake, None
        once = self._config.trigger == "available-now"
        if self.stream is not None:
            self.stream.stop()  # something else than the stream failed
        if lake is not None and once:
            lake.read_copies()
            if self._rounds:
                # What the source wrote since is left to another run.
                until = max(lake.copies_end or self._checkpoint.position, self._checkpoint.position)
        stream = self.stream = ChangeStream(self._config, self._checkpoint, self._workers)
        stream.start(until)
        self._view.streams, self._view.error = True, ""
        merged = self._progress.batches
        while stream.is_active:
            self._watch(stream)
            if once and self._progress.batches - merged < _BATCHES_AT_ONCE:
                stream.wait(_LOOK)
                continue
            merged = self._progress.batches
            if not self._step():
                stream.wait(_LOOK)
        self._watch(stream)
        if stream.error is not None:
            raise stream.error
        while self._step():
            pass
        self._rounds += 1
        self.ended = lake is None or lake.complete or self._rounds >= _ROUNDS

    def _watch(self, stream: ChangeStream) -> None:
        batches = stream.taken()
        self._progress.update(batches)
        self._history.take(batches)

    def _step(self) -> bool:
        """Merge the stream's changes into the tables, copy tables, and return whether anything was done."""
        lake = self._lake
        self._retention.apply(None if lake is None else lake.catalog)
        if lake is None:
            return False
        lake.take_requests()
        reached = self._checkpoint.position
        done = _apply(lake, self._view)
        if self._config.trigger == "continuous" and lake.to_copy:
            lake.read_copies()
            return True
        if lake.log_copies(reached):
            _apply(lake, self._view)
            return True
        return done


class _Patience:
    """Pauses of a run whose source is unavailable; a run that follows it waits without end."""

    def __init__(self, progress: Progress, config: PipelineConfig) -> None:
        self._progress = progress
        self._passes_gaps = SourceOptions.parse(config.source).passes_gaps
        self._most = _TRIES if config.trigger == "available-now" else sys.maxsize
        self._tries = 0

    def until_reached(self, work: Callable[[], T]) -> T:
        """Return what asks the source, once it is available."""
        while True:
            try:
                return work()
            except ReplicaClientError as error:
                self.wait(error, lambda: False)

    def wait(self, error: Exception, moved: Callable[[], bool]) -> None:
        """Wait a while; raises the error when it is another one, or was waited for in vain."""
        self._tries = 1 if moved() else self._tries + 1
        purged = self._passes_gaps and isinstance(cause_of(error), PurgedRangeError)
        if self._tries > self._most or not (purged or is_transient(error)):
            raise error
        seconds = min(30.0, 0.5 * 2 ** min(self._tries, 6))
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


def _nothing_new(config: PipelineConfig, checkpoint: Checkpoint) -> bool:
    """Return whether a run to the end of the source would have no change."""
    if config.trigger != "available-now" or not checkpoint.committed:
        return False
    try:
        planner = make_planner(source_options_of(config, checkpoint), stream=True)
        try:
            planner.freeze()
            start = planner.resume(checkpoint.reached)
            return planner.latest(start) == start
        finally:
            planner.close()
    except (ReplicaClientError, OSError, ValueError):
        return False  # the stream reports the error, and waits for an unavailable source


def _checkpoint(config: PipelineConfig, patience: _Patience) -> Checkpoint:
    """Return the checkpoint of the pipeline, made at its first run, and open its change log.

    A source that is unavailable at the first run is an error: its address may be wrong.

    Raises:
        ConfigError: checkpoint and change log do not belong together.
    """
    checkpoint = Checkpoint(config.checkpoint)
    table = _table(config.change_log)
    if checkpoint.state is None:
        if table is not None and table.version() > 0:
            raise ConfigError(
                f"{config.change_log} holds changes, but its checkpoint {config.checkpoint} is gone: "
                "restore it, or remove both to start over"
            )
        if config.lake.current:
            check_image(config)
        checkpoint.create(*_first_start(config))
    else:
        done = -1 if table is None else table.transaction_version(checkpoint.state.pipeline)
        written = -1 if done is None else done
        if written < checkpoint.number - 1:
            raise ConfigError(
                f"{config.checkpoint} says that changes were written, but {config.change_log} does not "
                "have them: restore it, or remove both to start over"
            )
        if written > checkpoint.number:
            raise ConfigError(
                f"{config.checkpoint} is older than {config.change_log}: restore the newest one, or remove both to "
                "start over"
            )
        checkpoint.committed = written == checkpoint.number
        if config.lake.current:
            patience.until_reached(lambda: check_image(config))
    if table is None:
        open_change_log(config.change_log, CHANGE_LOG_SCHEMA)
    return checkpoint


def _table(directory: Location) -> DeltaTable | None:
    try:
        return open_delta(directory)
    except TableNotFoundError:
        return None


def _first_start(config: PipelineConfig) -> tuple[str, dict[str, object]]:
    """Return the first start and its offset: ``latest`` of a live source becomes its current position."""
    if config.lake.copies:
        start = prepare_lake(config)
        catalog = LakeCatalog.load(config.output)
        assert catalog is not None
        offset = Position.parse(start).to_json()
        return start, {**offset, SCHEMA_KEY: catalog.history.to_state()}
    options = SourceOptions.parse(config.source)
    planner = make_planner(options, stream=True)
    try:
        position = planner.start(stream=True)
        offset = planner.offset(position)
    finally:
        planner.close()
    is_now = options.live and options.starting == "latest"
    return str(position) if is_now else config.source["startingPosition"], offset


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
    read = load_config(config)
    read = replace(read, engine="spark" if spark else read.engine, local_below=VERIFY_LOCAL_BELOW)
    progress = Progress(console or Console(stderr=True))
    progress.start("comparing")
    workers = Workers(read, "replica-client verify", progress.say)
    try:
        size = _size(read)
        mapper: Mapper = map_here
        if not workers.are_here(size):
            mapper = lambda function, tasks: workers.map(function, tasks, size)  # noqa: E731
        return Verification(read, mapper, progress.say).run()
    finally:
        workers.close()
        progress.stop()


VERIFY_LOCAL_BELOW = 256 << 20
"""Bytes of current tables up to which ``verify`` reads them in this process."""


def _size(config: PipelineConfig) -> int:
    catalog = LakeCatalog.load(config.output)
    if catalog is None:
        return 0
    return sum(one.size for one in table_sizes(catalog) if one.status)
