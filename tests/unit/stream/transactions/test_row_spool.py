"""The spool of pending rows against a list: same items, bounded memory, cut where it is asked."""

from __future__ import annotations

import errno
import random
import tempfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from replica_client.errors import SpoolError
from replica_client.rows.change import RowsOfEvent
from replica_client.stream.files.binlog_file import open_binlog
from replica_client.stream.position.losses import Loss
from replica_client.stream.transactions.row_spool import (
    RowSpool,
    SpoolItem,
    SpoolMark,
    SpoolStorage,
)
from replica_client.stream.transactions.transaction import Statement

GOLDEN = [
    path
    for path in sorted((Path(__file__).parents[3] / "golden").glob("*/*.binlog"))
    if "encrypted" not in path.name and path.name != "xa.binlog"
]


def _golden_items() -> Iterator[SpoolItem]:
    for path in GOLDEN:
        for transaction in open_binlog(path, record_losses="all").transactions():
            for rows in transaction.rows:
                yield RowsOfEvent(
                    rows.event, rows.shape, rows.decoder, rows.event_index, 0, rows.gtid
                )
            yield from transaction.statements
            yield from transaction.schema_changes
    yield Loss("statement", "a", "b", 1, "reason", "f", 4, 2, "", 7)


@pytest.fixture(scope="module")
def items() -> list[SpoolItem]:
    found = list(_golden_items())
    assert {type(item).__name__ for item in found} == {
        *("RowsOfEvent", "Statement", "SchemaChange", "Loss")
    }
    return found


def _plain(item: SpoolItem) -> object:
    """An item as what it means: rows as their changes."""
    if isinstance(item, RowsOfEvent):
        return (item.event, item.event_index, item.first_row, [repr(change) for change in item])
    return item


def _size(items: list[SpoolItem]) -> int:
    return sum(one.event.header.event_size for one in items if isinstance(one, RowsOfEvent))


@pytest.mark.parametrize("seed", range(12))
def test_is_a_list(items: list[SpoolItem], seed: int) -> None:
    """Random appends, cuts and closes of spools that share their storage."""
    chance = random.Random(seed)
    storage = SpoolStorage(chance.choice((0, 5_000, 100_000, 10_000_000)))
    spools = [(RowSpool(storage), list[SpoolItem](), list[SpoolMark]()) for _ in range(3)]
    for _ in range(600):
        spool, model, marks = chance.choice(spools)
        what = chance.random()
        if what < 0.85:
            item = chance.choice(items)
            spool.append(item)
            model.append(item)
        elif what < 0.93:
            marks.append(spool.mark())
            assert marks[-1] == (len(model), _size(model))
        elif what < 0.99 and marks:
            del marks[chance.randrange(len(marks)) + 1 :]
            spool.truncate(marks[-1])
            del model[marks[-1].item_count :]
        elif what > 0.995:
            spool.close()
            model.clear()
            marks.clear()
        assert (len(spool), spool.size) == (len(model), _size(model))
    for spool, model, _ in spools:
        expected = [_plain(item) for item in model]
        for _ in range(2):
            assert [_plain(item) for item in spool] == expected
        spool.close()
        assert not list(spool)
    assert storage.memory_used == storage.file_size == 0
    storage.close()


@pytest.mark.slow
def test_memory_is_bounded(items: list[SpoolItem]) -> None:
    rows = [item for item in items if isinstance(item, RowsOfEvent)]
    storage = SpoolStorage(1 << 20)
    spool = RowSpool(storage)
    with StorageClosed(storage):
        tracemalloc.start()
        try:
            for number in range(60_000):
                spool.append(rows[number % len(rows)])
            count = sum(1 for _ in spool)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert count == 60_000
        assert storage.file_size > 10 << 20
        # The limit, what is being written, and tables.
        assert peak < 8 << 20
        assert storage.memory_used <= storage.memory_limit


class StorageClosed:
    """Closes a storage when the block ends."""

    def __init__(self, storage: SpoolStorage) -> None:
        self._storage = storage

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc_info: object) -> None:
        self._storage.close()


def test_the_file_has_no_name(tmp_path: Path) -> None:
    storage = SpoolStorage(0, str(tmp_path))
    spool = RowSpool(storage)
    with StorageClosed(storage):
        for number in range(2_000):
            spool.append(Statement("d", f"SAVEPOINT s{number}"))
        assert storage.file_size
        assert not list(tmp_path.iterdir())
        # What nobody needs is given back to the disk.
        spool.close()
        assert storage.file_size == 0
        spool.append(Statement("d", "a"))
        spool.append(Statement("d", "b"))
        assert [item.text for item in spool if isinstance(item, Statement)] == ["a", "b"]


def test_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk is a typed error that says where; what was there before stays whole."""

    class Full:
        def seek(self, offset: int) -> None:
            pass

        def write(self, data: memoryview) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        def truncate(self, size: int) -> None:
            pass

        def close(self) -> None:
            pass

    spool = RowSpool(SpoolStorage(0))
    spool.append(Statement("", "first"))
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: Full())
    with pytest.raises(SpoolError, match=f"in {tempfile.gettempdir()}: No space left.*TMPDIR"):
        spool.append(Statement("", "second"))
    assert len(spool) == 1
    assert list(spool) == [Statement("", "first")]


def test_a_mark_that_was_cut() -> None:
    spool = RowSpool()
    start = spool.mark()
    spool.append(Statement("", "first"))
    behind = spool.mark()
    spool.truncate(start)
    with pytest.raises(ValueError, match="mark at item 1 of a spool of 0"):
        spool.truncate(behind)


def test_each_block_is_given_once() -> None:
    storage = SpoolStorage()
    blocks = [storage.take_block() for _ in range(4)]
    assert sorted(blocks) == [0, 1, 2, 3]
    storage.give_back(blocks[1:2])
    assert [storage.take_block(), storage.take_block()] == [blocks[1], 4]
