"""A sink that mirrors tables in a SQLite file.

A table of the source is the table ``DATABASE.TABLE`` (one name, with the point; see
:mod:`~replica_client.sinks.mirror.stored_names` for names that are equal to SQLite).
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from replica_client.errors import SinkError
from replica_client.schema.model import ColumnModel, TableModel, column_type
from replica_client.schema.names import sqlite_name
from replica_client.sinks.mirror.mirror_database import MirrorDatabase, StatementDatabase
from replica_client.sinks.mirror.stored_names import sqlite_names
from replica_client.sinks.mirror.stored_values import FileMirrorOptions
from replica_client.sinks.mirror.table_mirror_sink import FileMirrorSink
from replica_client.sinks.registry import read_options
from replica_client.storage.durable import DATA_MODE
from replica_client.stream.tables.net_changes import TableName, Values

_BUSY_SECONDS = 10.0
_LONG = 8 << 20
"""Size from which a BLOB is written in pieces, to avoid two further copies in memory."""
_PIECE = 1 << 20
_ONE_PASS = 8
"""Number of different keyless rows from which one pass is cheaper than one search per row."""
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS _replica_client_state (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS _replica_client_tables (database TEXT NOT NULL, name TEXT NOT NULL, "
    "definition TEXT NOT NULL, PRIMARY KEY (database, name))",
    "CREATE TABLE IF NOT EXISTS _replica_client_copies (database TEXT NOT NULL, name TEXT NOT NULL, "
    "copy TEXT NOT NULL, PRIMARY KEY (database, name))",
)


def _tail(model: TableModel) -> str:
    """Return the end of CREATE TABLE: ``WITHOUT ROWID`` for a key that is no single INTEGER."""
    key = [name for name, _ in model.primary_key]
    kinds = [column_type("sqlite", column) for column in model.columns if column.name in key]
    # A key of one INTEGER column is the rowid.
    return "" if not key or kinds == ["INTEGER"] else " WITHOUT ROWID"


def _adding(stored: str, model: TableModel, marks: Sequence[str], *, replace: bool) -> str:
    """Return the statement that adds a row, or updates the row with its key.

    The update leaves columns that users added alone.
    """
    names = [sqlite_name(column.name) for column in model.columns]
    text = f"INSERT INTO {sqlite_name(stored)} ({', '.join(names)}) VALUES ({', '.join(marks)})"
    if not replace:
        return text
    key = ", ".join(sqlite_name(name) for name, _ in model.primary_key)
    sets = ", ".join(f"{name} = excluded.{name}" for name in names)
    return f"{text} ON CONFLICT ({key}) DO UPDATE SET {sets}"


def _is_long(value: Any) -> bool:
    return isinstance(value, bytes) and len(value) >= _LONG


def _short_rows(rows: Iterable[Values], long: list[Values]) -> Iterator[Values]:
    """Yield the rows without very long values, and add the others to a list."""
    for row in rows:
        if any(map(_is_long, row)):
            long.append(row)
        else:
            yield row


class SqliteDatabase(StatementDatabase):
    """A mirror's SQLite file.

    Args:
        path: of the file.
    """

    conflict = sqlite3.IntegrityError

    def __init__(self, path: Path) -> None:
        self.where = str(path)
        self.names = sqlite_names()
        path.parent.mkdir(parents=True, exist_ok=True)
        # SQLite gives its other files the mode of this one. An existing file is not opened here:
        # closing it would release the locks of this process's other connections, and SQLite would
        # remove the log that they write.
        if not path.exists():
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT, DATA_MODE))
        self._connection = sqlite3.connect(
            path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )

    def prepare(self) -> None:
        run = self._connection.execute
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = FULL")
        # Views and triggers keep referring to the name when a rebuilt table replaces another one.
        run("PRAGMA legacy_alter_table = ON")
        run("BEGIN IMMEDIATE")
        for statement in _SCHEMA:
            run(statement)
        run("COMMIT")

    @property
    def is_made(self) -> bool:
        return self.has(self.state_table)

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    def begin(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        self._connection.execute("COMMIT")

    def rollback(self) -> None:
        self._connection.execute("ROLLBACK")

    def close(self) -> None:
        self._connection.close()

    def rows(self, sql: str, values: Sequence[Any] = ()) -> Iterator[Values]:
        yield from self._connection.execute(sql, tuple(values))

    def change(self, sql: str, values: Sequence[Any] = ()) -> int:
        return self._connection.execute(sql, tuple(values)).rowcount

    def change_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> int:
        return self._connection.executemany(sql, rows).rowcount

    def insert(self, table: str, model: TableModel, rows: Iterable[Values]) -> None:
        stored = table if table == self.rebuilt else self._stored(model)
        self._add(stored, model, rows, replace=False)

    def put_rows(self, model: TableModel, key: Sequence[int], rows: Collection[Values]) -> None:
        self._add(self._stored(model), model, rows, replace=True)

    def _stored(self, model: TableModel) -> str:
        return self.names.name((model.database, model.name))

    def _add(
        self, stored: str, model: TableModel, rows: Iterable[Values], *, replace: bool
    ) -> None:
        """Add rows. Rows with very long values are written in pieces, to save memory."""
        sql = _adding(stored, model, ["?"] * len(model.columns), replace=replace)
        if _tail(model):
            # blobopen needs a rowid.
            self._connection.executemany(sql, rows)
            return
        long: list[Values] = []
        self._connection.executemany(sql, _short_rows(rows, long))
        for row in long:
            self._add_long(stored, model, row, replace=replace)

    def _add_long(self, stored: str, model: TableModel, row: Values, *, replace: bool) -> None:
        """Add a row with zeroed BLOBs, and write its long values into them piece by piece."""
        at = [index for index, value in enumerate(row) if _is_long(value)]
        marks = ["zeroblob(?)" if index in at else "?" for index in range(len(row))]
        values = [len(value) if index in at else value for index, value in enumerate(row)]
        sql = _adding(stored, model, marks, replace=replace)
        number = self._connection.execute(sql, values).lastrowid
        if replace:
            # An upsert that updates a row returns no rowid.
            key = [model.column_names.index(name) for name, _ in model.primary_key]
            where = " AND ".join(f"{sqlite_name(model.columns[one].name)} IS ?" for one in key)
            ((number,),) = self._connection.execute(
                f"SELECT {self.row_number(model)} FROM {sqlite_name(stored)} WHERE {where}",
                [row[one] for one in key],
            )
        assert number is not None
        for index in at:
            pieces = memoryview(row[index])
            with self._connection.blobopen(stored, model.columns[index].name, number) as blob:
                for begin in range(0, len(pieces), _PIECE):
                    blob.write(pieces[begin : begin + _PIECE])

    def table(self, name: TableName) -> str:
        return sqlite_name(self.names.name(name))

    def quoted(self, name: str) -> str:
        return sqlite_name(name)

    def definition(self, model: TableModel, table: str) -> str:
        columns = [
            f"{sqlite_name(column.name)} {column_type('sqlite', column)}".strip()
            for column in model.columns
        ]
        key = [name for name, _ in model.primary_key]
        if key:
            columns.append(f"PRIMARY KEY ({', '.join(sqlite_name(name) for name in key)})")
        return f"CREATE TABLE {table} ({', '.join(columns)}){_tail(model)}"

    def rename(self, old: TableName, new: TableModel) -> None:
        # In two steps, as names that differ only in case are equal to SQLite.
        run = self._connection.execute
        run(f"ALTER TABLE {self.table(old)} RENAME TO _replica_client_renamed")
        self.names.forget(old)
        run(f"ALTER TABLE _replica_client_renamed RENAME TO {self._of(new)}")

    def replace(self, rebuilt: str, new: TableModel) -> None:
        self._connection.execute(f"ALTER TABLE {rebuilt} RENAME TO {self._of(new)}")

    def has(self, stored: str) -> bool:
        found = self._connection.execute(
            "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (stored,)
        )
        return found.fetchone() is not None

    def same(self, column: ColumnModel) -> str:
        return f"{sqlite_name(column.name)} IS ?"

    def replaced(self, model: TableModel, key: Sequence[int]) -> str:
        return _adding(self._stored(model), model, ["?"] * len(model.columns), replace=True)

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

        Rows with very long values are added in pieces instead of being updated.
        """
        if not any(any(map(_is_long, row)) for row in added.values()):
            return super().change_rows(model, key, removed, added, strict=strict)
        return MirrorDatabase.change_rows(self, model, key, removed, added, strict=strict)

    def objects(self, model: TableModel) -> list[str]:
        """Return SQL for columns, indexes and triggers; see the base.

        Views refer to the table by name only, and stay.
        """
        stored = self._stored(model)
        known = {name.lower() for name in model.column_names}
        added = [
            self.extra_column(model, str(name), str(kind), default)
            for name, kind, default in self.rows(
                "SELECT name, type, dflt_value FROM pragma_table_info(?)", (stored,)
            )
            if str(name).lower() not in known
        ]
        found = self.rows(
            "SELECT sql FROM sqlite_master WHERE tbl_name = ? AND type IN ('index', 'trigger') "
            "AND sql IS NOT NULL ORDER BY type, name",
            (stored,),
        )
        return added + [str(text) for (text,) in found]

    def attempt(self, statement: str) -> str:
        try:
            self._connection.execute(statement)
        except sqlite3.Error as error:
            return str(error)
        return ""

    def take_away(self, model: TableModel, counts: Collection[tuple[Values, int]]) -> int:
        """Remove keyless rows; see the base.

        Many rows are found in one pass, as there is no index on all columns.
        """
        number = self.row_number(model)
        if len(counts) < _ONE_PASS or number is None:
            return super().take_away(model, counts)
        left: dict[Values, int] = {}
        for row, count in counts:
            left[row] = left.get(row, 0) + count
        names = ", ".join(sqlite_name(column.name) for column in model.columns)
        table, gone = self.table((model.database, model.name)), []
        for found, *values in self._connection.execute(f"SELECT {number}, {names} FROM {table}"):
            row = tuple(values)
            if count := left.get(row, 0):
                left[row] = count - 1
                gone.append((found,))
        self._connection.executemany(f"DELETE FROM {table} WHERE {number} = ?", gone)
        return len(gone)

    def row_number(self, model: TableModel) -> str | None:
        """Return a name of the rowid that no column has; see the base."""
        taken = {column.name.lower() for column in model.columns}
        return next((name for name in ("rowid", "_rowid_", "oid") if name not in taken), None)


_MAY_PASS = frozenset(
    (
        *("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY"),
        *("SQLITE_CANTOPEN", "SQLITE_NOMEM"),
    )
)

# Only the source's tables: a copy would not restore the mirror's own tables.
_NO_SUCH_TABLE = re.compile("no such table: (?!_replica_client)")


class SqliteOptions(FileMirrorOptions, frozen=True, kw_only=True):
    """Options of the sink ``sqlite``."""


_OF_ALL = (
    *("SQLITE_READONLY", "SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_IOERR", "SQLITE_CANTOPEN"),
    *("SQLITE_PERM", "SQLITE_AUTH", "SQLITE_NOLFS"),
)


def make(table: Mapping[str, object]) -> SqliteSink:
    """Return the sink for a table of the configuration.

    Raises:
        ConfigError: an option is wrong; the message names it.
    """
    options = read_options(SqliteOptions, table, "sink sqlite")
    return SqliteSink(options)


class SqliteSink(FileMirrorSink):
    """The sink ``sqlite``; see the module.

    Args:
        options: what the user chose.
    """

    refused = sqlite3.Error

    def __init__(self, options: SqliteOptions) -> None:
        super().__init__(options, "sqlite")

    def _look(self) -> None:
        location = f"{self._path.absolute().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(location, uri=True)) as connection:
            connection.execute("SELECT 1 FROM sqlite_master").fetchone()

    def _database(self) -> MirrorDatabase:
        return SqliteDatabase(self._path)

    def _lacks_table(self, error: Exception) -> bool:
        # SQLite shows this only in the text of the error.
        return isinstance(error, sqlite3.OperationalError) and bool(
            re.search(_NO_SUCH_TABLE, str(error))
        )

    def _concerns_all(self, error: BaseException | None) -> bool:
        name = getattr(error, "sqlite_errorname", "")
        return isinstance(error, OSError) or name.startswith(_OF_ALL)

    def _sink_error(self, error: Exception) -> SinkError:
        name = getattr(error, "sqlite_errorname", "")
        base = "_".join(name.split("_")[:2])
        return SinkError(f"{self._path}: {error}", retriable=base in _MAY_PASS)
