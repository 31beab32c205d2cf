"""Tables whose letter case is ambiguous while ``lower_case_table_names`` is unknown.

Binlog files do not contain ``lower_case_table_names``. If it was not 0, a statement on ``Orders``
is one on ``orders``; so the state of one is no longer certain after a statement on the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from replica_client.schema.catalog import (
    Absent,
    Catalog,
    TableChange,
    TableState,
    Unverified,
)
from replica_client.schema.ddl.steps import (
    CreateLike,
    CreateSequence,
    CreateTable,
    DropTables,
    Meaning,
    NotUnderstood,
    TableName,
    TruncateTable,
    tables_touched,
)
from replica_client.schema.model import DatabaseModel, TableModel
from replica_client.schema.names import casefold_name, casefold_table

_REASON: Final = "a statement names it in another letter case, and it is not known whether lower_case_table_names is 0"


class Spellings:
    """The letter cases in which each table name was seen."""

    def __init__(self) -> None:
        self._names: dict[TableName, set[TableName]] = {}

    def add(self, name: TableName) -> None:
        """Record a name."""
        self._names.setdefault(casefold_table(name), set()).add(name)

    def others(self, name: TableName) -> list[TableName]:
        """Return the known spellings of a name, except the name itself."""
        seen = self._names.get(casefold_table(name))
        return [] if seen is None or seen == {name} else sorted(seen - {name})

    def copy(self) -> Spellings:
        """Return an independent copy."""
        other = Spellings()
        other._names = {key: set(names) for key, names in self._names.items()}
        return other


class CaseDoubts:
    """The effect of one statement where letter case is ambiguous.

    Args:
        catalog: the state before the statement.
        spellings: of the names in the catalog.
        temporary: temporary tables by thread.
        thread_id: of the statement.
    """

    def __init__(
        self,
        catalog: Catalog,
        spellings: Spellings,
        temporary: set[tuple[int, str, str]],
        thread_id: int,
    ) -> None:
        self._catalog = catalog
        self._spellings = spellings
        self._temporary = temporary
        self._thread_id = thread_id

    def certain_part(self, meaning: Meaning) -> Meaning:
        """Return the part of a statement that does not depend on letter case."""
        tables = _tables(meaning)
        if self._forget_temporary(tables):
            is_temporary = isinstance(meaning, DropTables) and meaning.temporary
            return meaning if is_temporary else NotUnderstood(_REASON, tables)
        if isinstance(meaning, (CreateTable, CreateLike, CreateSequence)):
            if not meaning.if_not_exists or meaning.or_replace or meaning.temporary:
                return meaning
            others = map(self._catalog.table, self._spellings.others(meaning.table))
            if any(not isinstance(state, Absent) for state in others):
                return NotUnderstood(_REASON, (meaning.table,))
        return meaning

    def _forget_temporary(self, tables: tuple[TableName, ...]) -> bool:
        """Forget temporary tables that the statement may mean in another case; return if any."""
        if not self._temporary:
            return False
        casefolded = {
            casefold_table(one) for one in tables if (self._thread_id, *one) not in self._temporary
        }
        meant = {
            (thread, database, name)
            for thread, database, name in self._temporary
            if thread == self._thread_id and casefold_table((database, name)) in casefolded
        }
        self._temporary -= meant
        return bool(meant)

    def spread(self, meaning: Meaning) -> list[TableChange]:
        """Make the other spellings of the statement's names unverified; return the changes."""
        named = _tables(meaning)
        found = [
            self._doubt(other, keeps_shape=isinstance(meaning, TruncateTable))
            for table in named
            for other in self._spellings.others(table)
            if other not in named
        ]
        for database in tables_touched(meaning)[1]:
            found += self._doubt_databases(database)
        return found

    def _doubt_databases(self, database: str) -> Iterator[TableChange]:
        casefolded = casefold_name(database)
        for table in self._catalog.known_tables():
            if table[0] != database and casefold_name(table[0]) == casefolded:
                yield self._doubt(table)
                self._catalog.set_database(table[0], DatabaseModel())
        for other in self._catalog.databases():
            if other != database and casefold_name(other) == casefolded:
                self._catalog.set_database(other, DatabaseModel())

    def _doubt(self, table: TableName, *, keeps_shape: bool = False) -> TableChange:
        before = self._catalog.table(table)
        after: TableState | None = before
        if not keeps_shape and before is not None and not isinstance(before, Unverified):
            after = Unverified(_REASON, before if isinstance(before, TableModel) else None)
            self._catalog.set_table(table, after)
        return TableChange("not_understood", table, before, after)


def _tables(meaning: Meaning) -> tuple[TableName, ...]:
    """Return the tables that a statement names, without its own temporary tables."""
    if isinstance(meaning, TruncateTable):
        return (meaning.table,)
    if isinstance(meaning, DropTables):
        return meaning.tables
    return tables_touched(meaning)[0]
