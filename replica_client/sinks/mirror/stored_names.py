"""Under which name a mirror stores each table of the source.

The source tells more names apart than a mirror's server may: SQLite ignores the case of ASCII letters,
MySQL that of all letters where ``lower_case_table_names`` is not 0. The first table that comes has the
plain name; one whose name is the same to the mirror's server gets a digest behind it. A name stays as
long as its table; the mirror keeps those that are not plain with its definitions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from replica_client.storage.file_names import joined_name, shortened, with_digest
from replica_client.tables.table_copy import TableName

STORED_AS: Final = "stored_as"
"""Member of a definition's JSON: the table's name in the mirror, where it is not the plain one."""

_MAX_MYSQL_NAME: Final = 64
# Bytes of database and table, the table's UUID and an ending are the name of a file.
_MAX_CLICKHOUSE_NAME: Final = 90
_ASCII_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


class StoredNames:
    """See the module.

    Args:
        plain: the name that a table has where no other one is in its way.
        casefold: what the mirror's server compares of a name.
        most: characters of a name.
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
        """The name of a table; chosen now where it has none."""
        found = self._stored.get(table)
        if found is None:
            found = self._free(table)
            self.set(table, found)
        return found

    def set(self, table: TableName, name: str) -> None:
        """A table has a name, as the mirror says."""
        self._stored[table] = name
        self._owners[self._casefold(table, name)] = table

    def kept(self, table: TableName) -> str | None:
        """What is to be kept of a table's name; None: it has the plain one."""
        name = self.name(table)
        return None if name == self._fit(self._plain(table), table) else name

    def forget(self, table: TableName) -> None:
        """A table is gone; its name is free."""
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
    """Those of a SQLite mirror: ``DATABASE.TABLE``."""

    def plain(table: TableName) -> str:
        name = joined_name(*table)
        # SQLite keeps these for itself.
        return f"%{ord(name[0]):02X}{name[1:]}" if name[:7].lower() == "sqlite_" else name

    return StoredNames(plain, lambda _, name: name.translate(_ASCII_LOWER))


def mysql_names(*, ignores_case: bool) -> StoredNames:
    """Those of a mirror on MySQL or MariaDB, within the mirrored database.

    Args:
        ignores_case: whether ``lower_case_table_names`` there is not 0.
    """

    def casefold(table: TableName, name: str) -> str:
        if ignores_case:
            return f"{_lower(table[0])}\0{_lower(name)}"
        return f"{table[0]}\0{name}"

    return StoredNames(lambda table: table[1], casefold, _MAX_MYSQL_NAME)


def duckdb_names() -> StoredNames:
    """Those of a DuckDB mirror, within the schema of the database; DuckDB ignores the case of all names."""
    return StoredNames(
        lambda table: table[1], lambda table, name: f"{_lower(table[0])}\0{_lower(name)}"
    )


def clickhouse_names() -> StoredNames:
    """Those of a ClickHouse mirror, within the database; it tells all names apart."""
    return StoredNames(
        lambda table: clickhouse_name(table[1]), lambda table, name: f"{table[0]}\0{name}"
    )


def clickhouse_name(name: str) -> str:
    """A name that fits into the names of ClickHouse's files, which escape all but ASCII letters, digits and ``_``."""
    size = sum(1 if char.isascii() and char.isalnum() else 3 * len(char.encode()) for char in name)
    if size <= _MAX_CLICKHOUSE_NAME:
        return name
    # The digest takes 26 characters, and a character up to twelve bytes.
    return shortened(name, 26 + 4, name)


def mysql_database(prefix: str, database: str) -> str:
    """The database of a mirror that holds those of a database of the source."""
    name = prefix + database
    return name if len(name) <= _MAX_MYSQL_NAME else shortened(name, _MAX_MYSQL_NAME, name)


def _lower(name: str) -> str:
    # The server has i for U+0130; what is casefolded beyond what it casefolds gives a digest too many.
    return name.replace("\u0130", "i").casefold()
