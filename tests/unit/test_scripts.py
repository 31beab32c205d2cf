"""Scripts say in one line what their environment lacks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
NEEDY = sorted(
    path.name
    for pattern in ("prove_*", "bench", "bench_lake", "bench_spark")
    for path in SCRIPTS.glob(pattern)
)


@pytest.mark.skipif(not NEEDY, reason="a package without its scripts")
@pytest.mark.parametrize("name", NEEDY)
def test_a_missing_package_is_one_line(name: str) -> None:
    # -S: Python without installed packages.
    done = subprocess.run(
        [sys.executable, "-S", str(SCRIPTS / name), "--help"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"{name}: ") and "has no package" in line
    assert line.endswith(f".venv-test/bin/python scripts/{name}")
