"""Which versions of the change log a position needs, and rows in the order of their key."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from replica_client.lake.log_versions import ChangeLogVersions, LoggedFile, LoggedVersion
from replica_client.lake.rewrite import _sorted


class Versions(ChangeLogVersions):
    """Versions by their number, without a table."""

    def __init__(self, directory: Path, versions: list[LoggedVersion]) -> None:
        super().__init__(directory)
        self._versions = versions

    def version(self, number: int) -> LoggedVersion:
        return self._versions[number]


@pytest.mark.parametrize(
    ("kinds", "needed"),
    [
        ("NNN", [0, 1, 2]),
        ("ON", [1]),
        ("NON", [2]),
        ("NEN", [0, 2]),
        ("NSN", [0, 2]),
        ("OOE", []),
        ("?", [0]),
    ],
)
def test_versions_since_a_position(tmp_path: Path, kinds: str, needed: list[int]) -> None:
    """``N``: newer rows; ``O``: older ones; ``E``: none; ``S``: older ones of a copy; ``?``: not known."""
    last = {"N": ["b:9"], "O": ["b:1"], "E": [], "S": ["b:1"], "?": [""]}
    versions = [
        LoggedVersion(
            number,
            tuple(LoggedFile(f"part-{number}", 1, one) for one in last[kind]),
            {"lake/snapshot/d.t" if kind == "S" else "lake": 1},
        )
        for number, kind in enumerate(kinds)
    ]
    found = Versions(tmp_path, versions).since("b:5", len(kinds))
    assert [one.number for one in found] == needed


@pytest.mark.parametrize("keys", [[1, 2, 3], [2, 1, 3], [3, 2, 1], [1, 1, 0], [5], [None, 2, 1]])
@pytest.mark.parametrize("count", [1, 2])
def test_rows_come_in_the_order_of_their_key(keys: list[int | None], count: int) -> None:
    rows = pa.table({"a": pa.array(keys, pa.int64()), "b": pa.array(keys[::-1], pa.int64())})
    names = ["a", "b"][:count]
    ordered = _sorted(rows, names)
    expected = sorted(
        zip(*(column.to_pylist() for column in rows.columns), strict=True),
        key=lambda row: [(value is None, value or 0) for value in row[:count]],
    )
    found = list(zip(*(column.to_pylist() for column in ordered.columns), strict=True))
    assert [row[:count] for row in found] == [row[:count] for row in expected]
    assert sorted(found, key=repr) == sorted(expected, key=repr)
