"""A catalog of tables and databases at one moment, and the changes that statements make to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Protocol

from replica_client.protocol.codec.compression import SizedCache
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.schema.character_sets import BINARY, WIDE_CHARSETS
from replica_client.schema.ddl.column_clause import ColumnText, PrimaryKey
from replica_client.schema.ddl.columns_after import (
    altered,
    selected_columns,
    with_defaults,
    with_system_period,
)
from replica_client.schema.ddl.create import sequence_columns
from replica_client.schema.ddl.lexer import NotUnderstoodError
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.ddl.steps import (
    AlterDatabase,
    AlterTable,
    ChangeKind,
    ConvertCharset,
    CreateDatabase,
    CreateLike,
    CreateSequence,
    CreateTable,
    DropDatabase,
    DropTables,
    Meaning,
    NotUnderstood,
    RenameTables,
    TableName,
    TruncateTable,
    Unrelated,
    uncertain,
)
from replica_client.schema.model import TEXT_KINDS, ColumnModel, DatabaseModel, TableModel
from replica_client.schema.names import casefold_name


@dataclass(frozen=True, slots=True)
class Absent:
    """A table that is known not to exist."""


@dataclass(frozen=True, slots=True)
class Unverified:
    """A table whose definition must be read again and verified.

    Attributes:
        reason: why.
        last: the previous definition, if it was known.
    """

    reason: str
    last: TableModel | None = None


TableState = TableModel | Absent | Unverified
"""The known state of a table; None if nothing is known about it."""

ABSENT = Absent()

# The oldest MariaDB on which this was seen.
_RENAMES_TEMPORARY = (10, 11, 0)
# From this MySQL on, a column that becomes TEXT with CONVERT TO gets the size of the old type.
_RESIZES = (8, 0, 0)


@dataclass(frozen=True, slots=True)
class TableChange:
    """A change to a table or database by a statement.

    Attributes:
        kind: of the change.
        table: database and table before the change; the table is ``""`` for a change to a database.
        before: the state before.
        after: the state now; under the new name after a rename.
        others: other tables that the statement changes: the new name, the table made of a
            partition.
        new_name: database and table from now on, if the name changes; also if the definition is not
            known.
    """

    kind: ChangeKind
    table: TableName
    before: TableState | None = None
    after: TableState | None = None
    others: tuple[TableName, ...] = ()
    new_name: TableName | None = None


class Catalog(Protocol):
    """A store of table and database states."""

    def table(self, name: TableName) -> TableState | None:
        """Return the known state of a table; None if nothing is known."""
        ...

    def set_table(self, name: TableName, state: TableState | None) -> None:
        """Set the state of a table from now on."""
        ...

    def database(self, name: str) -> DatabaseModel:
        """Return the known definition of a database."""
        ...

    def set_database(self, name: str, model: DatabaseModel) -> None:
        """Set the definition of a database from now on."""
        ...

    def known_tables(self, database: str | None = None) -> list[TableName]:
        """Return the known tables of a database, or of all databases."""
        ...

    def databases(self) -> list[str]:
        """Return the known databases."""
        ...


_COLUMN_SIZE = 256
_DEFINED: SizedCache[
    tuple[int, PrimaryKey | None, str | None, bool, bool],
    tuple[tuple[ColumnText, ...], TableModel],
] = SizedCache(256)
_SHARED: SizedCache[int, tuple[ColumnModel, ...]] = SizedCache(256)


def apply(
    catalog: Catalog,
    meaning: Meaning,
    context: StatementContext,
    temporary: set[tuple[int, str, str]],
    in_other_case: Callable[[TableName], bool] = lambda _: False,
) -> list[TableChange]:
    """Apply a statement to the catalog and return the changes.

    Args:
        catalog: the catalog to change.
        meaning: the parsed statement.
        context: of the statement.
        temporary: temporary tables by thread, which hide tables of the same name; updated.
        in_other_case: returns whether a known table may have this name in another letter case.
    """
    return list(_Applier(catalog, context, temporary, in_other_case).apply(meaning))


class _Applier:
    def __init__(
        self,
        catalog: Catalog,
        context: StatementContext,
        temporary: set[tuple[int, str, str]],
        in_other_case: Callable[[TableName], bool],
    ) -> None:
        self._in_other_case = in_other_case
        self._catalog = catalog
        self._context = context
        self._temporary = temporary

    def apply(self, meaning: Meaning) -> Iterator[TableChange]:
        failed = self._context.error_code
        if failed and not isinstance(meaning, (DropTables, DropDatabase, Unrelated)):
            # It failed but was logged: a part of it may have been done.
            meaning = uncertain(meaning, f"the statement ended with error {failed} on the source")
        match meaning:
            case Unrelated():
                return
            case CreateTable() | CreateLike() | CreateSequence():
                yield from self._create(meaning)
            case AlterTable():
                yield from self._alter(meaning)
            case RenameTables():
                for old, new in meaning.renames:
                    yield from self._rename(old, new, if_exists=meaning.if_exists)
            case DropTables():
                for table in meaning.tables:
                    yield from self._drop(table, temporary=meaning.temporary)
            case TruncateTable():
                if not self._is_of_temporary(meaning.table):
                    state = self._catalog.table(meaning.table)
                    yield TableChange("truncate_table", meaning.table, state, state)
            case CreateDatabase() | AlterDatabase() | DropDatabase():
                yield self._database(meaning)
            case NotUnderstood():
                yield from self._not_understood(meaning)

    def _is_temporary(self, table: TableName) -> bool:
        """Return whether a name in the statement means a known temporary table."""
        known = (self._context.thread_id, *table) in self._temporary
        return known and self._context.uses_temporary is not False

    def _is_of_temporary(self, table: TableName) -> bool:
        """Return whether the statement's only table is temporary, whether or not it is known."""
        return bool(self._context.uses_temporary) or self._is_temporary(table)

    def _create(self, meaning: CreateTable | CreateLike | CreateSequence) -> Iterator[TableChange]:
        table = meaning.table
        if meaning.temporary:
            self._temporary.add((self._context.thread_id, *table))
            return
        before = self._catalog.table(table)
        may_exist = meaning.if_not_exists and not meaning.or_replace and not self._context.is_done
        if may_exist and not self._can_create(before, table):
            if before is None:
                # The table may have existed before, with another definition.
                state = Unverified("CREATE TABLE IF NOT EXISTS: it may have been there before")
                self._catalog.set_table(table, state)
            return
        after: TableState
        try:
            after = self._created(meaning)
        except NotUnderstoodError as error:
            after = Unverified(str(error))
        self._catalog.set_table(table, after)
        yield TableChange("create_table", table, before, after)

    def _can_create(self, before: TableState | None, table: TableName) -> bool:
        """Return whether the table certainly did not exist."""
        if before is None:
            return self._catalog.database(table[0]).complete
        return isinstance(before, Absent)

    def _created(self, meaning: CreateTable | CreateLike | CreateSequence) -> TableState:
        database, name = meaning.table
        if isinstance(meaning, CreateSequence):
            return TableModel(database, name, sequence_columns(meaning))
        if isinstance(meaning, CreateLike):
            if self._is_like_temporary(meaning):
                raise NotUnderstoodError("it is made like a temporary table")
            model = self._catalog.table(meaning.model)
            if not isinstance(model, TableModel):
                raise NotUnderstoodError(
                    f"it is made like {'.'.join(meaning.model)}, which is not known"
                )
            return model.renamed(database, name)
        charset = meaning.charset
        if charset is None and not meaning.charset_unknown:
            charset = self._default_charset(database)
        if not meaning.select:
            made = _defined(meaning, charset).renamed(database, name)
            return replace(made, takes_default=charset is None and not meaning.charset_unknown)
        columns = tuple(text.model(charset) for text in meaning.columns)
        columns = selected_columns(meaning.select, columns, self._context, self._known_table)
        return _with_columns(meaning, columns, charset).renamed(database, name)

    def _is_like_temporary(self, meaning: CreateLike) -> bool:
        """Return whether CREATE TABLE … LIKE copies a temporary table of the session."""
        if meaning.or_replace and not isinstance(self._catalog.table(meaning.table), Absent):
            # MariaDB flags each CREATE OR REPLACE that finds its table.
            return self._is_temporary(meaning.model)
        return self._is_of_temporary(meaning.model)

    def _known_table(self, table: TableName) -> TableModel | None:
        if self._is_temporary(table):
            return None
        state = self._catalog.table(table)
        return state if isinstance(state, TableModel) else None

    def _alter(self, meaning: AlterTable) -> Iterator[TableChange]:
        if self._is_of_temporary(table := meaning.table):
            if meaning.rename is not None:
                self._rename_temporary(table, meaning.rename)
            return
        before = self._catalog.table(table)
        if isinstance(before, Absent):
            if meaning.if_exists:
                return
            before = None
        after: TableState | None = before
        if isinstance(before, TableModel):
            try:
                defaults = self._default_charset(table[0]), self._converted_charset(table[0])
                resizes = not self._context.is_mariadb and self._context.version >= _RESIZES
                after = altered(before, meaning.steps, *defaults, resizes=resizes)
                if self._may_keep_default(before, meaning):
                    after = replace(after, charset=None, takes_default=False)
                after = with_defaults(self._as_kept(after), meaning.defaults)
            except NotUnderstoodError as error:
                after = Unverified(str(error), before)
        elif meaning.steps:
            after = Unverified("altered, and not known before")
        if meaning.to_table is not None:
            copy = after.renamed(*meaning.to_table) if isinstance(after, TableModel) else None
            state = copy or Unverified("made of a partition of a table that is not known")
            self._catalog.set_table(meaning.to_table, state)
        joined = None
        if meaning.from_table is not None:
            gone = self._catalog.table(meaning.from_table)
            joined = TableChange("drop_table", meaning.from_table, gone, ABSENT)
            self._catalog.set_table(meaning.from_table, ABSENT)
        new_name = meaning.rename if meaning.rename != table else None
        if new_name is not None:
            self._catalog.set_table(table, ABSENT)
            after = self._moved(after, new_name)
        elif after is not before:
            assert after is not None
            self._catalog.set_table(table, after)
        yield TableChange("alter_table", table, before, after, meaning.others, new_name)
        if meaning.exchanged is not None:
            other = self._catalog.table(meaning.exchanged)
            yield TableChange("alter_table", meaning.exchanged, other, other)
        if joined is not None:
            yield joined

    def _default_charset(self, database: str) -> str | None:
        """Return the default character set of new tables; None where it is uncertain."""
        model = self._catalog.database(database)
        if self._context.is_mariadb and casefold_name(database) == casefold_name(
            self._context.database
        ):
            return model.charset_in(self._context.thread_id)
        return model.charset

    def _converted_charset(self, database: str) -> str | None:
        """Return the character set of CONVERT TO CHARACTER SET DEFAULT; None where it is uncertain.

        MySQL uses the default of the session's database, MariaDB that of the table's.
        """
        if self._context.is_mariadb:
            return self._default_charset(database)
        if self._context.sets_database_charset:
            return None
        return self._catalog.database(self._context.database).charset_in(self._context.thread_id)

    def _may_keep_default(self, table: TableModel, meaning: AlterTable) -> bool:
        """Return whether MySQL 5.6 may have kept the default character set at a CONVERT TO."""
        # It does where nothing else is altered, unless `old_alter_table` is set: no event says so.
        if self._context.is_mariadb or self._context.version >= _RESIZES:
            return False
        last = meaning.steps[-1] if meaning.steps else None
        if not isinstance(last, ConvertCharset) or last.charset == table.charset:
            return False
        charsets = {column.charset for column in table.columns if column.kind in TEXT_KINDS}
        alone = all(isinstance(step, ConvertCharset) for step in meaning.steps)
        return alone and charsets <= {last.charset, BINARY}

    def _as_kept(self, table: TableModel) -> TableModel:
        """Return a table without the labels that MySQL before 8.0 loses when it alters a table."""
        if self._context.is_mariadb or self._context.version >= (8, 0, 0):
            return table
        columns = tuple(
            replace(column, labels=None) if column.charset in WIDE_CHARSETS else column
            for column in table.columns
        )
        return replace(table, columns=columns)

    def _moved(self, state: TableState | None, name: TableName) -> TableState:
        """Return a table's state under its new name."""
        if isinstance(state, TableModel):
            state = state.renamed(*name)
        elif state is None or isinstance(state, Absent):
            state = Unverified("renamed from a table that is not known")
        self._catalog.set_table(name, state)
        return state

    def _rename(self, old: TableName, new: TableName, *, if_exists: bool) -> Iterator[TableChange]:
        # MariaDB renames temporary tables, without a flag in the event; MySQL never does.
        if self._context.is_mariadb and (self._context.thread_id, *old) in self._temporary:
            if self._context.version < _RENAMES_TEMPORARY:
                reason = "RENAME TABLE of a name that a temporary table has, too"
                yield from self._not_understood(NotUnderstood(reason, (old, new)))
                return
            self._rename_temporary(old, new)
            return
        before = self._catalog.table(old)
        is_taken = isinstance(self._catalog.table(new), TableModel)
        is_none = self._can_create(before, old) and not self._in_other_case(old)
        if is_none and (self._context.is_mariadb or not is_taken):
            return  # a view, or a temporary table that is not known
        if self._context.is_mariadb and is_taken:
            # Either an unknown temporary table was renamed, or the catalog is out of date.
            reason = "RENAME TABLE to a name that another table has"
            yield from self._not_understood(NotUnderstood(reason, (old, new)))
            return
        if if_exists and (before is None or isinstance(before, Absent)):
            if before is None and not self._catalog.database(old[0]).complete:
                for name in (old, new):
                    self._catalog.set_table(name, Unverified("perhaps renamed"))
            return
        self._catalog.set_table(old, ABSENT)
        yield TableChange("rename_table", old, before, self._moved(before, new), (new,), new)

    def _rename_temporary(self, old: TableName, new: TableName) -> None:
        self._temporary.discard((self._context.thread_id, *old))
        self._temporary.add((self._context.thread_id, *new))

    def _drop(self, table: TableName, *, temporary: bool) -> Iterator[TableChange]:
        key = (self._context.thread_id, *table)
        if temporary or self._is_temporary(table):
            self._temporary.discard(key)
            return
        before = self._catalog.table(table)
        if self._context.error_code and before is None:
            return
        self._catalog.set_table(table, ABSENT)
        yield TableChange("drop_table", table, before, ABSENT)

    def _database(self, meaning: CreateDatabase | AlterDatabase | DropDatabase) -> TableChange:
        name = meaning.database
        known = self._catalog.database(name)
        if isinstance(meaning, AlterDatabase):
            if meaning.charset:
                after = known.altered(meaning.charset, self._context.thread_id)
                self._catalog.set_database(name, after)
                self._spread_default(name)
            return TableChange("alter_database", (name, ""))
        may_exist = (
            isinstance(meaning, CreateDatabase)
            and meaning.if_not_exists
            and not meaning.or_replace
            and not self._context.is_done
        )
        if may_exist:
            if known.complete and known.charset is not None:
                return TableChange("create_database", (name, ""))
            if (
                any(
                    not isinstance(self._catalog.table(table), Absent)
                    for table in self._catalog.known_tables(name)
                )
                or not known.complete
            ):
                # It may have existed, with tables and another character set.
                return TableChange("create_database", (name, ""))
        for table in self._catalog.known_tables(name):
            self._catalog.set_table(table, ABSENT)
        if isinstance(meaning, DropDatabase):
            last = known.charset or known.last_charset
            gone = DatabaseModel(None, not self._context.error_code, known.changed_by, last)
            self._catalog.set_database(name, gone)
            return TableChange("drop_database", (name, ""))
        charset = meaning.charset or self._context.server_charset
        self._catalog.set_database(name, known.made(charset, self._context.thread_id))
        self._spread_default(name)
        return TableChange("create_database", (name, ""))

    def _spread_default(self, database: str) -> None:
        """Forget the default of databases in another letter case: MySQL 5.6 caches one for all."""
        if self._context.is_mariadb or self._context.version >= (8, 0, 0):
            return
        for other in self._catalog.databases():
            if other != database and casefold_name(other) == casefold_name(database):
                complete = self._catalog.database(other).complete
                self._catalog.set_database(other, DatabaseModel(complete=complete))

    def _not_understood(self, meaning: NotUnderstood) -> Iterator[TableChange]:
        names = list(meaning.tables)
        for database in meaning.databases:
            names.extend(self._catalog.known_tables(database))
            self._catalog.set_database(database, DatabaseModel())
        if meaning.anything:
            names.extend(self._catalog.known_tables())
        for name in dict.fromkeys(names):
            if self._is_temporary(name):
                continue
            before = self._catalog.table(name)
            last = before if isinstance(before, TableModel) else None
            if isinstance(before, Unverified):
                last = before.last
            after = Unverified(meaning.reason, last)
            self._catalog.set_table(name, after)
            yield TableChange("not_understood", name, before, after)
        if not names:
            named = meaning.databases or (("" if meaning.anything else self._context.database),)
            for database in named:
                yield TableChange("not_understood", (database, ""))


def _defined(meaning: CreateTable, charset: str | None) -> TableModel:
    """Return the table of a CREATE TABLE without a query; cached for equal definitions."""
    # The entry keeps the columns alive, so that their id is not reused.
    key = (id(meaning.columns), meaning.primary_key, charset, meaning.versioned, meaning.period)
    known = _DEFINED.get(key)
    if known is not None:
        return known[1]
    columns = tuple(text.model(charset) for text in meaning.columns)
    table = _with_columns(meaning, columns, charset)
    _DEFINED.put(key, (meaning.columns, table), _COLUMN_SIZE * len(columns))
    _SHARED.put(id(table.columns), table.columns, _COLUMN_SIZE * len(columns))
    return table


def are_shared(columns: tuple[ColumnModel, ...]) -> bool:
    """Return whether columns come from the cache, so that several tables may share them."""
    return _SHARED.get(id(columns)) is columns


def _with_columns(
    meaning: CreateTable, columns: tuple[ColumnModel, ...], charset: str | None
) -> TableModel:
    if meaning.versioned and not meaning.period:
        columns = with_system_period(columns)
    key = meaning.primary_key or ()
    return altered(TableModel("", "", columns, key, charset, meaning.versioned), (), charset)
