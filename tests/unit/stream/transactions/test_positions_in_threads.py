"""Transactions that several consumers have: threads that ask for their positions at once get the right ones."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from replica_client.protocol.gtid import Gtid, GtidSet
from replica_client.protocol.position import Position
from replica_client.stream.fast.transaction_gtids import GtidPositions
from replica_client.stream.position.tracker import PositionTracker

SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
COUNT = 120


@pytest.fixture
def quick_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_each_thread_gets_the_position_that_it_asked_for(quick_switches: None) -> None:
    start = Position("b.000001", 4, GtidSet.parse(f"{SERVER}:1-9"))
    runs = [(Gtid.parse(f"{SERVER}:10"), 9 + COUNT)]
    positions = GtidPositions(PositionTracker(start), runs, "b.000001")  # type: ignore[arg-type]

    def ask(seed: int) -> list[tuple[int, Position]]:
        order = random.Random(seed).sample(range(COUNT), COUNT)
        return [(at, positions.position(100 + 10 * at, 3, 0, 10 + at)) for at in order]

    with ThreadPoolExecutor(4) as threads:
        for found in threads.map(ask, range(4)):
            for at, position in found:
                assert position == Position(
                    "b.000001", 100 + 10 * at, GtidSet.parse(f"{SERVER}:1-{10 + at}")
                )
