"""Positions in a table of a MySQL or MariaDB server."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from replica_client.errors import PositionStoreError, ReplicaClientError, TransportError
from replica_client.stream.position.stores.ownership import Claim
from replica_client.stream.position.stores.sql_table import DEFAULT_TABLE, SqlPositionStore
from replica_client.stream.transport.connect_options import ConnectOptions
from replica_client.stream.transport.connection import SourceConnection


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
