"""What rows cost, counted: frames of Python per change, blocks of memory per row. Never timed."""

import gc
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import replica_client as rc
from replica_client.rows.row_change import Change
from tests.unit.stream.transactions.test_calls import repeated

pytestmark = pytest.mark.skipif(
    not rc.compiled(), reason="the hot modules run as Python, which calls and allocates"
)


def frames_of(work: Callable[[], object]) -> Counter[str]:
    """How often each function's frame was entered; a generator's is entered for each value."""
    frames: Counter[str] = Counter()

    def count(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            frames[frame.f_code.co_qualname] += 1

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return frames


def read(path: Path, look: Callable[[Change], object]) -> int:
    count = 0
    for change in rc.open_binlog(path).changes():
        look(change)
        count += 1
    return count


def images(change: Change) -> list[rc.Row]:
    return [row for row in (change.before, change.after) if row is not None]


def test_python_is_entered_once_for_a_change(tmp_path: Path) -> None:
    counts, changes = [], []
    for times in (500, 3_000):
        path = repeated(tmp_path / f"binlog.{times:06d}", times)
        read(path, id)
        seen = [0]

        def work(path: Path = path, seen: list[int] = seen) -> None:
            for change in rc.open_binlog(path).changes():
                for row in (change.before, change.after):
                    if row is not None:
                        row.as_dict(plain_json=True)
                seen[0] += 1

        counts.append(frames_of(work))
        changes.append(seen[0])
    transactions, more = 2_500, changes[1] - changes[0]
    assert more >= transactions
    frames = counts[1] - counts[0]
    # The generator that the consumer iterates.
    given = frames.pop("BinlogFileReader.changes")
    assert given <= more + 10
    # The generator of transactions under it, and what hands the transactions of a mebibyte on.
    given = frames.pop("BinlogFileReader.transactions")
    assert given <= transactions + 10
    assert sum(frames.values()) <= 4 * transactions


def blocks_of(make: Callable[[], list[Any]]) -> int:
    """How many blocks of memory are kept, but that of the list itself."""
    gc.collect()
    before = sys.getallocatedblocks()
    kept = make()
    gc.collect()
    blocks = sys.getallocatedblocks() - before
    kept.clear()
    return blocks


def test_a_kept_row_is_its_values_and_one_block(tmp_path: Path) -> None:
    path = repeated(tmp_path / "binlog.000001", 2_000)
    changes: list[Change] = []
    count = read(path, lambda change: changes.append(change))
    values = sum(len(row) for change in changes for row in images(change))
    rows = sum(len(images(change)) for change in changes)
    changes.clear()

    def keep() -> list[Any]:
        kept: list[Change] = []
        read(path, kept.append)
        return kept

    blocks = blocks_of(keep)
    # Besides the row, the change and values that are no constants there is what the changes of an
    # event share.
    assert blocks <= rows + count + values * 0.6


def test_a_dict_is_two_blocks(tmp_path: Path) -> None:
    path = repeated(tmp_path / "binlog.000001", 500)
    changes: list[Change] = []
    read(path, changes.append)
    rows = [row for change in changes for row in images(change)]
    assert len(rows) >= 500
    blocks = blocks_of(lambda: [row.as_dict() for row in rows])
    assert blocks <= 2 * len(rows) + 100
