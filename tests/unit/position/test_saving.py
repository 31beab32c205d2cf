"""Saves from an event loop come one after the other, whatever is cancelled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

import replica_client as rc
from replica_client.position.stores.saving import PositionSaver


class SlowStore(rc.FilePositionStore):
    """A store on a disk that takes its time; knows how many save at once."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.begun = threading.Event()
        self.goes_on = threading.Event()
        self.at_once = self.most_at_once = 0

    def save(self, position: rc.Position, state: Mapping[str, object] | None = None) -> None:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.begun.set()
        assert self.goes_on.wait(10)
        super().save(position, state)
        self.at_once -= 1


async def test_a_cancelled_save_is_over_before_the_next(tmp_path: Path) -> None:
    store = SlowStore(tmp_path / "position")
    saver = PositionSaver(store)
    older = asyncio.create_task(saver.save(rc.Position("binlog.000001", 4)))
    await asyncio.to_thread(store.begun.wait, 10)
    for _ in range(2):
        older.cancel()
        await asyncio.sleep(0.01)
    assert not older.done()
    newer = asyncio.create_task(saver.save(rc.Position("binlog.000001", 400)))
    await asyncio.sleep(0.01)
    store.goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await older
    await newer
    assert store.load() == rc.Position("binlog.000001", 400)
    assert store.most_at_once == 1


async def test_an_error_of_a_cancelled_save_is_told(tmp_path: Path) -> None:
    store = SlowStore(tmp_path / "missing" / "position")
    saver = PositionSaver(store)
    save = asyncio.create_task(saver.save(rc.Position("binlog.000001", 4)))
    await asyncio.to_thread(store.begun.wait, 10)
    save.cancel()
    store.goes_on.set()
    with pytest.raises(rc.ReplicaClientError, match="does not exist"):
        await save
