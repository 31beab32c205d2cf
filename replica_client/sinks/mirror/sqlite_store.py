"""A mirror in a SQLite file.

A table of the source is the table ``DATABASE.TABLE`` (one name, with the point; see
:mod:`~replica_client.sinks.mirror.stored_names` for names that SQLite does not tell apart).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from replica_client.schema.model import ColumnModel, TableModel
from replica_client.schema.quoting import sqlite_name
from replica_client.sinks.mirror.statement_database import StatementDatabase
from replica_client.sinks.mirror.stored_names import sqlite_names
from replica_client.sinks.mirror.stored_values import declared_type
from replica_client.sinks.mirror.table_store import TableStore
from replica_client.storage.durable import DATA_MODE
from replica_client.tables.net_changes import Values
from replica_client.tables.table_copy import TableName

_BUSY_SECONDS = 10.0
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS _replica_client_state (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS _replica_client_tables (database TEXT NOT NULL, name TEXT NOT NULL, "
    "definition TEXT NOT NULL, PRIMARY KEY (database, name))",
    "CREATE TABLE IF NOT EXISTS _replica_client_copies (database TEXT NOT NULL, name TEXT NOT NULL, "
    "copy TEXT NOT NULL, PRIMARY KEY (database, name))",
)


class SqliteStore(TableStore):
    """An open mirror.

    Args:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(SqliteDatabase(path))


class SqliteDatabase(StatementDatabase):
    """See :class:`~replica_client.sinks.mirror.statement_database.StatementDatabase`.

    Args:
        path: of the file.
    """

    conflict = sqlite3.IntegrityError

    def __init__(self, path: Path) -> None:
        self.where = str(path)
        self.names = sqlite_names()
        path.parent.mkdir(parents=True, exist_ok=True)
        # SQLite gives its other files the mode of this one.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, DATA_MODE))
        self._connection = sqlite3.connect(
            path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )

    def prepare(self) -> None:
        """See the base."""
        run = self._connection.execute
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = FULL")
        run("BEGIN IMMEDIATE")
        for statement in _SCHEMA:
            run(statement)
        run("COMMIT")

    @property
    def in_transaction(self) -> bool:
        """See the base."""
        return self._connection.in_transaction

    def begin(self) -> None:
        """See the base."""
        self._connection.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """See the base."""
        self._connection.execute("COMMIT")

    def rollback(self) -> None:
        """See the base."""
        self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """See the base."""
        self._connection.close()

    def rows(self, sql: str, values: Sequence[Any] = ()) -> Iterator[Values]:
        """See the base."""
        yield from self._connection.execute(sql, tuple(values))

    def change(self, sql: str, values: Sequence[Any] = ()) -> int:
        """See the base."""
        return self._connection.execute(sql, tuple(values)).rowcount

    def change_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> int:
        """See the base."""
        return self._connection.executemany(sql, rows).rowcount

    def insert(self, table: str, model: TableModel, rows: Iterable[Values]) -> None:
        """See the base."""
        placeholders = ", ".join("?" * len(model.columns))
        self._connection.executemany(f"INSERT INTO {table} VALUES ({placeholders})", rows)

    def table(self, name: TableName) -> str:
        """See the base."""
        return sqlite_name(self.names.name(name))

    def quoted(self, name: str) -> str:
        """See the base."""
        return sqlite_name(name)

    def definition(self, model: TableModel, table: str) -> str:
        """See the base."""
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

    def rename(self, old: TableName, new: TableModel) -> None:
        """See the base."""
        # In two steps: names that differ in case only are one to SQLite.
        run = self._connection.execute
        run(f"ALTER TABLE {self.table(old)} RENAME TO _replica_client_renamed")
        self.names.forget(old)
        run(f"ALTER TABLE _replica_client_renamed RENAME TO {self._of(new)}")

    def replace(self, rebuilt: str, new: TableModel) -> None:
        """See the base."""
        self._connection.execute(f"ALTER TABLE {rebuilt} RENAME TO {self._of(new)}")

    def has(self, stored: str) -> bool:
        """See the base."""
        found = self._connection.execute(
            "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (stored,)
        )
        return found.fetchone() is not None

    def same(self, column: ColumnModel) -> str:
        """See the base."""
        return f"{sqlite_name(column.name)} IS ?"

    def replaced(self, model: TableModel, key: Sequence[int]) -> str:
        """See the base."""
        placeholders = ", ".join("?" * len(model.columns))
        table = self.table((model.database, model.name))
        return f"INSERT OR REPLACE INTO {table} VALUES ({placeholders})"

    def row_number(self, model: TableModel) -> str | None:
        """See the base: the name by which SQLite gives a row's number, where no column has it."""
        taken = {column.name.lower() for column in model.columns}
        return next((name for name in ("rowid", "_rowid_", "oid") if name not in taken), None)
