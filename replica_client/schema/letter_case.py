"""What is in doubt as long as nobody told whether names differ by letter case.

In binlog files nothing says what ``lower_case_table_names`` was. A statement on ``Orders`` is one on ``orders``
where it was not 0, so what is known of the one holds no more after a statement on the other.
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
    """The letter cases in which a table's name was seen."""

    def __init__(self) -> None:
        self._names: dict[TableName, set[TableName]] = {}

    def add(self, name: TableName) -> None:
        """A name was seen."""
        self._names.setdefault(casefold_table(name), set()).add(name)

    def others(self, name: TableName) -> list[TableName]:
        """The same name in other letter cases."""
        seen = self._names.get(casefold_table(name))
        return [] if seen is None or seen == {name} else sorted(seen - {name})

    def copy(self) -> Spellings:
        """One that changes by itself."""
        other = Spellings()
        other._names = {key: set(names) for key, names in self._names.items()}
        return other


class CaseDoubts:
    """What one statement leaves in doubt.

    Args:
        catalog: what is known before it.
        spellings: of the names there.
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
        """The statement as far as its effect is the same in both cases."""
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
        """Whether a table may be a temporary one in another letter case, which is not known any more then."""
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
        """Leave the same names in other letter cases unproven, behind the statement."""
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
    """The tables that a statement names, and that are not its own temporary ones."""
    if isinstance(meaning, TruncateTable):
        return (meaning.table,)
    if isinstance(meaning, DropTables):
        return meaning.tables
    return tables_touched(meaning)[0]
