"""Positions in a table of an SQL database.

The table, the same in SQLite, MySQL and MariaDB::

    CREATE TABLE replica_client_positions (
        name VARCHAR(190) PRIMARY KEY, checkpoint LONGTEXT NOT NULL, saved_at VARCHAR(32) NOT NULL)

``checkpoint`` is the text of :mod:`~replica_client.stream.position.stores.base`. A save is one
statement in a transaction of its own. A long schema history stands in numbered rows of a second table,
``replica_client_positions_state (name, number, part)``: those that are new are written before the checkpoint
that counts them, and those that no checkpoint counts any more are removed after it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, Literal

from replica_client.errors import PositionFormatError, PositionStoreError
from replica_client.protocol.position import Position
from replica_client.storage.location import local_path
from replica_client.stream.position.stores.base import (
    Checkpoint,
    decode_checkpoint,
    encode_checkpoint,
)
from replica_client.stream.position.stores.growing import GrowingRows, rows_of, split_growing
from replica_client.stream.position.stores.ownership import (
    Claim,
    Heart,
    Lease,
    Owner,
    StandbyError,
    fenced,
)

DEFAULT_TABLE: Final = "replica_client_positions"
MAX_NAME_LENGTH: Final = 190
MAX_TABLE_LENGTH: Final = 63
_STATE: Final = "_state"
_OWNERS: Final = "_owners"
_ROWS_AT_ONCE: Final = 32

Run = Callable[[str, Sequence[Any]], Sequence[Sequence[Any]]]
"""Runs a statement, commits it, and returns its rows; raises PositionStoreError."""

_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_MARKS = {"sqlite": "?", "mysql": "%s"}


class SqlPositionStore:
    """Keeps a checkpoint in a row of a table, which is made when it is not there.

    Args:
        run: runs statements in the database.
        name: of the row.
        location: the database, for messages.
        dialect: how the database writes parameters and types.
        table: name of the table.
        claim: the identity to write as; None: there is none, and the row is this one's alone.
    """

    def __init__(
        self,
        run: Run,
        name: str,
        location: str,
        dialect: Literal["sqlite", "mysql"],
        table: str = DEFAULT_TABLE,
        claim: Claim | None = None,
    ) -> None:
        if not _TABLE.fullmatch(table):
            raise PositionStoreError(f"table {table!r}: a name has letters, digits and _ only")
        if not 0 < len(name) <= MAX_NAME_LENGTH:
            raise PositionStoreError(f"a position's name has 1 to {MAX_NAME_LENGTH} characters")
        self._run = run
        self._name = name
        self._location = location
        self._table = table
        self._mark = _MARKS[dialect]
        self._options = " CHARACTER SET ascii COLLATE ascii_bin" if dialect == "mysql" else ""
        self._state_table = f"{table[: MAX_TABLE_LENGTH - len(_STATE)]}{_STATE}"
        self._rows = GrowingRows()
        self._loaded = self._made = self._made_state = False
        self._claim = claim
        self._owners_table = f"{table[: MAX_TABLE_LENGTH - len(_OWNERS)]}{_OWNERS}"
        self._lease = ""
        self._heart: Heart | None = None

    def load(self) -> Position | None:
        """Return the saved position, or None when there is none yet.

        Raises:
            PositionStoreError: the database cannot be read, or holds no position there.
        """
        checkpoint = self.load_checkpoint()
        return None if checkpoint is None else checkpoint.position

    def load_checkpoint(self) -> Checkpoint | None:
        """Return the saved position with its state, or None when there is none yet.

        Raises:
            PositionStoreError: the database cannot be read, or holds no position there.
        """
        self._make_table()
        if self._claim is not None and not self._lease:
            self._take_lease(self._claim)
        return self._load_row()

    def _load_row(self) -> Checkpoint | None:
        rows = self._run(
            f"SELECT checkpoint FROM {self._table} WHERE name = {self._mark}", (self._name,)
        )
        self._loaded = True
        if not rows:
            return None
        try:
            return decode_checkpoint(rows[0][0], self._fetch)
        except PositionFormatError as error:
            raise PositionStoreError(
                f"position {self._name!r} in table {self._table} of {self._location} is damaged: {error}; "
                "restore it from a copy, set a new position, or delete the row to start without one"
            ) from error

    def save(self, position: Position, state: Mapping[str, object] | None = None) -> None:
        """Save a position and its state; when this returns, both survive a crash.

        Raises:
            PositionStoreError: they could not be saved; the last save is intact.
        """
        if not self._loaded:
            self._know_rows()
        self._make_table()
        short, name, texts = split_growing(state or {})
        plan = self._rows.plan(texts)
        for begin in range(0, len(plan.rows), _ROWS_AT_ONCE):
            self._write_rows(plan.rows[begin : begin + _ROWS_AT_ONCE])
        stored = {name: plan.to_json()} if name else None
        text = encode_checkpoint(position, short, stored).decode("ascii")
        now = datetime.now(UTC).isoformat(timespec="seconds")
        mark = self._mark
        if self._lease:
            # One statement compares the lease and saves.
            self._run(
                f"REPLACE INTO {self._table} (name, checkpoint, saved_at) SELECT {mark}, {mark}, {mark} "
                f"FROM {self._owners_table} WHERE name = {mark} AND lease = {mark}",
                (self._name, text, now, self._name, self._lease),
            )
            self.check_lease()
        else:
            self._run(
                f"REPLACE INTO {self._table} (name, checkpoint, saved_at) VALUES ({mark}, {mark}, {mark})",
                (self._name, text, now),
            )
        self._rows.saved(plan)
        if self._rows.wants_removal(plan):
            self._run(
                f"DELETE FROM {self._state_table} WHERE name = {mark} AND number < {mark}",
                (self._name, plan.gone),
            )

    def _write_rows(self, rows: Sequence[tuple[int, str]]) -> None:
        if not self._made_state:
            self._make_state_table()
        values = ", ".join(f"({self._mark}, {self._mark}, {self._mark})" for _ in rows)
        self._run(
            f"REPLACE INTO {self._state_table} (name, number, part) VALUES {values}",
            [value for number, part in rows for value in (self._name, number, part)],
        )

    def _know_rows(self) -> None:
        """Do not write over rows that the saved position counts."""
        with contextlib.suppress(PositionStoreError):
            self.load_checkpoint()
        self._loaded = True

    def _fetch(self, saved: Mapping[str, object]) -> tuple[str, ...]:
        first, count = rows_of(saved)
        found = self._run(
            f"SELECT part FROM {self._state_table} WHERE name = {self._mark} AND number >= {self._mark} "
            f"AND number < {self._mark} ORDER BY number",
            (self._name, first, first + count),
        )
        texts = tuple(str(row[0]) for row in found)
        if len(texts) != count:
            raise PositionFormatError(
                f"{count - len(texts)} rows of table {self._state_table} that belong to it are missing"
            )
        self._rows.loaded(first, texts)
        self._made_state = True
        return texts

    def read(self, claim: Claim) -> Checkpoint | None:
        """Return the checkpoint of an identity, for readers: nothing is made, changed or taken over.

        Raises:
            PositionStoreError: the database cannot be read, or holds no position there.
        """
        with contextlib.suppress(PositionStoreError):  # of an older release: there are no owners
            self._row(claim)
        return self._load_row()

    # The identity of the writer, and its lease.

    def check_lease(self) -> None:
        """Check that this process may save.

        Raises:
            StandbyError: another process took the lease over.
        """
        if not self._lease:
            return
        found = self._run(
            f"SELECT lease FROM {self._owners_table} WHERE name = {self._mark}", (self._name,)
        )
        if not found or str(found[0][0]) != self._lease:
            raise fenced(f"position {self._name} in {self._location}")

    def release(self) -> None:
        """Give the lease back."""
        heart, self._heart = self._heart, None
        if heart is not None:
            heart.stop()
        lease, self._lease = Lease.from_text(self._lease), ""
        if lease is not None:
            with contextlib.suppress(PositionStoreError):
                mark = self._mark
                self._run(
                    f"UPDATE {self._owners_table} SET lease = {mark} WHERE name = {mark} AND lease = {mark}",
                    (replace(lease, holder="").to_text(), self._name, lease.to_text()),
                )

    def _take_lease(self, claim: Claim) -> None:
        mark, table = self._mark, self._owners_table
        self._run(
            f"CREATE TABLE IF NOT EXISTS {table} (name VARCHAR({MAX_NAME_LENGTH}) PRIMARY KEY, "
            "owner VARCHAR(64) NOT NULL, identity LONGTEXT NOT NULL, lease VARCHAR(600) NOT NULL, "
            "beat VARCHAR(64) NOT NULL)" + self._options,
            (),
        )
        row = self._row(claim)
        text, beat = ("", "") if row is None else (str(row[0]), str(row[1]))
        try:
            taken = claim.take(Lease.from_text(text), beat).to_text()
        except ValueError as error:
            raise PositionStoreError(f"table {table} of {self._location}: {error}") from error
        identity = json.dumps(claim.owner.to_json())
        if row is None:
            with contextlib.suppress(PositionStoreError):  # another process was faster
                self._run(
                    f"INSERT INTO {table} (name, owner, identity, lease, beat) VALUES ({mark}, {mark}, {mark}, "
                    f"{mark}, '')",
                    (self._name, claim.owner.id, identity, taken),
                )
        else:
            self._run(
                f"UPDATE {table} SET owner = {mark}, identity = {mark}, lease = {mark} WHERE name = {mark} AND "
                f"lease = {mark}",
                (claim.owner.id, identity, taken, self._name, text),
            )
        self._lease = taken
        try:
            self.check_lease()
        except StandbyError:
            self._lease = ""
            raise
        self._heart = Heart(self._beats)

    def _row(self, claim: Claim) -> Sequence[Any] | None:
        """Return lease and beat of the row that this identity's position has; another owner's row is left alone."""
        plain = self._name
        for name in (plain, f"{plain[: MAX_NAME_LENGTH - 34]}@{claim.owner.id}"):
            self._name = name
            rows = self._run(
                f"SELECT lease, beat, identity FROM {self._owners_table} WHERE name = {self._mark}",
                (name,),
            )
            if not rows:
                return None
            try:
                found = Owner.from_json(json.loads(rows[0][2]))
            except ValueError as error:
                raise PositionStoreError(
                    f"table {self._owners_table} of {self._location}: {error}"
                ) from error
            if found.id in (claim.owner.id, claim.takes_over) or found.is_alike(claim.owner):
                claim.resolve([found])
                return rows[0]
        return None

    @contextlib.contextmanager
    def _beats(self) -> Iterator[Callable[[str], None]]:
        mark, lease = self._mark, self._lease

        def beat(text: str) -> None:
            self._run(
                f"UPDATE {self._owners_table} SET beat = {mark} WHERE name = {mark} AND lease = {mark}",
                (text, self._name, lease),
            )

        yield beat

    def _make_state_table(self) -> None:
        self._run(
            f"CREATE TABLE IF NOT EXISTS {self._state_table} (name VARCHAR({MAX_NAME_LENGTH}) NOT NULL, "
            "number BIGINT NOT NULL, part LONGTEXT NOT NULL, PRIMARY KEY (name, number))"
            + self._options,
            (),
        )
        self._made_state = True

    def _make_table(self) -> None:
        if not self._made:
            self._run(
                f"CREATE TABLE IF NOT EXISTS {self._table} (name VARCHAR({MAX_NAME_LENGTH}) PRIMARY KEY, "
                f"checkpoint LONGTEXT NOT NULL, saved_at VARCHAR(32) NOT NULL){self._options}",
                (),
            )
            self._made = True


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
