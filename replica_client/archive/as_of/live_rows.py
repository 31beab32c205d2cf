"""The current rows of a server's table as Arrow, and the positions between which they were read."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import aclosing
from typing import Any, TypeVar

import pyarrow as pa

from replica_client.binlog.options import DecodeOptions
from replica_client.constants.flavor import ServerFlavor
from replica_client.errors import ConfigError, DataLossError
from replica_client.rows.batches import BatchBuilder
from replica_client.schema.ddl.steps import TableName
from replica_client.schema.model import TableModel
from replica_client.schema.model_shape import shape_of
from replica_client.schema.shape import TableShape
from replica_client.snapshot.chunks import reading
from replica_client.snapshot.present_definitions import cascaded_tables, read_definitions
from replica_client.snapshot.watermarks import Locking, Window
from replica_client.transport.connection import SourceConnection
from replica_client.transport.url import parse_url

_T = TypeVar("_T")


class LiveRows:
    """A reader of one state of a server's table; a thread runs the connection.

    Args:
        url: URL of the server.
        name: database and name of the table.
        decode: how values are decoded.
        locking: see :data:`~replica_client.snapshot.watermarks.Locking`.

    Attributes:
        model: the table's definition.
        shape: the columns of its rows.
        window: the positions between which the table is read; set by :meth:`open`.
    """

    model: TableModel
    shape: TableShape
    window: Window

    def __init__(
        self, url: str, name: TableName, decode: DecodeOptions, locking: Locking = "never"
    ) -> None:
        self._options = parse_url(url)
        self._name, self._decode, self._locking = name, decode, locking
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="replica_client as_of", daemon=True
        )
        self._batches: AsyncIterator[pa.RecordBatch | None] | None = None

    def open(self) -> None:
        """Log in, and begin to read.

        Raises:
            ConfigError: there is no such table, or it cannot be read without a lock.
            DataLossError: foreign keys change its rows without row events.
            ReplicaClientError: the server refuses, or cannot be reached.
        """
        self._thread.start()
        self._batches = self._read()
        try:
            self._run(anext(self._batches, None))
        except BaseException:
            self.close()
            raise

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows; call it once only.

        Raises:
            ReplicaClientError: the connection failed.
        """
        assert self._batches is not None
        while (batch := self._run(anext(self._batches, None))) is not None:
            yield batch

    def close(self) -> None:
        """End the connection and the thread."""
        if self._loop.is_closed():
            return
        if self._thread.is_alive():
            if self._batches is not None:
                self._run(self._batches.aclose())  # type: ignore[attr-defined]
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        async def awaited() -> _T:
            return await work

        return asyncio.run_coroutine_threadsafe(awaited(), self._loop).result()

    async def _read(self) -> AsyncIterator[pa.RecordBatch | None]:
        """Yield None once reading has begun, and then the rows."""
        shown = ".".join(self._name)
        async with await SourceConnection.open(self._options) as connection:
            models = await read_definitions(connection, self._name)
            if self._name not in models:
                raise ConfigError(f"{self._options.address} has no table {shown}")
            self.model = models[self._name]
            if self.model.untracked:
                raise DataLossError(f"{shown}: {self.model.untracked}")
            if any(column.hidden for column in self.model.columns):
                raise ConfigError(f"{shown} has columns that no SELECT shows")
            if await cascaded_tables(connection, [self._name]):
                raise DataLossError(
                    f"{shown}: foreign keys change its rows without a word in the binlog (CASCADE, SET NULL)"
                )
            is_mariadb = connection.server.is_mariadb
            flavor = ServerFlavor.MARIADB if is_mariadb else ServerFlavor.MYSQL
            self.shape = shape_of(self.model, flavor)
            async with reading(
                connection,
                self.model,
                locking=self._locking,
                invalid_text=self._decode.invalid_text,
            ) as found:
                self.window = found.window
                yield None
                builder = BatchBuilder(self.shape, None, self._decode)
                async with aclosing(found.rows()) as lists:  # type: ignore[type-var]
                    async for rows in lists:
                        for row in rows:
                            if not builder.rows.append_values(None, row):
                                yield builder.finish_values()
                                builder.rows.append_values(None, row)
                if len(builder):
                    yield builder.finish_values()
