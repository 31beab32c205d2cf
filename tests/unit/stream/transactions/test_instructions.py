"""Instructions and allocations of the Arrow path, counted: within 5 % of what was recorded."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import replica_client as rc
from tests.servers.plugin import unavailable

SCRIPT = Path(__file__).parents[4] / "scripts" / "benchmarks" / "instructions"


@pytest.mark.timeout(500)  # valgrind on a machine with much else to do
@pytest.mark.skipif(not rc.compiled(), reason="the hot modules run as Python; compiled ones count")
@pytest.mark.slow
def test_instructions_and_allocations_are_as_recorded() -> None:
    if shutil.which("valgrind") is None:
        unavailable("valgrind is not installed")
    result = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=False)
    # After a change that is meant: scripts/benchmarks/instructions --record.
    assert result.returncode == 0, result.stdout + result.stderr
