"""The stream of a pipeline: batches of the source's binlog, each committed to the change log once."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.transaction import AddAction

from replica_client.errors import ReplicaClientError, SinkError
from replica_client.lake.change_files import ChangeFile, ChangeFileBuilder, ChangeFileWriter
from replica_client.lake.change_log_files import CHANGE_LOG_SCHEMA, commit_files, remove_uncommitted
from replica_client.lake.config import PipelineConfig
from replica_client.lake.data_files import open_delta
from replica_client.lake.pipeline.run_history import Batch
from replica_client.lake.pipeline.workers import Workers, is_undecodable
from replica_client.lake.pipeline_state import Checkpoint
from replica_client.lake.source.envelope import (
    MAX_ROWS,
    BatchColumns,
    loss_row,
    lost_batch,
    statement_row,
)
from replica_client.lake.source.live_partition import close_kept
from replica_client.lake.source.live_plan import Planner, make_planner
from replica_client.lake.source.read_ranges import BinlogRange, range_batches
from replica_client.lake.source_options import SourceOptions
from replica_client.options import options_of
from replica_client.protocol.binlog.event import DecodeOptions
from replica_client.protocol.position import Position
from replica_client.rows.batching import BatchAssembler
from replica_client.schema.history import SchemaChange
from replica_client.storage.location import Location, ObjectUrl
from replica_client.stream.position.losses import Loss
from replica_client.stream.transactions.loss_watch import batches_of
from replica_client.stream.transactions.transaction import Transaction

# Ranges of the binlog as change files, which the pipeline commits to the change log.
#
# Files of a task that failed belong to no version of the change log.


class FileChanges:
    """Takes the transactions of a range, and gives them to a writer of change files.

    Args:
        decode: how values are decoded.
        part: the range.
        writer: takes the decoded batches.

    Attributes:
        batches: takes the rows.
    """

    def __init__(self, decode: DecodeOptions, part: BinlogRange, writer: ChangeFileWriter) -> None:
        self.batches = BatchAssembler(MAX_ROWS, decode, ChangeFileBuilder)
        self._part = part
        self._writer = writer
        self._others = BatchColumns(CHANGE_LOG_SCHEMA)

    def keep_back(self, transaction: Transaction) -> Transaction:
        """Take a transaction with statements or losses, in its order; return the rest of it.

        Statements and losses are rows of the envelope, and lie between the change files of the rows around them.
        """
        if not (transaction.schema_changes or transaction.losses):
            return transaction
        statements: dict[int, int] = {}
        for item in batches_of(self.batches, transaction, notices=True):
            if isinstance(item, pa.RecordBatch):
                self._add_others()
                self._add((item,))
                continue
            index = statements.get(item.event_index, 0)
            statements[item.event_index] = index + 1
            if isinstance(item, SchemaChange):
                self._others.add(statement_row(transaction, item, index))
            elif isinstance(item, Loss):
                self._others.add(loss_row(transaction, item, index))
        self._add_others()
        return transaction.__replace__(rows=())

    def _add_others(self) -> None:
        if len(self._others):
            rows = self._part.filters.apply(self._others.finish())
            if rows.num_rows:
                self._writer.add_others(rows)

    def _add(self, ready: Iterator[pa.RecordBatch] | Sequence[pa.RecordBatch]) -> None:
        for batch in ready:
            self._writer.add(self._part.filters.apply(batch))

    def take(self, ready: list[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
        """Take batches that became full; gives none."""
        self._add(ready)
        return iter(())

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Add the remaining batches to the files; yield none."""
        self._add(self.batches.flush())
        return iter(())


def write_range(source: SourceOptions, part: BinlogRange, log: Location) -> list[ChangeFile]:
    """Write the changes of a range into files.

    Raises:
        ReplicaClientError: the range cannot be read to its end, or a file not be written.
    """
    writer = ChangeFileWriter(log, part.number)
    try:
        if part.is_lost:
            assert part.stop is not None
            writer.add_others(lost_batch(part.start, part.stop, part.schema))
        else:
            changes = FileChanges(source.decode, part, writer)
            with options_of("spark"):
                for _ in range_batches(source, part, None, changes):
                    pass
        return writer.finish()
    except OSError as error:
        reason = error.strerror or error
        raise SinkError(f"{log}: {reason}; what was committed before is whole") from None


@dataclass(frozen=True)
class RangeTask:
    """A range to be written into files of the change log; it can be sent to executors."""

    source: SourceOptions
    part: BinlogRange
    log: Location


def run_range(task: RangeTask) -> list[ChangeFile]:
    """Write the files of a range; see :func:`write_range`."""
    return write_range(task.source, task.part, task.log)


_IDLE_WAIT: Final = 1.0
"""Seconds that a look for something new waits when there is nothing."""


def source_options_of(config: PipelineConfig, checkpoint: Checkpoint) -> SourceOptions:
    """Return the options of the stream's source, with the start of the first run."""
    assert checkpoint.state is not None
    return SourceOptions.parse({**config.source, "startingPosition": checkpoint.state.start})


class ChangeStream:
    """Reads the source into the change log, in a thread of its own.

    Args:
        config: of the pipeline.
        checkpoint: where the stream is.
        workers: read the ranges of a batch.

    Attributes:
        error: why the stream ended; None while it runs, and when it came to its end.
    """

    def __init__(self, config: PipelineConfig, checkpoint: Checkpoint, workers: Workers) -> None:
        self._config = config
        self._checkpoint = checkpoint
        self._workers = workers
        self._options = source_options_of(config, checkpoint)
        self._once = config.trigger == "available-now"
        self._until: Position | None = None
        self._backlog = 0
        self._stop = threading.Event()
        self._done: deque[Batch] = deque()
        self._thread = threading.Thread(target=self._run, name="change stream", daemon=True)
        self._log: DeltaTable | None = None
        self.error: Exception | None = None

    def start(self, until: Position | None = None) -> None:
        """Start.

        Args:
            until: where a run over the available changes ends; None: at the current end of the source.
        """
        self._until = until
        self._thread.start()

    @property
    def is_active(self) -> bool:
        """Whether the stream runs."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """End the stream after the range that is being read."""
        self._stop.set()
        self._thread.join()

    def wait(self, seconds: float) -> None:
        """Wait until the stream ends, or for some seconds."""
        self._thread.join(seconds)

    def taken(self) -> list[Batch]:
        """Return the batches since the last call."""
        found = []
        while self._done:
            found.append(self._done.popleft())
        return found

    def _run(self) -> None:
        try:
            planner = make_planner(self._options, stream=True)
            try:
                if self._once:
                    planner.freeze(self._until)
                    self._backlog = planner.size(self._checkpoint.position)
                while not self._stop.is_set():
                    begun = time.monotonic()
                    if self._next(planner):
                        if not self._once:
                            self._stop.wait(self._config.interval - (time.monotonic() - begun))
                    elif self._once:
                        break
            finally:
                with suppress(ReplicaClientError, OSError):
                    planner.close()
                close_kept()
        except Exception as error:  # noqa: BLE001  # raised in the thread that waits for the stream
            self.error = error

    def _next(self, planner: Planner) -> bool:
        """Read the next batch; return whether there was one."""
        checkpoint, options, begun = self._checkpoint, self._options, time.monotonic()
        begin = planner.resume(checkpoint.begin if not checkpoint.committed else checkpoint.end)
        if checkpoint.committed:
            wait = 0.0 if self._once else _IDLE_WAIT
            end = planner.latest(begin, options.max_bytes, options.max_rows, wait)
            if end == begin:
                return False
            checkpoint.plan(planner.offset(end))
        else:
            end = Position.from_json(checkpoint.end)
        parts = planner.ranges(begin, end)
        size = max(self._backlog, planner.size(begin, end))
        tasks = [RangeTask(options, part, self._config.change_log) for part in parts]
        try:
            found = self._workers.map(run_range, tasks, size, stopped=self._stop)
        except Exception as error:
            if not self._config.lake.current or not is_undecodable(error):
                raise
            # To record such rows, each row is decoded twice: done for this batch only.
            lenient = options.recording("undecodable")
            tasks = [RangeTask(lenient, part, self._config.change_log) for part in parts]
            found = self._workers.map(run_range, tasks, size, stopped=self._stop)
        if len(found) < len(tasks):
            return False  # the end of the run
        self._commit([file for files in found for file in files], end, begun)
        return True

    def _commit(self, files: list[ChangeFile], end: Position, begun: float) -> None:
        checkpoint = self._checkpoint
        assert checkpoint.state is not None
        actions = [
            AddAction(file.path, file.size, {}, file.modified, True, file.statistics())
            for file in files
        ]
        committed = max((file.committed for file in files), default=None)
        about = {"replica.position": str(end)}
        if committed is not None:
            about["replica.commit_time_us"] = str(committed)
        table = self._config.change_log
        added = False
        try:
            if self._log is None and isinstance(table, ObjectUrl):
                self._log = open_delta(table)  # once: in a store it takes a request for each commit
            added = commit_files(
                table, checkpoint.state.pipeline, checkpoint.number, actions, about, self._log
            )
        finally:
            if not added:  # it was committed before; or not, and is read again
                remove_uncommitted(table, [file.path for file in files])
        checkpoint.committed = True
        lag = None if committed is None else max(0.0, time.time() - committed / 1_000_000)
        rows, seconds = sum(file.changes for file in files), time.monotonic() - begun
        self._done.append(Batch(rows, f"{end.file}:{end.offset}", seconds, lag))
