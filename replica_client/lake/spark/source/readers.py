"""The two readers that Spark makes: for a batch, and for a stream.

Spark looks at each row again, so that what is not understood here costs time only.
"""

from __future__ import annotations

import datetime
import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import MapType, StringType, StructField, StructType

from replica_client.archive.archive import Archive, open_archive
from replica_client.archive.as_of.reconstruction import planned_state
from replica_client.errors import ConfigError, DataLossError
from replica_client.lake.source.live_plan import Planner, make_planner
from replica_client.lake.source.read_ranges import BinlogRange
from replica_client.lake.source_options import SourceOptions
from replica_client.lake.spark.executors import settle
from replica_client.lake.spark.source.shape_batches import batches, converted
from replica_client.lake.spark.source.shapes import TypedTable, arrow_schema_of, plan_table
from replica_client.options import options_of
from replica_client.protocol.position import Position
from replica_client.rows.selection import exact_pattern, quoted_name

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )

    HAS_LIMITS = True
    """Whether Spark passes the start and a limit to ``latestOffset``: PySpark 4.2 does, 4.1 does not."""
except ModuleNotFoundError:
    HAS_LIMITS = False

    class ReadLimit:  # type: ignore[no-redef]
        """Stand-in for the class of PySpark 4.2."""

    class ReadAllAvailable(ReadLimit):  # type: ignore[no-redef]
        """Stand-in for the class of PySpark 4.2."""

    ReadMaxBytes = ReadMaxRows = ReadLimit  # type: ignore[assignment,misc]

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Stand-in for the class of PySpark 4.2."""


_NAMES: Final = ("database", "table", "_file")
_TIME: Final = "_commit_timestamp"
_ORDER: Final[dict[type[Filter], Callable[[Any, Any], Any]]] = {
    EqualTo: pc.equal,
    EqualNullSafe: pc.equal,
    GreaterThan: pc.greater,
    GreaterThanOrEqual: pc.greater_equal,
    LessThan: pc.less,
    LessThanOrEqual: pc.less_equal,
}
_MOST_PATTERNS: Final = 1000


@dataclass(frozen=True)
class PushedFilters:
    """Conditions that all hold.

    Attributes:
        names: for some of ``database``, ``table`` and ``_file`` the values that are wanted.
        times: comparisons of the commit time.
    """

    names: tuple[tuple[str, frozenset[str]], ...] = ()
    times: tuple[tuple[type[Filter], datetime.datetime], ...] = ()

    @classmethod
    def of(cls, filters: Iterable[Filter], *, typed: bool) -> PushedFilters:
        """Return the filters of Spark that can be applied.

        Args:
            filters: of the query.
            typed: whether the query reads a table's own columns, of which some may be called
                ``database`` or ``table``.
        """
        known = _NAMES[2:] if typed else _NAMES
        names: dict[str, frozenset[str]] = {}
        times: list[tuple[type[Filter], datetime.datetime]] = []
        for one in filters:
            attribute: tuple[str, ...] = getattr(one, "attribute", ())
            value: Any = getattr(one, "value", None)
            if len(attribute) != 1 or value is None:
                continue
            name = attribute[0]
            if name in known and isinstance(one, EqualTo | EqualNullSafe | In):
                values = value if isinstance(one, In) else (value,)
                wanted = frozenset(text for text in values if isinstance(text, str))
                names[name] = names[name] & wanted if name in names else wanted
            elif name == _TIME and type(one) in _ORDER and _is_instant(value):
                times.append((type(one), value))
        return cls(tuple(sorted(names.items())), tuple(times))

    def __bool__(self) -> bool:
        return bool(self.names or self.times)

    def narrowed(self, source: SourceOptions) -> SourceOptions:
        """Return the options with unwanted tables left out, so that their rows are not decoded."""
        wanted = dict(self.names)
        if source.tables is not None or source.table is not None:
            return (
                source  # the user's own patterns; names may be written in another letter case there
            )
        databases, tables = wanted.get("database"), wanted.get("table")
        if (
            (databases is None and tables is None)
            or "" in (databases or ())
            or "" in (tables or ())
        ):
            return source  # what is of no table has names without a letter
        pairs = itertools.product(_sorted(databases), _sorted(tables))
        patterns = tuple(_pattern(*pair) for pair in itertools.islice(pairs, _MOST_PATTERNS + 1))
        if not 0 < len(patterns) <= _MOST_PATTERNS:
            return source
        return replace(source, tables=patterns)

    def may_have(self, part: BinlogRange) -> bool:
        """Return whether a range may have wanted rows.

        Rows lie in the files of their range, or before it: the commit of an XA transaction delivers
        earlier rows.
        """
        files = dict(self.names).get("_file")
        if files is None or not part.files:
            return True
        last = Position(part.files[-1].name, 0)
        return any(Position(file, 0) <= last for file in files)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch that pass the filters."""
        for name, values in self.names:
            column = batch.column(name)
            if pa.types.is_dictionary(column.type):
                column = column.cast(column.type.value_type)
            batch = batch.filter(pc.is_in(column, value_set=pa.array(sorted(values), column.type)))
        for kind, value in self.times:
            column = batch.column(_TIME)
            batch = batch.filter(_ORDER[kind](column, pa.scalar(value, column.type)))
        return batch


def _is_instant(value: Any) -> bool:
    return isinstance(value, datetime.datetime) and value.tzinfo is not None


def _sorted(names: frozenset[str] | None) -> list[str | None]:
    return [None] if names is None else [*sorted(names)]


def _pattern(database: str | None, table: str | None) -> str:
    return ".".join("*" if one is None else quoted_name(one) for one in (database, table))


_LOG = logging.getLogger("replica_client.lake")
IDLE_WAIT = 1.0
"""Seconds that a look for something new waits when there is nothing: Spark asks without a pause."""


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
        return [InputPartition(part) for part in self._plan()]

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
        part: BinlogRange = partition.value
        if part.stop == part.start:
            return iter(())
        found = _read(self._options, self._table, part, self._schema)
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
        self._reached: dict[str, Any] | None = None
        if not HAS_LIMITS and not (options.max_bytes is options.max_rows is None):
            raise ConfigError(
                "maxBytesPerTrigger and maxRowsPerTrigger need PySpark 4.2 or newer; leave them out, or upgrade"
            )

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
        self._reached = planner.offset(planner.start(stream=True))
        return self._reached

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit that the options set."""
        options = self._options
        if options.max_bytes is not None:
            return ReadMaxBytes(options.max_bytes)
        if options.max_rows is not None:
            return ReadMaxRows(options.max_rows)
        return ReadAllAvailable()

    def latestOffset(
        self, start: Mapping[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """Return the end of the next micro-batch; wait a moment when there is nothing new.

        PySpark 4.1 gives no arguments. The start is then the end of the last micro-batch; after a restart it is
        not known until Spark asks for partitions, and the offset has no table definitions.
        """
        options = self._options
        if start is None and (start := self._reached) is None:
            planner = self._plan()
            return (planner.stop() or planner.latest(Position("", 0))).to_json()
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
        self._reached = dict(end)
        begin, stop = planner.resume(start), Position.from_json(end)
        if stop < begin:
            raise DataLossError(
                f"the source ends at {stop}, but {begin} was read already: it lost changes; start over with a new "
                "checkpoint"
            )
        return [InputPartition(part) for part in planner.ranges(begin, stop)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the batches of a range's changes; they are equal however often the range is read."""
        return _read(self._options, self._table, partition.value)

    def commit(self, end: Mapping[str, Any]) -> None:
        """Do nothing: Spark's checkpoint records what is done."""

    def stop(self) -> None:
        """End the connection to the source."""
        if self._planner is not None:
            self._planner.close()


_LOSSLESS = StructField("_lossless", MapType(StringType(), StringType(), False), True)


@dataclass(frozen=True)
class PlannedState:
    """A planned read of a table at a moment; it travels to the executor.

    Attributes:
        position: the moment.
        columns: the wanted columns of the table there.
        without: the other columns; their missing values are ignored.
    """

    position: Position
    columns: StructType
    without: tuple[str, ...]

    @classmethod
    def of(cls, options: SourceOptions) -> PlannedState:
        """Find the moment that the options name, and the table's columns then.

        Raises:
            ConfigError: the moment is none of the files.
            DataLossError: the definition of the table is not in them.
        """
        assert options.as_of is not None
        position, shape = planned_state(_archive(options), _table(options), options.as_of)
        fields = plan_table(shape, options).fields
        columns = [StructField(name, kind) for name, kind in fields]
        wanted = {name for name, _ in fields}
        without = [
            column.name
            for at, column in enumerate(shape.columns)
            if column.name not in wanted and at not in shape.primary_key
        ]
        return cls(position, StructType([*columns, _LOSSLESS]), tuple(without))


class AsOfReader(DataSourceReader):
    """Reads a table as it was, in one partition: each change goes on from the one before.

    Args:
        options: of the query.
        planned: moment and columns.
    """

    def __init__(self, options: SourceOptions, planned: PlannedState) -> None:
        self._options, self._planned = options, planned

    def partitions(self) -> Sequence[InputPartition]:
        """Return the only partition."""
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows, unordered."""
        options, schema = self._options, arrow_schema_of(self._planned.columns)
        with options_of("spark"):
            state = _archive(options).as_of(
                _table(options),
                self._planned.position,
                copy=options.copy,
                copy_at=options.copy_at,
                without=self._planned.without,
            )
            for batch in state.batches():
                arrays = [converted(batch.column(field.name), field.type) for field in schema]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        settle()


def _archive(options: SourceOptions) -> Archive:
    return open_archive(
        list(options.locations),
        options=options.decode,
        lower_case_table_names=options.letter_case,
        index_directory=options.index_directory,
    )


def _table(options: SourceOptions) -> str:
    assert options.table is not None
    return exact_pattern(*options.table)
