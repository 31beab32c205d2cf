"""Planning over a live source."""

from __future__ import annotations

import datetime
import time
from collections.abc import Mapping
from typing import Any, Protocol

from replica_client.errors import (
    BinlogPurgedError,
    ConfigError,
    SchemaError,
    ServerError,
    UnknownTableError,
)
from replica_client.lake.pipeline_state import SCHEMA_KEY
from replica_client.lake.source.file_plan import FilePlanner
from replica_client.lake.source.live_source import LiveSource
from replica_client.lake.source.read_ranges import BinlogRange, Filters, cut_rows
from replica_client.lake.source.schema_timeline import LiveSchemaTimeline
from replica_client.lake.source_options import SourceOptions
from replica_client.options import remedies
from replica_client.protocol.binlog.event import FIRST_EVENT
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.protocol.position import Position
from replica_client.protocol.wire.server_errors import UNKNOWABLE_ERRORS
from replica_client.schema import information_schema as queries
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.history import SchemaHistory
from replica_client.schema.left_out import shape_of
from replica_client.schema.shape import TableShape
from replica_client.stream.transactions.arguments import micros_of, stop_of


class Queryable(Protocol):
    """A source that runs SQL queries."""

    @property
    def is_mariadb(self) -> bool:
        """Whether the source is MariaDB."""

    def query(self, sql: str, args: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a statement."""


def shape_of_table(source: Queryable, database: str, table: str) -> TableShape | None:
    """Return the current shape of a table, or None when the source does not show the table.

    Raises:
        ServerError: the source does not answer such queries.
        SchemaError: a column type that is not known.
    """
    where = queries.where_table((database, table))
    tables = _ask(source, queries.tables_query(where))
    if not tables:
        return None
    flavor = ServerFlavor.MARIADB if source.is_mariadb else ServerFlavor.MYSQL
    columns = _ask(source, queries.columns_query(flavor, where))
    keys = _ask(source, queries.keys_query(where))
    try:
        models = queries.read_tables(tables, columns, keys, flavor, StatementContext().version)
        return shape_of(models[0], flavor) if models else None
    except SchemaError as error:
        raise SchemaError(
            f"{database}.{table}: {error}; read the envelope (tables instead of table)"
        ) from error


def _ask(source: Queryable, question: queries.Where) -> list[tuple[Any, ...]]:
    sql, arguments = question
    return source.query(sql, tuple(arguments))


_PAUSE = 0.01
_MANY_FILES = 8
"""So many files of a source are cut into tasks by files alone, without a look into them."""


def _sizes(start: Position, stop: Position, files: list[tuple[str, int]]) -> list[int]:
    """Return the bytes that a range has of each file of the source."""
    first, last = Position(start.file, 0), Position(stop.file, 0)
    return [
        (stop.offset if name == stop.file else size)
        - (start.offset if name == start.file else FIRST_EVENT)
        for name, size in files
        if first <= Position(name, 0) <= last
    ]


class LivePlanner:
    """Plans queries over a live source; holds one SQL connection.

    Args:
        options: of the query.
        stream: whether readers' connections stay for the next range.

    Attributes:
        newest: where the source ended when it was looked at last.
    """

    def __init__(self, options: SourceOptions, *, stream: bool = False) -> None:
        self._options = options
        self._stream = stream
        self._source = LiveSource(options)
        self._timeline = LiveSchemaTimeline(self._source, options)
        self.newest: Position | None = None
        self._frozen: Position | None = None
        self._saved: tuple[Position, str | None] | None = None
        # Where the range that was planned last begins, and the positions at which it can be cut.
        self._known_cuts: tuple[Position, list[Position]] | None = None

    def close(self) -> None:
        """End the connection."""
        self._source.close()

    def filters(self) -> Filters:
        """Return the filters that apply inside the ranges."""
        return Filters.of(self._options)

    def check_tables(self, start: Position | None = None) -> None:
        """Raise if a pattern matches no table that the source lists, nor one of its binlog.

        Args:
            start: where the binlog is read from, for tables that were dropped; None: it is not read.

        Raises:
            ConfigError: names the pattern, and the nearest table.
        """
        selection = self._options.assembly().selection
        if self._options.allow_empty or not selection.unmatched():
            return
        listed = self._source.tables()
        if listed is None:
            return
        names, casefolds = listed
        history = SchemaHistory(lower_case_names=casefolds)
        own = selection.for_server(casefolds)
        for name in names:
            own.wants(*name)
        if selection.unmatched() and start is not None:
            names += self._source.mapped_tables(start)
        selection.check_matched(history, names, f"; {remedies('empty answer')}")

    def freeze(self, end: Position | None = None) -> None:
        """Fix the end, or the current end of the source: later changes are ignored."""
        self._frozen = end or self._source.end()

    def size(self, start: Position, stop: Position | None = None) -> int:
        """Return the bytes of the binlog between two positions; without ``stop`` up to the fixed end."""
        stop = stop or self._frozen or self._source.end()
        return sum(_sizes(start, stop, self._source.files()))

    def start(self, *, stream: bool = False) -> Position:
        """Return where the query starts."""
        starting = self._options.starting or ("latest" if stream else "earliest")
        if isinstance(starting, Position) and starting.inside_transaction:
            raise ConfigError(f"startingPosition {starting}: give a place between transactions")
        position = self._source.start(starting)
        if isinstance(starting, datetime.datetime):
            return self._source.first_at(position, micros_of(starting), begins=True)
        return Position(position.file, position.offset)

    def resume(self, saved: Mapping[str, Any]) -> Position:
        """Return the position of an offset, and remember the table definitions that were saved with it."""
        start = Position.from_json(saved)
        schema = saved.get(SCHEMA_KEY)
        self._saved = start, None if schema is None else str(schema)
        return start

    def offset(self, position: Position) -> dict[str, Any]:
        """Return a position as an offset, with the table definitions there."""
        self._begin(position)
        schema = self._timeline.state_at(position)
        return position.to_json() if schema is None else {**position.to_json(), SCHEMA_KEY: schema}

    def _begin(self, start: Position) -> None:
        """Determine the table definitions at the first position that is asked for."""
        self._timeline.begin(*(self._saved or (start, None)))

    def stop(self) -> Position:
        """Return where a batch stops."""
        starting = self._options.starting or "earliest"
        ending = None if self._options.ending is None else stop_of(starting, self._options.ending)
        if isinstance(ending, datetime.datetime):
            return self._source.first_at(self.start(), micros_of(ending))
        end = self._source.end()
        if isinstance(ending, Position) and ending.file:
            if ending > end:
                raise ConfigError(
                    f"endingPosition {ending} lies after the end of the source's binlog, {end}"
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
        """Return the end of the next micro-batch: whole transactions, at least one if there is one.

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
            self.newest = self._source.end()
            end = self._frozen or self.newest
            left = deadline - time.monotonic()
            if end != start or left <= 0:
                break
            if self._source.wait(end, left) and self._source.end() == end:
                time.sleep(_PAUSE)  # it is sent before the source says that it is there
        if end < start:
            self._source.check_has(start)
            return start  # a frozen end that was passed
        if end == start:
            return start
        files: list[tuple[str, int]] = []
        if max_bytes is not None or self._options.passes_gaps:
            try:
                files = self._source.check_has(start)
            except BinlogPurgedError:
                if not self._options.passes_gaps:
                    raise
                return self._pass_gap(end)
        if max_bytes is not None and sum(_sizes(start, end, files)) > max_bytes:
            found = self._source.cut_positions(start, end, self._options.partition_size, max_bytes)
            end = found[-1]
            self._known_cuts = start, found
        if max_rows is not None:
            end = cut_rows(self._options, self._ranges(start, end, cut=False), max_rows) or end
        return end

    def _pass_gap(self, end: Position) -> Position:
        """Return where changes continue after a purged range."""
        oldest, _ = self._source.files()[0]
        end = max(end, Position(oldest, FIRST_EVENT))
        self._timeline.begin_anew(end)
        return end

    def _schema_behind(self, end: Position) -> str | None:
        try:
            self._source.check_has(end)
        except BinlogPurgedError:
            return None  # purged as well meanwhile: the next range says where changes go on
        return self._timeline.begin_anew(end)

    def ranges(self, start: Position, stop: Position | None) -> list[BinlogRange]:
        """Return the partitions of a range: one for each binlog file.

        Where the files are few and large, a partition is a part of a file.
        """
        return self._ranges(start, stop, cut=True)

    def _ranges(self, start: Position, stop: Position | None, *, cut: bool) -> list[BinlogRange]:
        """``cut`` false: by files alone, where the first rows are wanted and the rest is not looked at."""
        if start == stop:
            return []
        stop = stop or self._source.end()
        try:
            files = self._source.check_has(start)
        except BinlogPurgedError:
            if not self._options.passes_gaps:
                raise
            return [BinlogRange(start, stop, schema=self._schema_behind(stop), is_lost=True)]
        if start >= stop:
            return []
        inside = self._cuts_between(start, stop, files) if cut else []
        begins = {
            Position(name, FIRST_EVENT)
            for name, _ in files
            if start < Position(name, FIRST_EVENT) < stop and name != start.file
        }
        between = sorted(begins.union(inside))
        cuts, ends = [start, *between], [*between, stop]
        filters = self.filters()
        self._begin(start)
        schema = self._timeline.between(start, cuts[-1])
        # The first server id after the base is the driver's.
        return [
            BinlogRange(
                begin,
                end,
                number=number,
                schema=schema,
                filters=filters,
                stays=self._stream and not between,
            )
            for number, (begin, end) in enumerate(zip(cuts, ends, strict=True), 1)
        ]

    def _cuts_between(
        self, start: Position, stop: Position, files: list[tuple[str, int]]
    ) -> list[Position]:
        """Return where to cut a range in addition to the starts of files."""
        if (
            self._known_cuts is not None
            and self._known_cuts[0] == start
            and self._known_cuts[1][-1] == stop
        ):
            return self._known_cuts[1][:-1]
        sizes, step = _sizes(start, stop, files), self._options.partition_size
        if len(sizes) >= _MANY_FILES or max(sizes, default=0) < 2 * step:
            return []
        return self._source.cut_positions(start, stop, step)[:-1]

    def shape(self, database: str, table: str) -> tuple[TableShape, Position | None]:
        """Return the shape of a table by information_schema, else by its first table map, and its position.

        The position is None unless rows of other definitions are fitted to the shape.

        Raises:
            UnknownTableError: neither knows the table.
        """
        options = self._options
        try:
            shape = shape_of_table(self._source, database, table)
        except ServerError as error:
            if error.errno not in UNKNOWABLE_ERRORS:
                raise
            shape = None  # a source that answers only what replication needs
        if shape is not None:
            return shape, self._source.end() if options.evolves else None
        start = self._source.start("earliest")
        shape = self._source.first_shape(start, database, table)
        if shape is not None and not shape.names_resolved:
            if options.reading.get("on_unknown_table") != "positional":
                shape = None
        if shape is None:
            raise UnknownTableError(
                f"option table: the source does not show {database}.{table} to this user, and its binlog "
                "names no columns of it; check the name, or grant SELECT on it"
            )
        return shape, None


Planner = FilePlanner | LivePlanner


def make_planner(options: SourceOptions, *, stream: bool = False) -> Planner:
    """Return the planner for the kind of source."""
    return LivePlanner(options, stream=stream) if options.live else FilePlanner(options)
