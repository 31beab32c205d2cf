"""Saved positions by their names on the command line.

``shop.position``                     a file; a directory is all position files in it
``positions.sqlite#shop.lake``        a row of an SQLite database
``mysql://user@host/meta#shop.lake``  a row of a table in a server
``shop.toml#shop.lake``               the sink of a configuration; without ``#`` all of its sinks
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from replica_client.errors import ConfigError, secret_ranges
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.service.config_file import read_config
from replica_client.service.configuration import DaemonConfig, RouteConfig
from replica_client.service.external_values import resolved
from replica_client.service.process import StateLock
from replica_client.service.route_memory import RouteMemory
from replica_client.service.stores import SUFFIX, MysqlDatabase, MysqlPositionStore, Stores
from replica_client.sinks.protocol import ReadSink, Sink
from replica_client.sinks.registry import make_sink
from replica_client.storage.files import files_in
from replica_client.storage.location import location
from replica_client.stream.position.stores.base import Checkpoint, LeasedStore, PositionStore
from replica_client.stream.position.stores.object import position_file
from replica_client.stream.position.stores.ownership import OwnedSink, Owner
from replica_client.stream.position.stores.sql_table import (
    DEFAULT_TABLE,
    SqlitePositionStore,
    SqlPositionStore,
)
from replica_client.stream.transport.connect_options import is_source_url, parse_url


class Keeper(Protocol):
    """A place that keeps a checkpoint."""

    def load(self) -> Checkpoint | None:
        """Return the checkpoint, None when there is none."""
        ...

    def save(self, checkpoint: Checkpoint) -> None:
        """Replace the checkpoint."""
        ...


@dataclass(frozen=True, slots=True)
class StoreKeeper:
    """A position store."""

    store: PositionStore

    def load(self) -> Checkpoint | None:
        return self.store.load_checkpoint()

    def save(self, checkpoint: Checkpoint) -> None:
        self.store.save(checkpoint.position, checkpoint.state)


@dataclass(frozen=True, slots=True)
class RouteKeeper:
    """A route of a configuration, whose position is in its sink or in the configuration's store."""

    config: DaemonConfig
    route: RouteConfig

    def load(self) -> Checkpoint | None:
        return asyncio.run(self._read())

    def save(self, checkpoint: Checkpoint) -> None:
        lock = StateLock(self.config.state)  # not under a running daemon
        try:
            asyncio.run(self._write(checkpoint))
        finally:
            lock.release()

    def _sink(self, memory: RouteMemory) -> Sink:
        sink = make_sink(self.route.sink.type, resolved(self.route.options, self.config.directory))
        if isinstance(sink, OwnedSink):
            sink.claim(memory.claim())
        return sink

    async def _read(self) -> Checkpoint | None:
        """Read the position without changing or taking over anything: a service may be running."""
        memory = RouteMemory(self.config, self.route, read_only=True)
        sink = self._sink(memory)
        try:
            if not sink.holds_position:
                return await asyncio.to_thread(self._read_store, memory)
            if isinstance(sink, ReadSink):
                return await sink.saved()
            raise ConfigError(
                f"{self.route.name}: the position of a sink of type {self.route.sink.type} is on the status page only"
            )
        finally:
            await sink.close()

    def take_over(self, number: str = "") -> Owner:
        """Make this sink take the place of another owner at its next start.

        Args:
            number: identity of the other owner, or the beginning of it; empty: the only owner with
                common tables.

        Returns:
            The other owner.

        Raises:
            ConfigError: there is no such owner, or there are several.
        """
        lock = StateLock(self.config.state)  # not under a running service
        try:
            return asyncio.run(self._take_over(number))
        finally:
            lock.release()

    async def _take_over(self, number: str) -> Owner:
        memory = RouteMemory(self.config, self.route)
        sink = self._sink(memory)
        try:
            owners = await sink.owners() if isinstance(sink, ReadSink) else ()
        finally:
            await sink.close()
        others = [
            one
            for one in owners
            if one.id != memory.owner.id
            and (one.id.startswith(number) if number else one.meets(memory.owner))
        ]
        if len(others) != 1:
            names = "; ".join(f"{one.id}: {one} since {one.since}" for one in others or owners)
            raise ConfigError(
                f"{self.route.name}: name one owner to take over from with --owner: {names}"
                if names
                else f"{self.route.name}: the destination has no other owner"
            )
        memory.take_over(others[0].id)
        return others[0]

    def _read_store(self, memory: RouteMemory) -> Checkpoint | None:
        stores = Stores(self.config)
        try:
            store = stores.store(self.route.name)
            if isinstance(store, SqlPositionStore):
                return store.read(memory.claim())
            return store.load_checkpoint()
        finally:
            stores.close()

    async def _write(self, checkpoint: Checkpoint) -> None:
        memory = RouteMemory(self.config, self.route)
        sink = self._sink(memory)
        try:
            if sink.holds_position:
                await sink.open()
                await sink.commit(checkpoint)
            else:
                await asyncio.to_thread(self._write_store, memory, checkpoint)
            memory.did_commit(checkpoint.position, 0.0, 0.0)
        finally:
            await sink.close()

    def _write_store(self, memory: RouteMemory, checkpoint: Checkpoint) -> None:
        stores = Stores(self.config)
        try:
            store = stores.store(self.route.name, memory.claim())
            store.load_checkpoint()  # takes the lease, where there is one
            store.save(checkpoint.position, checkpoint.state)
            if isinstance(store, LeasedStore):
                store.release()
        finally:
            stores.close()


def is_live_source(address: str) -> bool:
    """Return whether an address is the URL of a source, not of a position table."""
    return is_source_url(address) and "#" not in address


@contextmanager
def keepers(address: str, table: str = DEFAULT_TABLE) -> Iterator[dict[str, Keeper]]:
    """Open the keepers that an address names, by name.

    Args:
        address: see the module.
        table: of an SQLite database or server.

    Raises:
        ConfigError: the address names nothing that exists.
    """
    path, _, name = address.partition("#")
    if any(start <= len(path) < end for start, end in secret_ranges(address)):
        raise ConfigError(f"{address}: no positions are kept there; write # of a password as %23")
    if is_source_url(path):
        options = parse_url(path)
        if not name or not options.database:
            raise ConfigError("a table in a server is mysql://user@host/DATABASE#NAME")
        database = MysqlDatabase(lambda: parse_url(path))
        try:
            yield {name: StoreKeeper(MysqlPositionStore(database, name, table))}
        finally:
            database.close()
    elif path.endswith(".toml"):
        config = read_config(path)
        before = Path.cwd()
        os.chdir(config.directory)
        try:
            yield _of_config(config, name)
        finally:
            os.chdir(before)
    elif name:
        if not Path(path).is_file():
            raise ConfigError(f"{path}: there is no such SQLite database")
        store = SqlitePositionStore(path, name, table)
        try:
            yield {name: StoreKeeper(store)}
        finally:
            store.close()
    elif (inside := files_in(location(path))) is not None:
        files = {one.where.name: one.where for one in inside if one.where.name.endswith(SUFFIX)}
        yield {
            file.removesuffix(SUFFIX): StoreKeeper(position_file(files[file]))
            for file in sorted(files)
        }
    else:
        yield {location(path).name: StoreKeeper(position_file(path))}


def _of_config(config: DaemonConfig, name: str) -> dict[str, Keeper]:
    found: dict[str, Keeper] = {
        route.name: RouteKeeper(config, route)
        for route in config.routes
        if name in ("", route.name)
    }
    if not found:
        names = ", ".join(route.name for route in config.routes)
        raise ConfigError(f"{config.file}: no sink is {name!r}; there are {names}")
    return found
