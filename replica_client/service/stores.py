"""The position stores of a configuration."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from replica_client.errors import ConfigError, PositionStoreError
from replica_client.protocol.position import Position
from replica_client.service.configuration import DaemonConfig, StoreTable
from replica_client.service.external_values import resolve
from replica_client.service.mysql_position_store import MysqlDatabase, MysqlPositionStore
from replica_client.storage.location import ObjectUrl, local_path, location
from replica_client.stream.live.stream_progress import START_TIME_KEY
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
from replica_client.stream.transport.connect_options import ConnectOptions
from replica_client.stream.transport.url import parse_hosts

if TYPE_CHECKING:
    from replica_client.stream.position.stores.sql_table import SqliteDatabase

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
