"""Saves beside the work that makes positions: in order, one at a time, the newest one, and none left behind."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

import replica_client as rc
from replica_client.stream.position.stores.base import PositionSaver


class SlowStore(rc.FilePositionStore):
    """A store on a disk that takes its time; knows what it was asked to save, and how many save at once."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.begun = threading.Event()
        self.goes_on = threading.Event()
        self.at_once = self.most_at_once = 0
        self.saves: list[int] = []
        self.begins: list[float] = []

    def save(self, position: rc.Position, state: Mapping[str, object] | None = None) -> None:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.saves.append(position.offset)
        self.begins.append(time.monotonic())
        self.begun.set()
        assert self.goes_on.wait(60)
        super().save(position, state)
        self.at_once -= 1


def at(offset: int) -> rc.Position:
    return rc.Position("binlog.000001", offset)


def _put_for(saver: PositionSaver, seconds: float) -> None:
    end, offset = time.monotonic() + seconds, 4
    while time.monotonic() < end:
        saver.put(at(offset))
        offset += 1
        time.sleep(0.001)


async def test_put_returns_while_a_save_runs_and_the_newest_wins(tmp_path: Path) -> None:
    store = SlowStore(tmp_path / "position")
    saver = PositionSaver(store, 0)
    saver.put(at(4))
    assert await asyncio.to_thread(store.begun.wait, 10)
    for offset in range(5, 1000):
        saver.put(at(offset), {"offset": offset})
    assert store.saves == [4]
    store.goes_on.set()
    await saver.flush()
    found = store.load_checkpoint()
    assert found is not None
    assert found.position == at(999) and found.state == {"offset": 999}
    assert store.saves == [4, 999]
    assert store.most_at_once == 1


async def test_saves_are_an_interval_apart_and_a_flush_does_not_wait_for_it(tmp_path: Path) -> None:
    store = SlowStore(tmp_path / "position")
    store.goes_on.set()
    saver = PositionSaver(store, 0.2)
    _put_for(saver, 0.7)  # the loop is kept busy: saves need none
    begins = store.begins
    assert all(later - sooner >= 0.19 for sooner, later in zip(begins, begins[1:], strict=False))
    assert 1 <= len(begins) <= 5
    slow = PositionSaver(store, 1000.0)
    slow.put(at(4))
    await slow.flush()
    slow.put(at(5))
    slow.put(at(6))
    await slow.flush()
    assert store.load() == at(6)
    assert store.saves[-2:] == [4, 6]


async def test_a_cancelled_save_is_over_before_the_next(tmp_path: Path) -> None:
    store = SlowStore(tmp_path / "position")
    saver = PositionSaver(store, 0)
    older = asyncio.create_task(saver.save(at(4)))
    await asyncio.to_thread(store.begun.wait, 10)
    for _ in range(2):
        older.cancel()
        await asyncio.sleep(0.01)
    assert not older.done()
    newer = asyncio.create_task(saver.save(at(400)))
    await asyncio.sleep(0.01)
    store.goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await older
    await newer
    assert store.load() == at(400)
    assert store.most_at_once == 1


async def test_an_error_of_a_cancelled_save_is_reported(tmp_path: Path) -> None:
    store = SlowStore(tmp_path / "missing" / "position")
    saver = PositionSaver(store)
    save = asyncio.create_task(saver.save(at(4)))
    await asyncio.to_thread(store.begun.wait, 10)
    save.cancel()
    store.goes_on.set()
    with pytest.raises(rc.ReplicaClientError, match="does not exist"):
        await save


async def test_an_error_is_reported_at_the_next_put_and_the_newest_is_tried_again(
    tmp_path: Path,
) -> None:
    store = SlowStore(tmp_path / "later" / "position")
    store.goes_on.set()
    saver = PositionSaver(store, 0)
    saver.put(at(4))
    with pytest.raises(rc.ReplicaClientError, match="does not exist"):
        for _ in range(500):
            await asyncio.sleep(0.02)
            saver.put(at(5))
    (tmp_path / "later").mkdir()
    await saver.flush()
    assert store.load() == at(5)
    saver.put(at(6))
    await saver.flush()
    assert store.load() == at(6)
