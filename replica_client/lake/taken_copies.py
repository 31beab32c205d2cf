"""Copies of tables in the change log: assembled, brought up to date from the log, and published.

Copies that follow each other in the log are taken together, so that one pass over the log finds the
changes of all their tables since they were read. Each commit of a table that is being assembled
carries a step: first its chunks are counted, then the versions of the log that may concern it.
Steps that a crash repeats are skipped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from replica_client.lake.change_files import ChangeFile
from replica_client.lake.lake_catalog import LakeCatalog, TableEntry
from replica_client.lake.log_versions import ROWS, ChangeLogVersions, LoggedVersion, by_table
from replica_client.lake.partial_images import lacks_documents
from replica_client.lake.rewrite import NewFile
from replica_client.lake.state_table import StateTable
from replica_client.schema.ddl.steps import TableName
from replica_client.schema.model import TableModel

_FILE_WEIGHT: Final = 8
ROUND_ROWS: Final = 200_000
"""Number of changes after which the tables are written."""

_CHANGED: Final = "rows of a table without a primary key changed while it was read"
_MOVED: Final = "a key changed while it was read, and row images lack columns (binlog_row_image)"


@dataclass(frozen=True, slots=True)
class FilesOfTable:
    """Change files to merge into a table, in one commit.

    Attributes:
        state: the table.
        files: in the order of the binlog.
        step: step of the commit.
        since: only changes of this ``_commit_version`` or a later one.
    """

    state: StateTable
    files: Sequence[ChangeFile]
    step: int
    since: str = ""


class Tables(Protocol):
    """The tables of a lake, as copies use them."""

    catalog: LakeCatalog
    log: ChangeLogVersions

    def building(self, entry: TableEntry) -> StateTable:
        """Return the table that is being assembled."""
        ...

    def apply_net_rows(self, state: StateTable, rows: pa.Table, step: int) -> None:
        """Apply changes of rows to a table, in one commit."""
        ...

    def apply_parts(
        self, state: StateTable, parts: Sequence[tuple[int, Any]], step: int, since: str = ""
    ) -> None:
        """Apply changes to a table that has none of their steps."""
        ...

    def merge_files(self, tables: Sequence[FilesOfTable]) -> None:
        """Merge change files into tables."""
        ...


@dataclass
class _Copy:
    """A copy that is being assembled.

    Attributes:
        entry: its table.
        state: the table that is being assembled.
        low: the position from which on the log has changes that the copy may lack.
        high: the position after which no chunk was read.
        exact: the position of all rows, for a table without a primary key; else ``""``.
        step: the next step after its chunks.
        numbers: numbers of the versions that may concern it.
        waiting: changes that are not yet written, with their steps.
        void: why it must be read again; ``""`` when it need not.
        lacks: why the changes since do not give its rows; ``""`` when they do.
    """

    entry: TableEntry
    state: StateTable
    low: str
    high: str
    exact: str
    step: int
    numbers: set[int] = field(default_factory=set)
    waiting: list[tuple[int, Any]] = field(default_factory=list)
    void: str = ""
    lacks: str = ""


def is_copy(version: LoggedVersion) -> bool:
    """Return whether a version of the change log is the copy of a table."""
    return any("/snapshot/" in name for name in version.transactions)


def take_copies(
    tables: Tables, versions: Sequence[LoggedVersion], step: Callable[[int], int]
) -> tuple[set[TableName], int]:
    """Take copies that follow each other in the change log.

    Args:
        tables: the lake's tables; the caller saves the catalog.
        versions: versions of the change log, each a copy.
        step: returns the first step of a version.

    Returns:
        the tables that became current, and how many rows were taken.

    Raises:
        SinkError: a table cannot be read or written.
    """
    copies: list[_Copy] = []
    rows = unsaved = 0
    for version in versions:
        found, count = _put_together(tables, version, step(version.number))
        rows, unsaved = rows + count, unsaved + count
        if unsaved >= ROUND_ROWS:
            unsaved = 0
            tables.catalog.save()  # assembled tables need not be made again after a crash
        copies += found
    tables.catalog.save()
    _catch_up(tables, copies, versions[0].number)
    shown = set()
    for copy in copies:
        if copy.lacks:
            copy.entry.leave_out(copy.lacks)
            continue
        if copy.void:
            copy.entry.needs_copy(copy.void)
            continue
        _show(copy.entry)
        shown.add(copy.entry.table)
    return shown, rows


def _put_together(tables: Tables, version: LoggedVersion, step: int) -> tuple[list[_Copy], int]:
    """Assemble the chunks of copies, and return the copies and their number of rows.

    Copies that a newer one replaced, or that are published already, are skipped.
    """
    catalog, count = tables.catalog, 0
    copies: dict[str, _Copy] = {}
    data_files: dict[str, list[NewFile]] = {}
    for file in sorted(version.files, key=lambda file: file.path):
        rows = tables.log.rows([file], sort=False)
        stated = json.loads(rows["after"][rows.num_rows - 1].as_py())
        entry = catalog.tables.get((stated["database"], stated["table"]))
        if entry is None or entry.status != "copying" or entry.copy != stated["copy"]:
            continue
        copy = copies.get(entry.copy)
        if copy is None:
            entry.model = TableModel.from_json(*entry.table, stated["definition"])
            entry.soft_deletes = bool(stated.get("soft_deletes"))
            entry.building = entry.building or catalog.new_directory()
            state = tables.building(entry)
            state.create()
            copy = copies[entry.copy] = _Copy(entry, state, stated["low"], stated["high"], "", step)
        copy.low, copy.high = min(copy.low, stated["low"]), max(copy.high, stated["high"])
        if rows.num_rows > 1 and copy.state.step < copy.step:
            tables.apply_net_rows(copy.state, rows.slice(0, rows.num_rows - 1), copy.step)
        data_files.setdefault(entry.copy, []).extend(
            NewFile(**one) for one in stated.get("data_files", ())
        )
        count += rows.num_rows - 1
        copy.step += 1
    for name, copy in copies.items():
        if files := data_files[name]:
            copy.state.add_files(files, copy.step)
            copy.step += 1
            count += sum(file.rows for file in files)
        assert copy.entry.model is not None
        copy.exact = "" if copy.entry.model.primary_key else copy.high
    return list(copies.values()), count


def _catch_up(tables: Tables, copies: Sequence[_Copy], before: int) -> None:
    """Apply the changes since the first chunks were read: the newest state of each row wins."""
    if not copies:
        return
    versions = tables.log.since(min(copy.low for copy in copies), before)
    for copy in copies:
        concerned = [one for one in _since(versions, copy.low) if not is_copy(one)]
        copy.numbers = {one.number for one in concerned}
    wanted = {copy.entry.table: copy for copy in copies}
    waiting = 0
    for version in versions:
        if not any(version.number in copy.numbers for copy in copies):
            continue
        theirs = [copy for copy in copies if version.number in copy.numbers]
        for files, rows in tables.log.runs(version):
            for copy in theirs:
                copy.step += 1  # the same number whenever the pass is repeated
            parts: Iterable[tuple[TableName, Any]]
            if rows is None:
                parts = (((file.database, file.table), file) for file in files)
            else:
                parts = by_table(rows.filter(pc.is_in(rows["operation"], value_set=ROWS)))
            for name, part in parts:
                one = wanted.get(name)
                if one is not None and version.number in one.numbers:
                    waiting += _wait(tables.log, one, part)
        if waiting >= ROUND_ROWS:
            waiting = 0
            _write(tables, copies)
    _write(tables, copies)


def _wait(log: ChangeLogVersions, copy: _Copy, part: Any) -> int:
    """Add changes of a table to the waiting ones; return their weight.

    Changes in files weigh a fraction of rows in memory.
    """
    begin = copy.exact or copy.low
    if isinstance(part, ChangeFile):
        if part.last < copy.low:
            return 0
        if copy.exact and part.first < copy.exact and _is_inside(copy, log.commit_versions(part)):
            copy.void = _CHANGED
        if part.moves and part.first < copy.high:
            copy.void = _MOVED  # the row may have been read under neither key, or twice under both
        if copy.void or part.last < begin:
            return 0
        if lacks := part.lacks_of(copy.state.shape):
            copy.lacks = lacks
            return 0
        copy.waiting.append((copy.step, part))
        return part.rows // _FILE_WEIGHT
    position_of = part["_commit_version"]
    if copy.exact:
        # Rows without a key cannot be matched to changes: the copy must be of one position.
        if _is_inside(copy, position_of):
            copy.void = _CHANGED
    rows = part.filter(pc.greater_equal(position_of, begin))
    if not rows.num_rows or copy.void:
        return 0
    if lacks := lacks_documents(rows):
        copy.lacks = lacks
        return 0
    copy.waiting.append((copy.step, rows))
    return int(rows.num_rows)


def _is_inside(copy: _Copy, versions: pa.ChunkedArray) -> bool:
    """Return whether a change happened while a copy was read."""
    inside = pc.and_(pc.greater_equal(versions, copy.low), pc.less(versions, copy.exact))
    return bool(pc.any(inside).as_py())


def _write(tables: Tables, copies: Sequence[_Copy]) -> None:
    """Write the waiting changes.

    Change files of all tables are merged at once, so that executors do it where they are many.
    """
    files: list[FilesOfTable] = []
    for copy in copies:
        waiting, copy.waiting = copy.waiting, []
        if not waiting or copy.void or copy.lacks:
            continue
        done, last, since = copy.state.step, waiting[-1][0], copy.exact or copy.low
        parts = [(step, part) for step, part in waiting if step > done]
        found = [part for _, part in parts if isinstance(part, ChangeFile)]
        if found and len(found) == len(parts):
            files.append(FilesOfTable(copy.state, found, last, since))
        elif parts:
            tables.apply_parts(copy.state, parts, last, since)
    tables.merge_files(files)


def _since(versions: Sequence[LoggedVersion], low: str) -> list[LoggedVersion]:
    """Return the versions, in order, that may have rows of transactions from a position on."""
    found = []
    for version in reversed(versions):
        if any(not file.last or file.last >= low for file in version.files):
            found.append(version)
        elif not is_copy(version):
            break  # the stream's versions follow the binlog
    return found[::-1]


def _show(entry: TableEntry) -> None:
    """Mark an assembled table as current; the next save of the catalog publishes it."""
    entry.status, entry.reason, entry.copy = "current", "", ""
    entry.files, entry.building = entry.building, ""
