"""A store that forgets: for tests, and for consumers that keep positions themselves."""

from __future__ import annotations

from collections.abc import Mapping

from replica_client.position.position import Position
from replica_client.position.stores.base import Checkpoint


class MemoryPositionStore:
    """Keeps a checkpoint as long as the object lives.

    Examples:
        >>> store = rc.MemoryPositionStore()
        >>> store.save(rc.Position("binlog.000024", 1472))
        >>> str(store.load())
        'binlog.000024:1472'
    """

    def __init__(self, position: Position | None = None) -> None:
        self._checkpoint = None if position is None else Checkpoint(position)

    def load(self) -> Position | None:
        """Return the saved position, or None when there is none yet."""
        return None if self._checkpoint is None else self._checkpoint.position

    def load_checkpoint(self) -> Checkpoint | None:
        """Return the saved position with its state, or None when there is none yet."""
        return self._checkpoint

    def save(self, position: Position, state: Mapping[str, object] | None = None) -> None:
        """Save a position and its state."""
        self._checkpoint = Checkpoint(position, dict(state or {}))
