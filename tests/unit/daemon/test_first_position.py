"""The first position of a sink is never saved over one behind it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

from replica_client.daemon.stores import FirstPosition
from replica_client.position.position import Position
from replica_client.position.stores.file import FilePositionStore

FIRST, LATER = Position("binlog.000001", 4), Position("binlog.000001", 500)


class SlowStore(FilePositionStore):
    """Tells when two threads save at the same time."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.begun, self.goes_on = threading.Event(), threading.Event()
        self.saving = self.most = 0

    def save(self, position: Position, state: Mapping[str, object] | None = None) -> None:
        self.saving += 1
        self.most = max(self.most, self.saving)
        self.begun.set()
        self.goes_on.wait(5)
        super().save(position, state)
        self.saving -= 1


def test_a_later_one_waits_for_the_first_and_stays(tmp_path):
    store = SlowStore(tmp_path / "position")
    first = FirstPosition(store)
    threads = [threading.Thread(target=first.save, args=(FIRST,))]
    threads[0].start()
    assert store.begun.wait(5)
    threads.append(threading.Thread(target=first.later.save, args=(LATER,)))
    threads[1].start()
    threads[1].join(0.05)
    store.goes_on.set()
    for thread in threads:
        thread.join(5)
    assert store.most == 1
    assert FilePositionStore(tmp_path / "position").load() == LATER


def test_the_first_one_comes_too_late(tmp_path):
    first = FirstPosition(FilePositionStore(tmp_path / "position"))
    first.later.save(LATER)
    first.save(FIRST)
    assert FilePositionStore(tmp_path / "position").load() == LATER
