"""A binlog of any length with the same content everywhere: a demo transaction, over and over."""

from __future__ import annotations

import tempfile
from pathlib import Path

import replica_client as rc
from benchmarks.callgrind import count
from tests.unit.stream.transactions.relocation import relocated

DATA = Path(rc.__file__).parent / "testing" / "data"
_SHORT, _LONG = 500, 2500


def fixed_binlog(path: Path, transactions: int) -> None:
    """Write a binlog whose last part is one transaction of five events with a row each, many times."""
    file = sorted(p for p in DATA.iterdir() if p.suffix.startswith(".0"))[0]
    data = file.read_bytes()
    whole = [t for t in rc.open_binlog(file).transactions() if t.rows and not t.statements]
    one = max(whole, key=lambda t: len(t.rows))
    begin, end = one.start.offset, one.position.offset
    path.write_bytes(relocated(data[:end] + data[begin:end] * transactions))


def per_transaction() -> dict[str, float]:
    """What one transaction of the fixed input takes: the difference between a long and a short file."""
    with tempfile.TemporaryDirectory() as directory:
        paths = [Path(directory, f"binlog.{number:06d}") for number in range(2)]
        for path, transactions in zip(paths, (_SHORT, _LONG), strict=True):
            fixed_binlog(path, transactions)
        found = [count(path) for path in paths]
    more = found[1] - found[0]
    steps = _LONG - _SHORT
    return {
        "instructions": round(more.instructions / steps),
        "allocations": round(more.allocations / steps, 2),
    }
