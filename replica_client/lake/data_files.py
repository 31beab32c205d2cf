"""The files of a state table, and which of them a change concerns.

Each file holds a range of the first key column; ranges of different files do not overlap, as long as
nobody else rewrites the table. A file is found by its least and greatest value, which Delta keeps: a
change touches the files that may hold its key and no other.
"""

from __future__ import annotations

import datetime
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from replica_client.lake.lake_table import LakeTable
from replica_client.lake.net_rows import Fold

FULL_LEAF_SIZE = 24 << 20
"""Bytes of a file behind which new rows go to another one."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A file of a state table.

    Attributes:
        path: relative to the table.
        size: in bytes.
        rows: how many it holds.
        least: of its first key column; None when not known.
        greatest: likewise.
    """

    path: str
    size: int
    rows: int
    least: Any = None
    greatest: Any = None


@dataclass(slots=True)
class LeafWork:
    """What happens to one file.

    Attributes:
        leaf: the file; None: a new one.
        removed: places, in the fold's keys, of those that it may hold.
        added: places of the fold's rows that it gets.
    """

    leaf: Leaf | None
    removed: list[int] = field(default_factory=list)
    added: list[int] = field(default_factory=list)


def leaves_of(delta: DeltaTable, table: LakeTable) -> list[Leaf]:
    """The files of a table's current version, in the order of their keys."""
    actions = pa.table(delta.get_add_actions(flatten=True))
    key = table.key[0]
    least = _column(actions, f"min.{key}") if table.is_ordered else [None] * actions.num_rows
    greatest = _column(actions, f"max.{key}") if table.is_ordered else [None] * actions.num_rows
    leaves = [
        Leaf(str(path), int(size), int(rows or 0), low, high)
        for path, size, rows, low, high in zip(
            actions["path"].to_pylist(),
            actions["size_bytes"].to_pylist(),
            _column(actions, "num_records"),
            least,
            greatest,
            strict=True,
        )
    ]
    known = [leaf for leaf in leaves if leaf.least is not None and leaf.greatest is not None]
    known.sort(key=lambda leaf: leaf.least)
    return known + [leaf for leaf in leaves if leaf.least is None or leaf.greatest is None]


def neighbours(leaves: Sequence[Leaf]) -> list[list[Leaf]]:
    """Files in groups, each of two or more that follow each other and are small together."""
    groups: list[list[Leaf]] = []
    size = FULL_LEAF_SIZE
    for leaf in leaves:
        if size + leaf.size >= FULL_LEAF_SIZE:
            groups.append([])
            size = 0
        groups[-1].append(leaf)
        size += leaf.size
    return [group for group in groups if len(group) > 1]


def _column(actions: pa.Table, name: str) -> list[Any]:
    if name not in actions.column_names:
        return [None] * actions.num_rows
    # Keys of dates are compared as the change log has them, as text.
    return [
        value.isoformat() if isinstance(value, datetime.date) else value
        for value in actions[name].to_pylist()
    ]


def plan_leaves(leaves: Sequence[Leaf], table: LakeTable, change: Fold) -> list[LeafWork]:
    """Which files a fold rewrites; the others stay as they are."""
    works = [LeafWork(leaf) for leaf in leaves]
    ranged = [work for work in works if work.leaf is not None and work.leaf.least is not None]
    firsts = _firsts(table, change.keys)
    order = sorted(range(len(firsts)), key=firsts.__getitem__) if ranged else []
    ordered = [firsts[at] for at in order]
    for work in works:
        leaf = work.leaf
        if leaf is None or leaf.least is None:
            work.removed = list(range(len(firsts)))  # it may hold any key
            continue
        low, high = bisect_left(ordered, leaf.least), bisect_right(ordered, leaf.greatest)
        work.removed = order[low:high]
    new = LeafWork(None)
    _place_rows(ranged, new, _firsts(table, change.row_keys))
    return [work for work in (*works, new) if work.removed or work.added]


def _place_rows(ranged: Sequence[LeafWork], new: LeafWork, firsts: Sequence[Any]) -> None:
    """Each row goes to the file whose range it is in or follows; none grows without an end."""
    least = [work.leaf.least for work in ranged if work.leaf is not None]
    for at, first in enumerate(firsts):
        place = bisect_right(least, first) - 1
        if place < 0:
            target = ranged[0] if ranged else new
        else:
            target = ranged[place]
        leaf = target.leaf
        is_last = place == len(ranged) - 1
        beyond = leaf is not None and first > leaf.greatest
        if leaf is not None and beyond and is_last and leaf.size >= FULL_LEAF_SIZE:
            target = new
        target.added.append(at)


def _firsts(table: LakeTable, keys: Sequence[Any]) -> list[Any]:
    return [key[0] for key in keys] if len(table.source_key) > 1 else list(keys)
