"""Measurements that were stopped go on: each cell is measured once."""

from pathlib import Path

import pytest
from benchmarks.kept_cells import KeptCells


def test_cells_come_again(tmp_path: Path) -> None:
    path = tmp_path / "new" / "cells.jsonl"
    first, second = {"rate": 0, "kind": "file"}, {"rate": 0, "kind": "sqlite"}
    cells = KeptCells(path)
    assert cells.rows(first) is None
    cells.add(first, [{"p50": 0.25}, {"p50": 0.5}])
    again = KeptCells(path)
    assert again.rows({"kind": "file", "rate": 0}) == [{"p50": 0.25}, {"p50": 0.5}]
    assert again.rows(second) is None


@pytest.mark.parametrize("cut", [1, 5, 30])
def test_a_line_that_was_cut_is_measured_again(cut: int, tmp_path: Path) -> None:
    path = tmp_path / "cells.jsonl"
    cells = KeptCells(path)
    cells.add({"kind": "file"}, [{"p50": 1}])
    cells.add({"kind": "sqlite"}, [{"p50": 2}])
    path.write_bytes(path.read_bytes()[:-cut])
    again = KeptCells(path)
    assert again.rows({"kind": "file"}) == [{"p50": 1}]
    assert again.rows({"kind": "sqlite"}) is None
    again.add({"kind": "sqlite"}, [{"p50": 3}])
    assert KeptCells(path).rows({"kind": "sqlite"}) == [{"p50": 3}]


def test_nothing_is_kept_without_a_file() -> None:
    cells = KeptCells(None)
    cells.add({"kind": "file"}, [])
    assert cells.rows({"kind": "file"}) == []
