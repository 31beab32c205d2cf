"""A binlog of any length with the same content everywhere: a demo transaction, over and over."""

from __future__ import annotations

from pathlib import Path

import replica_client as rc

DATA = Path(rc.__file__).parent / "testing" / "data"


def fixed_binlog(path: Path, transactions: int) -> int:
    """Write a binlog whose last part is one transaction many times; returns the size of that one."""
    file = sorted(p for p in DATA.iterdir() if p.suffix.startswith(".0"))[0]
    data = file.read_bytes()
    whole = [t for t in rc.open_binlog(file).transactions() if t.rows and not t.statements]
    one = max(whole, key=lambda t: len(t.rows))
    begin, end = one.start.offset, one.position.offset
    path.write_bytes(data[:end] + data[begin:end] * transactions)
    return end - begin
