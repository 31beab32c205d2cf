"""Parquet files on this machine or in an object store: read, and written as a whole."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from replica_client.lake.lake_columns import LOSSLESS
from replica_client.storage.durable import sync_directory, sync_file
from replica_client.storage.files import open_file
from replica_client.storage.location import Location, ObjectUrl
from replica_client.storage.object_store import PART_SIZE, ObjectStore

_SAMPLE: Final = 4096
_SAMPLES: Final = 8


@dataclass
class FileBeingWritten:
    """A file that is being written.

    Attributes:
        stream: takes its bytes.
        size: size in bytes, set at the end.
        modified: modification time in milliseconds since 1970, set at the end.
    """

    stream: Any
    size: int = 0
    modified: int = 0


@contextmanager
def new_file(where: Location) -> Iterator[FileBeingWritten]:
    """Open a new file for writing, which is on disk or in the store when the block ends.

    Its directory must exist. An exception in the block removes the file.

    Raises:
        OSError: the file cannot be written.
        StorageError: the file cannot be written to a store.
    """
    if isinstance(where, ObjectUrl):
        memory = pa.BufferOutputStream()
        found = FileBeingWritten(memory)
        yield found
        data = memoryview(memory.getvalue()).cast("B")
        if len(data) <= PART_SIZE:
            ObjectStore(where).put("", data)
        else:
            parts = (data[at : at + PART_SIZE] for at in range(0, len(data), PART_SIZE))
            ObjectStore(where).upload("", parts)
        found.size, found.modified = len(data), int(time.time() * 1000)
        return
    try:
        with pa.OSFile(str(where), "wb") as stream:
            found = FileBeingWritten(stream)
            yield found
        sync_file(where)
        sync_directory(where.parent)
        there = where.stat()
        found.size, found.modified = there.st_size, int(there.st_mtime * 1000)
    except BaseException:
        where.unlink(missing_ok=True)
        raise


def make_directory(where: Location) -> None:
    """Create a directory where there is none; a store needs none.

    Raises:
        OSError: the directory cannot be created.
    """
    if isinstance(where, Path):
        where.mkdir(parents=True, exist_ok=True)


def parquet_file(where: Location) -> pq.ParquetFile:
    """Open a Parquet file; the caller closes it.

    Raises:
        OSError: the file cannot be read.
        StorageError: the file cannot be read from a store.
        ArrowInvalid: it is not a Parquet file.
    """
    source: Any = open_file(where) if isinstance(where, ObjectUrl) else where
    return pq.ParquetFile(source)


def read_parquet(where: Location, columns: Sequence[str] | None = None) -> pa.Table:
    """Read the rows of a Parquet file; wanted columns that it lacks are left out.

    Raises:
        OSError: the file cannot be read.
        StorageError: the file cannot be read from a store.
        ArrowInvalid: it is not a Parquet file.
    """
    with parquet_file(where) as file:
        wanted = None
        if columns is not None:
            there = set(file.schema_arrow.names)
            wanted = [name for name in columns if name in there]
        return file.read(columns=wanted)


def repeating_columns(rows: pa.Table) -> list[str]:
    """Return the columns whose values repeat in a sample, for which a dictionary pays off.

    A column of mostly distinct values takes three times as long with a dictionary as without, and,
    as its values are stored in the order in which the dictionary filled up, more bytes.
    """
    step = max(1, rows.num_rows // _SAMPLES)
    size = min(step, _SAMPLE // _SAMPLES)
    parts = [rows.slice(at, size) for at in range(0, rows.num_rows, step)]
    sample = pa.concat_tables(parts) if parts else rows
    most = sample.num_rows // 2
    return [
        one.name
        for one in sample.schema
        if not pa.types.is_nested(one.type)
        and not pa.types.is_boolean(one.type)
        and pc.count_distinct(sample[one.name], mode="all").as_py() <= most
    ]


def in_schema(found: pa.Table, schema: pa.Schema, renamed: dict[str, str] | None) -> pa.Table:
    """Return rows of a file in the table's schema; columns that the file lacks are null."""
    columns = []
    for one in schema:
        name = one.name if renamed is None else renamed.get(one.name)
        if name is not None and name in found.column_names:
            column = found[name].cast(one.type)
            if name == LOSSLESS and renamed is not None:
                column = _renamed_keys(column, renamed)
            columns.append(column)
        else:
            columns.append(pa.nulls(found.num_rows, one.type))
    return pa.Table.from_arrays(columns, schema=schema)


def _renamed_keys(kept: pa.ChunkedArray, renamed: dict[str, str]) -> pa.ChunkedArray:
    """Return ``_lossless`` maps whose keys follow their columns; those of dropped columns go."""
    new = {old: name for name, old in renamed.items()}
    used = {key for chunk in kept.chunks for key in pc.unique(chunk.keys).to_pylist()}
    if all(new.get(key) == key for key in used):
        return kept
    texts = [
        None if one is None else [(new[key], text) for key, text in one if key in new] or None
        for one in kept.to_pylist()
    ]
    return pa.chunked_array([pa.array(texts, kept.type)])
