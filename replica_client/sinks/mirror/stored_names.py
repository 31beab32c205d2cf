"""Names under which a mirror stores tables.

Names that differ on the source may be equal to a mirror's server: SQLite ignores the case of ASCII
letters, MySQL the case of all letters if ``lower_case_table_names`` is not 0. The first such table
gets the plain name; further tables whose names are equal to the mirror's server get a digest as
suffix. A table keeps its name; the mirror stores names that are not plain with the definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from replica_client.schema.history_records import SchemaChange
from replica_client.schema.model import ColumnModel, TableModel
from replica_client.schema.shape import ColumnShape
from replica_client.sinks.column_models import column_model
from replica_client.storage.durable import joined_name, shortened, with_digest
from replica_client.stream.tables.net_changes import CopyNeededError, TableName

STORED_AS: Final = "stored_as"
"""Member of a definition's JSON: the table's name in the mirror, if it is not the plain one."""

_MAX_MYSQL_NAME: Final = 64
# Database, table, the table's UUID and an ending form a file name of limited length.
_MAX_CLICKHOUSE_NAME: Final = 90
_ASCII_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


class StoredNames:
    """Chooses and keeps the stored name of each table; see the module.

    Args:
        plain: returns the name that a table gets if no other table has it.
        casefold: returns the form in which the mirror's server compares a name.
        most: maximum characters of a name.
    """

    def __init__(
        self,
        plain: Callable[[TableName], str],
        casefold: Callable[[TableName, str], str],
        most: int | None = None,
    ) -> None:
        self._plain, self._casefold, self._most = plain, casefold, most
        self._stored: dict[TableName, str] = {}
        self._owners: dict[str, TableName] = {}

    def name(self, table: TableName) -> str:
        """Return the name of a table; choose one if it has none yet."""
        found = self._stored.get(table)
        if found is None:
            found = self._free(table)
            self.set(table, found)
        return found

    def set(self, table: TableName, name: str) -> None:
        """Set the name of a table, as read from the mirror."""
        self._stored[table] = name
        self._owners[self._casefold(table, name)] = table

    def kept(self, table: TableName) -> str | None:
        """Return the name to store with a table's definition; None if it has the plain name."""
        name = self.name(table)
        return None if name == self._fit(self._plain(table), table) else name

    def forget(self, table: TableName) -> None:
        """Forget a dropped table, and free its name."""
        name = self._stored.pop(table, None)
        if name is not None:
            self._owners.pop(self._casefold(table, name), None)

    def _free(self, table: TableName) -> str:
        plain = self._plain(table)
        name, number = self._fit(plain, table), 0
        while self._casefold(table, name) in self._owners:
            name = self._fit(with_digest(plain, *table, str(number)), table, str(number))
            number += 1
        return name

    def _fit(self, name: str, *names: TableName | str) -> str:
        if self._most is None or len(name) <= self._most:
            return name
        flat = [part for one in names for part in ((one,) if isinstance(one, str) else one)]
        return shortened(name, self._most, *flat)


def sqlite_names() -> StoredNames:
    """Return the names of a SQLite mirror: ``DATABASE.TABLE``."""

    def plain(table: TableName) -> str:
        name = joined_name(*table)
        # SQLite reserves these names.
        return f"%{ord(name[0]):02X}{name[1:]}" if name[:7].lower() == "sqlite_" else name

    return StoredNames(plain, lambda _, name: name.translate(_ASCII_LOWER))


def mysql_names(*, ignores_case: bool) -> StoredNames:
    """Return the names of a mirror on MySQL or MariaDB, within the mirrored database.

    Args:
        ignores_case: whether the mirror's ``lower_case_table_names`` is not 0.
    """

    def casefold(table: TableName, name: str) -> str:
        if ignores_case:
            return f"{_lower(table[0])}\0{_lower(name)}"
        return f"{table[0]}\0{name}"

    return StoredNames(lambda table: table[1], casefold, _MAX_MYSQL_NAME)


def duckdb_names() -> StoredNames:
    """Return the names of a DuckDB mirror, within the schema of the database.

    DuckDB ignores the case of all names.
    """
    return StoredNames(
        lambda table: table[1], lambda table, name: f"{_lower(table[0])}\0{_lower(name)}"
    )


def clickhouse_names() -> StoredNames:
    """Return the names of a ClickHouse mirror, within the database.

    To ClickHouse, all names differ.
    """
    return StoredNames(
        lambda table: clickhouse_name(table[1]), lambda table, name: f"{table[0]}\0{name}"
    )


def clickhouse_name(name: str) -> str:
    """Return a name short enough for ClickHouse's file names.

    ClickHouse escapes all characters but ASCII letters, digits and ``_`` there.
    """
    size = sum(1 if char.isascii() and char.isalnum() else 3 * len(char.encode()) for char in name)
    if size <= _MAX_CLICKHOUSE_NAME:
        return name
    # The digest takes 26 characters, and a character up to twelve bytes.
    return shortened(name, 26 + 4, name)


def mysql_database(prefix: str, database: str) -> str:
    """Return the mirror's database for a database of the source."""
    name = prefix + database
    return name if len(name) <= _MAX_MYSQL_NAME else shortened(name, _MAX_MYSQL_NAME, name)


def _lower(name: str) -> str:
    # The server maps U+0130 to i. Folding more than the server does only adds needless digests.
    return name.replace("\u0130", "i").casefold()


def check_same_columns(model: TableModel, columns: Sequence[ColumnShape]) -> None:
    """Check that rows have the same columns as the mirror's table.

    Args:
        model: definition of the mirror's table.
        columns: columns of the rows.

    Raises:
        CopyNeededError: the columns differ; a copy is needed once all tables have the same
            definition.
    """
    if len(columns) == len(model.columns) and all(map(_same, model.columns, columns)):
        return
    raise different(model, "rows come with other columns than the mirror's table has")


def _same(known: ColumnModel, column: ColumnShape) -> bool:
    """Return whether a column of rows is defined like a column of the mirror."""
    found = [column_model(column)]  # row images say less than a definition
    if column.definition is not None:
        found.append(replace(column.definition, name=column.name))
    return any(_alike(known, one) for one in found)


def _alike(known: ColumnModel, other: ColumnModel) -> bool:
    """Return whether two columns hold the same values.

    Nullability is ignored: a NULL shows it when it comes.
    """
    return replace(other, nullable=known.nullable, visible=known.visible) == known


def _same_table(known: TableModel, other: TableModel) -> bool:
    columns = known.columns, other.columns
    same = len(columns[0]) == len(columns[1]) and all(map(_alike, *columns))
    return same and known.primary_key == other.primary_key


def is_followed(model: TableModel | None, change: SchemaChange) -> bool:
    """Return whether the mirror's table already has the result of a schema change.

    Another of the merged source tables brought the same change before.

    Raises:
        CopyNeededError: the mirror's table is neither the table after the change nor before it.
    """
    if model is None:
        return False
    if change.after is not None and _same_table(model, change.after):
        return True
    before = change.before
    if change.kind == "create_table" or (before is not None and not _same_table(model, before)):
        raise different(
            model, f"{change.kind.replace('_', ' ')} makes a table that looks different"
        )
    return False


def different(model: TableModel, why: str) -> CopyNeededError:
    """Return the error for merged tables with different definitions."""
    name = model.database, model.name
    return CopyNeededError(
        f"{model.database}.{model.name} is made of several tables, which do not look alike: {why}; alter all of them, "
        "then it can be copied again (snapshot = true)",
        {name},
    )
