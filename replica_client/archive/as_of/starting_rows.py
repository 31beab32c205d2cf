"""Rows to start from: an earlier copy, or the live table."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from replica_client.archive.as_of.segment_images import LOSSLESS, LOSSLESS_FIELD, plain_type
from replica_client.archive.as_of.table_state import KEY, POSITION
from replica_client.errors import ConfigError, DataLossError
from replica_client.protocol.binlog.event import DecodeOptions
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.rows.arrow_types import arrow_column
from replica_client.rows.batches import BatchBuilder
from replica_client.schema.ddl.steps import TableName
from replica_client.schema.left_out import shape_of
from replica_client.schema.model import TableModel
from replica_client.schema.shape import TableShape
from replica_client.stream.snapshot.chunks import reading
from replica_client.stream.snapshot.watermarks import (
    Locking,
    Window,
    cascaded_tables,
    read_definitions,
)
from replica_client.stream.transport.connect_options import is_source_url, parse_url
from replica_client.stream.transport.connection import SourceConnection

_T = TypeVar("_T")


class LiveRows:
    """A reader of one state of a server's table; a thread runs the connection.

    Args:
        url: URL of the server.
        name: database and name of the table.
        decode: how values are decoded.
        locking: see :data:`~replica_client.stream.snapshot.watermarks.Locking`.

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


class CopiedRows:
    """The rows of a copy.

    Attributes:
        position: the position of the copy, as text; None where the copy does not record it.
        key: columns of the primary key; None where the copy does not record them.
        schema: the schema of the rows, with ``_lossless``; set by :meth:`open`.
    """

    schema: pa.Schema

    def __init__(self) -> None:
        self.position: str | None = None
        self.key: tuple[str, ...] | None = None

    def open(self, name: TableName) -> None:
        """Begin to read.

        Args:
            name: the table's name at the position of the copy.
        """

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows; call it once only."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the copy."""


def open_copy(copy: Any, decode: DecodeOptions) -> CopiedRows:
    """Open a copy of a table.

    Args:
        copy: an object with ``__arrow_c_stream__``, a Parquet or Arrow file, or the URL of a server
            that has the table.
        decode: how values are decoded.

    Raises:
        ConfigError: the copy is of another kind, or cannot be read.
    """
    if isinstance(copy, str) and is_source_url(copy):
        return _ServerRows(copy, decode)
    if isinstance(copy, (str, Path)):
        return _ArrowRows(_file_reader(Path(copy)))
    if hasattr(copy, "__arrow_c_stream__"):
        return _ArrowRows(pa.RecordBatchReader.from_stream(copy))
    raise ConfigError(f"a copy is Arrow, a file or a server's URL, not {type(copy).__name__}")


class _ArrowRows(CopiedRows):
    def __init__(self, reader: pa.RecordBatchReader) -> None:
        super().__init__()
        self._reader = reader
        metadata = reader.schema.metadata or {}
        if POSITION in metadata:
            self.position = metadata[POSITION].decode()
        if KEY in metadata:
            self.key = tuple(metadata[KEY].decode().splitlines())
        fields = [
            one.with_type(plain_type(one.type)) for one in reader.schema if one.name != LOSSLESS
        ]
        self.schema = pa.schema([*fields, LOSSLESS_FIELD])

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield from self._reader

    def close(self) -> None:
        self._reader.close()


class _ServerRows(CopiedRows):
    def __init__(self, url: str, decode: DecodeOptions) -> None:
        super().__init__()
        self._url, self._decode = url, decode
        self._rows: LiveRows | None = None

    def open(self, name: TableName) -> None:
        self._rows = LiveRows(self._url, name, self._decode)
        self._rows.open()
        shape = self._rows.shape
        self.key = tuple(shape.columns[at].name for at in shape.primary_key)
        types = [plain_type(arrow_column(one, self._decode).type) for one in shape.columns]
        fields = [pa.field(one.name, kind) for one, kind in zip(shape.columns, types, strict=True)]
        self.schema = pa.schema([*fields, LOSSLESS_FIELD])

    def batches(self) -> Iterator[pa.RecordBatch]:
        assert self._rows is not None
        return self._rows.batches()

    def close(self) -> None:
        if self._rows is not None:
            self._rows.close()


def _file_reader(path: Path) -> pa.RecordBatchReader:
    try:
        with path.open("rb") as stream:
            begin = stream.read(6)
        if begin.startswith(b"PAR1"):
            file = pq.ParquetFile(path)
            return pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches())
        if begin.startswith(b"ARROW1"):
            whole = pa.ipc.open_file(str(path))
            batches = (whole.get_batch(at) for at in range(whole.num_record_batches))
            return pa.RecordBatchReader.from_batches(whole.schema, batches)
        return pa.ipc.open_stream(str(path))
    except (OSError, pa.ArrowInvalid) as error:
        raise ConfigError(f"{path} is not a readable Parquet or Arrow file: {error}") from None
