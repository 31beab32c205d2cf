"""The two readers that Spark makes: for a batch, and for a stream."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from replica_client.errors import ConfigError
from replica_client.lake.source_options import SourceOptions
from replica_client.position.position import Position
from replica_client.spark.source.file_plan import FilePlanner
from replica_client.spark.source.live_plan import LivePlanner
from replica_client.spark.source.pushed_filters import PushedFilters
from replica_client.spark.source.read_ranges import BinlogRange, batches
from replica_client.spark.source.typed import TypedTable
from replica_client.spark.source.worker_process import settle

_LOG = logging.getLogger("replica_client")
IDLE_WAIT = 1.0
"""Seconds that a look for something new waits when there is nothing: Spark asks without a pause."""

Planner = FilePlanner | LivePlanner


def make_planner(options: SourceOptions, *, stream: bool = False) -> Planner:
    """Return the planner for the kind of source."""
    return LivePlanner(options, stream=stream) if options.live else FilePlanner(options)


def _read(
    options: SourceOptions, table: TypedTable | None, part: BinlogRange, schema: str | None = None
) -> Iterator[pa.RecordBatch]:
    yield from batches(options, table, part, schema)
    settle()


class BinlogBatchReader(DataSourceReader):
    """Reads a range of the binlog once.

    Args:
        options: of the query.
        table: of a typed query, or None.
    """

    def __init__(self, options: SourceOptions, table: TypedTable | None) -> None:
        self._options = self._asked = options
        self._table = table
        self._pushed = PushedFilters()
        self._parts: list[BinlogRange] | None = None
        self._schema: str | None = None
        self._fault: Exception | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Spark sends the reader once to each executor, before it asks for the partitions.
        try:
            self._plan()
        except Exception as fault:  # noqa: BLE001  # raised where Spark asks: here it were one of pickling
            self._fault = fault
        return {**self.__dict__, "_parts": None, "_fault": None}

    def partitions(self) -> Sequence[InputPartition]:
        """Return the partitions, cut between transactions."""
        if self._fault is not None:
            raise self._fault
        return self._plan()

    def _plan(self) -> list[BinlogRange]:
        if self._parts is None:
            planner = make_planner(self._options)
            try:
                start, stop = planner.start(), planner.stop()
                # Spark makes one partition of none.
                found = planner.ranges(start, stop)
                if self._asked is self._options and self._table is None:
                    planner.check_tables(start)
                parts = [part for part in found if self._pushed.may_have(part)] or [
                    BinlogRange(start, start, schema=found[0].schema if found else None)
                ]
            finally:
                planner.close()
            # The schema history is that of all of them, and large where tables are many.
            self._schema = parts[0].schema
            for part in parts:
                part.schema = None
            self._parts = parts
        return self._parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the batches of a range's changes."""
        assert isinstance(partition, BinlogRange)
        if partition.stop == partition.start:
            return iter(())
        found = _read(self._options, self._table, partition, self._schema)
        return map(self._pushed.apply, found) if self._pushed else found


class FilteringBatchReader(BinlogBatchReader):
    """A batch reader that accepts filters of the query; Spark needs a setting of its own for such readers."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Use the filters that can be applied, and return all; Spark checks all rows again."""
        self._pushed = PushedFilters.of(filters, typed=self._table is not None)
        self._options = self._pushed.narrowed(self._options)
        return filters


class BinlogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the binlog as it grows; offsets are positions between transactions.

    Spark makes one process that asks for offsets for as long as the query runs: its planner, with
    the connection to a live source, is made there and is no part of what goes to the executors.

    Args:
        options: of the query.
        table: of a typed query, or None.
    """

    def __init__(self, options: SourceOptions, table: TypedTable | None) -> None:
        self._options = options
        self._table = table
        self._planner: Planner | None = None
        self._frozen = False

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_planner": None}

    def _plan(self) -> Planner:
        if self._planner is None:
            self._planner = make_planner(self._options, stream=True)
        return self._planner

    def initialOffset(self) -> dict[str, Any]:
        """Return the offset at which a new query starts."""
        planner = self._plan()
        if self._options.live and self._table is None:
            try:
                planner.check_tables()
            except ConfigError as error:
                _LOG.warning("%s; the stream waits for it", error)
        return planner.offset(planner.start(stream=True))

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit that the options set."""
        options = self._options
        if options.max_bytes is not None:
            return ReadMaxBytes(options.max_bytes)
        if options.max_rows is not None:
            return ReadMaxRows(options.max_rows)
        return ReadAllAvailable()

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the end of the next micro-batch; wait a moment when there is nothing new."""
        options = self._options
        max_bytes, max_rows = options.max_bytes, options.max_rows
        if isinstance(limit, ReadAllAvailable):
            max_bytes = max_rows = None
        elif isinstance(limit, ReadMaxBytes):
            max_bytes = limit.max_bytes
        elif isinstance(limit, ReadMaxRows):
            max_rows = limit.max_rows
        planner = self._plan()
        begin = planner.resume(start)
        wait = 0.0 if self._frozen else IDLE_WAIT
        end = planner.latest(begin, max_bytes, max_rows, wait)
        return dict(start) if end == begin else planner.offset(end)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the end of the source, for ``latestOffset`` in Spark's progress, which shows the lag of a query."""
        newest = self._plan().newest
        return None if newest is None else newest.to_json()

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end of this run: later changes are left to another run."""
        self._plan().freeze()
        self._frozen = True

    def partitions(
        self, start: Mapping[str, Any], end: Mapping[str, Any]
    ) -> Sequence[InputPartition]:
        """Return the partitions between two offsets."""
        planner = self._plan()
        return planner.ranges(planner.resume(start), Position.from_json(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the batches of a range's changes; they are equal however often the range is read."""
        assert isinstance(partition, BinlogRange)
        return _read(self._options, self._table, partition)

    def commit(self, end: Mapping[str, Any]) -> None:
        """Do nothing: Spark's checkpoint records what is done."""

    def stop(self) -> None:
        """End the connection to the source."""
        if self._planner is not None:
            self._planner.close()
