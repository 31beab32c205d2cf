"""``replica-client verify``: proves that the lake's current tables equal the source at a position.

The lake is at a position; the source is read later. What the binlog says was changed in between is left
out of the comparison, by its keys; all else must be equal.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import Any, Final, Literal

from deltalake.exceptions import TableNotFoundError

from replica_client.codec.quick_dataclass import dataclass
from replica_client.errors import ConfigError, SchemaMismatchError, ServerError
from replica_client.lake.config import PipelineConfig
from replica_client.lake.data_files import data_files_of
from replica_client.lake.delta_files import open_delta
from replica_client.lake.lake_catalog import LakeCatalog, TableEntry
from replica_client.lake.lake_table import LakeTable
from replica_client.lake.log_steps import STEPS
from replica_client.lake.log_versions import ChangeLogVersions
from replica_client.lake.merge import Merge
from replica_client.lake.pipeline_state import SCHEMA_KEY, load_state, read_kept_schema
from replica_client.lake.source_options import SourceOptions
from replica_client.lake.unmerged import Unmerged, from_json, parts_of
from replica_client.lake.verify.lake_side import (
    FileTask,
    Mapper,
    file_checksums,
    file_rows,
    map_here,
    together,
)
from replica_client.lake.verify.row_groups import Grouping, differing
from replica_client.lake.verify.source_side import source_checksums, source_rows
from replica_client.lake.verify.texts import RowTexts, row_texts, shown_text
from replica_client.position.position import Position
from replica_client.readers.live.source_stream import SourceStream
from replica_client.readers.live.stream_options import StreamOptions
from replica_client.readers.transaction import Transaction
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.json_values import cells_to_json
from replica_client.rows.row_change import Change
from replica_client.schema.ddl.steps import TableName
from replica_client.schema.history import SchemaChange, SchemaHistory
from replica_client.snapshot import Window
from replica_client.snapshot.present_definitions import read_definitions
from replica_client.storage.location import Location
from replica_client.transport.connection import SourceConnection

Outcome = Literal["equal", "different", "undecided", "left_out"]
SHOWN: Final = 20
_GROUPS_AT_ONCE: Final = 64
_VERSIONS_BACK: Final = 10_000


@dataclass(frozen=True, slots=True)
class Difference:
    """A row that is not the same.

    Attributes:
        key: of the row; the row itself in a table without a primary key.
        source: the texts of its values there, by column; None when it is not there.
        lake: likewise.
    """

    key: str
    source: dict[str, Any] | None
    lake: dict[str, Any] | None


@dataclass
class TableReport:
    """A table that was compared.

    Attributes:
        table: ``database.name``.
        outcome: ``undecided``: it was changed since in a way that leaves nothing to compare;
            ``left_out``: it is not kept current.
        rows: that the source has.
        groups: that were compared by checksums.
        narrowed: groups whose rows were compared.
        changed_since: rows that were changed between the two readings, and are not compared.
        different: how many rows differ.
        differences: the first of them.
        reason: why it is undecided or left out.
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
    """What was found.

    Attributes:
        position: of the lake.
        source_position: up to which the source's changes were taken into account.
        tables: by table.
    """

    position: str
    source_position: str = ""
    tables: list[TableReport] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        """Whether every table was compared, and equals."""
        return all(table.outcome == "equal" for table in self.tables)


class _Changes:
    """What the binlog says was changed from the lake's position on.

    Args:
        options: of the source.
        start: the position.
        history: what the tables look like there; None: what the binlog and the source can prove.
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
        """Know them up to a position."""
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
                if item.after is not None:
                    self.reshaped.add((item.after.database, item.after.name))
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
            # An INSERT's image may leave out a key that has a default; another definition may have another key.
            self.reshaped.add(name)


class Verification:
    """Compares one lake with its source.

    Args:
        config: of the pipeline.
        run: where the lake's files are read; None: here.
        say: takes a line about what is being done.
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
            TransportError: it cannot be reached.
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
        """Know what happened up to a reading; its low mark may lie before the lake's position."""
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
        """Data files; of a table with changes that wait its directory and what is merged of it."""
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
    """The rows of a change; columns that the image after an update leaves out are as before."""
    before = {} if change.before is None else change.before.as_dict()
    if before:
        yield before
    if change.after is not None:
        yield before | change.after.as_dict()


def _has_deleted(entry: TableEntry) -> bool:
    assert entry.model is not None
    return LakeTable(entry.model, entry.soft_deletes).keeps_deleted


class _GoneError(Exception):
    """The source does not show a table."""


def _compare_copies(
    one: TableReport, grouping: Grouping, theirs: Sequence[RowTexts], mine: Sequence[RowTexts]
) -> None:
    """Compare rows that no key tells apart, by how many equal ones there are."""
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
    """A row for a message, by the names of its columns."""
    if texts is None:
        return None
    names = [column.name for column in grouping.columns]
    return dict(zip(names, map(shown_text, texts), strict=True))


def _keys(shape: LakeTable, grouping: Grouping, changed: set[Any]) -> set[RowTexts]:
    """The texts of keys that the binlog has: their rows are not compared."""
    by_name = {column.name: column for column in grouping.columns}
    make = row_texts([by_name[name] for name in grouping.key])
    return {make(row) for row in shape.key_table(list(changed)).to_pylist()} if changed else set()


def lake_position(
    config: PipelineConfig, catalog: LakeCatalog
) -> tuple[Position, SchemaHistory | None]:
    """The position of the source that the current tables have, at least, and what its tables look like there.

    The second is None where the checkpoint has no schema history, which table maps without names need.

    Raises:
        ConfigError: it cannot be told.
    """
    state = load_state(config.checkpoint)
    if state is None:
        raise ConfigError(f"{config.checkpoint}: no checkpoint of a pipeline; run it first")
    version, inside = divmod(catalog.step, STEPS)
    if inside != STEPS - 1:
        version -= 1
    log = ChangeLogVersions(config.change_log)
    for number in _backwards(version):
        batch = log.version(number).transactions.get(state.pipeline)
        if batch is not None:
            text = (config.checkpoint / "offsets" / str(batch)).read_text().splitlines()[-1]
            schema = json.loads(text).get(SCHEMA_KEY)
            history = None if schema is None else SchemaHistory.from_state(schema)
            return Position.from_json(text), history
    try:
        return Position.parse(state.start), read_kept_schema(config.checkpoint)
    except ValueError:
        raise ConfigError(
            f"{config.checkpoint}: the pipeline has not read anything yet; run it first"
        ) from None


def _backwards(version: int) -> Iterator[int]:
    return iter(range(version, max(-1, version - _VERSIONS_BACK), -1))
