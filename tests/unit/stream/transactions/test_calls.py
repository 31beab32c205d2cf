"""How often Python is entered: per buffer, not per event or row. Counted, never timed."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import replica_client as rc
from tests.unit.stream.transactions.relocation import relocated

DATA = Path(rc.__file__).parent / "testing" / "data"


def repeated(path: Path, times: int) -> Path:
    """A binlog that ends with one of the demo's transactions, many times."""
    file = sorted(p for p in DATA.iterdir() if p.suffix.startswith(".0"))[0]
    data = file.read_bytes()
    whole = [t for t in rc.open_binlog(file).transactions() if t.rows and not t.statements]
    one = max(whole, key=lambda t: len(t.rows))
    begin, end = one.start.offset, one.position.offset
    path.write_bytes(relocated(data[:end] + data[begin:end] * times))
    return path


def calls_of(work: Callable[[], object]) -> int:
    calls = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.skipif(not rc.compiled(), reason="the hot modules run as Python, which calls")
@pytest.mark.parametrize("tables", [None, "no.such"])
def test_python_is_not_entered_per_transaction(tables: str | None, tmp_path: Path) -> None:
    counts = []
    for times in (2_000, 12_000):
        path = repeated(tmp_path / f"binlog.{times:06d}", times)
        reader = rc.open_binlog(path, tables=tables, allow_empty=True)
        list(rc.open_binlog(path, tables=tables, allow_empty=True).batches(max_seconds=1e9))
        rows = [0]

        def work(reader: Any = reader, rows: list[int] = rows) -> None:
            for batch in reader.batches(max_seconds=1e9):
                rows[0] += batch.num_rows

        counts.append((calls_of(work), rows[0]))
    (few, few_rows), (many, many_rows) = counts
    if tables is None:
        assert many_rows - few_rows >= 10_000
        # Some 60 calls per column and batch of 16 384 rows, and some per megabyte.
        assert (many - few) / (many_rows - few_rows) < 0.1
    assert (many - few) / 10_000 < 0.5
