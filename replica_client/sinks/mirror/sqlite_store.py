"""A SQLite database that holds tables of the source, and how far they are, in one transaction.

A table of the source is the table ``DATABASE.TABLE`` (one name, with the point). Three tables are the
mirror's own: ``_replica_client_state`` (the position and what belongs to it), ``_replica_client_tables``
(the definitions of the mirrored tables as JSON), and ``_replica_client_copies`` (first copies).
"""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from replica_client.errors import PositionFormatError, SchemaError, SinkError
from replica_client.position.position import Position
from replica_client.position.stores.base import Checkpoint
from replica_client.schema.model import TableModel
from replica_client.sinks.first_copy import TableCopy, TableName
from replica_client.sinks.mirror.net_changes import DivergedError, NetChanges, Values
from replica_client.sinks.mirror.sqlite_values import declared_type

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
        self._state: object = None
        self.tables: dict[TableName, TableModel] = {}
        self.copies: dict[TableName, TableCopy] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
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
                model = TableModel.from_json(database, name, json.loads(definition))
                self.tables[database, name] = model
            for database, name, copy in run("SELECT * FROM _replica_client_copies"):
                self.copies[database, name] = TableCopy.from_json(database, name, json.loads(copy))
            position = self._get("position")
            if position is None:
                return None
            self._state = json.loads(self._get("state") or "{}")
            assert isinstance(self._state, dict)
            return Checkpoint(Position.from_json(position), self._state)
        except (SchemaError, PositionFormatError, ValueError) as error:
            raise SinkError(f"{self._path} is no mirror of this release: {error}") from error

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
        if checkpoint.state is not self._state and checkpoint.state != self._state:
            self._put("state", json.dumps(dict(checkpoint.state)))
        for copy in [one for one in self.copies.values() if one.is_passed(checkpoint.position)]:
            self._connection.execute(
                "DELETE FROM _replica_client_copies WHERE database = ? AND name = ?", copy.name
            )
            del self.copies[copy.name]
        self._connection.execute("COMMIT")
        self._state = checkpoint.state

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
        self._connection.execute(self._definition(model, _table(name)))
        self._keep(model)

    def _definition(self, model: TableModel, table: str) -> str:
        columns = [
            f"{quoted(column.name)} {declared_type(column)}".strip() for column in model.columns
        ]
        key = [name for name, _ in model.primary_key]
        tail = ""
        if key:
            columns.append(f"PRIMARY KEY ({', '.join(quoted(name) for name in key)})")
            kinds = [declared_type(column) for column in model.columns if column.name in key]
            # A key of one INTEGER is the rowid itself.
            tail = "" if kinds == ["INTEGER"] else " WITHOUT ROWID"
        return f"CREATE TABLE {table} ({', '.join(columns)}){tail}"

    def _keep(self, model: TableModel) -> None:
        self._connection.execute(
            "INSERT OR REPLACE INTO _replica_client_tables VALUES (?, ?, ?)",
            (model.database, model.name, json.dumps(model.to_json())),
        )
        self.tables[model.database, model.name] = model

    def _forget(self, name: TableName) -> None:
        self._connection.execute(
            "DELETE FROM _replica_client_tables WHERE database = ? AND name = ?", name
        )
        self.tables.pop(name, None)

    def drop(self, name: TableName) -> None:
        """Remove a table."""
        self._connection.execute(f"DROP TABLE IF EXISTS {_table(name)}")
        self._forget(name)

    def truncate(self, name: TableName) -> None:
        """Remove all rows of a table."""
        self._connection.execute(f"DELETE FROM {_table(name)}")

    def rename(self, name: TableName, model: TableModel) -> None:
        """Give a table the name of a definition, and keep the definition."""
        new = (model.database, model.name)
        if new != name:
            # In two steps: names that differ in case only are one to SQLite.
            self._connection.execute(
                f"ALTER TABLE {_table(name)} RENAME TO _replica_client_renamed"
            )
            self._connection.execute(f"ALTER TABLE _replica_client_renamed RENAME TO {_table(new)}")
            self._forget(name)
        self._keep(model)

    # First copies.

    def want_copies(self, names: Iterable[TableName]) -> None:
        """See :class:`~replica_client.sinks.first_copy.CopyingSink`."""
        self.begin()
        for name in names:
            self._note(TableCopy(*name))
        self._connection.execute("COMMIT")

    def begin_copy(self, copy: TableCopy) -> None:
        """See :class:`~replica_client.sinks.first_copy.CopyingSink`."""
        self.begin()
        self.drop(copy.name)
        if copy.definition is not None:
            self._connection.execute(self._definition(copy.definition, _table(copy.name)))
        self._note(copy)
        self._connection.execute("COMMIT")

    def copy_rows(self, model: TableModel, rows: Iterable[Values]) -> None:
        """See :class:`~replica_client.sinks.first_copy.CopyingSink`."""
        self.begin()
        self._insert((model.database, model.name), "INSERT", len(model.columns), rows)

    def save_copy(self, copy: TableCopy) -> None:
        """See :class:`~replica_client.sinks.first_copy.CopyingSink`."""
        self.begin()
        self._note(copy)
        if copy.until is not None and copy.definition is not None:
            self._keep(copy.definition)
        self._connection.execute("COMMIT")

    def _note(self, copy: TableCopy) -> None:
        self._connection.execute(
            "INSERT OR REPLACE INTO _replica_client_copies VALUES (?, ?, ?)",
            (*copy.name, json.dumps(copy.to_json())),
        )
        self.copies[copy.name] = copy

    def is_empty(self, model: TableModel) -> bool:
        """Whether a table has no rows."""
        table = _table((model.database, model.name))
        return self._connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() is None

    def rows(self, model: TableModel, columns: Sequence[str]) -> Iterator[Values]:
        """Some columns of all rows of a table."""
        table = _table((model.database, model.name))
        names = ", ".join(quoted(name) for name in columns) or "1"
        yield from self._connection.execute(f"SELECT {names} FROM {table}")

    def rebuild(self, old: TableModel, new: TableModel, rows: Iterator[Values]) -> None:
        """Replace a table by one of another definition, and other rows.

        Raises:
            SinkError: two rows have one key.
        """
        self._connection.execute(self._definition(new, "_replica_client_rebuilt"))
        places = ", ".join("?" * len(new.columns))
        try:
            self._connection.executemany(
                f"INSERT INTO _replica_client_rebuilt VALUES ({places})", rows
            )
        except sqlite3.IntegrityError as error:
            name = f"{new.database}.{new.name}"
            raise DivergedError(name, "two rows have the same new key") from error
        self.drop((old.database, old.name))
        table = _table((new.database, new.name))
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
        model, table = changes.model, _table((changes.model.database, changes.model.name))
        names = [quoted(column.name) for column in model.columns]
        where = " AND ".join(f"{names[at]} = ?" for at in changes.key)
        run = self._connection.executemany
        if changes.removed:
            done = run(f"DELETE FROM {table} WHERE {where}", changes.removed).rowcount
            self._check(changes, len(changes.removed), done)
        if changes.added:
            verb = "INSERT" if changes.strict else "INSERT OR REPLACE"
            try:
                self._insert(changes.table, verb, len(names), changes.added.values())
            except sqlite3.IntegrityError as error:
                raise DivergedError(changes.name, "a row is added that is there") from error
        for columns, group in changes.patch_groups():
            sets = ", ".join(f"{names[at]} = ?" for at in columns)
            parameters = [(*values, *key) for values, key in group]
            done = run(f"UPDATE {table} SET {sets} WHERE {where}", parameters).rowcount
            self._check(changes, len(parameters), done)

    def _apply_keyless(self, changes: NetChanges) -> None:
        model, table = changes.model, _table((changes.model.database, changes.model.name))
        names = [quoted(column.name) for column in model.columns]
        where = " AND ".join(f"{name} IS ?" for name in names)
        sql = (
            f"DELETE FROM {table} WHERE rowid IN (SELECT rowid FROM {table} WHERE {where} LIMIT ?)"
        )
        for row, count in changes.fewer():
            done = self._connection.execute(sql, (*row, count)).rowcount
            self._check(changes, count, done)
        self._insert(changes.table, "INSERT", len(names), changes.more())

    def _insert(self, name: TableName, verb: str, width: int, rows: Iterable[Values]) -> None:
        places = ", ".join("?" * width)
        self._connection.executemany(f"{verb} INTO {_table(name)} VALUES ({places})", rows)

    def _check(self, changes: NetChanges, wanted: int, done: int) -> None:
        if changes.strict and done != wanted:
            raise DivergedError(
                changes.name, f"{wanted - done} of {wanted} rows to change are not there"
            )


def quoted(name: str) -> str:
    """A name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def _table(name: TableName) -> str:
    return quoted(f"{name[0]}.{name[1]}")
