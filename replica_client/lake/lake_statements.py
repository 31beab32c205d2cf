"""The effect of statements, and of lost changes, on the tables of a lake.

Tables that a statement concerns have the changes before it (:meth:`Statements.concerned`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from replica_client.lake.histories import Histories
from replica_client.lake.history_rows import Moment
from replica_client.lake.lake_catalog import LakeCatalog, TableEntry
from replica_client.lake.lake_table import LakeTable, cannot_hold
from replica_client.lake.state_table import Runner, StateTable
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.rows.selection import Selection
from replica_client.schema.catalog import TableChange
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.ddl.statements import makes_cascade
from replica_client.schema.ddl.steps import TableName
from replica_client.schema.history import SchemaHistory
from replica_client.schema.model import TableModel
from replica_client.schema.names import casefold_table
from replica_client.stream.tables.alterations import alteration


class CurrentTables:
    """The state tables of one lake.

    Args:
        catalog: the lake's catalog.
        pipeline: the pipeline under which steps are counted.
    """

    def __init__(self, catalog: LakeCatalog, pipeline: str) -> None:
        self._catalog = catalog
        self._pipeline = pipeline
        self._tables: dict[str, StateTable] = {}

    def forget(self) -> None:
        """Drop the tables that a failed run opened."""
        self._tables = {}

    def of(self, entry: TableEntry, *, building: bool = False) -> StateTable:
        """Return the table of an entry; with ``building``, the one assembled from a copy."""
        assert entry.model is not None
        files = entry.building if building else entry.files
        found = self._tables.get(files)
        shape = LakeTable(entry.model, entry.soft_deletes)
        if found is None or found.shape != shape:
            home = self._catalog.staging(entry) if building else self._catalog.home(entry)
            found = StateTable(home, shape, self._pipeline)
            self._tables[files] = found
        return found


_LETTER_CASE: Final = (
    "rows come for its name in another letter case; say lower_case_table_names of the server that wrote the "
    "files (option lowerCaseTableNames)"
)
_SELECTED_LATER: Final = "it was selected after the lake had begun"
_HOW: Final = (
    'say start = "snapshot" in [source], then: replica-client snapshot CONFIG --table TABLE'
)


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of the change log.

    Attributes:
        text: its text.
        context: its session.
        changes: its effect on tables and databases.
    """

    text: str
    context: StatementContext
    changes: Sequence[TableChange]


class Statements:
    """The effect of statements and losses on a lake's entries and tables.

    The catalog is not saved.

    Args:
        catalog: the lake's catalog.
        tables: its current tables.
        histories: histories of its tables.
        selection: selected tables.
        runner: rewrites files.
        can_copy: whether snapshots are possible; if not, tables that need one are left out.
        soft_deletes: tables in which deleted rows stay; None: none.
        merge_waiting: merges the waiting change files of an entry's table, in a commit that has a
            step.
    """

    def __init__(
        self,
        catalog: LakeCatalog,
        tables: CurrentTables,
        histories: Histories,
        selection: Selection,
        runner: Runner,
        *,
        can_copy: bool,
        soft_deletes: Selection | None,
        merge_waiting: Callable[[TableEntry, int], None],
    ) -> None:
        self._catalog = catalog
        self._tables = tables
        self._histories = histories
        self._selection = selection
        self._runner = runner
        self._can_copy = can_copy
        self._soft_deletes = soft_deletes
        self._merge_waiting = merge_waiting

    def adopt_selection(self) -> list[TableName]:
        """Forget tables that left the selection, and copy those that came into it.

        Returns:
            the tables that are forgotten.
        """
        tables, wants = self._catalog.tables, self._selection.wants
        gone = [name for name in tables if not wants(*name)]
        for name in gone:
            del tables[name]
        for name in self._catalog.history.tables():
            model = _model(self._catalog.history.table(name))
            if model is None or name in tables or name[0] == "mysql" or not wants(*name):
                continue
            entry = tables[name] = TableEntry(*name, "left_out", model=model)
            self._lacks(entry, _SELECTED_LATER if self._can_copy else f"{_SELECTED_LATER}; {_HOW}")
        return gone

    def entry(self, table: TableName) -> TableEntry | None:
        """Return the entry of a selected table that has rows, and make it on first sight."""
        if not self._selection.wants(*table):
            return None
        entry = self._catalog.tables.get(table)
        if entry is None:
            entry = TableEntry(table[0], table[1], "left_out")
            self._catalog.tables[table] = entry
            self._lacks(entry, "the binlog does not begin with its CREATE TABLE")
            if self._catalog.history.lower_case_names is None:
                for other in list(self._catalog.tables.values()):
                    if other is not entry and casefold_table(other.table) == casefold_table(table):
                        self._lacks(other, _LETTER_CASE)
        return entry

    def _lacks(self, entry: TableEntry, reason: str) -> None:
        """Mark a table whose rows the lake does not have: to be copied, or left out."""
        if self._can_copy:
            entry.needs_copy(reason)
        else:
            entry.leave_out(reason)

    def keeps_deleted(self, table: TableName) -> bool:
        """Return whether deleted rows of a table are kept."""
        return self._soft_deletes is not None and self._soft_deletes.wants(*table)

    def _begin(self, entry: TableEntry, model: TableModel) -> None:
        """Begin a table that is empty on the source."""
        entry.soft_deletes = self.keeps_deleted(entry.table)
        reason = cannot_hold(model, soft_deletes=entry.soft_deletes)
        entry.model = model
        entry.leave_out(reason)
        if not reason:
            entry.status, entry.files = "current", self._catalog.new_directory()
            self._tables.of(entry).create()
            self._histories.begin_empty(entry)

    # Losses.

    def is_lost(self, row: dict[str, Any]) -> Callable[[TableName], bool]:
        """Return a function that says whether lost changes may be of a table."""
        value = json.loads(row["after"] or "{}")
        table = casefold_table((row["database"], row["table"]))
        if value.get("schema") is not None or not table[1]:
            return lambda _: True
        return lambda one: casefold_table(one) == table

    def lose(self, row: dict[str, Any]) -> None:
        """Process lost changes: the tables that they may be of are copied again.

        A table that loses rows after such a copy would be copied for ever: it is left out.
        """
        value = json.loads(row["after"] or "{}")
        reason = f"changes were lost: {value.get('reason', '')}"
        if value.get("schema") is not None:
            self._begin_anew(SchemaHistory.from_state(value["schema"]), reason)
            return
        table = self._casefolded((row["database"], row["table"]))
        if (
            table[1]
            and table not in self._catalog.tables
            and (new := self.entry(table)) is not None
        ):
            self._lacks(new, reason)
        for entry in list(self._catalog.tables.values()):
            if entry.status == "left_out" or (table[1] and entry.table != table):
                continue
            if entry.lost and entry.status == "current":
                entry.leave_out(f"{reason}; so they were after its last copy")
                continue
            self._lacks(entry, reason)
            entry.lost = bool(table[1])

    def _begin_anew(self, history: SchemaHistory, reason: str) -> None:
        """Replace the definitions, after changes of any table were lost."""
        self._catalog.history = history
        models = {name: _model(history.table(name)) for name in history.tables()}
        for name in [name for name in self._catalog.tables if models.get(name) is None]:
            del self._catalog.tables[name]
        for name, model in models.items():
            if model is None or name[0] == "mysql" or not self._selection.wants(*name):
                continue
            entry = self._catalog.tables.setdefault(name, TableEntry(*name, status="left_out"))
            entry.model = model
            if unfit := cannot_hold(model):
                entry.leave_out(unfit)
            else:
                self._lacks(entry, reason)

    # Statements.

    def read(self, row: dict[str, Any]) -> Statement:
        """Read a statement, and update the definitions; the tables are not changed."""
        value = json.loads(row["after"] or "{}")
        text, context = str(value.get("statement", "")), _context(value.get("session"))
        changes = self._catalog.history.run(text, context, row["_file"], row["_offset"])
        return Statement(text, context, changes)

    def drops(self, statement: Statement) -> Callable[[TableName], bool]:
        """Return a function that says whether a statement removes a table.

        Waiting changes of such a table need not be written.
        """
        databases, gone, named = set(), set(), set[TableName]()
        for change in statement.changes:
            table = self._casefolded(change.table)
            if change.kind == "drop_database":
                databases.add(table[0])
            elif change.kind == "drop_table" and table not in named:
                gone.add(table)
            named |= {self._casefolded(one) for one in _names(change)}
        return lambda table: table[0] in databases or table in gone

    def concerned(self, statement: Statement) -> Callable[[TableName], bool]:
        """Return a function that says whether a table needs the changes before a statement.

        Names that differ in letter case only may be of one table.
        """
        names = {casefold_table(one) for change in statement.changes for one in _names(change)}
        return lambda table: casefold_table(table) in names

    def take(self, statement: Statement, moment: Moment, step: int) -> None:
        """Apply a statement to tables, which have the changes before it.

        Args:
            statement: the statement.
            moment: the moment of its transaction.
            step: step of the commits of tables that it changes.
        """
        before = {name: entry.model for name, entry in self._catalog.tables.items()}
        for change in statement.changes:
            self._change(change, statement, before, moment, step)

    def _change(
        self,
        change: TableChange,
        statement: Statement,
        before: dict[TableName, TableModel | None],
        moment: Moment,
        step: int,
    ) -> None:
        table, after = self._casefolded(change.table), _model(change.after)
        if change.kind == "drop_database":
            for name in [name for name in self._catalog.tables if name[0] == table[0]]:
                del self._catalog.tables[name]
            return
        if not table[1]:
            return
        entry = self._catalog.tables.get(table)
        if change.kind == "create_table":
            if self._selection.wants(*table):
                entry = self._catalog.tables.setdefault(
                    table, TableEntry(table[0], table[1], "left_out")
                )
                if after is None:
                    self._lacks(entry, "its CREATE TABLE is not understood")
                elif makes_cascade(statement.text, statement.context):
                    self._lacks(
                        entry, "a foreign key may change its rows, which the binlog does not record"
                    )
                else:
                    self._begin(entry, after)
        elif change.kind == "drop_table":
            self._catalog.tables.pop(table, None)
        elif change.kind == "truncate_table":
            if entry is not None and entry.status == "current":
                entry.waiting = []
                self._tables.of(entry).truncate(step, self._runner)
                self._histories.truncate(entry, moment, step)
            elif entry is not None and entry.status == "copying":
                entry.needs_copy(entry.reason)
        elif change.kind in ("rename_table", "alter_table"):
            if entry is not None and change.kind == "alter_table":
                self._alter(entry, statement, before.get(table), after, step)
            new = self._casefolded(change.new_name or change.table)
            if new != table:
                self._rename(table, new, after)
        elif entry is not None:
            self._lacks(entry, "a statement that changes it is not understood")

    def _casefolded(self, table: TableName) -> TableName:
        if not self._catalog.history.lower_case_names:
            return table
        return casefold_table(table)

    def _alter(
        self,
        entry: TableEntry,
        statement: Statement,
        old: TableModel | None,
        new: TableModel | None,
        step: int,
    ) -> None:
        text = statement.text
        if entry.status != "current":
            if entry.status == "copying":
                entry.needs_copy(entry.reason)  # the rows that were read have the old definition
            return
        if old is None or new is None:
            self._lacks(entry, f"a statement that changes it is not understood: {text[:100]}")
            return
        new = new.renamed(*entry.table)
        found = alteration(text, statement.context, old, new)
        if isinstance(found, str):
            self._lacks(entry, f"{found}: {text[:100]}")
            return
        reason = cannot_hold(new, soft_deletes=entry.soft_deletes)
        if not old.primary_key and old.column_names != new.column_names:
            # Rows are identified by a digest of all columns, which the new columns change.
            reason = reason or f"columns of a table without a primary key changed: {text[:100]}"
        if reason:
            self._lacks(entry, reason)
            return
        self._merge_waiting(entry, step - 1)
        shape, state = LakeTable(new, entry.soft_deletes), self._tables.of(entry)
        entry.model = new
        same = {one.name: one.type for one in state.shape.schema}
        wanted = {one.name: one.type for one in shape.schema}
        adds = found.only_adds(old) and same.items() <= wanted.items()
        self._histories.alter(entry, old, None if adds else found.names, step, self._runner)
        if same == wanted and found.only_adds(old):
            state.shape = shape
        elif adds:
            state.add_columns(shape, step)
        else:
            state.reshape(shape, found.names, step, self._runner)

    def _rename(self, old: TableName, new: TableName, model: TableModel | None) -> None:
        wanted = self._selection.wants(*new)
        entry = self._catalog.tables.pop(old, None)
        if not wanted:
            return
        if entry is None:
            found = self._catalog.tables.setdefault(new, TableEntry(new[0], new[1], "left_out"))
            self._lacks(found, f"it was renamed from {'.'.join(old)}, which was not wanted")
            return
        if model is None and entry.model is not None:
            model = entry.model.renamed(*new)
        renamed = replace(entry, database=new[0], name=new[1], model=model)
        self._catalog.tables[new] = renamed
        if entry.status == "copying":
            renamed.needs_copy(entry.reason)


def _names(change: TableChange) -> list[TableName]:
    """Return the names of the tables that a change concerns, also of tables not selected."""
    names = [change.table, *change.others]
    return names if change.new_name is None else [*names, change.new_name]


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
