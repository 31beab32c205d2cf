"""Planning over a live source: where a query starts, how far it goes, how it is cut."""

from __future__ import annotations

import datetime
import time

from replica_client.errors import ConfigError, ServerError, UnknownTableError
from replica_client.position.position import Position
from replica_client.readers.start import timestamp_of
from replica_client.schema.shape import ColumnDefinition, TableShape
from replica_client.spark.live_range import FIRST_EVENT
from replica_client.spark.live_schema import shape_of_table
from replica_client.spark.live_source import LiveSource
from replica_client.spark.options import SourceOptions
from replica_client.spark.ranges import BinlogRange, Filters
from replica_client.spark.typed import TypedTable


class LivePlanner:
    """Plans queries over a live source; holds one SQL connection.

    Args:
        options: of the query.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._source = LiveSource(options)
        self._frozen: Position | None = None

    def close(self) -> None:
        """End the connection."""
        self._source.close()

    def filters(self) -> Filters:
        """What is passed over, by the starting position."""
        starting = self._options.starting
        if isinstance(starting, datetime.datetime):
            return Filters(since=timestamp_of(starting))
        if isinstance(starting, Position) and not starting.file:
            return Filters(done=starting.gtid_set)
        return Filters()

    def freeze(self) -> None:
        """Take no notice of what comes after now."""
        self._frozen = self._source.end()

    def start(self, *, stream: bool = False) -> Position:
        """Where the query starts."""
        starting = self._options.starting or ("latest" if stream else "earliest")
        if isinstance(starting, Position) and starting.inside_transaction:
            raise ConfigError(f"startingPosition {starting}: give a place between transactions")
        position = self._source.start(starting)
        return Position(position.file, position.offset)

    def stop(self) -> Position:
        """Where a batch stops."""
        ending = self._options.ending
        if isinstance(ending, datetime.datetime):
            return self._source.first_at(self.start(), timestamp_of(ending))
        end = self._source.end()
        if isinstance(ending, Position):
            if ending > end:
                raise ConfigError(
                    f"endingPosition {ending} lies behind the end of the source's binlog, {end}"
                )
            return Position(ending.file, ending.offset)
        return end

    def latest(
        self,
        start: Position,
        max_bytes: int | None = None,
        max_rows: int | None = None,
        wait: float = 0.0,
    ) -> Position:
        """How far the next micro-batch goes: whole transactions, at least one where there is one.

        Args:
            start: of the batch.
            max_bytes: of its transactions, or None.
            max_rows: changed rows of wanted tables, or None.
            wait: seconds to wait for something new.

        Raises:
            ServerError: the source cannot go on from ``start``.
        """
        deadline = time.monotonic() + wait
        while True:
            end = self._frozen or self._source.end()
            left = deadline - time.monotonic()
            if end != start or left <= 0:
                break
            time.sleep(min(self._options.poll_interval, left))
        if end < start:
            self._source.check_has(start)
            return start  # a frozen end that was passed
        if end == start:
            return start
        if max_bytes is not None or max_rows is not None:
            self._source.check_has(start)
        return self._source.cut(start, end, max_bytes, max_rows)

    def ranges(self, start: Position, stop: Position | None) -> list[BinlogRange]:
        """The partitions of a range: one per binlog file.

        Raises:
            BinlogPurgedError: the source purged what is to be read.
        """
        self._source.check_has(start)
        stop = stop or self._source.end()
        names = [name for name, _ in self._source.files()]
        between = [
            Position(name, FIRST_EVENT)
            for name in names
            if start < Position(name, FIRST_EVENT) < stop and name != start.file
        ]
        if start >= stop:
            return []
        cuts = [start, *between]
        # The first server id after the base is the driver's.
        return [
            BinlogRange(begin, end, number=number)
            for number, (begin, end) in enumerate(zip(cuts, [*between, stop], strict=True), 1)
        ]

    def typed(self, database: str, table: str) -> TypedTable:
        """The plan of a typed query: by information_schema, else by the table's first table map.

        Raises:
            UnknownTableError: neither knows the table.
        """
        options = self._options
        try:
            shape = shape_of_table(self._source, database, table)
        except ServerError:
            shape = None  # a source that answers only what replication needs
        if shape is not None:
            definitions = definitions_of(shape)
            return TypedTable.plan(shape, options.columns, options.decode, definitions)
        start = self._source.start("earliest")
        shape = self._source.first_shape(start, database, table)
        if shape is None:
            raise UnknownTableError(
                f"option table: the source does not show {database}.{table} to this user, and its binlog "
                "has no change of it; check the name, or grant SELECT on it"
            )
        return TypedTable.plan(shape, options.columns, options.decode)


def definitions_of(shape: TableShape) -> tuple[ColumnDefinition, ...]:
    """What a shape tells, to fill in what a table map does not."""
    return tuple(
        ColumnDefinition(
            column.name,
            column.unsigned,
            column.collation_id,
            column.labels,
            column.primary_key_index,
            column.visible,
            column.fraction_digits,
            column.length,
            column.logical_type,
        )
        for column in shape.columns
    )
