"""Which data files of a current table a change rewrites, and which go together."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from replica_client.lake import data_files
from replica_client.lake.data_files import Leaf, neighbours, plan_leaves

FULL = data_files.FULL_LEAF_SIZE


def leaf(name: str, low: Any, high: Any, size: int = 10) -> Leaf:
    return Leaf(name, size, 1, low, high)


def planned(leaves: list[Leaf], keys: list[Any], row_keys: list[Any], width: int = 1) -> dict:
    """For each file the keys that may leave it, and those that it gets; ``new`` is a new file."""
    table = SimpleNamespace(source_key=tuple("ab"[:width]))
    change = SimpleNamespace(keys=keys, row_keys=row_keys)
    return {
        "new" if work.leaf is None else work.leaf.path: (
            [keys[at] for at in work.removed],
            [row_keys[at] for at in work.added],
        )
        for work in plan_leaves(leaves, table, change)
    }


THREE = [leaf("a", 1, 10), leaf("b", 11, 20), leaf("c", 31, 40)]


@pytest.mark.parametrize(
    ("keys", "row_keys", "expected"),
    [
        ([5], [5], {"a": ([5], [5])}),
        ([5], [], {"a": ([5], [])}),
        ([1, 10], [], {"a": ([1, 10], [])}),
        ([11], [], {"b": ([11], [])}),
        ([20, 10], [], {"a": ([10], []), "b": ([20], [])}),
        # Between files: the one before gets it. Before all: the first.
        ([25], [25], {"b": ([], [25])}),
        ([0], [0], {"a": ([], [0])}),
        ([50], [50], {"c": ([], [50])}),
        ([31, 11, 1], [11], {"a": ([1], []), "b": ([11], [11]), "c": ([31], [])}),
        ([], [], {}),
        ([100], [], {}),
    ],
)
def test_files_with_ranges(keys: list[int], row_keys: list[int], expected: dict) -> None:
    assert planned(THREE, keys, row_keys) == expected


def test_a_last_file_that_is_full_gets_nothing_behind_its_end() -> None:
    for size, target in ((FULL - 1, "b"), (FULL, "new"), (FULL + 1, "new")):
        leaves = [leaf("a", 1, 10, FULL), leaf("b", 11, 20, size)]
        assert planned(leaves, [21], [21]) == {target: ([], [21])}
        assert planned(leaves, [20], [20]) == {"b": ([20], [20])}
        assert planned(leaves, [10], [10]) == {"a": ([10], [10])}


def test_files_without_ranges_may_hold_any_key() -> None:
    leaves = [leaf("a", 1, 10), leaf("x", None, None)]
    assert planned(leaves, [5, 50], [50]) == {"a": ([5], [50]), "x": ([5, 50], [])}
    assert planned([leaf("x", None, None)], [5], [5]) == {"x": ([5], []), "new": ([], [5])}
    assert planned([], [], [5, 6]) == {"new": ([], [5, 6])}


def test_keys_of_several_columns_are_placed_by_the_first() -> None:
    assert planned(THREE, [(5, "z"), (15, "a")], [(15, "a")], width=2) == {
        "a": ([(5, "z")], []),
        "b": ([(15, "a")], [(15, "a")]),
    }


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], []),
        ([1], []),
        ([1, 1], [[0, 1]]),
        ([FULL, 1], []),
        ([FULL - 1, 1, 1], [[1, 2]]),
        ([FULL - 2, 1, 1, 1], [[0, 1], [2, 3]]),
        ([1, FULL, 1, 1], [[2, 3]]),
        ([1, 2, 3], [[0, 1, 2]]),
    ],
)
def test_neighbours_that_are_small_together(sizes: list[int], expected: list[list[int]]) -> None:
    leaves = [leaf(str(at), at, at, size) for at, size in enumerate(sizes)]
    assert [[int(one.path) for one in group] for group in neighbours(leaves)] == expected
