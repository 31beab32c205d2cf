"""A binlog of any length with the same content everywhere: a demo transaction, over and over."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import replica_client as rc
from benchmarks.callgrind import Counts, count

DATA = Path(rc.__file__).parent / "testing" / "data"
_SHORT, _LONG = 500, 2500


def fixed_binlog(path: Path, transactions: int) -> int:
    """Write a binlog whose last part is one transaction many times; returns its row changes."""
    file = sorted(p for p in DATA.iterdir() if p.suffix.startswith(".0"))[0]
    data = file.read_bytes()
    whole = [t for t in rc.open_binlog(file).transactions() if t.rows and not t.statements]
    one = max(whole, key=lambda t: len(t.rows))
    begin, end = one.start.offset, one.position.offset
    path.write_bytes(data[:end] + data[begin:end] * transactions)
    return sum(1 for _ in one.changes)


@dataclass(frozen=True)
class PerTransaction:
    """What one transaction of the fixed input takes, without the start and the first ones."""

    instructions: float
    allocations_per_change: float


def per_transaction() -> PerTransaction:
    """Count by the difference between a long and a short file."""
    with tempfile.TemporaryDirectory() as directory:
        found: list[Counts] = []
        changes = 0
        for number, transactions in enumerate((_SHORT, _LONG)):
            path = Path(directory, f"binlog.{number:06d}")
            changes = fixed_binlog(path, transactions)
            found.append(count(path))
    more = found[1] - found[0]
    steps = _LONG - _SHORT
    return PerTransaction(more.instructions / steps, more.allocations / steps / changes)
