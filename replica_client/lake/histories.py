"""The histories of a lake's tables: which are kept, since when, and until when.

A history begins with the rows of a current table, once all of the change log before was applied;
for a table that the binlog creates, it begins empty. It ends when the table is no longer current: a
table that is copied again gets a new history.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final

import pyarrow as pa

from replica_client.lake.change_files import ChangeFile
from replica_client.lake.history_rows import HistoryShape, HistoryTable, Moment, moment_of
from replica_client.lake.lake_catalog import LakeCatalog, TableEntry
from replica_client.lake.lake_table import LakeTable
from replica_client.lake.log_versions import ChangeLogVersions, by_table
from replica_client.lake.partial_images import lacks_documents
from replica_client.lake.state_table import Runner, StateTable
from replica_client.lake.taken_copies import is_copy
from replica_client.rows.selection import Selection
from replica_client.schema.ddl.steps import TableName
from replica_client.schema.model import TableModel
from replica_client.schema.names import check_names

NEEDS_WHOLE = (
    "its history needs whole row images; SET GLOBAL binlog_row_image = 'FULL', then have it copied again "
    "(lake copy)"
)


class Histories:
    """The histories of one lake.

    Args:
        catalog: the lake's catalog.
        log: its change log.
        pipeline: the pipeline under which steps are counted.
        wanted: tables whose history is kept; None: none.
        state: returns the current table of an entry.
    """

    def __init__(
        self,
        catalog: LakeCatalog,
        log: ChangeLogVersions,
        pipeline: str,
        wanted: Selection | None,
        state: Callable[[TableEntry], StateTable],
    ) -> None:
        self._catalog = catalog
        self._log = log
        self._pipeline = pipeline
        self._wanted = wanted
        self._state = state
        self._tables: dict[str, HistoryTable] = {}

    def forget(self) -> None:
        """Drop the tables that a failed run opened."""
        self._tables = {}

    def _table(self, entry: TableEntry, model: TableModel | None = None) -> HistoryTable:
        found = self._tables.get(entry.history)
        if found is None:
            model = model or entry.model
            assert model is not None
            home = self._catalog.history_homes(entry)[-1]
            found = HistoryTable(home, HistoryShape(model), self._pipeline)
            self._tables[entry.history] = found
        return found

    def _is_wanted(self, entry: TableEntry) -> bool:
        if self._wanted is None or not self._wanted.wants(*entry.table):
            return False
        if entry.model is None or not entry.model.primary_key:
            return False
        check_names(
            "lake history",
            ".".join(entry.table),
            (column.name for column in entry.model.columns),
            "its history adds",
            "leave it out of history in [lake]",
        )
        return True

    def taken(self, before: int) -> Moment:
        """Return the moment of the last change before a version of the change log."""
        for number in range(before - 1, -1, -1):
            version = self._log.version(number)
            if is_copy(version):
                continue
            if positions := [file.last for file in version.files if file.last]:
                times = [one.details.committed for one in version.files if one.details is not None]
                return Moment(max(positions), max(times, default=None))
        return Moment("", None)

    def begin_empty(self, entry: TableEntry) -> None:
        """Begin the history of a table that the binlog creates."""
        if entry.history:
            entry.ended, entry.history = (*entry.ended, entry.history), ""
        if self._is_wanted(entry):
            entry.history = self._catalog.new_directory()
            self._table(entry).create()

    def settle(self, before: int) -> bool:
        """Begin and end histories, when all of the change log before a version was applied.

        Returns:
            whether the catalog must be saved.
        """
        beginning = [
            entry
            for entry in self._catalog.tables.values()
            if entry.status == "current" and not entry.history and self._is_wanted(entry)
        ]
        ending = [
            entry
            for entry in self._catalog.tables.values()
            if entry.history and (entry.status != "current" or not self._is_wanted(entry))
        ]
        if not beginning and not ending:
            return False
        moment, step = self.taken(before), self._catalog.step
        for entry in ending:
            self._end(entry, moment, step)
        for entry in beginning:
            current = self._state(entry)
            if current.step > step or entry.waiting:
                continue  # a killed run has applied more, or changes wait: a later call begins this history
            entry.history = self._catalog.new_directory()
            self._table(entry).begin(current, moment, max(step, 0))
        return True

    def end_those_left(self, moment: Moment, step: int) -> None:
        """End the histories of tables that are no longer current since a moment."""
        for entry in self._catalog.tables.values():
            if entry.history and entry.status != "current":
                self._end(entry, moment, step)

    def _end(self, entry: TableEntry, moment: Moment, step: int) -> None:
        if entry.model is not None:
            self._table(entry).end(moment, step, deleted=False)
        entry.ended, entry.history = (*entry.ended, entry.history), ""

    def truncate(self, entry: TableEntry, moment: Moment, step: int) -> None:
        """End all current versions of a table's rows as deleted."""
        if entry.history:
            self._table(entry).end(moment, step, deleted=True)

    def alter(
        self,
        entry: TableEntry,
        old: TableModel,
        names: Mapping[str, str] | None,
        step: int,
        runner: Runner,
    ) -> None:
        """Give the versions the table's current columns; see :meth:`HistoryTable.alter`."""
        if entry.history:
            assert entry.model is not None
            self._table(entry, old).alter(HistoryShape(entry.model), names, step, runner)

    def take(
        self,
        tables: Sequence[tuple[TableEntry, Sequence[tuple[int, Any]]]],
        step: int,
        runner: Runner,
    ) -> None:
        """Apply changes of tables to their histories, in commits that carry a step.

        Args:
            tables: entries with rows of the envelope or change files, each with its step, in the
                order of the binlog.
            step: step of the last commit.
            runner: merges.
        """
        for entry, parts in tables:
            if not entry.history:
                continue
            table = self._table(entry)
            done = table.step
            left = [(number, part) for number, part in parts if number > done]
            groups = [list(g) for _, g in groupby(left, lambda one: isinstance(one[1], ChangeFile))]
            for at, group in enumerate(groups):
                number = step if at + 1 == len(groups) else group[-1][0]
                found = [part for _, part in group]
                changes: Sequence[ChangeFile] | pa.Table = found
                if not isinstance(found[0], ChangeFile):
                    changes = pa.concat_tables(found)
                works = table.plan(self._log.directory, changes, number)
                if works:
                    table.commit_merges(runner(works), number)


def needs_whole(entry: TableEntry, files: Sequence[ChangeFile]) -> str:
    """Return why changes cannot be applied to a table's history; ``""`` when they can."""
    return NEEDS_WHOLE if entry.history and any(file.partial for file in files) else ""


Part = Any
"""Changes of one table: rows of the envelope, or a ``ChangeFile``."""

_FILE_WEIGHT: Final = 8
"""Number of rows in a file that weigh as much as one row in memory."""


@dataclass
class TableChanges:
    """The waiting changes of a table.

    Attributes:
        parts: each with its step, in the order of the binlog.
        weight: their weight, in rows in memory.
    """

    parts: list[tuple[int, Part]] = field(default_factory=list)
    weight: int = 0

    @property
    def is_typed(self) -> bool:
        """Whether all parts are change files."""
        return all(isinstance(part, ChangeFile) for _, part in self.parts)

    @property
    def begin(self) -> Moment:
        """The moment of the first change."""
        part = self.parts[0][1]
        if isinstance(part, ChangeFile):
            files = [one for _, one in self.parts if isinstance(one, ChangeFile)]
            return Moment(min(file.first for file in files), min(file.committed for file in files))
        return moment_of(part.slice(0, 1).to_pylist()[0])

    def lacks_of(self, entry: TableEntry) -> str:
        """Return why the changes do not give whole rows of a table; ``""`` when they do."""
        assert entry.model is not None
        table = LakeTable(entry.model, entry.soft_deletes)
        files = [part for _, part in self.parts if isinstance(part, ChangeFile)]
        rows = [part for _, part in self.parts if isinstance(part, pa.Table)]
        lacks = next((lacks for file in files if (lacks := file.lacks_of(table))), "")
        lacks = lacks or next((lacks for part in rows if (lacks := lacks_documents(part))), "")
        return lacks or needs_whole(entry, files)


class WaitingChanges:
    """The waiting changes of all tables, by the current names of the tables."""

    def __init__(self) -> None:
        self._tables: dict[TableName, TableChanges] = {}

    @property
    def tables(self) -> list[TableName]:
        """The tables with waiting changes."""
        return list(self._tables)

    @property
    def weight(self) -> int:
        """Total weight of the changes, in rows in memory."""
        return sum(one.weight for one in self._tables.values())

    def add_files(self, files: Sequence[ChangeFile], step: int) -> None:
        """Add change files."""
        for file in files:
            one = self._tables.setdefault((file.database, file.table), TableChanges())
            one.parts.append((step, file))
            one.weight += file.rows // _FILE_WEIGHT

    def add_rows(self, rows: pa.Table, step: int) -> None:
        """Add rows of the envelope."""
        for table, part in by_table(rows):
            one = self._tables.setdefault(table, TableChanges())
            one.parts.append((step, part))
            one.weight += part.num_rows

    def take(self, wanted: Callable[[TableName], bool]) -> dict[TableName, TableChanges]:
        """Remove and return the changes of the selected tables."""
        taken = {table: one for table, one in self._tables.items() if wanted(table)}
        for table in taken:
            del self._tables[table]
        return taken
