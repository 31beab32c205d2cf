"""The interface of all position stores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Protocol, runtime_checkable

from replica_client.codec.quick_dataclass import dataclass
from replica_client.errors import PositionStoreError
from replica_client.position.position import Position


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A position, with the state that is saved in the same step.

    Attributes:
        position: where to resume.
        state: JSON values by name, such as the schema history; the store does not look into them. A value that
            is a tuple of texts grows: a later state has the same texts, less some at the beginning, and new
            texts at the end. A store may write only the new texts, or store the value as a list.
    """

    position: Position
    state: Mapping[str, object] = field(default_factory=dict)


class PositionStore(Protocol):
    """Keeps one checkpoint; a saved one replaces the one before, wholly or not at all.

    All methods raise :class:`~replica_client.errors.PositionStoreError`, which says where and what
    to do.
    """

    def load(self) -> Position | None:
        """Return the saved position, or None when there is none yet."""
        ...

    def load_checkpoint(self) -> Checkpoint | None:
        """Return the saved position with its state, or None when there is none yet."""
        ...

    def save(self, position: Position, state: Mapping[str, object] | None = None) -> None:
        """Save a position and its state; when this returns, both survive a crash."""
        ...


class StoreInUseError(PositionStoreError):
    """Another stream or process has the store."""


@runtime_checkable
class HeldStore(Protocol):
    """A store that one process at a time may use."""

    def hold(self) -> None:
        """Keep other processes from it.

        Raises:
            PositionStoreError: another process has it.
        """
        ...

    def release(self) -> None:
        """Release the lock."""
        ...


@runtime_checkable
class LeasedStore(Protocol):
    """A store whose position is written by the holder of a lease."""

    def check_lease(self) -> None:
        """Check that this process may save.

        Raises:
            SinkError: another process took the lease over.
        """
        ...

    def release(self) -> None:
        """Give the lease back."""
        ...
