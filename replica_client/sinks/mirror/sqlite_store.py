"""A SQLite database that holds tables of the source, and how far they are, in one transaction.

A table of the source is the table ``DATABASE.TABLE`` (one name, with the point; see
:mod:`~replica_client.sinks.mirror.stored_names` for names that SQLite does not tell apart). Three tables
are the mirror's own: ``_replica_client_state`` (the position and what belongs to it),
``_replica_client_tables`` (the definitions of the mirrored tables as JSON, with ``stored_as`` where a
table has another name), and ``_replica_client_copies`` (first copies).
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from replica_client.errors import PositionFormatError, SchemaError, SinkError
from replica_client.position.position import Position
from replica_client.position.stores.base import Checkpoint
from replica_client.position.stores.growing import GrowingKeys
from replica_client.schema.model import TableModel
from replica_client.schema.quoting import sqlite_name
from replica_client.sinks.mirror.sqlite_values import declared_type
from replica_client.sinks.mirror.stored_names import STORED_AS, sqlite_names
from replica_client.storage.durable import DATA_MODE
from replica_client.storage.file_names import joined_name
from replica_client.tables.net_changes import DivergedError, NetChanges, Values
from replica_client.tables.table_copy import TableCopy, TableName

_BUSY_SECONDS = 10.0
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS _replica_client_state (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS _replica_client_tables (database TEXT NOT NULL, name TEXT NOT NULL, "
    "definition TEXT NOT NULL, PRIMARY KEY (database, name))",
    "CREATE TABLE IF NOT EXISTS _replica_client_copies (database TEXT NOT NULL, name TEXT NOT NULL, "
    "copy TEXT NOT NULL, PRIMARY KEY (database, name))",
)


class SqliteStore:
    """An open database.

    Args:
        path: of the file.

    Attributes:
        tables: the mirrored tables.
        copies: first copies that the stream has not passed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._owner = secrets.token_hex(8)
        self._state = GrowingKeys()
        self._names = sqlite_names()
        self.tables: dict[TableName, TableModel] = {}
        self.copies: dict[TableName, TableCopy] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        # SQLite gives its other files the mode of this one.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, DATA_MODE))
        self._connection = sqlite3.connect(
            path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )

    def prepare(self) -> Checkpoint | None:
        """Make the mirror's own tables, take the mirror over, and read how far it is.

        Raises:
            SinkError: the database holds something else.
        """
        run = self._connection.execute
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = FULL")
        run("BEGIN IMMEDIATE")
        for statement in _SCHEMA:
            run(statement)
        self._put("owner", self._owner)
        run("COMMIT")
        try:
            for database, name, definition in run("SELECT * FROM _replica_client_tables"):
                members = json.loads(definition)
                self._recall((database, name), members.pop(STORED_AS, None))
                self.tables[database, name] = TableModel.from_json(database, name, members)
            for database, name, copy in run("SELECT * FROM _replica_client_copies"):
                members = json.loads(copy)
                self._recall((database, name), members.get(STORED_AS))
                self.copies[database, name] = TableCopy.from_json(database, name, members)
            for one in (*self.tables, *self.copies):
                self._names.name(one)
            position = self._get("position")
            if position is None:
                return None
            parts = run(
                "SELECT name, value FROM _replica_client_state WHERE name GLOB ?",
                (f"{GrowingKeys.PREFIX}*",),
            )
            state = self._state.read(self._get(GrowingKeys.KEY), dict(parts))
            return Checkpoint(Position.from_json(position), state)
        except (SchemaError, PositionFormatError, ValueError) as error:
            raise SinkError(f"{self._path} is no mirror of this release: {error}") from error

    def _recall(self, name: TableName, stored: str | None) -> None:
        """Take over how a table is called; mirrors of old have names that are not escaped."""
        old = ".".join(name)
        if stored is None and old != joined_name(*name) and self._has(old):
            stored = old
        if stored is not None:
            self._names.set(name, stored)

    def _has(self, stored: str) -> bool:
        found = self._connection.execute(
            "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (stored,)
        )
        return found.fetchone() is not None

    def _with_name(self, name: TableName, value: dict[str, Any]) -> str:
        stored = self._names.kept(name)
        return json.dumps(value if stored is None else {**value, STORED_AS: stored})

    def _table(self, name: TableName) -> str:
        return sqlite_name(self._names.name(name))

    def _get(self, name: str) -> str | None:
        found = self._connection.execute(
            "SELECT value FROM _replica_client_state WHERE name = ?", (name,)
        ).fetchone()
        return None if found is None else str(found[0])

    def _put(self, name: str, value: str) -> None:
        self._connection.execute(
            "INSERT INTO _replica_client_state VALUES (?, ?) "
            "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (name, value),
        )

    def begin(self) -> None:
        """Begin a transaction where none is.

        Raises:
            SinkError: another process took the mirror over.
        """
        if not self._connection.in_transaction:
            self._connection.execute("BEGIN IMMEDIATE")
            if self._get("owner") != self._owner:
                self._connection.execute("ROLLBACK")
                raise SinkError(
                    f"{self._path}: another process writes this mirror; stop one of them"
                )

    def commit(self, checkpoint: Checkpoint) -> None:
        """Commit rows and position together."""
        self.begin()
        self._put("position", json.dumps(checkpoint.position.to_json()))
        plan = self._state.plan(checkpoint.state)
        for key, value in plan.put.items():
            self._put(key, value)
        for key in plan.gone:
            self._connection.execute("DELETE FROM _replica_client_state WHERE name = ?", (key,))
        for copy in [one for one in self.copies.values() if one.is_passed(checkpoint.position)]:
            self._connection.execute(
                "DELETE FROM _replica_client_copies WHERE database = ? AND name = ?", copy.name
            )
            del self.copies[copy.name]
        self._connection.execute("COMMIT")
        self._state.saved(plan)

    def close(self) -> None:
        """Close; what is not committed goes."""
        self._connection.close()

    # Tables.

    def create(self, model: TableModel) -> None:
        """Make a table; one that is there is replaced when it has no rows.

        Raises:
            SinkError: there is one with rows.
        """
        name = (model.database, model.name)
        if name in self.tables:
            if not self.is_empty(model):
                raise DivergedError(
                    f"{model.database}.{model.name}", "a table is made that is there"
                )
            self.drop(name)
        self._connection.execute(self._definition(model, self._table(name)))
        self._keep(model)

    def _definition(self, model: TableModel, table: str) -> str:
        columns = [
            f"{sqlite_name(column.name)} {declared_type(column)}".strip()
            for column in model.columns
        ]
        key = [name for name, _ in model.primary_key]
        tail = ""
        if key:
            columns.append(f"PRIMARY KEY ({', '.join(sqlite_name(name) for name in key)})")
            kinds = [declared_type(column) for column in model.columns if column.name in key]
            # A key of one INTEGER is the rowid itself.
            tail = "" if kinds == ["INTEGER"] else " WITHOUT ROWID"
        return f"CREATE TABLE {table} ({', '.join(columns)}){tail}"

    def _keep(self, model: TableModel) -> None:
        name = (model.database, model.name)
        self._connection.execute(
            "INSERT OR REPLACE INTO _replica_client_tables VALUES (?, ?, ?)",
            (*name, self._with_name(name, model.to_json())),
        )
        self.tables[name] = model

    def _forget(self, name: TableName) -> None:
        self._connection.execute(
            "DELETE FROM _replica_client_tables WHERE database = ? AND name = ?", name
        )
        self.tables.pop(name, None)
        self._names.forget(name)

    def drop(self, name: TableName) -> None:
        """Remove a table."""
        self._connection.execute(f"DROP TABLE IF EXISTS {self._table(name)}")
        self._forget(name)

    def truncate(self, name: TableName) -> None:
        """Remove all rows of a table."""
        self._connection.execute(f"DELETE FROM {self._table(name)}")

    def rename(self, name: TableName, model: TableModel) -> None:
        """Give a table the name of a definition, and keep the definition."""
        new = (model.database, model.name)
        if new != name:
            # In two steps: names that differ in case only are one to SQLite.
            self._connection.execute(
                f"ALTER TABLE {self._table(name)} RENAME TO _replica_client_renamed"
            )
            self._forget(name)
            self._connection.execute(
                f"ALTER TABLE _replica_client_renamed RENAME TO {self._table(new)}"
            )
        self._keep(model)

    # First copies.

    def want_copies(self, names: Iterable[TableName]) -> None:
        """See :class:`~replica_client.sinks.copying_sink.CopyingSink`."""
        self.begin()
        for name in names:
            self._note(TableCopy(*name))
        self._connection.execute("COMMIT")

    def begin_copy(self, copy: TableCopy) -> None:
        """See :class:`~replica_client.sinks.copying_sink.CopyingSink`."""
        self.begin()
        self.drop(copy.name)
        if copy.definition is not None:
            self._connection.execute(self._definition(copy.definition, self._table(copy.name)))
        self._note(copy)
        self._connection.execute("COMMIT")

    def copy_rows(self, model: TableModel, rows: Iterable[Values]) -> None:
        """See :class:`~replica_client.sinks.copying_sink.CopyingSink`."""
        self.begin()
        self._insert((model.database, model.name), "INSERT", len(model.columns), rows)

    def save_copy(self, copy: TableCopy) -> None:
        """See :class:`~replica_client.sinks.copying_sink.CopyingSink`."""
        self.begin()
        self._note(copy)
        if copy.until is not None and copy.definition is not None:
            self._keep(copy.definition)
        self._connection.execute("COMMIT")

    def _note(self, copy: TableCopy) -> None:
        self._connection.execute(
            "INSERT OR REPLACE INTO _replica_client_copies VALUES (?, ?, ?)",
            (*copy.name, self._with_name(copy.name, copy.to_json())),
        )
        self.copies[copy.name] = copy

    def is_empty(self, model: TableModel) -> bool:
        """Whether a table has no rows."""
        table = self._table((model.database, model.name))
        return self._connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() is None

    def rows(self, model: TableModel, columns: Sequence[str]) -> Iterator[Values]:
        """Some columns of all rows of a table."""
        table = self._table((model.database, model.name))
        names = ", ".join(sqlite_name(name) for name in columns) or "1"
        yield from self._connection.execute(f"SELECT {names} FROM {table}")

    def rebuild(self, old: TableModel, new: TableModel, rows: Iterator[Values]) -> None:
        """Replace a table by one of another definition, and other rows.

        Raises:
            SinkError: two rows have one key.
        """
        self._connection.execute(self._definition(new, "_replica_client_rebuilt"))
        placeholders = ", ".join("?" * len(new.columns))
        try:
            self._connection.executemany(
                f"INSERT INTO _replica_client_rebuilt VALUES ({placeholders})", rows
            )
        except sqlite3.IntegrityError as error:
            name = f"{new.database}.{new.name}"
            raise DivergedError(name, "two rows have the same new key") from error
        self.drop((old.database, old.name))
        table = self._table((new.database, new.name))
        self._connection.execute(f"ALTER TABLE _replica_client_rebuilt RENAME TO {table}")
        self._keep(new)

    # Rows.

    def apply(self, changes: NetChanges) -> None:
        """Apply net changes.

        Raises:
            DivergedError: the table is not what it should be.
        """
        if changes.keyed:
            self._apply_keyed(changes)
        else:
            self._apply_keyless(changes)

    def _apply_keyed(self, changes: NetChanges) -> None:
        model, table = changes.model, self._table(changes.table)
        names = [sqlite_name(column.name) for column in model.columns]
        where = " AND ".join(f"{names[at]} = ?" for at in changes.key)
        run = self._connection.executemany
        if changes.by_key.removed:
            done = run(f"DELETE FROM {table} WHERE {where}", changes.by_key.removed).rowcount
            self._check(changes, len(changes.by_key.removed), done)
        if changes.by_key.added:
            verb = "INSERT" if changes.strict else "INSERT OR REPLACE"
            try:
                self._insert(changes.table, verb, len(names), changes.by_key.added.values())
            except sqlite3.IntegrityError as error:
                raise DivergedError(changes.name, "a row is added that is there") from error
        for columns, group in changes.patch_groups():
            sets = ", ".join(f"{names[at]} = ?" for at in columns)
            parameters = [(*values, *key) for values, key in group]
            done = run(f"UPDATE {table} SET {sets} WHERE {where}", parameters).rowcount
            self._check(changes, len(parameters), done)

    def _apply_keyless(self, changes: NetChanges) -> None:
        model, table = changes.model, self._table(changes.table)
        names = [sqlite_name(column.name) for column in model.columns]
        where = " AND ".join(f"{name} IS ?" for name in names)
        number = _row_number(model)
        for row, count in changes.counts.fewer():
            if number is None:
                done = self._delete_some(changes, f"DELETE FROM {table} WHERE {where}", row, count)
            else:
                sql = (
                    f"DELETE FROM {table} WHERE {number} IN "
                    f"(SELECT {number} FROM {table} WHERE {where} LIMIT ?)"
                )
                done = self._connection.execute(sql, (*row, count)).rowcount
            self._check(changes, count, done)
        self._insert(changes.table, "INSERT", len(names), changes.counts.more())

    def _delete_some(self, changes: NetChanges, sql: str, row: Values, count: int) -> int:
        """Take some of equal rows away: all of them, and put back those that stay."""
        found = self._connection.execute(sql, row).rowcount
        done = min(found, count)
        self._insert(changes.table, "INSERT", len(row), [row] * (found - done))
        return done

    def _insert(self, name: TableName, verb: str, width: int, rows: Iterable[Values]) -> None:
        placeholders = ", ".join("?" * width)
        self._connection.executemany(
            f"{verb} INTO {self._table(name)} VALUES ({placeholders})", rows
        )

    def _check(self, changes: NetChanges, wanted: int, done: int) -> None:
        if changes.strict and done != wanted:
            raise DivergedError(
                changes.name, f"{wanted - done} of {wanted} rows to change are not there"
            )


def _row_number(model: TableModel) -> str | None:
    """The name by which SQLite gives a row's number; None where columns have all three of them."""
    taken = {column.name.lower() for column in model.columns}
    return next((name for name in ("rowid", "_rowid_", "oid") if name not in taken), None)
