"""The files of a state table, and the choice of those that a change concerns.

Each file holds a range of the first key column; ranges of different files do not overlap, unless
another program rewrites the table. A file is found by its least and greatest value, which Delta
keeps: a change touches the files that may hold its key and no other.
"""

from __future__ import annotations

import datetime
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import field
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from replica_client.codec.quick_dataclass import dataclass
from replica_client.lake.lake_table import LakeTable
from replica_client.lake.net_rows import NetRows

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
