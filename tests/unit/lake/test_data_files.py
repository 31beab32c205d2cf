"""Which data files of a current table a change rewrites, and which go together."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from replica_client.lake import data_files
from replica_client.lake.data_files import DataFile, neighbours, plan_data_files
from replica_client.lake.lake_columns import LOSSLESS_TYPE
from replica_client.lake.parquet_files import in_schema

FULL = data_files.FULL_DATA_FILE_SIZE


def data_file(name: str, low: Any, high: Any, size: int = 10) -> DataFile:
    return DataFile(name, size, 1, low, high)


def planned(
    data_files: list[DataFile], keys: list[Any], row_keys: list[Any], width: int = 1
) -> dict:
    """For each file the keys that may leave it, and those that it gets; ``new`` is a new file."""
    table = SimpleNamespace(source_key=tuple("ab"[:width]))
    change = SimpleNamespace(keys=keys, row_keys=row_keys)
    return {
        "new" if work.data_file is None else work.data_file.path: (
            [keys[at] for at in work.removed],
            [row_keys[at] for at in work.added],
        )
        for work in plan_data_files(data_files, table, change)
    }


THREE = [data_file("a", 1, 10), data_file("b", 11, 20), data_file("c", 31, 40)]


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
        data_files = [data_file("a", 1, 10, FULL), data_file("b", 11, 20, size)]
        assert planned(data_files, [21], [21]) == {target: ([], [21])}
        assert planned(data_files, [20], [20]) == {"b": ([20], [20])}
        assert planned(data_files, [10], [10]) == {"a": ([10], [10])}


def test_files_without_ranges_may_hold_any_key() -> None:
    data_files = [data_file("a", 1, 10), data_file("x", None, None)]
    assert planned(data_files, [5, 50], [50]) == {"a": ([5], [50]), "x": ([5, 50], [])}
    assert planned([data_file("x", None, None)], [5], [5]) == {"x": ([5], []), "new": ([], [5])}
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
    data_files = [data_file(str(at), at, at, size) for at, size in enumerate(sizes)]
    assert [[int(one.path) for one in group] for group in neighbours(data_files)] == expected


@pytest.mark.parametrize(
    ("renamed", "expected"),
    [
        ({"b": "a", "c": "c"}, [("b", "0000-00-00"), ("c", "0000-00-01")]),
        ({"c": "a", "a": "c"}, [("c", "0000-00-00"), ("a", "0000-00-01")]),
        ({"c": "c"}, [("c", "0000-00-01")]),
        ({}, None),
    ],
)
def test_lossless_texts_follow_their_columns(
    renamed: dict[str, str], expected: list[tuple[str, str]] | None
) -> None:
    texts = [[("a", "0000-00-00"), ("c", "0000-00-01")], None]
    nothing = pa.nulls(2, pa.date32())
    found = pa.table({"a": nothing, "c": nothing, "_lossless": pa.array(texts, LOSSLESS_TYPE)})
    schema = pa.schema([*((name, pa.date32()) for name in renamed), ("_lossless", LOSSLESS_TYPE)])
    made = in_schema(found, schema, {**renamed, "_lossless": "_lossless"})
    assert made["_lossless"].to_pylist() == [expected, None]
    assert in_schema(found, found.schema, None)["_lossless"].to_pylist() == texts
