"""Data files of tables.

Each file holds a range of the first key column; ranges of different files do not overlap, unless
another program rewrites the table. A file is found by its least and greatest value, which Delta
keeps: a change touches the files that may hold its key and no other.

Rows are read through Arrow's own file systems: deltalake's default is a file system in Python,
whose files Arrow's threads may free while the interpreter ends, and the process aborts after its
work is done. Files of a store are read one by one.
"""

from __future__ import annotations

import datetime
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyarrow import fs

from replica_client.errors import SinkError
from replica_client.lake.lake_table import LakeTable
from replica_client.lake.parquet_files import in_schema, read_parquet
from replica_client.lake.rewrite import NetRows
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.storage.location import Location, ObjectUrl, reason_of

if TYPE_CHECKING:
    import pyarrow.dataset as ds

FULL_DATA_FILE_SIZE = 24 << 20
"""Bytes of the last file above which rows after its range go to a new file."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of a state table.

    Attributes:
        path: path relative to the table.
        size: size in bytes.
        rows: number of rows.
        least: least value of its first key column; None when not known.
        greatest: greatest value of that column; None when not known.
    """

    path: str
    size: int
    rows: int
    least: Any = None
    greatest: Any = None


@dataclass(slots=True)
class DataFileWork:
    """The work on one file.

    Attributes:
        data_file: the file; None: a new one.
        removed: indexes of the net rows' keys that the file may hold.
        added: indexes of the net rows that are added to it.
    """

    data_file: DataFile | None
    removed: list[int] = field(default_factory=list)
    added: list[int] = field(default_factory=list)


def data_files_of(delta: DeltaTable, table: LakeTable) -> list[DataFile]:
    """Return the files of a table's current version, in the order of their keys.

    Files without known bounds come last.
    """
    actions = pa.table(delta.get_add_actions(flatten=True))
    key = table.key[0]
    least = _column(actions, f"min.{key}") if table.is_ordered else [None] * actions.num_rows
    greatest = _column(actions, f"max.{key}") if table.is_ordered else [None] * actions.num_rows
    data_files = [
        DataFile(str(path), int(size), int(rows or 0), low, high)
        for path, size, rows, low, high in zip(
            actions["path"].to_pylist(),
            actions["size_bytes"].to_pylist(),
            _column(actions, "num_records"),
            least,
            greatest,
            strict=True,
        )
    ]
    known = [
        data_file
        for data_file in data_files
        if data_file.least is not None and data_file.greatest is not None
    ]
    known.sort(key=lambda data_file: data_file.least)
    return known + [
        data_file
        for data_file in data_files
        if data_file.least is None or data_file.greatest is None
    ]


def neighbours(data_files: Sequence[DataFile]) -> list[list[DataFile]]:
    """Return groups of two or more consecutive files that are small together."""
    groups: list[list[DataFile]] = []
    size = FULL_DATA_FILE_SIZE
    for data_file in data_files:
        if size + data_file.size >= FULL_DATA_FILE_SIZE:
            groups.append([])
            size = 0
        groups[-1].append(data_file)
        size += data_file.size
    return [group for group in groups if len(group) > 1]


def _column(actions: pa.Table, name: str) -> list[Any]:
    if name not in actions.column_names:
        return [None] * actions.num_rows
    # Keys of dates are compared as text, like in the change log.
    return [
        value.isoformat() if isinstance(value, datetime.date) else value
        for value in actions[name].to_pylist()
    ]


def plan_data_files(
    data_files: Sequence[DataFile], table: LakeTable, change: NetRows
) -> list[DataFileWork]:
    """Return the work on the files that a change concerns; other files stay as they are."""
    works = [DataFileWork(data_file) for data_file in data_files]
    ranged = [
        work for work in works if work.data_file is not None and work.data_file.least is not None
    ]
    firsts = _firsts(table, change.keys)
    order = sorted(range(len(firsts)), key=firsts.__getitem__) if ranged else []
    ordered = [firsts[at] for at in order]
    for work in works:
        data_file = work.data_file
        if data_file is None or data_file.least is None:
            work.removed = list(range(len(firsts)))  # it may hold any key
            continue
        low, high = bisect_left(ordered, data_file.least), bisect_right(ordered, data_file.greatest)
        work.removed = order[low:high]
    new = DataFileWork(None)
    _assign_rows(ranged, new, _firsts(table, change.row_keys))
    return [work for work in (*works, new) if work.removed or work.added]


def _assign_rows(ranged: Sequence[DataFileWork], new: DataFileWork, firsts: Sequence[Any]) -> None:
    """Add each row to a file, the one with its range or the range before it.

    Rows before all ranges go to the first file. Rows after the last range go to a new file if the
    last file is full.
    """
    least = [work.data_file.least for work in ranged if work.data_file is not None]
    for at, first in enumerate(firsts):
        index = bisect_right(least, first) - 1
        if index < 0:
            target = ranged[0] if ranged else new
        else:
            target = ranged[index]
        data_file = target.data_file
        is_last = index == len(ranged) - 1
        beyond = data_file is not None and first > data_file.greatest
        if data_file is not None and beyond and is_last and data_file.size >= FULL_DATA_FILE_SIZE:
            target = new
        target.added.append(at)


def _firsts(table: LakeTable, keys: Sequence[Any]) -> list[Any]:
    return [key[0] for key in keys] if len(table.source_key) > 1 else list(keys)


_TRIES: Final = 6
_FIRST_WAIT: Final = 0.025

Found = TypeVar("Found")


def delta_address(where: Location) -> tuple[str, dict[str, str] | None]:
    """Return deltalake's arguments for a table: its address, and the options of its store."""
    if isinstance(where, ObjectUrl):
        return str(where), dict(where.options) or None
    return str(where), None


def open_delta(where: Location) -> DeltaTable:
    """Open the newest version of a table.

    Raises:
        TableNotFoundError: there is no table.
        SinkError: the table cannot be read.
    """
    address, options = delta_address(where)
    return patiently(
        where, "the table cannot be read", lambda: DeltaTable(address, storage_options=options)
    )


def update_delta(table: DeltaTable, where: Location) -> None:
    """Update a table to its newest version.

    Raises:
        TableNotFoundError: the table was removed.
        SinkError: the table cannot be read.
    """
    patiently(where, "the table cannot be read", table.update_incremental)


def patiently(where: Location, what: str, function: Callable[[], Found]) -> Found:
    """Return the result of a function; retry it when it fails on a table in an object store.

    deltalake retries a failed request, but not one whose response was cut off.

    Args:
        where: the table.
        what: what failed, for the message.
        function: uses the table; safe to repeat.

    Raises:
        TableNotFoundError: there is no table.
        SinkError: the last attempt failed.
    """
    tries = _TRIES if isinstance(where, ObjectUrl) else 1
    for attempt in range(1, tries + 1):
        try:
            return function()
        except TableNotFoundError:
            raise
        except (DeltaError, OSError) as error:
            if attempt == tries:
                raise SinkError(f"{where}: {what}: {reason_of(error, where)}") from None
            time.sleep(_FIRST_WAIT * 2**attempt)
    raise AssertionError("the last attempt returns or raises")


def dataset_of(table: DeltaTable) -> ds.Dataset:
    """Return the rows of a table's version on this machine as a dataset, to read or filter.

    Raises:
        DeltaError: the table has features that Arrow cannot read.
        OSError: its storage is unavailable.
    """
    files, root = fs.FileSystem.from_uri(table.table_uri)
    found: ds.Dataset = table.to_pyarrow_dataset(filesystem=fs.SubTreeFileSystem(root, files))
    return found


def delta_rows(table: DeltaTable, where: Location) -> ds.Dataset:
    """Return the rows of a table's version as a dataset; rows from a store are in memory.

    Raises:
        OSError: a file cannot be read.
        StorageError: a file cannot be read from a store.
    """
    if isinstance(where, Path):
        return dataset_of(table)
    schema = pa.schema(table.schema().to_arrow())
    paths = pa.table(table.get_add_actions(flatten=True))["path"].to_pylist()
    parts = [in_schema(read_parquet(where / path), schema, None) for path in paths]
    import pyarrow.dataset as ds  # imports pandas where it is installed

    return ds.dataset(pa.concat_tables(parts) if parts else schema.empty_table())


def data_paths(table: DeltaTable) -> set[str]:
    """Return the paths of the files of a table's version, relative to the table."""
    return set(pa.table(table.get_add_actions(flatten=True))["path"].to_pylist())
