"""What a database must be able to do to hold a mirror: its dialect, and its connection."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from replica_client.schema.model import ColumnModel, TableModel
from replica_client.sinks.mirror.stored_names import StoredNames
from replica_client.tables.altered_columns import ColumnSource
from replica_client.tables.net_changes import Values
from replica_client.tables.table_copy import TableName

_LOG = logging.getLogger("replica_client.sinks")


@dataclass(frozen=True)
class Alteration:
    """An ALTER TABLE of the source, as it is done to a mirrored table that has rows.

    Attributes:
        before: the table as the mirror has it.
        after: the table afterwards.
        sources: for each column afterwards which one it was.
        constants: for each column afterwards the value in rows that are there, where it is new.
        replaced: values of columns that become other ones, by the old name of the column.
    """

    before: TableModel
    after: TableModel
    sources: Sequence[ColumnSource]
    constants: Sequence[Any]
    replaced: Mapping[str, Mapping[Any, Any]]


class KeyTwiceError(Exception):
    """A row is added whose key is there."""


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
        conflict: error of a row whose key is there, raised by what adds rows.
        rebuilt: a table as SQL that takes another one's place later.
        locking: what a query has at its end whose rows stay locked until the transaction ends.
        shared: whether several owners can write it, each its own tables.
        leases: whether another connection can write beats; otherwise no other process can have the database open, or
            the process that opens it last writes.
        alters: whether :meth:`alter` alters tables in place.
        native: whether it has the source's types, and converts values as the source does.
        ddl_commits: whether DDL ends a transaction.
        database_column: of the mirror's own tables, with the name of a source's database.
    """

    where: str
    names: StoredNames
    state_table = "_replica_client_state"
    tables_table = "_replica_client_tables"
    copies_table = "_replica_client_copies"
    mark = "?"
    conflict: type[Exception]
    rebuilt = "_replica_client_rebuilt"
    locking = ""
    leases = True
    shared = True
    alters = False
    native = False
    ddl_commits = False
    database_column = "database"

    @abstractmethod
    def prepare(self) -> None:
        """Make the mirror's own tables where they are not."""

    @property
    @abstractmethod
    def is_made(self) -> bool:
        """Whether the mirror's own tables are there."""

    @property
    def session(self) -> str:
        """The session with the server, as :meth:`end_session` takes it; empty without one."""
        return ""

    def end_session(self, session: str) -> None:
        """End another session, with its transaction and its locks, where it is still there."""
        del session

    def abort(self) -> None:
        """Break the connection, from another thread."""
        return

    def lock_owners(self) -> None:
        """Let no other transaction claim an identity until this one ends, where beginning one does not do that."""
        return

    @property
    @abstractmethod
    def in_transaction(self) -> bool:
        """Whether a transaction was begun."""

    @property
    def unlocked(self) -> bool:
        """Whether DDL ended the transaction that was begun, with its locks."""
        return False

    def at_step(self, position: str, number: int, *, may_repeat: bool) -> None:
        """Note which statement of the source is done next.

        Args:
            position: of the statement; empty where it is none.
            number: which of its changes it is.
            may_repeat: whether it may have been done before a crash.
        """
        return

    @property
    def is_done(self) -> bool:
        """Whether the tables are already as the statement of :meth:`at_step` leaves them."""
        return False

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
    def put(self, table: str, columns: Sequence[str], values: Sequence[str]) -> None:
        """Keep a text in one of the mirror's own tables.

        Args:
            table: which one.
            columns: all of it: those of its key, and then the text's.
            values: of these columns.
        """

    def take(self, table: str, columns: Sequence[str], values: Sequence[str]) -> None:
        """Forget a text of one of the mirror's own tables.

        Args:
            table: which one.
            columns: those of its key.
            values: of these columns.
        """
        where = " AND ".join(f"{name} = {self.mark}" for name in columns)
        self.change(f"DELETE FROM {table} WHERE {where}", values)

    @abstractmethod
    def insert(self, table: str, model: TableModel, rows: Iterable[Values]) -> None:
        """Add rows to a table.

        Args:
            table: as SQL.
            model: its definition.
            rows: whose keys are not there, or :attr:`conflict` is raised.
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

    def create(self, model: TableModel) -> None:
        """Make a table that is not there."""
        self.change(self.definition(model, self.table((model.database, model.name))))

    def create_rebuilt(self, model: TableModel) -> None:
        """Make a table as :attr:`rebuilt`."""
        self.change(self.definition(model, self.rebuilt))

    def drop(self, name: TableName) -> None:
        """Remove a table, where it is there."""
        self.change(f"DROP TABLE IF EXISTS {self.table(name)}")

    def drop_unknown(self, name: TableName) -> None:
        """Remove a table of a name that the mirror has no definition of, where it is there."""
        self.drop(name)

    def renew(self, old: TableModel, new: TableModel) -> None:
        """Replace a table by an empty one; what users put on it stays where that can be.

        Args:
            old: its definition.
            new: its definition then, which may have another name.
        """
        name, after = (old.database, old.name), (new.database, new.name)
        if name != after:
            self.rename(name, new)
        objects = self.objects(old.renamed(*after))
        self.drop(after)
        self.create(new)
        self.make_objects(after, objects)

    def alter(self, alteration: Alteration) -> bool:
        """Alter a table in place, its name too; returns False where this database needs another table with its rows."""
        return False

    def objects(self, model: TableModel) -> list[str]:
        """Return SQL for what users put on a table and goes with it, such as indexes."""
        return []

    def extra_column(self, model: TableModel, name: str, kind: str, default: Any) -> str:
        """Return SQL that adds a column of users to a table that was made again, and log that its values go."""
        _LOG.warning(
            "%s: %s.%s is made again: its column %s, which is not the source's, gets its default in all rows",
            self.where,
            model.database,
            model.name,
            name,
        )
        text = f"ALTER TABLE {self.table((model.database, model.name))} ADD COLUMN {self.quoted(name)} {kind}"
        return text if default is None else f"{text} DEFAULT {default}"

    def make_objects(self, name: TableName, statements: Sequence[str]) -> None:
        """Make what users put on a table that was replaced; what is refused is logged with its SQL."""
        for statement in statements:
            error = self.attempt(statement)
            if error:
                _LOG.warning(
                    "%s: %s.%s: not made again: %s (%s)", self.where, *name, statement, error
                )

    def attempt(self, statement: str) -> str:
        """Run a statement that may be refused; returns why it was."""
        raise NotImplementedError

    def truncate(self, model: TableModel) -> None:
        """Remove all rows of a table."""
        self.change(f"DELETE FROM {self.table((model.database, model.name))}")

    def is_empty(self, model: TableModel) -> bool:
        """Whether a table has no rows."""
        table = self.table((model.database, model.name))
        return not list(self.rows(f"SELECT 1 FROM {table} LIMIT 1"))

    @abstractmethod
    def rename(self, old: TableName, new: TableModel) -> None:
        """Give a table another name; the mirror's names are told of it.

        Args:
            old: its name.
            new: what it is then.
        """

    def replace(self, rebuilt: str, new: TableModel) -> None:
        """Give a table that was made as :attr:`rebuilt` the name of one that is gone."""
        raise NotImplementedError

    @abstractmethod
    def has(self, stored: str) -> bool:
        """Whether there is a table of a name that older mirrors gave."""

    def shown(self, column: ColumnModel) -> str:
        """A column in a query, as its values are handed over."""
        return self.quoted(column.name)

    def stored_rows(self, table: str, shown: Sequence[str]) -> Iterator[Values]:
        """Some columns of all rows of a table, which may be read while rows of others are added.

        Args:
            table: as SQL.
            shown: the columns, as :meth:`shown` and :meth:`quoted` write them; at least one.
        """
        yield from self.rows(f"SELECT {', '.join(shown)} FROM {table}")

    # Net changes. Of a table with a primary key, ``key`` has the indexes of its columns.

    def change_rows(
        self,
        model: TableModel,
        key: Sequence[int],
        removed: Collection[Values],
        added: Mapping[Values, Values],
        *,
        strict: bool,
    ) -> int:
        """Take rows away, and then add others.

        Args:
            model: the table.
            key: of it.
            removed: keys of the rows that go.
            added: rows by key.
            strict: rows are added whose keys are not there, or :attr:`conflict` is raised; otherwise they are added in
                place of those with their keys.

        Returns:
            How many went; where these are fewer than there should be, and strict, nothing is added.
        """
        done = self.remove(model, key, removed) if removed else 0
        if strict and done != len(removed):
            return done
        if added and strict:
            self.insert(self.table((model.database, model.name)), model, added.values())
        elif added:
            self.put_rows(model, key, added.values())
        return done

    @abstractmethod
    def remove(self, model: TableModel, key: Sequence[int], keys: Collection[Values]) -> int:
        """Take the rows with some keys away; how many there were."""

    @abstractmethod
    def put_rows(self, model: TableModel, key: Sequence[int], rows: Collection[Values]) -> None:
        """Add rows, in place of those with their keys."""

    @abstractmethod
    def patch(
        self,
        model: TableModel,
        key: Sequence[int],
        patched: Sequence[int],
        rows: Sequence[tuple[Values, Values]],
    ) -> int:
        """Change some columns of rows, in order; how many there were.

        Args:
            model: the table.
            key: of it.
            patched: indexes of the columns.
            rows: their values, and the key that a row had before.
        """

    @abstractmethod
    def take_away(self, model: TableModel, counts: Collection[tuple[Values, int]]) -> int:
        """Take rows of a table without key away.

        Args:
            model: the table.
            counts: rows that differ, and how many of each there shall be fewer.

        Returns:
            How many were taken away: of each at most what was asked for.
        """
