"""Positions in an SQLite database."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Sequence
from typing import Any

from replica_client.errors import PositionStoreError
from replica_client.position.stores.ownership import Claim
from replica_client.position.stores.sql_table import DEFAULT_TABLE, SqlPositionStore
from replica_client.storage.location import local_path

_LOCK_SECONDS = 10.0


class SqliteDatabase:
    """A database file that is opened when first needed; may be used from any thread.

    Every commit is on disk when it returns (``synchronous=FULL`` with a write-ahead log).

    Args:
        path: the file; its directory must exist, it need not.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = local_path(path, "position database")
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def run(self, sql: str, values: Sequence[Any]) -> Sequence[Sequence[Any]]:
        """Run one statement and commit it.

        Raises:
            PositionStoreError: the database is not one, or cannot be read or written.
        """
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = self._open()
                rows: Sequence[Sequence[Any]] = self._connection.execute(sql, values).fetchall()
            except sqlite3.Error as error:
                self._forget()
                raise PositionStoreError(
                    f"position database {self.path}: {error}; check that it is an SQLite database, "
                    "that this user may write it and its directory, and that there is room"
                ) from error
            return rows

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=_LOCK_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _forget(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """Close it; the next statement opens it again."""
        with self._lock:
            self._forget()


class SqlitePositionStore(SqlPositionStore):
    """Keeps a checkpoint in a row of an SQLite database.

    Args:
        database: the database, or its path.
        name: of the row.
        table: name of the table.
        claim: the identity to write as; None: there is none.
    """

    def __init__(
        self,
        database: SqliteDatabase | str | os.PathLike[str],
        name: str,
        table: str = DEFAULT_TABLE,
        claim: Claim | None = None,
    ) -> None:
        if not isinstance(database, SqliteDatabase):
            database = SqliteDatabase(database)
        super().__init__(database.run, name, str(database.path), "sqlite", table, claim)
        self.database = database

    def close(self) -> None:
        """Close the database."""
        self.database.close()
