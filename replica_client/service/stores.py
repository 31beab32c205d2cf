"""Stores of positions."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replica_client.errors import (
    ConfigError,
    PositionStoreError,
    ReplicaClientError,
    TransportError,
)
from replica_client.protocol.position import Position
from replica_client.service.configuration import DaemonConfig, StoreTable
from replica_client.service.external_values import resolve
from replica_client.storage.location import ObjectUrl, local_path, location
from replica_client.stream.live.stream_knowledge import START_TIME_KEY
from replica_client.stream.position.stores.base import (
    Checkpoint,
    HeldStore,
    LeasedStore,
    MemoryPositionStore,
    PositionStore,
    StoreInUseError,
)
from replica_client.stream.position.stores.object import position_file
from replica_client.stream.position.stores.ownership import Claim, StandbyError
from replica_client.stream.position.stores.sql_table import DEFAULT_TABLE, SqlPositionStore
from replica_client.stream.transport.connect_options import ConnectOptions, parse_hosts
from replica_client.stream.transport.connection import SourceConnection

if TYPE_CHECKING:
    from replica_client.stream.position.stores.sql_table import SqliteDatabase


class MysqlDatabase:
    """A session on a server for position stores, opened when first needed; usable from any thread.

    Stores are not asynchronous, so the session lives on an event loop in its own thread.

    Args:
        options: how to connect; called at each connect, so that a new password is used. The default
            database is that of the table.
    """

    def __init__(self, options: Callable[[], ConnectOptions]) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._connection: SourceConnection | None = None

    @property
    def location(self) -> str:
        """The server and database, for messages."""
        options = self._options()
        return f"{options.address}/{options.database}"

    def run(self, sql: str, values: Sequence[Any]) -> Sequence[Sequence[Any]]:
        """Run one statement and commit it.

        Raises:
            PositionStoreError: the server cannot be reached, or refused the statement.
        """
        with self._lock:
            try:
                rows: Sequence[Sequence[Any]] = self._wait(self._run(sql, values))
                return rows
            except ReplicaClientError as error:
                raise PositionStoreError(f"position table in {self.location}: {error}") from error

    async def _run(self, sql: str, values: Sequence[Any]) -> Sequence[Sequence[Any]]:
        fresh = self._connection is None
        try:
            return await (await self._open()).query(sql, values)
        except TransportError:
            await self._forget()
            if fresh:
                raise
        # The server may have ended an idle session. The statements of a store may be run twice.
        return await (await self._open()).query(sql, values)

    async def _open(self) -> SourceConnection:
        if self._connection is None:
            self._connection = await SourceConnection.open(self._options())
            await self._connection.query("SET SESSION autocommit = 1")
        return self._connection

    async def _forget(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    def _wait(self, work: Awaitable[Any]) -> Any:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._loop.run_forever, name="position-table", daemon=True
            )
            self._thread.start()

        async def run() -> Any:
            return await work

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result()

    def close(self) -> None:
        """End the session and the thread; the next statement starts them again."""
        with self._lock:
            loop, self._loop = self._loop, None
            if loop is None or self._thread is None:
                return
            with contextlib.suppress(ReplicaClientError):
                asyncio.run_coroutine_threadsafe(self._forget(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join()
            loop.close()


class MysqlPositionStore(SqlPositionStore):
    """A position store that keeps its checkpoint in a table row of a server.

    Args:
        database: the server, and the database there.
        name: of the row.
        table: name of the table.
        claim: the identity to write as; None: there is none.
    """

    def __init__(
        self,
        database: MysqlDatabase,
        name: str,
        table: str = DEFAULT_TABLE,
        claim: Claim | None = None,
    ) -> None:
        super().__init__(database.run, name, database.location, "mysql", table, claim)
        self.database = database

    def close(self) -> None:
        """End the session."""
        self.database.close()


SUFFIX = ".position"


class Stores:
    """The position stores of all routes.

    Args:
        config: chooses the kind of store.
    """

    def __init__(self, config: DaemonConfig) -> None:
        self._config = config
        self._sqlite: SqliteDatabase | None = None
        self._mysql: MysqlDatabase | None = None
        table = config.store
        if table.type == "sqlite":
            # Imported only if used, to keep the start quick.
            from replica_client.stream.position.stores.sql_table import SqliteDatabase

            path = config.state
            if table.path:
                path = config.directory / local_path(table.path, "store.path").expanduser()
            self._sqlite = SqliteDatabase(path if table.path else path / "positions.sqlite")
        elif table.type == "mysql":
            self._mysql = MysqlDatabase(lambda: store_options(table, config.directory))

    def store(self, name: str, claim: Claim | None = None) -> PositionStore:
        """Return the store of a route.

        Args:
            name: of the route.
            claim: the identity to write as; None: the store is only read.

        Raises:
            PositionStoreError: its directory cannot be made.
            ConfigError: the server's URL is wrong.
        """
        table = self._config.store
        if self._sqlite is not None:
            from replica_client.stream.position.stores.sql_table import SqlitePositionStore

            return SqlitePositionStore(self._sqlite, name, table.table, claim)
        if self._mysql is not None:
            return MysqlPositionStore(self._mysql, name, table.table, claim)
        directory = self._config.state
        if table.path:
            where = location(table.path)
            if isinstance(where, ObjectUrl):
                return position_file(where / f"{name}{SUFFIX}", claim)
            directory = self._config.directory / where.expanduser()
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PositionStoreError(f"directory {directory}: {error.strerror}") from error
        return position_file(directory / f"{name}{SUFFIX}")

    def close(self) -> None:
        """Close the databases."""
        for database in (self._sqlite, self._mysql):
            if database is not None:
                database.close()


class GivenPosition(MemoryPositionStore):
    """A store for a stream whose sink keeps the position.

    Args:
        checkpoint: where the stream begins.
    """

    def __init__(self, checkpoint: Checkpoint | None) -> None:
        super().__init__()
        self._checkpoint = checkpoint


class KnownStart:
    """A store with a default for a store that has no checkpoint.

    Args:
        store: where positions are saved.
        start: the checkpoint to begin with; None: as the stream's options say.
        lost: called if the store has none; returns a known checkpoint, or raises.
    """

    def __init__(
        self, store: PositionStore, start: Checkpoint | None, lost: Callable[[], Checkpoint | None]
    ) -> None:
        self._store, self._start, self._lost = store, start, lost
        self.path = getattr(store, "path", None)

    def load(self) -> Position | None:
        """Return the saved position."""
        checkpoint = self.load_checkpoint()
        return None if checkpoint is None else checkpoint.position

    def load_checkpoint(self) -> Checkpoint | None:
        """Return the saved checkpoint, or the default."""
        found = self._store.load_checkpoint() or self._lost()
        if found is None and self._start is not None:
            found = self._start
            if START_TIME_KEY not in found.state:
                self._store.save(found.position, found.state)
        return found

    def save(self, position: Position, state: Mapping[str, object] | None = None) -> None:
        """Save a position and its state."""
        self._store.save(position, state)

    def check_lease(self) -> None:
        """Check that this process may save.

        See :class:`~replica_client.stream.position.stores.sql_table.SqlPositionStore`.
        """
        if isinstance(self._store, LeasedStore):
            self._store.check_lease()

    def hold(self) -> None:
        """Keep other processes from the store.

        See :class:`~replica_client.stream.position.stores.base.HeldStore`.

        Raises:
            StandbyError: another process holds the store.
        """
        if isinstance(self._store, HeldStore):
            try:
                self._store.hold()
            except StoreInUseError as error:
                raise StandbyError(f"standby: {error}") from error

    def release(self) -> None:
        """Release the lock."""
        if isinstance(self._store, HeldStore | LeasedStore):
            self._store.release()


def store_options(table: StoreTable, directory: Path) -> ConnectOptions:
    """Return how to connect to the server of a position table.

    Raises:
        ConfigError: the URL is wrong, or names no database.
    """
    hosts = parse_hosts(resolve("url", table.url, directory, os.environ))
    if len(hosts) != 1 or not hosts[0].database:
        raise ConfigError("store.url: give one host and a database: mysql://user@host/database")
    if not table.password:
        return hosts[0]
    return replace(hosts[0], password=resolve("password", table.password, directory, os.environ))
