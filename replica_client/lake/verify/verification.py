"""The verification that the lake's current tables equal the source at a position.

It runs as ``replica-client verify``. The lake is at a position; the source is read later. Rows that
the binlog changed in between are left out of the comparison, by their keys; all other rows must be
equal.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import Any, Final, Literal

from deltalake.exceptions import TableNotFoundError

from replica_client.errors import ConfigError, SchemaMismatchError, ServerError
from replica_client.lake.config import PipelineConfig
from replica_client.lake.data_files import data_files_of, open_delta
from replica_client.lake.lake_catalog import LakeCatalog, TableEntry
from replica_client.lake.lake_table import LakeTable
from replica_client.lake.log_versions import STEPS, ChangeLogVersions
from replica_client.lake.merge import Merge
from replica_client.lake.pipeline_state import SCHEMA_KEY, Checkpoint
from replica_client.lake.source_options import SourceOptions
from replica_client.lake.unmerged import Unmerged, from_json, parts_of
from replica_client.lake.verify.row_groups import Grouping, differing
from replica_client.lake.verify.sides import (
    FileTask,
    Mapper,
    file_checksums,
    file_rows,
    map_here,
    source_checksums,
    source_rows,
    together,
)
from replica_client.lake.verify.texts import RowTexts, row_texts, shown_text
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.position import Position
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.json_values import cells_to_json
from replica_client.rows.row_change import Change
from replica_client.schema.ddl.steps import TableName
from replica_client.schema.history import SchemaChange, SchemaHistory
from replica_client.storage.location import Location
from replica_client.stream.live.source_stream import SourceStream
from replica_client.stream.live.stream_options import StreamOptions
from replica_client.stream.snapshot import Window
from replica_client.stream.snapshot.watermarks import read_definitions
from replica_client.stream.transactions.transaction import Transaction
from replica_client.stream.transport.connection import SourceConnection

Outcome = Literal["equal", "different", "undecided", "left_out"]
SHOWN: Final = 20
_GROUPS_AT_ONCE: Final = 64
_VERSIONS_BACK: Final = 10_000


@dataclass(frozen=True, slots=True)
class Difference:
    """A row that differs.

    Attributes:
        key: the row's key; the row itself in a table without a primary key.
        source: the texts of the source's values, by column; None when the row does not exist there.
        lake: the texts of the lake's values, by column; None when the row does not exist there.
    """

    key: str
    source: dict[str, Any] | None
    lake: dict[str, Any] | None


@dataclass
class TableReport:
    """The comparison of a table.

    Attributes:
        table: ``database.name``.
        outcome: ``undecided``: later changes leave nothing to compare; ``left_out``: the table is
            not kept current.
        rows: number of rows of the source.
        groups: number of groups that were compared by checksums.
        narrowed: number of groups whose rows were compared.
        changed_since: number of rows that changed between the two readings, and are not compared.
        different: number of rows that differ.
        differences: the first of them.
        reason: why the table is undecided or left out.
    """

    table: str
    outcome: Outcome = "equal"
    rows: int = 0
    groups: int = 0
    narrowed: int = 0
    changed_since: int = 0
    different: int = 0
    differences: list[Difference] = field(default_factory=list)
    reason: str = ""


@dataclass
class VerifyReport:
    """The result of a verification.

    Attributes:
        position: the lake's position.
        source_position: position up to which the source's changes were considered.
        tables: reports of the tables.
    """

    position: str
    source_position: str = ""
    tables: list[TableReport] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        """Whether every table was compared and is equal."""
        return all(table.outcome == "equal" for table in self.tables)


class _Changes:
    """The rows that the binlog changed from the lake's position on.

    Args:
        options: options of the source.
        start: the lake's position.
        history: the definitions of the tables there; None: those that the binlog and the source
            prove.
    """

    def __init__(
        self, options: SourceOptions, start: Position, history: SchemaHistory | None = None
    ) -> None:
        self._options = options
        self._start = start
        self._history = history
        self.end = start
        self.keys: dict[TableName, set[Any]] = {}
        self.reshaped: set[TableName] = set()

    async def extend(self, end: Position, tables: dict[TableName, LakeTable]) -> None:
        """Read the changes up to a position."""
        if not self.end < end:
            return
        assert self._options.connect is not None
        wanted = StreamOptions(
            start=self.end,
            stop_at_end=True,
            assembly=self._options.assembly(),
            decode=self._options.decode,
            schema=self._history,
        )
        async with SourceStream(self._options.connect, wanted) as stream:
            async for transaction in stream.transactions():
                if transaction.start >= end:
                    break
                self._take(transaction, tables)
            if self._history is not None:
                self._history = stream.history.copy()
                self._history.rewind(end.file, end.offset)
        self.end = end

    def _take(self, transaction: Transaction, tables: dict[TableName, LakeTable]) -> None:
        for item in transaction.items:
            if isinstance(item, SchemaChange):
                self.reshaped.add((item.database, item.table))
                self.reshaped.add(item.name_after)
            elif isinstance(item, RowsOfEvent):
                self._rows(item, tables)

    def _rows(self, rows: RowsOfEvent, tables: dict[TableName, LakeTable]) -> None:
        name = (rows.shape.database, rows.shape.table)
        table = tables.get(name)
        if table is None:
            return
        found = self.keys.setdefault(name, set())
        if not table.source_key:
            found.add(None)
            return
        texts = [cells_to_json(cells) for change in rows for cells in _images(change)]
        try:
            found.update(table.keys(texts))
        except SchemaMismatchError:
            # The image lacks the key: an INSERT may omit a key with a default, or the definition
            # has another key.
            self.reshaped.add(name)


class Verification:
    """A comparison of one lake with its source.

    Args:
        config: the pipeline's configuration.
        run: runs the reading of the lake's files; default: in this process.
        say: called with a line about each step.
    """

    def __init__(
        self,
        config: PipelineConfig,
        run: Mapper = map_here,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._config = config
        self._options = SourceOptions.parse(config.source)
        self._map = run
        self._say = say
        if self._options.connect is None:
            raise ConfigError("verify compares with a live source: the configuration names files")
        catalog = LakeCatalog.load(config.output)
        if catalog is None:
            raise ConfigError(
                f"{config.output}: no lake with current tables; run the pipeline first"
            )
        self._catalog = catalog
        self._position, history = lake_position(config, catalog)
        self._changes = _Changes(self._options, self._position, history)
        self._shapes: dict[TableName, LakeTable] = {
            entry.table: LakeTable(entry.model)
            for entry in catalog.tables.values()
            if entry.status == "current" and entry.model is not None
        }

    def run(self) -> VerifyReport:
        """Compare every table.

        Raises:
            ServerError: the source refuses.
            TransportError: the source cannot be reached.
            DataLossError: its binlog does not reach back to the lake's position.
        """
        return asyncio.run(self._run())

    async def _run(self) -> VerifyReport:
        report = VerifyReport(str(self._position))
        assert self._options.connect is not None
        async with await SourceConnection.open(self._options.connect) as connection:
            models = await read_definitions(connection)
            selection = self._options.assembly().selection.for_server(
                connection.server.casefolds_names
            )
            for entry in self._catalog.tables.values():
                self._say(f"comparing {'.'.join(entry.table)}")
                one = TableReport(".".join(entry.table))
                report.tables.append(one)
                if entry.status != "current":
                    one.outcome, one.reason = "left_out", entry.reason or entry.status
                    continue
                await self._table(connection, entry, one, present=entry.table in models)
            report.tables += [
                TableReport(".".join(name), "different", reason="the lake does not know it")
                for name in models
                if name not in self._catalog.tables
                and name[0] != "mysql"
                and selection.wants(*name)
                and not await self._is_new(connection, name)
            ]
        report.source_position = str(self._changes.end)
        return report

    async def _is_new(self, connection: SourceConnection, name: TableName) -> bool:
        status = await connection.binlog_status()
        await self._know(Position(status.file, status.position))
        return name in self._changes.reshaped or (name[0], "") in self._changes.reshaped

    async def _know(self, end: Position) -> None:
        await self._changes.extend(end, self._shapes)

    async def _table(
        self, connection: SourceConnection, entry: TableEntry, one: TableReport, *, present: bool
    ) -> None:
        shape = self._shapes[entry.table]
        files = self._files(entry)
        try:
            if not present:
                raise _GoneError
            grouping, theirs, window = await source_checksums(
                connection, shape.model, self._config.lake.locking
            )
        except (ServerError, _GoneError) as error:
            status = await connection.binlog_status()
            await self._know(Position(status.file, status.position))
            one.outcome = "undecided" if entry.table in self._changes.reshaped else "different"
            one.reason = str(error) or "the source does not have it"
            return
        tasks = [
            FileTask(path, size, grouping, None, unit, _has_deleted(entry))
            for path, size, unit in files
        ]
        ours = together(await asyncio.to_thread(self._map, file_checksums, tasks))
        one.rows = sum(checksum.rows for checksum in theirs.values())
        one.groups = len(theirs.keys() | ours.keys())
        groups = differing(ours, theirs)
        one.narrowed = len(groups)
        for begin in range(0, len(groups), _GROUPS_AT_ONCE):
            some = groups[begin : begin + _GROUPS_AT_ONCE]
            await self._rows(connection, entry, one, grouping, files, some)
            if one.outcome == "undecided":
                return
        await self._passed(window)
        if one.different:
            one.outcome = "different"
        if entry.table in self._changes.reshaped:
            one.outcome, one.reason = (
                "undecided",
                "a statement, or rows of unknown keys, changed it since",
            )

    async def _passed(self, window: Window) -> None:
        """Read the changes up to a reading, whose low mark may be before the lake's position."""
        if window.low < self._changes._start:
            self._changes = _Changes(self._options, window.low)
        await self._know(window.high)

    async def _rows(
        self,
        connection: SourceConnection,
        entry: TableEntry,
        one: TableReport,
        grouping: Grouping,
        files: Sequence[tuple[Location, int, Merge | None]],
        groups: Sequence[int],
    ) -> None:
        texts, window = await source_rows(connection, grouping, groups, self._config.lake.locking)
        await self._passed(window)
        changed = self._changes.keys.get(entry.table, set())
        wanted = frozenset(groups)
        tasks = [
            FileTask(path, size, grouping, wanted, unit, _has_deleted(entry))
            for path, size, unit in files
        ]
        mine = [
            row for rows in await asyncio.to_thread(self._map, file_rows, tasks) for row in rows
        ]
        shape = self._shapes[entry.table]
        if not shape.source_key:
            if changed:
                one.outcome = "undecided"
                one.reason = (
                    "rows of a table without a primary key changed since; run the pipeline first"
                )
                return
            _compare_copies(one, grouping, texts, mine)
            return
        skip = _keys(shape, grouping, changed)
        source = {grouping.key_of(row): row for row in texts}
        lake = {grouping.key_of(row): row for row in mine}
        for key in source.keys() | lake.keys():
            left, right = source.get(key), lake.get(key)
            if left == right:
                continue
            if key in skip:
                one.changed_since += 1
                continue
            one.different += 1
            if len(one.differences) < SHOWN:
                shown = f"({', '.join(map(str, map(shown_text, key)))},)"
                one.differences.append(
                    Difference(shown, _shown(grouping, left), _shown(grouping, right))
                )

    def _files(self, entry: TableEntry) -> list[tuple[Location, int, Merge | None]]:
        """Return the data files; for a table with waiting changes, its directory and merges."""
        home = self._catalog.home(entry)
        try:
            delta = open_delta(home)
        except TableNotFoundError:
            raise ConfigError(f"{home}: the table is gone; restore it, or start over") from None
        assert entry.model is not None
        table, log = LakeTable(entry.model), self._config.change_log
        unmerged = Unmerged(log, self._catalog.pipeline, from_json(entry.waiting))
        waiting = unmerged.behind(delta.transaction_version(unmerged.pipeline))
        parts = parts_of(home, table, data_files_of(delta, table), log, waiting)
        return [
            (home, part.size, part)
            if isinstance(part, Merge)
            else (home / part.path, part.size, None)
            for part in parts
        ]


def _images(change: Change) -> Iterator[dict[str, Any]]:
    """Yield the rows before and after a change, completed where the image after lacks columns."""
    before = {} if change.before is None else change.before.as_dict()
    if before:
        yield before
    if change.after is not None:
        yield before | change.after.as_dict()


def _has_deleted(entry: TableEntry) -> bool:
    assert entry.model is not None
    return LakeTable(entry.model, entry.soft_deletes).keeps_deleted


class _GoneError(Exception):
    """The source does not have a table."""


def _compare_copies(
    one: TableReport, grouping: Grouping, theirs: Sequence[RowTexts], mine: Sequence[RowTexts]
) -> None:
    """Compare rows without a key by the number of equal rows."""
    left, right = Counter(theirs), Counter(mine)
    for rows, there in ((left - right, True), (right - left, False)):
        for texts, count in rows.items():
            one.different += count
            if len(one.differences) < SHOWN:
                text = json.dumps(_shown(grouping, texts), ensure_ascii=False)
                row = {"row": text, "copies": count}
                one.differences.append(
                    Difference(text, row if there else None, None if there else row)
                )


def _shown(grouping: Grouping, texts: RowTexts | None) -> dict[str, Any] | None:
    """Return a row for a message, by the names of its columns."""
    if texts is None:
        return None
    names = [column.name for column in grouping.columns]
    return dict(zip(names, map(shown_text, texts), strict=True))


def _keys(shape: LakeTable, grouping: Grouping, changed: set[Any]) -> set[RowTexts]:
    """Return the texts of the keys that the binlog changed: their rows are not compared."""
    by_name = {column.name: column for column in grouping.columns}
    make = row_texts([by_name[name] for name in grouping.key])
    return {make(row) for row in shape.key_table(list(changed)).to_pylist()} if changed else set()


def lake_position(
    config: PipelineConfig, catalog: LakeCatalog
) -> tuple[Position, SchemaHistory | None]:
    """Return the least source position of the current tables, and the schema history there.

    The schema history is None where the checkpoint has none; table maps without names need it.

    Raises:
        ConfigError: the position cannot be determined.
    """
    checkpoint = Checkpoint(config.checkpoint)
    if checkpoint.state is None:
        raise ConfigError(f"{config.checkpoint}: no checkpoint of a pipeline; run it first")
    version, inside = divmod(catalog.step, STEPS)
    if inside != STEPS - 1:
        version -= 1
    log = ChangeLogVersions(config.change_log)
    batches = (
        log.version(number).transactions.get(checkpoint.state.pipeline)
        for number in _backwards(version)
    )
    number = next((batch for batch in batches if batch is not None), -1)
    offset = checkpoint.offset(number)
    schema = offset.get(SCHEMA_KEY)
    history = None if schema is None else SchemaHistory.from_state(schema)
    return Position.from_json(offset), history


def _backwards(version: int) -> Iterator[int]:
    return iter(range(version, max(-1, version - _VERSIONS_BACK), -1))
