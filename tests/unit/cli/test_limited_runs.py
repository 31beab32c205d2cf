"""Runs with a limit, one after another, give what one run without it gives: each change once."""

from __future__ import annotations

from pathlib import Path

import pytest

import replica_client as rc
from tests.unit.cli.limited_runs import all_runs, run

GOLDEN = Path(__file__).parents[2] / "golden"
SHOP = sorted((Path(rc.__file__).parent / "testing" / "data").glob("shop-bin.0*"))
FILES = [
    SHOP,
    *([path] for path in sorted(GOLDEN.glob("*/*.binlog")) if "encrypted" not in path.stem),
]


@pytest.mark.parametrize(
    "files", FILES, ids=lambda files: f"{files[0].parent.name}-{files[0].name}"
)
@pytest.mark.slow
def test_each_change_once(files: list[Path], tmp_path: Path) -> None:
    whole = run(files, None, None, 64 << 20)
    for part_size in (1, 200, 64 << 20):
        for limit in (1, 3, 7):
            path = tmp_path / f"{part_size}-{limit}"
            assert list(all_runs(files, path, limit, part_size)) == whole
