"""Parquet files where they are, on this machine or in an object store: read, and written as a whole."""

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

from replica_client.storage.durable import sync_directory, sync_file
from replica_client.storage.files import open_file
from replica_client.storage.location import Location, ObjectUrl
from replica_client.storage.object_store import PART_SIZE, ObjectStore

_SAMPLE: Final = 4096
_SAMPLES: Final = 8


@dataclass
class FileBeingWritten:
    """A file that somebody writes.

    Attributes:
        stream: takes its bytes.
        size: in bytes, when it is done.
        modified: time of its last change in milliseconds since 1970, when it is done.
    """

    stream: Any
    size: int = 0
    modified: int = 0


@contextmanager
def new_file(where: Location) -> Iterator[FileBeingWritten]:
    """Write a file of a new name; its directory must be there. Behind the block it is on disk, or in the store.

    What the block raises takes the file away.

    Raises:
        OSError: it cannot be written.
        StorageError: likewise, in a store.
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
    """Make a directory where there is none; a store needs none.

    Raises:
        OSError: it cannot be made.
    """
    if isinstance(where, Path):
        where.mkdir(parents=True, exist_ok=True)


def parquet_file(where: Location) -> pq.ParquetFile:
    """A Parquet file, opened; it is to be closed.

    Raises:
        OSError: it cannot be read.
        StorageError: likewise, in a store.
        ArrowInvalid: it is no such file.
    """
    source: Any = open_file(where) if isinstance(where, ObjectUrl) else where
    return pq.ParquetFile(source)


def read_parquet(where: Location, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of a Parquet file; of the wanted columns those that it has.

    Raises:
        OSError: it cannot be read.
        StorageError: likewise, in a store.
        ArrowInvalid: it is no such file.
    """
    with parquet_file(where) as file:
        wanted = None
        if columns is not None:
            there = set(file.schema_arrow.names)
            wanted = [name for name in columns if name in there]
        return file.read(columns=wanted)


def repeating_columns(rows: pa.Table) -> list[str]:
    """The columns whose values come again and again, as a sample tells: a dictionary pays for these.

    A column of which nearly every value is another one takes three times as long with a dictionary as without,
    and, as its values are stored in the order in which the dictionary filled up, more bytes.
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
    """Rows of a file in the table's schema; columns that the file does not have are null."""
    columns = []
    for one in schema:
        name = one.name if renamed is None else renamed.get(one.name)
        if name is not None and name in found.column_names:
            columns.append(found[name].cast(one.type))
        else:
            columns.append(pa.nulls(found.num_rows, one.type))
    return pa.Table.from_arrays(columns, schema=schema)
