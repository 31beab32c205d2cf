"""Table definitions at any position, of files and of a live source.

With ``binlog_row_metadata=FULL`` the binlog has all definitions, and this is not needed. Otherwise
the driver determines them before it plans: tables may have changed again after the range that an
executor reads, so ``information_schema`` no longer shows their definition in it.
"""

from __future__ import annotations

import json
import logging
from bisect import bisect_left
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final, NamedTuple

from replica_client.archive.file_index import QUERIES, FileIndex, concerns_tables
from replica_client.archive.file_list import ListedFile, ReadStatement
from replica_client.errors import BinlogDecodeError, ConfigError, ServerError
from replica_client.lake.source.file_catalog import FileCatalog
from replica_client.lake.source.live_source import LiveSource
from replica_client.lake.source.read_ranges import PassedTransactions
from replica_client.lake.source_options import SourceOptions
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.event import (
    FIRST_EVENT,
    BinlogEvent,
    BinlogFormat,
    DecodeOptions,
)
from replica_client.protocol.constants.client_server import ErrorCode
from replica_client.protocol.position import Position, split_file_name
from replica_client.protocol.wire.server_errors import UNKNOWABLE_ERRORS
from replica_client.rows.selection import Selection
from replica_client.schema.ddl.steps import TableName
from replica_client.schema.history import LogPosition, SchemaHistory
from replica_client.schema.model import DatabaseModel, TableModel
from replica_client.schema.names import casefold_name, casefold_table
from replica_client.stream.live.live_schema import read_source
from replica_client.stream.transactions.schema_tracking import SchemaTracker

_KEEP_EVERY = 100


class SchemaTimeline:
    """Runs the statements of files, each once.

    Where older files are gone, it goes on from what was known at the start of the first that is left.

    Args:
        catalog: of the files.
        decode: how to decode.
        letter_case: ``lower_case_table_names`` of the server that wrote the files; None: not known.
    """

    def __init__(
        self, catalog: FileCatalog, decode: DecodeOptions, letter_case: int | None = None
    ) -> None:
        self._catalog = catalog
        self._decode = decode
        self._casefolds_names = None if letter_case is None else letter_case != 0
        self._history = SchemaHistory(lower_case_names=self._casefolds_names)
        self._positions: list[Position] = []
        self._done: dict[str, int] = {}
        self._states: dict[int, str | None] = {}
        self._began = False
        self._unkept = 0

    def follow(self, files: list[ListedFile], start: Position, last: ListedFile) -> None:
        """Read the statements up to the end of a file.

        Args:
            files: all files.
            start: where reading begins; faults in files before it are skipped.
            last: the last file that is read.

        Raises:
            BinlogDecodeError: a fault in a file that is read.
        """
        if not self._began and files:
            self._begin(files[0])
        for file in files:
            if self._done.get(file.name, -1) < file.size:
                try:
                    index = self._catalog.index(file)
                except BinlogDecodeError:
                    if Position(file.name, file.size) >= start:
                        raise
                    # A fault in a file that is not read: definitions before it may not hold after it.
                    self._history = SchemaHistory(lower_case_names=self._casefolds_names)
                    self._positions, self._states = [], {}
                    self._done[file.name] = file.size
                    continue
                if file.name not in self._done:
                    self._keep(file, file.name == last.name)
                if index.has_statements:
                    self._run(file.name, index)
                self._done[file.name] = file.size
            if file.name == last.name:
                break
        self._catalog.save()

    def _keep(self, file: ListedFile, is_last: bool) -> None:
        """Keep what is known at the start of a file, now and then, for when older files are gone."""
        self._unkept += 1
        store = self._catalog.store
        if store is None or not self._positions or not (is_last or self._unkept >= _KEEP_EVERY):
            return
        self._unkept = 0
        state = self.state_at(Position(file.name, 0))
        if state is not None:
            store.save_history(file.path, state)

    def _begin(self, first: ListedFile) -> None:
        """Go on from what was kept of files that are gone, by their indexes up to the first one."""
        self._began = True
        store = self._catalog.store
        kept = None if store is None else store.history_before(first.path)
        if store is None or kept is None:
            return
        path, state = kept
        number, first_number = (split_file_name(one)[1] for one in (path, first.path))
        base, _, digits = first.path.rpartition(".")
        between = [f"{base}.{one:0{len(digits)}d}" for one in range(number, first_number)]
        indexes = store.load(between)
        if len(indexes) != len(between):
            return
        self._history = SchemaHistory.from_state(state)
        if self._casefolds_names is not None:
            self._history.casefold_names(self._casefolds_names)
        for one in between:
            if indexes[one].has_statements:
                self._run(one.rpartition("/")[2], indexes[one])

    def _run(self, name: str, index: FileIndex) -> None:
        tracker = SchemaTracker(self._history, Selection())
        for event, decoder in index.statements(name, self._decode):
            position = Position(name, event.position)
            if self._positions and position <= self._positions[-1]:
                continue
            tracker.run(event, decoder.format, 0)
            self._positions.append(position)

    def state_at(self, position: Position) -> str | None:
        """Return the history at a position for the executors; None when it knows no table."""
        count = bisect_left(self._positions, position)
        if count not in self._states:
            mine = self.history_at(position)
            known = bool(mine.tables())
            if known:
                mine.prune(position.file, position.offset, keep=1)
            self._states[count] = mine.to_state() if known else None
        return self._states[count]

    def between(self, start: Position, end: Position) -> str | None:
        """Return the history at ``start`` with the changes up to ``end``; None when it knows no table.

        Readers ignore what is after their start, so one text serves all partitions.
        """
        if bisect_left(self._positions, start) == bisect_left(self._positions, end):
            return self.state_at(start)  # the same text as before, which readers have at hand
        mine = self.history_at(end)
        if not mine.tables():
            return None
        mine.prune(start.file, start.offset, keep=1)
        return mine.to_state()

    def history_at(self, position: Position) -> SchemaHistory:
        """Return the history at a position."""
        mine = self._history.copy()
        mine.rewind(position.file, position.offset)
        return mine


_METADATA: Final = "SELECT @@global.binlog_row_metadata"
_NO_METADATA: Final = UNKNOWABLE_ERRORS | {ErrorCode.ER_UNKNOWN_SYSTEM_VARIABLE}
"""An old server, or one that only serves files."""
_MAX_STATES: Final = 4
_LOG = logging.getLogger("replica_client.lake")


class _Statement(NamedTuple):
    """A statement that may change tables, and how its file is laid out."""

    event: BinlogEvent
    layout: BinlogFormat

    @property
    def position(self) -> Position:
        return Position(self.event.file, self.event.position)


class LiveSchemaTimeline:
    """Runs the statements of a source's binlog, each once.

    Args:
        source: to read.
        options: of the query.
    """

    def __init__(self, source: LiveSource, options: SourceOptions) -> None:
        self._source = source
        self._options = options
        self._begun = self._works = False
        self._history = SchemaHistory()
        self._positions: list[Position] = []
        self._reached = Position("", 0)
        self._states: dict[int, str] = {}

    def begin(self, start: Position, saved: str | None = None) -> None:
        """Determine the table definitions at a position; later calls do nothing.

        Args:
            start: the position, between two transactions.
            saved: the result of :meth:`state_at` for it; None: the option ``schemaFile``, else the source
                and its binlog are asked.

        Raises:
            SchemaError: the saved history is damaged.
            ServerError: the source refuses, or does not have the position any more.
        """
        if self._begun:
            return
        self._works = self._is_needed()
        if self._works and saved is None and self._options.schema_file is not None:
            saved = read_schema_file(self._options.schema_file).to_state()
        if self._works and saved is not None:
            self._history = SchemaHistory.from_state(saved)
            self._states[0] = saved
            self._reached = start
        elif self._works:
            self._works = self._source.run(self._find_out(start))
        self._begun = True

    def begin_anew(self, position: Position) -> str | None:
        """Continue after a purged range with the definitions that the source shows.

        Returns:
            the history there; None when the source does not give it.
        """
        self._history, self._positions, self._states = SchemaHistory(), [], {}
        stated = self._source.run(self._find_out(position))
        self._begun, self._works = True, stated and self._is_needed()
        return self._slice(position, position).to_state() if stated else None

    def state_at(self, position: Position) -> str | None:
        """Return the history at a position, to be saved with it; None when nothing is known."""
        if not self._works:
            return None
        self._extend(position)
        count = bisect_left(self._positions, position)
        if count not in self._states:
            self._states[count] = self._slice(position, position).to_state()
            for old in sorted(self._states)[:-_MAX_STATES]:
                del self._states[old]
        return self._states[count]

    def between(self, start: Position, end: Position) -> str | None:
        """Return the history at ``start`` with the changes up to ``end``.

        Readers ignore what is after their start.
        """
        if not self._works:
            return None
        self._extend(end)
        if bisect_left(self._positions, start) == bisect_left(self._positions, end):
            return self.state_at(start)  # the same text as before, which readers have at hand
        return self._slice(start, end).to_state()

    def _slice(self, start: Position, end: Position) -> SchemaHistory:
        mine = self._history.copy()
        mine.rewind(end.file, end.offset)
        mine.prune(start.file, start.offset, keep=1)
        return mine

    def _is_needed(self) -> bool:
        try:
            [(value,)] = self._source.query(_METADATA)
        except ServerError as error:
            if error.errno not in _NO_METADATA:
                raise
            return True
        if self._source.is_mariadb:
            return True  # FULL leaves types out there (schema/left_out.py)
        return str(value).upper() != "FULL"

    def _extend(self, end: Position) -> None:
        if self._reached < end:
            self._source.run(self._read_on(end))

    async def _read_on(self, end: Position) -> None:
        async for statement in self._statements(self._reached, end):
            self._run(statement)
        self._reached = end

    def _run(self, statement: _Statement) -> None:
        if self._positions and statement.position <= self._positions[-1]:
            return  # it was read before a connection was lost
        tracker = SchemaTracker(self._history, Selection())
        tracker.run(statement.event, statement.layout, 0)
        self._positions.append(statement.position)

    async def _find_out(self, start: Position) -> bool:
        """Know the tables at a start, as far as they are still the same or their statements tell."""
        assert self._options.connect is not None
        try:
            now, end = await read_source(self._options.connect, self._options.decode)
        except ServerError as error:
            if error.errno not in UNKNOWABLE_ERRORS:
                raise
            # Rows that nothing describes are refused by the tasks.
            _LOG.warning("the source does not show its table definitions: %s", error)
            return False
        end = Position(end.file, end.offset)
        statements = [one async for one in self._statements(start, end)]
        touches = _Touches(now, statements)
        self._history = _at_start(now, start, touches)
        for number, statement in enumerate(statements):
            self._run(statement)
            for table in [name for name, last in touches.last.items() if last == number]:
                model = now.table(table)
                known = isinstance(self._history.table(table), TableModel)
                if not known and isinstance(model, TableModel):
                    self._history.position = LogPosition.of(
                        statement.event.file, statement.event.position
                    )
                    self._history.adopt(model)
        self._reached = max(start, end)
        return True

    async def _statements(self, start: Position, end: Position) -> AsyncIterator[_Statement]:
        """Yield the statements between two positions that may change tables."""
        if start >= end:
            return
        found: list[_Statement] = []

        def look(event: BinlogEvent, decoder: BinlogDecoder) -> None:
            if event.header.type_code in QUERIES and concerns_tables(event, decoder):
                found.append(_Statement(event, decoder.format))

        async with await self._source.dump(start) as dump:
            passing = PassedTransactions(dump, start, self._options.decode, look)
            while passing.position < end:
                is_last = await passing.next() is None
                for statement in found:
                    if statement.position >= end:
                        return
                    yield statement
                found.clear()
                if is_last:
                    return


def read_schema_file(path: str) -> SchemaHistory:
    """Read the schema history from a file.

    Raises:
        ConfigError: the file cannot be read.
        SchemaError: the file is not a schema history.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"option schemaFile: {path}: {error}") from None
    try:
        return SchemaHistory.from_json(json.loads(text))
    except ValueError as error:
        raise ConfigError(f"option schemaFile: {path} is not JSON: {error}") from None


class _Touches:
    """The tables and databases that statements may have changed, among those that exist now."""

    def __init__(self, now: SchemaHistory, statements: list[_Statement]) -> None:
        self.last: dict[TableName, int] = {}
        self.databases: set[str] = set()
        self.charsets: set[str] = set()
        for number, (event, layout) in enumerate(statements):
            tables, databases, anything = ReadStatement.of(event, layout).touched
            if now.lower_case_names:
                tables = tuple(map(casefold_table, tables))
                databases = tuple(map(casefold_name, databases))
            if anything:
                databases = tuple(now.databases())
            self.charsets.update(databases)
            self.databases.update(databases, (table[0] for table in tables))
            for table in now.tables():
                if table[0] in databases or table in tables:
                    self.last[table] = number


def _at_start(now: SchemaHistory, start: Position, touches: _Touches) -> SchemaHistory:
    """Return the history before the first statement: the definitions that no statement touches."""
    history = SchemaHistory(lower_case_names=now.lower_case_names)
    history.position = LogPosition.of(start.file, max(start.offset, FIRST_EVENT) - 1)
    for name in now.databases():
        charset = None if name in touches.charsets else now.database(name).charset
        history.set_database(name, DatabaseModel(charset, complete=name not in touches.databases))
    for table in now.tables():
        model = now.table(table)
        if table not in touches.last and isinstance(model, TableModel):
            history.adopt(model)
    return history
