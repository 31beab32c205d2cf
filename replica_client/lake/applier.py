"""The applier of the change log to the current-state tables, step by step, each step once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from replica_client.lake.change_files import ChangeFile
from replica_client.lake.change_log_files import LOSS
from replica_client.lake.histories import Histories, Part, TableChanges, WaitingChanges
from replica_client.lake.history_rows import moment_of
from replica_client.lake.lake_catalog import LakeCatalog, TableEntry
from replica_client.lake.lake_statements import CurrentTables, Statements
from replica_client.lake.log_versions import (
    ROWS,
    STEPS,
    ChangeLogVersions,
    LoggedVersion,
    end_of,
    first_untaken,
    is_inside,
)
from replica_client.lake.merge import Merge
from replica_client.lake.rewrite import net_rows
from replica_client.lake.state_table import Runner, StateTable
from replica_client.lake.taken_copies import ROUND_ROWS, FilesOfTable, is_copy, take_copies
from replica_client.lake.unmerged import ALWAYS, MergePolicy, from_json, to_json
from replica_client.rows.selection import Selection
from replica_client.schema.ddl.steps import TableName

_SAVE_AFTER = 30.0
"""Seconds after which a run saves its progress."""


@dataclass
class Applied:
    """The work of one run.

    Attributes:
        versions: number of versions of the change log.
        changes: number of rows applied.
        files: number of files of state tables that were written or removed.
        kept: number of files of those tables that no change concerned.
        tables: the tables that were written.
        last_commit: when the last change was committed on the source, in seconds since 1970; None
            when the stream had no changes.
    """

    versions: int = 0
    changes: int = 0
    files: int = 0
    kept: int = 0
    tables: set[TableName] = field(default_factory=set)
    last_commit: float | None = None


class Applier:
    """The engine of one lake.

    Args:
        catalog: the catalog of the lake.
        log: its change log.
        pipeline: the pipeline under which steps are counted.
        selection: selected tables.
        runner: rewrites files.
        can_copy: whether snapshots are possible; if not, tables that need one are left out.
        history: tables whose versions are kept; None: none.
        soft_deletes: tables in which deleted rows stay, from their next copy or CREATE TABLE on;
            None: none.
        merge: returns the policy for merging changes of a table.
        threads: tables that are written at the same time.
    """

    def __init__(
        self,
        catalog: LakeCatalog,
        log: ChangeLogVersions,
        pipeline: str,
        selection: Selection,
        runner: Runner,
        *,
        can_copy: bool = False,
        history: Selection | None = None,
        soft_deletes: Selection | None = None,
        merge: Callable[[TableName], MergePolicy] = lambda _: ALWAYS,
        threads: int = 2,
    ) -> None:
        self.catalog = catalog
        self.log = log
        self._runner = runner
        self._threads = threads
        self._merge_policy = merge
        catalog.pipeline = pipeline
        letter_case = catalog.history.lower_case_names
        self.tables = CurrentTables(catalog, pipeline)
        wanted = history and history.for_server(letter_case)
        self.histories = Histories(catalog, log, pipeline, wanted or None, self.tables.of)
        self._statements = Statements(
            catalog, self.tables, self.histories, selection.for_server(letter_case), runner,
            can_copy=can_copy, soft_deletes=soft_deletes and soft_deletes.for_server(letter_case),
            merge_waiting=self._merge_waiting,
        )  # fmt: skip
        self._waiting = WaitingChanges()
        self._saved = 0.0
        self._done = Applied()
        self._failed = False
        self._lock = threading.Lock()

    def run(self, *, versions: int | None = None) -> Applied:
        """Apply the new versions of the change log.

        Args:
            versions: maximum number of versions; None: all.

        Raises:
            SinkError: a table cannot be read or written.
            SchemaMismatchError: rows do not fit their table.
            DataLossError: the lake lacks rows.
        """
        self.recover()
        self._failed, self._done, self._saved = True, Applied(), time.monotonic()
        self._settle_histories()
        first = first_untaken(self.catalog.step)
        last = self.log.latest()
        if versions is not None:
            last = min(last, first + versions - 1)
        number = first
        while number <= last:
            version = self.log.version(number)
            copies = []
            while is_copy(version):
                copies.append(version)
                if version.number == last:
                    break
                version = self.log.version(version.number + 1)
            if copies:
                number = copies[-1].number
                self._take_copies(copies)
            else:
                self._take(version)
            self._done.versions += len(copies) or 1
            if self._is_due:
                self._flush(end_of(number))
            number += 1
        if last >= first:
            self._flush(end_of(last))
        self._merge_overdue()
        self._settle_histories()
        self._failed = False
        return self._done

    @property
    def _is_due(self) -> bool:
        """Whether waiting changes should be written and saved now."""
        return self._waiting.weight >= ROUND_ROWS or time.monotonic() - self._saved >= _SAVE_AFTER

    def _merge_overdue(self) -> None:
        """Merge changes that have waited long enough, although no others came."""
        merged = False
        for entry in self.catalog.tables.values():
            if entry.waiting and not is_inside(self.catalog.step):
                state, files = self.tables.of(entry), [file for _, file in from_json(entry.waiting)]
                if state.step > self.catalog.step:
                    continue  # a killed run has applied more to this table; its columns may be newer
                size = sum(file.size for file in state.data_files())
                if self._merge_policy(entry.table).is_due(files, size, entry.waiting_since):
                    self._merge_waiting(entry, self.catalog.step)
                    merged = True
        if merged:
            self.catalog.save()

    def _settle_histories(self) -> None:
        """Begin and end histories, where the change log was applied to the end of a version."""
        if not is_inside(self.catalog.step) and self.histories.settle(
            first_untaken(self.catalog.step)
        ):
            self.catalog.save()

    def recover(self) -> None:
        """Reload the saved state after a failed run, which has changed the state in memory only."""
        if self._failed:
            self.catalog.reload()
            self._waiting = WaitingChanges()
            self.tables.forget()
            self.histories.forget()
            self._failed = False

    def adopt_selection(self) -> list[TableName]:
        """Forget tables that left the selection, and copy those that came into it.

        Returns:
            the tables that are forgotten.
        """
        before = set(self.catalog.tables)
        gone = self._statements.adopt_selection()
        if gone or before != set(self.catalog.tables):
            self.tables.forget()
            self.histories.forget()
            self.catalog.save()
        return gone

    # Versions.

    def _take(self, version: LoggedVersion) -> None:
        step = version.number * STEPS
        for files, rows in self.log.runs(version):
            if rows is None:
                self._wait_for(files, step)
                step += 2
            else:
                step = self._take_rows(rows, step)

    def _wait_for(self, files: Sequence[ChangeFile], step: int) -> None:
        self._done.changes += sum(file.changes for file in files)
        self._done.last_commit = max(file.committed for file in files) / 1_000_000
        if step <= self.catalog.step:
            return
        self._waiting.add_files(files, step)

    def _take_rows(self, rows: pa.Table, step: int) -> int:
        """Apply rows of the envelope; return the step after them."""
        self._done.changes += rows.num_rows
        if rows.num_rows:
            last = pc.max(rows["_commit_timestamp"]).cast(pa.int64()).as_py()
            self._done.last_commit = last / 1_000_000
        is_row = pc.is_in(rows["operation"], value_set=ROWS)
        statements = pc.indices_nonzero(pc.invert(is_row)).to_pylist()
        begin = 0
        at = 0
        while at < len(statements):
            end = statements[at]
            self._wait(rows.slice(begin, end - begin), step)
            group = [rows.slice(end, 1).to_pylist()[0]]
            while at + 1 < len(statements) and statements[at + 1] == statements[at] + 1:
                following = rows.slice(statements[at + 1], 1).to_pylist()[0]
                if _event(following) != _event(group[0]):
                    break
                group.append(following)
                at += 1
            if step + 1 > self.catalog.step:
                self._notice(group, step + 1)
                if self._is_due:
                    self._flush(step + 1)
            step += 2
            begin = statements[at] + 1
            at += 1
        self._wait(rows.slice(begin), step)
        return step + 2

    def _wait(self, rows: pa.Table, step: int) -> None:
        if not rows.num_rows or step <= self.catalog.step:
            return
        self._waiting.add_rows(rows, step)

    def _notice(self, rows: list[dict[str, Any]], step: int) -> None:
        """Process an event other than rows: its losses, and its statement."""
        statements, moment = self._statements, moment_of(rows[0])
        for table in self._waiting.tables:
            statements.entry(table)
        for row in rows:
            if row["operation"] == LOSS:
                self._write_waiting(step - 1, statements.is_lost(row))
                statements.lose(row)
        other = next((row for row in rows if row["operation"] != LOSS), None)
        if other is not None:
            statement = statements.read(other)
            self._waiting.take(statements.drops(statement))
            self._write_waiting(step - 1, statements.concerned(statement))
            statements.take(statement, moment, step)
        self.histories.end_those_left(moment, step)

    def _flush(self, step: int) -> None:
        """Write all waiting changes, so that everything up to the step is done."""
        self._write_waiting(step, lambda _: True)
        if step > self.catalog.step:
            self.catalog.step = step
            self.catalog.save()
        self._saved = time.monotonic()

    def _write_waiting(self, step: int, wanted: Callable[[TableName], bool]) -> None:
        """Write the waiting changes of the selected tables."""
        taken = self._waiting.take(wanted)
        rows: list[tuple[TableEntry, TableChanges]] = []
        files: list[tuple[TableEntry, TableChanges]] = []
        # A new entry may exclude tables whose names differ in letter case only: make all first.
        entries = [(self._statements.entry(table), changes) for table, changes in taken.items()]
        for entry, changes in entries:
            if entry is None or entry.status != "current":
                continue
            if lacks := changes.lacks_of(entry):
                entry.leave_out(lacks)
                self.histories.end_those_left(changes.begin, step)
            else:
                (files if changes.is_typed else rows).append((entry, changes))
        self._merge_all(files, step)
        self.histories.take(
            [(entry, one.parts) for entry, one in (*files, *rows)], step, self._runner
        )
        if len(rows) > 1 and self._threads > 1:
            with ThreadPoolExecutor(self._threads) as pool:
                list(pool.map(lambda one: self._write(one[0], one[1], step), rows))
        else:
            for entry, one in rows:
                self._write(entry, one, step)

    def _merge_all(self, tables: Sequence[tuple[TableEntry, TableChanges]], step: int) -> None:
        """Merge change files into tables, except tables whose files wait."""
        due: list[FilesOfTable] = []
        for entry, changes in tables:
            state = self.tables.of(entry)
            done = state.step
            known = [one for one in from_json(entry.waiting) if one[0] > done]
            parts = [*known, *(one for one in changes.parts if one[0] > done)]
            if parts and self._waits(entry, state, parts, begun=not known):
                continue
            entry.waiting = []
            if parts:
                due.append(FilesOfTable(state, [file for _, file in parts], step))
                self._done.tables.add(entry.table)
        self.merge_files(due)

    def merge_files(self, tables: Sequence[FilesOfTable]) -> None:
        """Merge change files into tables: all work at once, then one commit for each table."""
        planned: list[tuple[FilesOfTable, list[Merge]]] = []
        for one in tables:
            works = one.state.plan_merges(self.log.directory, one.files, one.step, one.since)
            if works is not None:
                planned.append((one, works))
        wanted = [work for _, works in planned for work in works]
        merged = iter(self._runner(wanted) if wanted else ())
        for one, works in planned:
            files, kept = one.state.commit_merges([next(merged) for _ in works], one.step)
            with self._lock:
                self._done.files += files
                self._done.kept += kept

    def _waits(
        self,
        entry: TableEntry,
        state: StateTable,
        parts: Sequence[tuple[int, ChangeFile]],
        *,
        begun: bool,
    ) -> bool:
        """Return whether change files are left to be merged later.

        ``begun`` says that no files waited before.
        """
        policy = self._merge_policy(entry.table)
        # Histories need each change; rows without a key are counted against the table.
        kept = entry.history or entry.soft_deletes
        if policy == ALWAYS or not state.shape.source_key or kept:
            return False
        since = time.time() if begun else entry.waiting_since
        size = sum(file.size for file in state.data_files())
        if not size or policy.is_due([part for _, part in parts], size, since):
            return False
        entry.waiting, entry.waiting_since = to_json(parts), since
        return True

    def _merge_waiting(self, entry: TableEntry, step: int) -> None:
        """Merge the waiting change files of a table, before a statement."""
        if entry.waiting:
            self._write(entry, TableChanges(), step)

    def _write(self, entry: TableEntry, changes: TableChanges, step: int) -> None:
        known, entry.waiting = from_json(entry.waiting), []
        state = self.tables.of(entry)
        done = state.step
        parts = [one for one in (*known, *changes.parts) if one[0] > done]
        # The table has its last step already: rows of that step were written with it.
        if parts:
            self.apply_parts(state, parts, step)
            self._done.tables.add(entry.table)

    def apply_parts(
        self, state: StateTable, parts: Sequence[tuple[int, Part]], step: int, since: str = ""
    ) -> None:
        """Apply changes to a table that has none of their steps.

        Each run of parts of one form is one commit.

        Args:
            state: the table.
            parts: rows of the envelope, or change files, each with its step, in the order of the
                binlog.
            step: step of the last commit.
            since: of change files, only changes of this ``_commit_version`` or a later one.
        """
        groups = [
            list(group)
            for _, group in groupby(parts, key=lambda one: isinstance(one[1], ChangeFile))
        ]
        for at, group in enumerate(groups):
            number = step if at + 1 == len(groups) else group[-1][0]
            found = [part for _, part in group]
            if isinstance(found[0], ChangeFile):
                self.merge_files([FilesOfTable(state, found, number, since)])
            else:
                self.apply_net_rows(state, pa.concat_tables(found), number)

    def apply_net_rows(self, state: StateTable, rows: pa.Table, step: int) -> None:
        """Apply the changes of rows to a table, in one commit."""
        change = net_rows(
            state.shape,
            rows["operation"].to_pylist(),
            rows["before"].to_pylist(),
            rows["after"].to_pylist(),
            state.copies,
        )
        files, kept = state.apply(change, step, self._runner)
        with self._lock:
            self._done.files += files
            self._done.kept += kept

    # Snapshots.

    def _take_copies(self, versions: Sequence[LoggedVersion]) -> None:
        """Assemble the copied rows of tables, apply the changes since, and publish the tables."""
        self._flush(versions[0].number * STEPS - 1)
        shown, rows = take_copies(self, versions, lambda number: number * STEPS)
        self._done.changes += rows
        self._done.tables |= shown
        self.catalog.step = end_of(versions[-1].number)
        self.histories.settle(versions[-1].number)
        self.catalog.save()

    def keeps_deleted(self, table: TableName) -> bool:
        """Return whether deleted rows of a table are kept."""
        return self._statements.keeps_deleted(table)

    def building(self, entry: TableEntry) -> StateTable:
        """Return the table that is being assembled from a copy."""
        return self.tables.of(entry, building=True)


def _event(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["_commit_version"], row["_event_index"]
