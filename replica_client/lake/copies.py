"""Copies of tables, and requests for them.

A chunk has a file in the change log, with a row that describes it
(:data:`~replica_client.lake.change_log_files.SNAPSHOT_CHUNK`). Its rows are in data files of the
directory in which the table is assembled, in the table's types, and are not written again. For a
table without a primary key they are in the chunk's file, as text: equal rows are counted by it.

A chunk's files belong to no version of the change log, or of a table, until the stream has passed
all positions at which the chunks of its table were read. A separate manifest records that a chunk
is done, so that a killed run continues where it was.

A request is a file ``requests/NAME.json`` in the lake's directory. The pipeline removes it after it
saved the catalog: a crash in between copies the tables twice, which changes nothing.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

from replica_client.errors import ReplicaClientError, ServerError, SinkError
from replica_client.lake import rewrite
from replica_client.lake.change_log_files import COMPRESSION, SNAPSHOT, SNAPSHOT_CHUNK, Statistics
from replica_client.lake.lake_catalog import LakeCatalog, TableEntry, new_id
from replica_client.lake.lake_table import LakeTable
from replica_client.lake.parquet_files import make_directory, new_file
from replica_client.lake.rewrite import NewFile, Rewrite
from replica_client.lake.typed_columns import copied_rows
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.position import Position
from replica_client.protocol.wire.server_errors import CHANGED_ERRORS
from replica_client.rows.arrow_types import allocate
from replica_client.rows.json_values import json_null_columns, value_to_json, with_json_nulls
from replica_client.rows.row import Row
from replica_client.rows.selection import Selection
from replica_client.schema.model import TableModel
from replica_client.storage.files import file_or_none, names_in, read_file, remove_files, write_file
from replica_client.storage.location import Location
from replica_client.stream.snapshot import KeyRange, Locking, Window, key_ranges, log_end, reading
from replica_client.stream.transport.connect_options import ConnectOptions
from replica_client.stream.transport.connection import SourceConnection

_PLAN: Final = "plan.json"
_TRIES: Final = 5
_PAUSE: Final = 1.0
_DATA_SIZE: Final = 128 << 20


@dataclass(frozen=True, slots=True)
class ChunkTask:
    """A chunk to read.

    Attributes:
        connect: the source.
        change_log: directory of the change log.
        manifests: directory of the copy's chunk manifests.
        copy: id of the copy.
        number: number of the chunk.
        table: definition of its table.
        part: the range of rows, as JSON.
        directory: the directory in which the table is assembled.
        locking: see :data:`~replica_client.stream.snapshot.Locking`.
        schema: schema of the change log.
        soft_deletes: whether deleted rows stay in the table.
    """

    connect: ConnectOptions
    change_log: Location
    manifests: Location
    copy: str
    number: int
    table: TableModel
    part: list[Any]
    directory: Location
    locking: Locking
    schema: pa.Schema
    soft_deletes: bool = False


@dataclass(frozen=True, slots=True)
class ChunkManifest:
    """A chunk that was read.

    Attributes:
        path: its file in the change log.
        size: size of the file.
        modified: modification time of the file, in milliseconds.
        statistics: Delta's statistics of the file.
        rows: number of rows.
        low: see :class:`~replica_client.stream.snapshot.Window`; as text.
        high: see there.
        named: see there; ``""`` for a manifest of an older release.
        data_files: the table's files, as members of :class:`~replica_client.lake.rewrite.NewFile`.
    """

    path: str
    size: int
    modified: int
    statistics: str
    rows: int
    low: str
    high: str
    named: str = ""
    data_files: Sequence[Mapping[str, Any]] = ()

    @classmethod
    def read(cls, path: Location) -> Self | None:
        """Return the manifest in a file; None when there is none.

        Raises:
            SinkError: the manifest is malformed.
        """
        data = read_file(path)
        if data is None:
            return None
        try:
            return cls(**json.loads(data))
        except (ValueError, TypeError) as error:
            raise SinkError(f"{path} cannot be read ({error}); remove it") from None

    @property
    def end(self) -> Position:
        """The position that the stream must have passed."""
        return Position.parse(self.named or self.high)


@dataclass(frozen=True, slots=True)
class ChunkRefusal:
    """A chunk that the source cannot return, as its table was dropped, renamed or altered.

    Attributes:
        end: a position after that statement.
        reason: the source's error.
    """

    end: Position
    reason: str


def manifest_path(manifests: Location, number: int) -> Location:
    """Return the location of a chunk's manifest."""
    return manifests / f"{number:08}.json"


def copy_chunk(task: ChunkTask) -> ChunkManifest | ChunkRefusal:
    """Read a chunk into a file; called by executors.

    Raises:
        SinkError: the file cannot be written.
        ServerError: the source refuses for a reason other than a changed table.
        TransportError: the source cannot be reached.
    """
    known = ChunkManifest.read(manifest_path(task.manifests, task.number))
    if known is not None:
        files = [task.directory / one["path"] for one in known.data_files]
        if all(file_or_none(one) is not None for one in (task.change_log / known.path, *files)):
            return known
    for attempt in range(1, _TRIES + 1):
        try:
            return _copy(task)
        except ReplicaClientError as error:
            if isinstance(error, ServerError) and error.errno in CHANGED_ERRORS:
                return ChunkRefusal(asyncio.run(_end(task.connect)), str(error))
            if attempt == _TRIES:
                raise
            time.sleep(_PAUSE * attempt)
    raise AssertionError


async def _end(connect: ConnectOptions) -> Position:
    async with await SourceConnection.open(connect) as connection:
        return await log_end(connection)


def _copy(task: ChunkTask) -> ChunkManifest:
    # Files are sorted by their names: chunks of a table in the order of its key.
    name = f"copy-{task.copy}-{task.number:08}-{uuid.uuid4().hex[:8]}.{COMPRESSION}.parquet"
    path = task.change_log / name
    statistics = Statistics()
    data_files: list[NewFile] = []
    try:
        with new_file(path) as made:
            with pq.ParquetWriter(made.stream, task.schema, compression=COMPRESSION) as writer:
                if task.table.primary_key:
                    reading_of = _read_columns(task, writer, statistics, data_files)
                else:
                    reading_of = _read_rows(task, writer, statistics)
                count, window = asyncio.run(reading_of)
        manifest = ChunkManifest(
            name,
            made.size,
            made.modified,
            statistics.text(),
            count,
            str(window.low),
            str(window.high),
            str(window.named or ""),
            [asdict(file) for file in data_files],
        )
        data = json.dumps(asdict(manifest)).encode()
        write_file(manifest_path(task.manifests, task.number), data)
        return manifest
    except BaseException as error:
        rewrite.remove(task.directory, data_files)
        if isinstance(error, OSError):
            raise SinkError(
                f"{path}: {error.strerror or error}; free space, then start again"
            ) from None
        raise


async def _read_columns(
    task: ChunkTask, writer: pq.ParquetWriter, statistics: Statistics, data_files: list[NewFile]
) -> tuple[int, Window]:
    """Read the rows into data files of the table; return their number and window."""
    part = KeyRange.from_json(task.part)
    shape = LakeTable(task.table, task.soft_deletes)
    parts: list[pa.Table] = []
    count = size = 0

    def write() -> None:
        nonlocal size
        rows = pa.concat_tables(parts)
        work = Rewrite(task.directory, (), 0, shape.schema, shape.key, shape.is_ordered, added=rows)
        data_files.extend(rewrite.run(work) or ())
        parts.clear()
        size = 0

    make_directory(task.directory)
    async with await SourceConnection.open(task.connect) as connection:
        async with reading(connection, task.table, part, locking=task.locking) as chunk:
            async for found in chunk.columns(allocate):
                rows = copied_rows(shape, found.texts, found.value)
                parts.append(rows)
                count += rows.num_rows
                size += rows.nbytes
                if size >= _DATA_SIZE:
                    write()
            if parts:
                write()
            batch = _Rows(task, chunk.window).last(count, data_files)
            writer.write_batch(batch)
            statistics.add(batch)
            return count, chunk.window


async def _read_rows(
    task: ChunkTask, writer: pq.ParquetWriter, statistics: Statistics
) -> tuple[int, Window]:
    part = KeyRange.from_json(task.part)
    count = 0
    async with await SourceConnection.open(task.connect) as connection:
        async with reading(connection, task.table, part, locking=task.locking) as chunk:
            maker = _Rows(task, chunk.window)
            async for rows in chunk.rows(8192):
                batch = maker.batch(rows, count)
                count += len(rows)
                writer.write_batch(batch)
                statistics.add(batch)
            batch = maker.last(count, ())
            writer.write_batch(batch)
            statistics.add(batch)
            return count, chunk.window


class _Rows:
    """A builder of rows of the change log."""

    def __init__(self, task: ChunkTask, window: Window) -> None:
        self._task = task
        self._window = window
        columns = [column for column in task.table.columns if not column.hidden]
        self._names = [one.name for one in columns]
        self._heads = [f"{json.dumps(one.name, ensure_ascii=False)}: " for one in columns]
        self._fixed: dict[str, Any] = {
            "_commit_version": window.high.sort_key(),
            "_commit_timestamp": int(time.time() * 1_000_000),
            "_gtid": "",
            "_file": window.high.file,
            "_offset": window.high.offset,
            "_event_index": task.number,
            "database": task.table.database,
            "table": task.table.name,
            "before": None,
        }

    def batch(self, rows: Sequence[Row], first: int) -> pa.RecordBatch:
        """Return a batch of copied rows."""
        # The format of row_to_json, but names are encoded once.
        heads = self._heads
        texts = []
        for row in rows:
            values = [h + value_to_json(v) for h, v in zip(heads, row, strict=True)]
            text = "{" + ", ".join(values) + "}"
            texts.append(with_json_nulls(text, json_null_columns(self._names, row, text)))
        return self._batch(SNAPSHOT, texts, first)

    def last(self, count: int, data_files: Sequence[NewFile]) -> pa.RecordBatch:
        """Return the row after the copied rows, which describes the chunk."""
        task = self._task
        stated = {
            "database": task.table.database,
            "table": task.table.name,
            "copy": task.copy,
            "soft_deletes": task.soft_deletes,
            "low": self._window.low.sort_key(),
            "high": self._window.high.sort_key(),
            "definition": task.table.to_json(),
            "data_files": [asdict(file) for file in data_files],
        }
        return self._batch(SNAPSHOT_CHUNK, [json.dumps(stated)], count)

    def _batch(self, operation: str, texts: list[str], first: int) -> pa.RecordBatch:
        varying = {
            "_row_index": pa.array(range(first, first + len(texts)), pa.int64()),
            "after": pa.array(texts, pa.string()),
        }
        fixed = {**self._fixed, "operation": operation}
        arrays = [
            varying[one.name]
            if one.name in varying
            else pa.array([fixed[one.name]] * len(texts), pa.int64()).cast(one.type)
            if pa.types.is_timestamp(one.type)
            else pa.array([fixed[one.name]] * len(texts), one.type)
            for one in self._task.schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._task.schema)


@dataclass(frozen=True)
class CopyPlan:
    """The chunks of a table, stored with its manifests so that a number means the same chunk.

    Attributes:
        table: the definition when it was planned.
        parts: the ranges, as JSON.
    """

    table: TableModel
    parts: list[list[Any]]

    @classmethod
    def load(cls, manifests: Location, database: str, name: str) -> Self | None:
        """Return the plan of a copy; None when there is none that can be read."""
        try:
            kept = json.loads(read_file(manifests / _PLAN) or b"")
            return cls(TableModel.from_json(database, name, kept["definition"]), kept["parts"])
        except (ValueError, KeyError):
            return None

    @classmethod
    async def make(cls, connection: SourceConnection, table: TableModel, rows: int) -> Self:
        """Split a table into chunks of about ``rows`` rows."""
        return cls(table, [part.to_json() async for part in key_ranges(connection, table, rows)])

    def save(self, manifests: Location) -> None:
        """Save the plan."""
        text = json.dumps({"definition": self.table.to_json(), "parts": self.parts})
        write_file(manifests / _PLAN, text.encode())


def copies_directory(output: Location) -> Location:
    """Return the directory of a lake's copies; plans and manifests are in it by copy id."""
    return output / "copies"


REASON: Final = "its copy was asked for"
_SUFFIX: Final = ".json"


class CopyRequests:
    """The requests in a lake's directory; all methods block.

    Args:
        output: the lake's directory.
    """

    def __init__(self, output: Location) -> None:
        self._directory = output / "requests"

    def add(self, tables: Sequence[str]) -> None:
        """Request copies of tables by their names, ``*`` and ``?`` standing for parts of them.

        Raises:
            OSError: the request cannot be written.
            StorageError: likewise, in a store.
        """
        name = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{new_id()}{_SUFFIX}"
        write_file(self._directory / name, json.dumps({"tables": list(tables)}).encode())

    def found(self) -> Mapping[str, Sequence[str]]:
        """Return the tables of each request by its name; of a malformed one, none.

        Raises:
            OSError: the requests cannot be read.
            StorageError: likewise, in a store.
        """
        requests: dict[str, Sequence[str]] = {}
        for name in names_in(self._directory):
            data = read_file(self._directory / name) if name.endswith(_SUFFIX) else None
            if data is None:
                continue
            try:
                requests[name] = [str(one) for one in json.loads(data)["tables"]]
            except (ValueError, KeyError, TypeError):
                requests[name] = []
        return requests

    def remove(self, names: Sequence[str]) -> None:
        """Remove requests.

        Raises:
            OSError: a request cannot be removed.
            StorageError: likewise, in a store.
        """
        remove_files(*(self._directory / name for name in names))


def tables_of(catalog: LakeCatalog, pattern: str) -> list[TableEntry]:
    """Return the tables of a lake that a pattern names, in any status."""
    wanted = Selection((pattern,)).for_server(catalog.history.lower_case_names)
    return [entry for entry in catalog.tables.values() if wanted.wants(*entry.table)]
