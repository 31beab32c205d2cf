"""What a database must be able to do to hold a mirror: its dialect, and its connection."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from replica_client.schema.model import ColumnModel, TableModel
from replica_client.sinks.mirror.stored_names import StoredNames
from replica_client.tables.net_changes import Values
from replica_client.tables.table_copy import TableName


class MirrorDatabase(ABC):
    """A connection, and how its server writes SQL. Calls block, and are made from one thread.

    Values come and go as :mod:`~replica_client.sinks.mirror.stored_values` says.

    Attributes:
        where: the database, for messages.
        names: under which name it keeps each table.
        state_table: of the mirror's own: names and values.
        tables_table: definitions.
        copies_table: first copies.
        mark: what stands for a value in a statement.
        conflict: error of a row whose key is there.
        rebuilt: a table as SQL that takes another one's place later.
    """

    where: str
    names: StoredNames
    state_table = "_replica_client_state"
    tables_table = "_replica_client_tables"
    copies_table = "_replica_client_copies"
    mark = "?"
    conflict: type[Exception]
    rebuilt = "_replica_client_rebuilt"

    @abstractmethod
    def prepare(self) -> None:
        """Make the mirror's own tables where they are not."""

    @property
    @abstractmethod
    def in_transaction(self) -> bool:
        """Whether a transaction was begun."""

    @abstractmethod
    def begin(self) -> None:
        """Begin a transaction."""

    @abstractmethod
    def commit(self) -> None:
        """Commit it."""

    @abstractmethod
    def rollback(self) -> None:
        """Undo it."""

    @abstractmethod
    def close(self) -> None:
        """Close; what is not committed goes."""

    @abstractmethod
    def rows(self, sql: str, values: Sequence[Any] = ()) -> Iterator[Values]:
        """What a query gives."""

    @abstractmethod
    def change(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Do a statement; how many rows it was about."""

    @abstractmethod
    def change_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> int:
        """Do a statement for each row of values; how many rows they were about."""

    @abstractmethod
    def insert(self, table: str, columns: Sequence[ColumnModel], rows: Iterable[Values]) -> None:
        """Add rows to a table.

        Args:
            table: as SQL.
            columns: of it, all and in order.
            rows: that are not there.
        """

    @abstractmethod
    def table(self, name: TableName) -> str:
        """A table as SQL."""

    @abstractmethod
    def quoted(self, name: str) -> str:
        """A column's name as SQL."""

    @abstractmethod
    def definition(self, model: TableModel, table: str) -> str:
        """CREATE TABLE."""

    @abstractmethod
    def rename(self, old: TableName, new: TableName) -> None:
        """Give a table another name; the mirror's names are told of it."""

    @abstractmethod
    def replace(self, rebuilt: str, new: TableName) -> None:
        """Give a table that was made as :attr:`rebuilt` the name of one that is gone."""

    @abstractmethod
    def has(self, stored: str) -> bool:
        """Whether there is a table of a name that older mirrors gave."""

    def value(self, column: ColumnModel) -> str:
        """What stands for a column's value in a statement."""
        return self.mark

    def shown(self, column: ColumnModel) -> str:
        """A column in a query, as its values are handed over."""
        return self.quoted(column.name)

    @abstractmethod
    def same(self, column: ColumnModel) -> str:
        """The condition that a column has a value, or none."""

    @abstractmethod
    def replaced(self, model: TableModel, key: Sequence[int]) -> str:
        """The statement that adds a row, in place of one with its key."""

    @abstractmethod
    def row_number(self, model: TableModel) -> str | None:
        """What tells equal rows apart; None where nothing does."""
