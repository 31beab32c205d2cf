"""Takes the change log into the current-state tables, step by step, each step once.

A step is a number: the change log's version, and inside it 2 for each statement before (rows) and one
more for the statement itself. Each table's commit carries its step, so that a table that has it passes
it over when a crash makes it come again. The catalog follows behind the tables: which tables there are, and
what they are called, is one writing of it.
"""

# Over 500 lines: one step of the lake concerns rows, statements and losses of all its tables; how
# each is written has modules of its own.

from __future__ import annotations

import datetime
import json
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from replica_client.constants.flavor import ServerFlavor
from replica_client.errors import SchemaError
from replica_client.lake.change_files import ChangeFile
from replica_client.lake.change_log_files import LOSS
from replica_client.lake.histories import Histories, needs_whole
from replica_client.lake.history_rows import Moment
from replica_client.lake.lake_catalog import LakeCatalog, TableEntry, new_id
from replica_client.lake.lake_table import DELETED, LakeTable
from replica_client.lake.log_tables import ROWS, by_table
from replica_client.lake.log_versions import ChangeLogVersions, LoggedVersion
from replica_client.lake.merge import Merge
from replica_client.lake.merge_policy import ALWAYS, MergePolicy
from replica_client.lake.net_rows import net_rows
from replica_client.lake.partial_documents import lacks_documents
from replica_client.lake.state_table import Runner, StateTable, Work
from replica_client.lake.taken_copies import ROUND_ROWS, is_copy, take_copies
from replica_client.lake.unmerged import from_json, to_json
from replica_client.rows.selection import Selection
from replica_client.schema.catalog import TableChange
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.ddl.steps import TableName
from replica_client.schema.history import SchemaHistory
from replica_client.schema.model import TableModel
from replica_client.schema.names import casefold_table
from replica_client.tables.alterations import alteration, makes_cascade

STEPS: Final = 1 << 20
"""Steps of one version of the change log."""

Part = Any
"""Changes of one table: rows of the envelope, or a :class:`~replica_client.lake.change_files.ChangeFile`."""

_FILE_WEIGHT: Final = 8
"""Rows in a file for one that is in memory."""

SNAPSHOT, SNAPSHOT_CHUNK = "snapshot", "snapshot_chunk"
"""Operations of a copied row, and of the last row of a chunk, which tells about it."""

_EPOCH: Final = datetime.datetime.fromtimestamp(0, datetime.UTC)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)

_LETTER_CASE = (
    "rows come for its name in another letter case; say lower_case_table_names of the server that wrote the "
    "files (option lowerCaseTableNames)"
)


@dataclass
class Applied:
    """What was done.

    Attributes:
        versions: of the change log.
        changes: rows taken.
        files: of state tables, written or removed.
        kept: files of those tables that no change concerned.
        tables: that were written.
        last_commit: when the last change was committed on the source, in seconds since 1970; None when
            there was none of the stream.
    """

    versions: int = 0
    changes: int = 0
    files: int = 0
    kept: int = 0
    tables: set[TableName] = field(default_factory=set)
    last_commit: float | None = None


@dataclass
class _Waiting:
    """Changes of a table that are not written yet."""

    parts: list[tuple[int, Part]] = field(default_factory=list)


class Applier:
    """The engine of one lake.

    Args:
        catalog: of the lake.
        log: its change log.
        pipeline: under which steps are counted.
        selection: wanted tables.
        runner: rewrites files.
        can_copy: whether snapshots can be had; else tables that need one are left out.
        history: tables whose versions are kept; None: of none.
        soft_deletes: tables in which deleted rows stay, from their next copy or CREATE TABLE on; None: in none.
        merge: gives when changes of a table are merged.
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
        self._pipeline = pipeline
        self._selection = selection.for_server(catalog.history.lower_case_names)
        self._runner = runner
        self._can_copy = can_copy
        self._threads = threads
        self._merge_policy = merge
        catalog.pipeline = pipeline
        self._soft_deletes = soft_deletes and soft_deletes.for_server(
            catalog.history.lower_case_names
        )
        wanted = history and history.for_server(catalog.history.lower_case_names)
        self.histories = Histories(catalog, log, pipeline, wanted or None, self._state)
        self._waiting: dict[TableName, _Waiting] = {}
        self._waiting_rows = 0
        self._tables: dict[str, StateTable] = {}
        self._done = Applied()
        self._failed = False
        self._moment = Moment("", None)
        self._lock = threading.Lock()

    def run(self, *, versions: int | None = None) -> Applied:
        """Take what is new in the change log.

        Args:
            versions: at most so many; None: all.

        Raises:
            SinkError: a table cannot be read or written.
            SchemaMismatchError: rows are not of their table.
            DataLossError: the lake lacks rows.
        """
        if self._failed:
            self._forget()
        self._failed, self._done = True, Applied()
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
            if self._waiting_rows >= ROUND_ROWS:
                self._flush(_end(number))
            number += 1
        if last >= first:
            self._flush(_end(last))
        self._merge_overdue()
        self._settle_histories()
        self._failed = False
        return self._done

    def _merge_overdue(self) -> None:
        """Merge changes that have waited long enough, though no others came."""
        merged = False
        for entry in self.catalog.tables.values():
            if entry.waiting and not self._is_inside:
                state, files = self._state(entry), [file for _, file in from_json(entry.waiting)]
                size = sum(file.size for file in state.data_files())
                if self._merge_policy(entry.table).is_due(files, size, entry.waiting_since):
                    self._merge_waiting(entry, self.catalog.step)
                    merged = True
        if merged:
            self.catalog.save()

    @property
    def _is_inside(self) -> bool:
        """Whether the change log was not taken to the end of a version."""
        return self.catalog.step >= 0 and self.catalog.step % STEPS != STEPS - 1

    def _settle_histories(self) -> None:
        """Begin and end histories, where the change log was taken to the end of a version."""
        if not self._is_inside and self.histories.settle(first_untaken(self.catalog.step)):
            self.catalog.save()

    def _forget(self) -> None:
        """Go on from what was saved: a run that failed has moved what is in memory, but not done it."""
        self.catalog.reload()
        self._waiting, self._waiting_rows, self._tables = {}, 0, {}
        self.histories.forget()

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
        for file in files:
            table = file.database, file.table
            self._waiting.setdefault(table, _Waiting()).parts.append((step, file))
            self._waiting_rows += file.rows // _FILE_WEIGHT

    def _take_rows(self, rows: pa.Table, step: int) -> int:
        """Take rows of the envelope; gives the step behind them."""
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
                self._flush(step)
                self._notice(group, step + 1)
            step += 2
            begin = statements[at] + 1
            at += 1
        self._wait(rows.slice(begin), step)
        return step + 2

    def _wait(self, rows: pa.Table, step: int) -> None:
        if not rows.num_rows or step <= self.catalog.step:
            return
        for table, part in by_table(rows):
            self._waiting.setdefault(table, _Waiting()).parts.append((step, part))
        self._waiting_rows += rows.num_rows

    def _flush(self, step: int) -> None:
        """Write what waits; everything up to the step is done then."""
        waiting, self._waiting, self._waiting_rows = self._waiting, {}, 0
        rows: list[tuple[TableEntry, _Waiting]] = []
        files: list[tuple[TableEntry, _Waiting]] = []
        for table, one in waiting.items():
            entry = self._entry(table)
            if entry is None or entry.status != "current":
                continue
            if lacks := _lacks_of(entry, one):
                entry.leave_out(lacks)
                self.histories.end_those_left(_begin_of(one), step)
            else:
                typed = all(isinstance(part, ChangeFile) for _, part in one.parts)
                (files if typed else rows).append((entry, one))
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
        if step > self.catalog.step:
            self.catalog.step = step
            self.catalog.save()

    def _merge_all(self, tables: Sequence[tuple[TableEntry, _Waiting]], step: int) -> None:
        """Merge change files into tables: all works of all tables at once, then one commit for each."""
        planned: list[tuple[TableEntry, StateTable, list[Merge]]] = []
        for entry, waiting in tables:
            state = self._state(entry)
            if self._waits(entry, state, waiting):
                continue
            done = state.step
            parts = [part for number, part in waiting.parts if number > done]
            works = state.plan_merges(self.log.directory, parts, step) if parts else None
            if works is not None:
                planned.append((entry, state, works))
        wanted = [work for _, _, works in planned for work in works]
        merged = iter(self._runner(wanted) if wanted else ())
        for entry, state, works in planned:
            files, kept = state.commit_merges([next(merged) for _ in works], step)
            self._done.files += files
            self._done.kept += kept
            self._done.tables.add(entry.table)

    def _waits(self, entry: TableEntry, state: StateTable, waiting: _Waiting) -> bool:
        """Whether change files wait to be merged later; else those that waited are with them."""
        known = from_json(entry.waiting)
        parts = [*known, *waiting.parts]
        policy = self._merge_policy(entry.table)
        # Versions are written with each change; rows without a key are counted in the table.
        kept = entry.history or entry.soft_deletes
        if policy != ALWAYS and state.shape.source_key and not kept:
            since = entry.waiting_since if known else time.time()
            size = sum(file.size for file in state.data_files())
            if size and not policy.is_due([part for _, part in parts], size, since):
                entry.waiting, entry.waiting_since = to_json(parts), since
                return True
        waiting.parts, entry.waiting = parts, []
        return False

    def _merge_waiting(self, entry: TableEntry, step: int) -> None:
        """Merge what waits, before a statement."""
        waiting, entry.waiting = _Waiting([*from_json(entry.waiting)]), []
        if waiting.parts:
            self._write(entry, waiting, step)

    def _write(self, entry: TableEntry, waiting: _Waiting, step: int) -> None:
        waiting.parts, entry.waiting = [*from_json(entry.waiting), *waiting.parts], []
        state = self._state(entry)
        done = state.step
        parts = [(number, part) for number, part in waiting.parts if number > done]
        # Rows of a step that is the table's own were written with it.
        if parts:
            self.apply_parts(state, parts, step)
            self._done.tables.add(entry.table)

    def apply_parts(
        self, state: StateTable, parts: Sequence[tuple[int, Part]], step: int, since: str = ""
    ) -> None:
        """Apply changes to a table that has none of their steps: one commit for those of each form in turn.

        Args:
            state: the table.
            parts: rows of the envelope, or change files, each with its step, in the order of the binlog.
            step: of the last commit.
            since: of change files only changes of this ``_commit_version`` or a later one.
        """
        groups = [
            list(group)
            for _, group in groupby(parts, key=lambda one: isinstance(one[1], ChangeFile))
        ]
        for at, group in enumerate(groups):
            number = step if at + 1 == len(groups) else group[-1][0]
            found = [part for _, part in group]
            if isinstance(found[0], ChangeFile):
                works = state.plan_merges(self.log.directory, found, number, since)
                if works is not None:
                    files, kept = state.commit_merges(self._runner(works), number)
                    with self._lock:
                        self._done.files += files
                        self._done.kept += kept
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

    # Tables.

    def _state(self, entry: TableEntry, *, building: bool = False) -> StateTable:
        assert entry.model is not None
        files = entry.building if building else entry.files
        found = self._tables.get(files)
        shape = LakeTable(entry.model, entry.soft_deletes)
        if found is None or found.shape != shape:
            home = self.catalog.staging(entry) if building else self.catalog.home(entry)
            found = StateTable(home, shape, self._pipeline)
            self._tables[files] = found
        return found

    def _entry(self, table: TableName) -> TableEntry | None:
        """The entry of a table that has rows; made when it is seen for the first time."""
        if not self._selection.wants(*table):
            return None
        entry = self.catalog.tables.get(table)
        if entry is None:
            entry = TableEntry(table[0], table[1], "left_out")
            self.catalog.tables[table] = entry
            self._lacks(entry, "the binlog does not begin with its CREATE TABLE")
            if self.catalog.history.lower_case_names is None:
                for other in list(self.catalog.tables.values()):
                    if other is not entry and casefold_table(other.table) == casefold_table(table):
                        self._lacks(other, _LETTER_CASE)
        return entry

    def _lacks(self, entry: TableEntry, reason: str) -> None:
        """The lake does not have the table's rows: they are copied, or it is left out."""
        if self._can_copy:
            entry.needs_copy(reason)
        else:
            entry.leave_out(reason)

    def _begin(self, entry: TableEntry, model: TableModel) -> None:
        """A table that is empty on the source."""
        entry.soft_deletes = self.keeps_deleted(entry.table)
        reason = cannot_hold(model, soft_deletes=entry.soft_deletes)
        entry.model = model
        entry.leave_out(reason)
        if not reason:
            entry.status, entry.files = "current", new_id()
            self._state(entry).create()
            self.histories.begin_empty(entry)

    # Statements, and losses.

    def _notice(self, rows: list[dict[str, Any]], step: int) -> None:
        """What is told of one event, other than its rows; the rows before it are written."""
        self._moment = _moment_of(rows[0])
        losses = [row for row in rows if row["operation"] == LOSS]
        for row in losses:
            self._loss(row)
        others = [row for row in rows if row["operation"] != LOSS]
        if others:
            self._statement(others[0], step)
            return
        self.histories.end_those_left(self._moment, step)
        self.catalog.step = step
        self.catalog.save()

    def _loss(self, row: dict[str, Any]) -> None:
        """Changes were lost: the tables that they may have been of are copied again."""
        value = json.loads(row["after"] or "{}")
        reason = f"changes were lost: {value.get('reason', '')}"
        if value.get("schema") is not None:
            self._begin_anew(SchemaHistory.from_state(value["schema"]), reason)
            return
        table = self._casefolded((row["database"], row["table"]))
        for entry in list(self.catalog.tables.values()):
            if entry.status != "left_out" and (not table[1] or entry.table == table):
                self._lacks(entry, reason)

    def _begin_anew(self, history: SchemaHistory, reason: str) -> None:
        """Go on with other definitions, after changes of any table were lost."""
        self.catalog.history = history
        models = {name: _model(history.table(name)) for name in history.tables()}
        for name in [name for name in self.catalog.tables if models.get(name) is None]:
            del self.catalog.tables[name]
        for name, model in models.items():
            if model is None or name[0] == "mysql" or not self._selection.wants(*name):
                continue
            entry = self.catalog.tables.setdefault(name, TableEntry(*name, status="left_out"))
            entry.model = model
            if unfit := cannot_hold(model):
                entry.leave_out(unfit)
            else:
                self._lacks(entry, reason)

    def _statement(self, row: dict[str, Any], step: int) -> None:
        """Let a statement change tables; its rows before are written."""
        value = json.loads(row["after"] or "{}")
        text, context = str(value.get("statement", "")), _context(value.get("session"))
        history = self.catalog.history
        before = {name: entry.model for name, entry in self.catalog.tables.items()}
        changes = history.run(text, context, row["_file"], row["_offset"])
        for change in changes:
            self._change(change, text, context, before, step)
        self.histories.end_those_left(self._moment, step)
        self.catalog.step = step
        self.catalog.save()

    def _change(
        self,
        change: TableChange,
        text: str,
        context: StatementContext,
        before: dict[TableName, TableModel | None],
        step: int,
    ) -> None:
        table, after = self._casefolded(change.table), _model(change.after)
        if change.kind == "drop_database":
            for name in [name for name in self.catalog.tables if name[0] == table[0]]:
                del self.catalog.tables[name]
            return
        if not table[1]:
            return
        entry = self.catalog.tables.get(table)
        if change.kind == "create_table":
            if self._selection.wants(*table):
                entry = self.catalog.tables.setdefault(
                    table, TableEntry(table[0], table[1], "left_out")
                )
                if after is None:
                    self._lacks(entry, "its CREATE TABLE is not understood")
                elif makes_cascade(text, context):
                    self._lacks(
                        entry, "a foreign key may change its rows, which the binlog does not record"
                    )
                else:
                    self._begin(entry, after)
        elif change.kind == "drop_table":
            self.catalog.tables.pop(table, None)
        elif change.kind == "truncate_table":
            if entry is not None and entry.status == "current":
                entry.waiting = []
                self._state(entry).truncate(step, self._runner)
                self.histories.truncate(entry, self._moment, step)
            elif entry is not None and entry.status == "copying":
                entry.needs_copy(entry.reason)
        elif change.kind in ("rename_table", "alter_table"):
            if entry is not None and change.kind == "alter_table":
                self._alter(entry, text, context, before.get(table), after, step)
            new = self._casefolded(change.new_name or change.table)
            if new != table:
                self._rename(table, new, after)
        elif entry is not None:
            self._lacks(entry, "a statement that changes it is not understood")

    def _casefolded(self, table: TableName) -> TableName:
        if not self.catalog.history.lower_case_names:
            return table
        return casefold_table(table)

    def _alter(
        self,
        entry: TableEntry,
        text: str,
        context: StatementContext,
        old: TableModel | None,
        new: TableModel | None,
        step: int,
    ) -> None:
        if entry.status != "current":
            if entry.status == "copying":
                entry.needs_copy(entry.reason)  # what was read is of the old definition
            return
        if old is None or new is None:
            self._lacks(entry, f"a statement that changes it is not understood: {text[:100]}")
            return
        new = new.renamed(*entry.table)
        found = alteration(text, context, old, new)
        if isinstance(found, str):
            self._lacks(entry, f"{found}: {text[:100]}")
            return
        reason = cannot_hold(new, soft_deletes=entry.soft_deletes)
        if reason:
            self._lacks(entry, reason)
            return
        self._merge_waiting(entry, step - 1)
        shape, state = LakeTable(new, entry.soft_deletes), self._state(entry)
        entry.model = new
        same = {one.name: one.type for one in state.shape.schema}
        wanted = {one.name: one.type for one in shape.schema}
        adds = found.only_adds(old) and same.items() <= wanted.items()
        self.histories.alter(entry, old, None if adds else found.names, step, self._runner)
        if same == wanted and found.only_adds(old):
            state.shape = shape
        elif adds:
            state.add_columns(shape, step)
        else:
            state.reshape(shape, found.names, step, self._runner)

    def _rename(self, old: TableName, new: TableName, model: TableModel | None) -> None:
        wanted = self._selection.wants(*new)
        entry = self.catalog.tables.pop(old, None)
        if not wanted:
            return
        if entry is None:
            found = self.catalog.tables.setdefault(new, TableEntry(new[0], new[1], "left_out"))
            self._lacks(found, f"it was renamed from {'.'.join(old)}, which was not wanted")
            return
        if model is None and entry.model is not None:
            model = entry.model.renamed(*new)
        renamed = replace(entry, database=new[0], name=new[1], model=model)
        self.catalog.tables[new] = renamed
        if entry.status == "copying":
            renamed.needs_copy(entry.reason)

    # Snapshots.

    def _take_copies(self, versions: Sequence[LoggedVersion]) -> None:
        """Put the copied rows of tables together, then what happened to them since, then show them."""
        self._flush(versions[0].number * STEPS - 1)
        shown, rows = take_copies(self, versions, lambda number: number * STEPS)
        self._done.changes += rows
        self._done.tables |= shown
        self.catalog.step = _end(versions[-1].number)
        self.histories.settle(versions[-1].number)
        self.catalog.save()

    def keeps_deleted(self, table: TableName) -> bool:
        """Whether deleted rows of a table are to stay."""
        return self._soft_deletes is not None and self._soft_deletes.wants(*table)

    def building(self, entry: TableEntry) -> StateTable:
        """The table that is put together of a copy."""
        return self._state(entry, building=True)


def cannot_hold(model: TableModel, *, soft_deletes: bool = False) -> str:
    """Why the lake cannot hold a table's current rows; ``""`` when it can."""
    if model.versioned:
        return "it keeps its old rows itself (WITH SYSTEM VERSIONING)"
    table = LakeTable(model, soft_deletes)
    try:
        names = table.schema.names
    except SchemaError as error:
        return str(error)
    if not table.columns:
        return "it has no columns"
    # Spark and Delta take names that differ in letter case alone for one.
    added = names[len(table.columns) :]
    for name in names[: len(table.columns)]:
        if name.lower() == DELETED and DELETED in added:
            return f"it has a column {name}; leave it out of soft_deletes in [lake]"
        if name.lower() in added:
            return f"it has a column {name}, and the lake adds one of this name"
    return ""


def local_runner(threads: int = 2) -> Runner:
    """Rewrites files in this process."""

    def run(works: Sequence[Work]) -> list[Any]:
        if len(works) < 2:
            return [work.run() for work in works]
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(run_work, works))

    return run


def run_work(work: Work) -> Any:
    """Run one piece of work; a function, so that executors can import it."""
    return work.run()


def first_untaken(step: int) -> int:
    """The first version of the change log that has something behind a step."""
    version, inside = divmod(step, STEPS)
    return version + 1 if inside == STEPS - 1 else version


def _lacks_of(entry: TableEntry, waiting: _Waiting) -> str:
    """Why changes do not tell the rows of a table; ``""`` when they do."""
    assert entry.model is not None
    table = LakeTable(entry.model, entry.soft_deletes)
    files = [part for _, part in waiting.parts if isinstance(part, ChangeFile)]
    rows = [part for _, part in waiting.parts if isinstance(part, pa.Table)]
    lacks = next((lacks for file in files if (lacks := file.lacks_of(table))), "")
    lacks = lacks or next((lacks for part in rows if (lacks := lacks_documents(part))), "")
    return lacks or needs_whole(entry, files)


def _begin_of(waiting: _Waiting) -> Moment:
    """The first of changes."""
    part = waiting.parts[0][1]
    if isinstance(part, ChangeFile):
        files = [one for _, one in waiting.parts if isinstance(one, ChangeFile)]
        return Moment(min(file.first for file in files), min(file.committed for file in files))
    return _moment_of(part.slice(0, 1).to_pylist()[0])


def _moment_of(row: dict[str, Any]) -> Moment:
    """The transaction of a row of the envelope."""
    since = row["_commit_timestamp"] - _EPOCH
    return Moment(row["_commit_version"], since // _MICROSECOND)


def _end(version: int) -> int:
    return version * STEPS + STEPS - 1


def _event(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["_commit_version"], row["_event_index"]


def _model(state: Any) -> TableModel | None:
    return state if isinstance(state, TableModel) else None


def _context(session: dict[str, Any] | None) -> StatementContext:
    if session is None:
        return StatementContext()
    version = session["version"]
    return StatementContext(
        **{
            **session,
            "flavor": ServerFlavor(session["flavor"]),
            "version": (int(version[0]), int(version[1]), int(version[2])),
        }
    )
