"""The interface of a mirror's database: its dialect, its connection, and changes by statements."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from replica_client.schema.kinds import REALS
from replica_client.schema.model import ColumnModel, TableModel
from replica_client.sinks.mirror.stored_names import StoredNames
from replica_client.stream.tables.alterations import ColumnSource
from replica_client.stream.tables.net_changes import TableName, Values

_LOG = logging.getLogger("replica_client.sinks")


@dataclass(frozen=True)
class Alteration:
    """An ALTER TABLE of the source, as applied to a mirrored table with rows.

    Attributes:
        before: definition of the table in the mirror.
        after: definition after the change.
        sources: for each column of ``after``, the column of ``before`` that it comes from.
        constants: for each column of ``after``, its value in existing rows if it is new; else None.
        replaced: replacements of values, by the column's old name.
    """

    before: TableModel
    after: TableModel
    sources: Sequence[ColumnSource]
    constants: Sequence[Any]
    replaced: Mapping[str, Mapping[Any, Any]]


class KeyTwiceError(Exception):
    """A row was added whose key exists already."""


class MirrorDatabase(ABC):
    """A connection to a mirror's database, and its SQL dialect.

    The methods block and must be called from one thread. Values have the form of
    :mod:`~replica_client.sinks.mirror.stored_values`.

    Attributes:
        where: the database, for messages.
        names: the names under which tables are stored.
        state_table: the mirror's own table of names and values.
        tables_table: the mirror's own table of definitions.
        copies_table: the mirror's own table of initial copies.
        mark: placeholder of a value in a statement.
        conflict: error raised when a row is added whose key exists.
        rebuilt: name, as SQL, of a table that is built to replace another one.
        locking: end of a query that locks its rows until the transaction ends.
        shared: whether several owners can write to the database, each its own tables.
        leases: whether another connection can write heartbeats. Otherwise only one process can open
            the database, or the last process that opened it writes.
        alters: whether :meth:`alter` alters tables in place.
        native: whether the database has the source's types and converts values as the source does.
        ddl_commits: whether DDL ends a transaction.
        database_column: column of the mirror's own tables that holds a source's database name.
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
        """Create the mirror's own tables if they are missing."""

    @property
    @abstractmethod
    def is_made(self) -> bool:
        """Whether the mirror's own tables exist."""

    @property
    def session(self) -> str:
        """The session on the server, for :meth:`end_session`; empty if there is none."""
        return ""

    def end_session(self, session: str) -> None:
        """End another session with its transaction and locks, if it still exists."""
        del session

    def abort(self) -> None:
        """Break the connection, from another thread."""
        return

    def lock_owners(self) -> None:
        """Keep other transactions from claiming an identity until this one ends.

        Does nothing if beginning a transaction has this effect already.
        """
        return

    @property
    @abstractmethod
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""

    @property
    def unlocked(self) -> bool:
        """Whether DDL ended the open transaction and released its locks."""
        return False

    def at_step(self, position: str, number: int, *, may_repeat: bool) -> None:
        """Note which statement of the source is applied next.

        Args:
            position: position of the statement; empty for none.
            number: number of the change in the statement.
            may_repeat: whether the change may have been applied before a crash.
        """
        return

    @property
    def is_done(self) -> bool:
        """Whether the change noted by :meth:`at_step` was applied already."""
        return False

    @abstractmethod
    def begin(self) -> None:
        """Begin a transaction."""

    @abstractmethod
    def commit(self) -> None:
        """Commit the transaction."""

    @abstractmethod
    def rollback(self) -> None:
        """Roll the transaction back."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection. Uncommitted changes are lost."""

    @abstractmethod
    def rows(self, sql: str, values: Sequence[Any] = ()) -> Iterator[Values]:
        """Run a query and yield its rows."""

    @abstractmethod
    def change(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Run a statement and return the number of affected rows."""

    @abstractmethod
    def put(self, table: str, columns: Sequence[str], values: Sequence[str]) -> None:
        """Store a text in one of the mirror's own tables, in place of any with its key.

        Args:
            table: the table.
            columns: all its columns: those of the key, and then that of the text.
            values: values of these columns.
        """

    def take(self, table: str, columns: Sequence[str], values: Sequence[str]) -> None:
        """Delete a text from one of the mirror's own tables.

        Args:
            table: the table.
            columns: columns of its key.
            values: values of these columns.
        """
        where = " AND ".join(f"{name} = {self.mark}" for name in columns)
        self.change(f"DELETE FROM {table} WHERE {where}", values)

    @abstractmethod
    def insert(self, table: str, model: TableModel, rows: Iterable[Values]) -> None:
        """Add rows to a table.

        Args:
            table: the table as SQL.
            model: its definition.
            rows: the rows; an existing key raises :attr:`conflict`.
        """

    @abstractmethod
    def table(self, name: TableName) -> str:
        """Return a table as SQL."""

    @abstractmethod
    def quoted(self, name: str) -> str:
        """Return a column's name as SQL."""

    @abstractmethod
    def definition(self, model: TableModel, table: str) -> str:
        """Return the CREATE TABLE statement of a table."""

    def create(self, model: TableModel) -> None:
        """Create a table that does not exist."""
        self.change(self.definition(model, self.table((model.database, model.name))))

    def create_rebuilt(self, model: TableModel) -> None:
        """Create a table under the name :attr:`rebuilt`."""
        self.change(self.definition(model, self.rebuilt))

    def drop(self, name: TableName) -> None:
        """Drop a table if it exists."""
        self.change(f"DROP TABLE IF EXISTS {self.table(name)}")

    def drop_unknown(self, name: TableName) -> None:
        """Drop a table for which the mirror has no definition, if it exists."""
        self.drop(name)

    def renew(self, old: TableModel, new: TableModel) -> None:
        """Replace a table by an empty one, and keep its users' objects if possible.

        Args:
            old: its definition.
            new: its new definition, which may have another name.
        """
        name, after = (old.database, old.name), (new.database, new.name)
        if name != after:
            self.rename(name, new)
        objects = self.objects(old.renamed(*after))
        self.drop(after)
        self.create(new)
        self.make_objects(after, objects)

    def alter(self, alteration: Alteration) -> bool:
        """Alter a table in place, including its name.

        Return False if this database needs a rebuilt table instead.
        """
        return False

    def objects(self, model: TableModel) -> list[str]:
        """Return SQL for objects that users added to a table and that a drop would remove."""
        return []

    def tell_extra_column(self, model: TableModel, name: str) -> None:
        """Log that the values of a user's column are lost."""
        _LOG.warning(
            "%s: %s.%s is made again: its column %s, which is not the source's, gets its default in all rows",
            self.where,
            model.database,
            model.name,
            name,
        )

    def extra_column(self, model: TableModel, name: str, kind: str, default: Any) -> str:
        """Return SQL that adds a user's column again, and log that its values are lost."""
        self.tell_extra_column(model, name)
        text = f"ALTER TABLE {self.table((model.database, model.name))} ADD COLUMN {self.quoted(name)} {kind}"
        return text if default is None else f"{text} DEFAULT {default}"

    def make_objects(self, name: TableName, statements: Sequence[str]) -> None:
        """Create users' objects on a replaced table; log each refused statement."""
        for statement in statements:
            error = self.attempt(statement)
            if error:
                _LOG.warning(
                    "%s: %s.%s: not made again: %s (%s)", self.where, *name, statement, error
                )

    def attempt(self, statement: str) -> str:
        """Run a statement that may be refused, and return the error; ``""`` if it succeeds."""
        raise NotImplementedError

    def truncate(self, model: TableModel) -> None:
        """Delete all rows of a table."""
        self.change(f"DELETE FROM {self.table((model.database, model.name))}")

    def is_empty(self, model: TableModel) -> bool:
        """Return whether a table has no rows."""
        table = self.table((model.database, model.name))
        return not list(self.rows(f"SELECT 1 FROM {table} LIMIT 1"))

    @abstractmethod
    def rename(self, old: TableName, new: TableModel) -> None:
        """Rename a table, also in :attr:`names`.

        Args:
            old: its name.
            new: its new definition.
        """

    def replace(self, rebuilt: str, new: TableModel) -> None:
        """Give a table that was built as :attr:`rebuilt` the name of a dropped one."""
        raise NotImplementedError

    @abstractmethod
    def has(self, stored: str) -> bool:
        """Return whether a table has a name that older mirrors gave."""

    def shown(self, column: ColumnModel) -> str:
        """Return an expression that selects a column's values in the mirrors' form."""
        return self.quoted(column.name)

    def stored_rows(self, table: str, shown: Sequence[str]) -> Iterator[Values]:
        """Yield some columns of all rows of a table.

        Rows may be added to other tables meanwhile.

        Args:
            table: the table as SQL.
            shown: the columns, as :meth:`shown` and :meth:`quoted` write them; at least one.
        """
        yield from self.rows(f"SELECT {', '.join(shown)} FROM {table}")

    # Net changes. ``key`` has the indexes of the primary key's columns.

    def change_rows(
        self,
        model: TableModel,
        key: Sequence[int],
        removed: Collection[Values],
        added: Mapping[Values, Values],
        *,
        strict: bool,
    ) -> int:
        """Remove rows, and then add others.

        Args:
            model: the table.
            key: indexes of its key columns.
            removed: keys of the rows to remove.
            added: rows by key.
            strict: whether an existing key of an added row raises :attr:`conflict`; otherwise the
                added row replaces the row with its key.

        Returns:
            The number of removed rows. If strict and rows were missing, nothing is added.
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
        """Remove the rows with some keys, and return their number."""

    @abstractmethod
    def put_rows(self, model: TableModel, key: Sequence[int], rows: Collection[Values]) -> None:
        """Add rows, in place of any with their keys."""

    @abstractmethod
    def patch(
        self,
        model: TableModel,
        key: Sequence[int],
        patched: Sequence[int],
        rows: Sequence[tuple[Values, Values]],
    ) -> int:
        """Change some columns of rows, in order, and return the number of rows found.

        Args:
            model: the table.
            key: indexes of its key columns.
            patched: indexes of the changed columns.
            rows: for each row, the new values and the key before the change.
        """

    @abstractmethod
    def take_away(self, model: TableModel, counts: Collection[tuple[Values, int]]) -> int:
        """Remove rows of a table without a primary key.

        Args:
            model: the table.
            counts: different rows, each with the number of its equals to remove.

        Returns:
            The number of removed rows; for each row at most the requested number.
        """


class StatementDatabase(MirrorDatabase):
    """Applies net changes by INSERT, UPDATE and DELETE; subclasses add the dialect."""

    @abstractmethod
    def change_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> int:
        """Run a statement for each row of values, and return the number of affected rows."""

    def value(self, column: ColumnModel) -> str:
        """Return the SQL for a column's value in a statement."""
        return self.mark

    @abstractmethod
    def same(self, column: ColumnModel) -> str:
        """Return the condition that a column equals a value, which may be NULL."""

    @abstractmethod
    def replaced(self, model: TableModel, key: Sequence[int]) -> str:
        """Return the statement that adds a row in place of any with its key."""

    @abstractmethod
    def row_number(self, model: TableModel) -> str | None:
        """Return the expression that tells equal rows apart; None if there is none."""

    def put(self, table: str, columns: Sequence[str], values: Sequence[str]) -> None:
        *keys, column = columns
        marks = ", ".join([self.mark] * len(columns))
        self.change(
            f"INSERT INTO {table} VALUES ({marks}) "
            f"ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {column} = excluded.{column}",
            values,
        )

    def change_rows(
        self,
        model: TableModel,
        key: Sequence[int],
        removed: Collection[Values],
        added: Mapping[Values, Values],
        *,
        strict: bool,
    ) -> int:
        """Apply net changes; see the base.

        A replaced row is updated, so that columns that the operator added keep their values.
        """
        same = [one for one in removed if one in added] if strict else []
        if not same:
            return super().change_rows(model, key, removed, added, strict=strict)
        # A key can change from 0.0 to -0.0 and still be equal.
        signed = any(model.columns[at].kind in REALS for at in key)
        rest = [at for at in range(len(model.columns)) if signed or at not in key]
        if rest:
            done = self.patch(
                model, key, rest, [(tuple(added[one][at] for at in rest), one) for one in same]
            )
        else:
            done = self.count(model, key, same)
        if done != len(same):
            return done
        known = set(same)
        gone = [one for one in removed if one not in known]
        new = {one: row for one, row in added.items() if one not in known}
        return done + super().change_rows(model, key, gone, new, strict=strict)

    def count(self, model: TableModel, key: Sequence[int], keys: Collection[Values]) -> int:
        """Return how many of some keys exist."""
        query = f"SELECT 1 FROM {self._of(model)} WHERE {self._has(model, key)}"
        return sum(1 for one in keys for _ in self.rows(query, one))

    def remove(self, model: TableModel, key: Sequence[int], keys: Collection[Values]) -> int:
        return self.change_many(
            f"DELETE FROM {self._of(model)} WHERE {self._has(model, key)}", keys
        )

    def put_rows(self, model: TableModel, key: Sequence[int], rows: Collection[Values]) -> None:
        self.change_many(self.replaced(model, key), rows)

    def patch(
        self,
        model: TableModel,
        key: Sequence[int],
        patched: Sequence[int],
        rows: Sequence[tuple[Values, Values]],
    ) -> int:
        columns = [model.columns[at] for at in patched]
        sets = ", ".join(f"{self.quoted(one.name)} = {self.value(one)}" for one in columns)
        return self.change_many(
            f"UPDATE {self._of(model)} SET {sets} WHERE {self._has(model, key)}",
            [(*values, *before) for values, before in rows],
        )

    def take_away(self, model: TableModel, counts: Collection[tuple[Values, int]]) -> int:
        table, number = self._of(model), self.row_number(model)
        where = " AND ".join(self.same(column) for column in model.columns)
        if number is not None:
            some = f"SELECT {number} FROM {table} WHERE {where} LIMIT {self.mark}"
            sql = f"DELETE FROM {table} WHERE {number} IN ({some})"
            return sum(self.change(sql, (*row, count)) for row, count in counts)
        done = 0
        for row, count in counts:
            # Delete all equal rows, and insert the remaining ones again.
            found = self.change(f"DELETE FROM {table} WHERE {where}", row)
            self.insert(table, model, [row] * (found - count))
            done += min(found, count)
        return done

    def _of(self, model: TableModel) -> str:
        return self.table((model.database, model.name))

    def _has(self, model: TableModel, key: Sequence[int]) -> str:
        columns = [model.columns[at] for at in key]
        return " AND ".join(f"{self.quoted(one.name)} = {self.value(one)}" for one in columns)
