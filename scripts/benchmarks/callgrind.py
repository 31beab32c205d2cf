"""What reading a binlog takes, counted by callgrind: the same every time, whatever else the machine does."""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent.parent
RECORDED = Path(__file__).with_name("instructions.json")
TOLERANCE = 0.05
# Of allocations, which are fewer than one for each transaction.
_LEAST = 0.1
READ = """
import sys, pyarrow
import replica_client as rc
assert rc.compiled()
for batch in rc.open_binlog(sys.argv[1]).batches(max_seconds=1e9): pass
"""
# Everything that gives memory: Python's two allocators, the C library's, Arrow's own.
_ALLOCATORS = re.compile(
    r"^(_?PyObject_(Malloc|Calloc|Realloc)|malloc|calloc|realloc|mi_\w*alloc\w*)$"
)
_NAME = re.compile(r"^c?fn=\((\d+)\)(?: (.+))?$")


@dataclass(frozen=True)
class Counts:
    """Instructions, and calls of functions that give memory."""

    instructions: int
    allocations: int

    def __sub__(self, other: Counts) -> Counts:
        return Counts(self.instructions - other.instructions, self.allocations - other.allocations)


def count(path: Path) -> Counts:
    """Count what reading a binlog as Arrow takes, the start of Python and all imports with it."""
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory, "out")
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"]
        environment = {
            "PYTHONHASHSEED": "0",
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": str(SCRIPTS.parent),
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "ARROW_DEFAULT_MEMORY_POOL": "system",
        }
        program = [sys.executable, "-c", READ, str(path)]
        # The first run after a change writes files of byte code.
        for run in (program, [*command, *program]):
            subprocess.run(run, check=True, capture_output=True, env=environment)
        return _read(out)


def _read(out: Path) -> Counts:
    names: dict[str, str] = {}
    instructions = allocations = 0
    called = ""
    with out.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            found = _NAME.match(line)
            if found:
                number, name = found.groups()
                if name:
                    names[number] = name.split("@")[0].split("'")[0].strip()
                if line.startswith("c"):
                    called = names[number]
            elif line.startswith("calls=") and _ALLOCATORS.match(called):
                allocations += int(line[6:].split()[0])
            elif line.startswith(("summary:", "totals:")):
                instructions = int(line.split()[1])
    if not instructions:
        raise RuntimeError("callgrind gave no total")
    return Counts(instructions, allocations)


def here() -> str:
    """The platform that a recorded figure is for."""
    return f"{platform.machine()}, Python {platform.python_version()}, {platform.python_compiler()}"


def recorded() -> dict[str, dict[str, float]]:
    """The recorded figures, by platform."""
    if not RECORDED.exists():
        return {}
    found: dict[str, dict[str, float]] = json.loads(RECORDED.read_text(encoding="utf-8"))
    return found


def record(figures: dict[str, float]) -> None:
    """Record the figures of this platform."""
    text = json.dumps(recorded() | {here(): figures}, indent=1) + "\n"
    RECORDED.write_text(text, encoding="utf-8")


def deviations(figures: dict[str, float]) -> list[str]:
    """Which figures are not as recorded: within 5 % here, below 1.5 times the largest elsewhere."""
    known = recorded()
    found = []
    for name, figure in figures.items():
        if here() in known:
            limit = known[here()][name]
            good = abs(figure - limit) <= max(TOLERANCE * limit, _LEAST)
        else:
            limit = max(of_platform[name] for of_platform in known.values())
            good = figure <= 1.5 * limit
        if not good:
            found.append(f"{figure:g} {name} per transaction, recorded {limit:g}")
    return found
