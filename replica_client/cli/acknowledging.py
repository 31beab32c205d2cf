"""What was delivered, and what may therefore be saved: output first, then the position."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Protocol

from replica_client.protocol.position import Position
from replica_client.stream.position.stores.base import PositionStore
from replica_client.stream.transactions.transaction import Transaction


class Output(Protocol):
    """Where changes are written."""

    def flush(self) -> None:
        """Hand everything on."""
        ...


SAVE_INTERVAL = 0.2
"""Seconds that delivered changes may wait for their position to be saved."""


class Delivery:
    """Keeps the order of output and position.

    A position is given out only when everything before it left this process, so that a kill at any
    instant leaves a saved position whose changes were all delivered.

    Args:
        lines: where changes are written.
        store: where :meth:`commit` saves.
        interval: see below.
        state: what to save with a position.

    Attributes:
        interval: seconds between two saves.
    """

    def __init__(
        self,
        lines: Output,
        store: PositionStore | None = None,
        interval: float = SAVE_INTERVAL,
        state: Callable[[Position], Mapping[str, object]] | None = None,
    ) -> None:
        self._lines = lines
        self._store = store
        self._state = state
        self._delivered: Position | Transaction | None = None
        self._reached: Position | None = None
        self._flushed_at = time.monotonic()
        self.interval = interval

    def delivered(self, reached: Position | Transaction) -> None:
        """Everything before a position, or up to the end of a transaction, was written.

        A transaction stands for the position behind it, which takes time to make.
        """
        self._delivered = reached

    @property
    def is_due(self) -> bool:
        """Whether it is time to save."""
        return time.monotonic() - self._flushed_at >= self.interval

    def flush(self) -> Position | None:
        """Hand the output on; returns the position that may be saved now, None for nothing new.

        Raises:
            OSError: the output cannot be written; no position may be saved.
        """
        self._lines.flush()
        self._flushed_at = time.monotonic()
        reached, self._delivered = self._delivered, None
        if reached is not None:
            self._reached = reached.position if isinstance(reached, Transaction) else reached
        return self._reached

    def saved(self, position: Position) -> None:
        """``position``, which :meth:`flush` gave, was saved."""
        if self._reached is position:
            self._reached = None

    def commit(self) -> None:
        """Hand the output on, then save the position."""
        position = self.flush()
        if position is not None:
            if self._store is not None:
                self._store.save(position, None if self._state is None else self._state(position))
            self.saved(position)
