"""A signal ends the work on the next item at once, and lets what was given be finished."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from replica_client.cli.interruption import SIGNALS, Stop


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("when", ["making", "using"])
def test_a_signal(number: signal.Signals, when: str) -> None:
    made, used = [], []

    def items() -> Iterator[int]:
        for item in range(3):
            if when == "making" and item == 1:
                os.kill(os.getpid(), number)
            made.append(item)  # as long as it may take
            yield item

    with pytest.raises(KeyboardInterrupt), Stop().watching() as stop:
        for item in stop.until(items()):
            if when == "using" and item == 1:
                os.kill(os.getpid(), number)
            used.append(item)
    assert (made, used) == (([0], [0]) if when == "making" else ([0, 1], [0, 1]))


def test_no_signal() -> None:
    with Stop().watching() as stop:
        assert list(stop.until(range(3))) == [0, 1, 2]
