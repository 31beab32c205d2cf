"""Pieces that several threads decode."""

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

from replica_client.protocol.codec.turns import Turn, outside
from replica_client.stream.files.pieces import Piece, PieceReading, decoded_in_order


def test_a_reader_that_ends_in_a_thread_of_its_own() -> None:
    """The garbage collector runs in any thread: also in one that decodes for what it collects."""
    begun = threading.Event()
    given = threading.Event()
    closed = threading.Event()
    faults: list[BaseException] = []

    class Reading:
        def __init__(self, number: int) -> None:
            self.piece = SimpleNamespace(size=1)
            self.number = number

        def batches(self, turn: Turn | None = None) -> Iterator[Any]:
            with outside(turn):
                self._close_beside()
            yield self.number

        def _close_beside(self) -> None:
            is_beside = threading.current_thread() is not threading.main_thread()
            if self.number and not is_beside:
                # Who takes the batches decodes, too: the other thread is to have one of these.
                assert begun.wait(30)
            elif self.number and not begun.is_set():
                begun.set()
                given.wait(30)
                try:
                    reader.close()
                except BaseException as fault:
                    faults.append(fault)
                closed.set()

    readings = iter(range(8))
    pieces = cast(Iterator[Piece], iter(range(8)))
    reader = cast(
        Any,
        decoded_in_order(pieces, lambda _: cast(PieceReading, Reading(next(readings))), 2),
    )
    _, batches = next(reader)
    assert list(batches) == [0]
    given.set()
    assert closed.wait(30)
    assert faults == []
