"""Stores of positions between runs."""

from replica_client.stream.position.stores.base import (
    Checkpoint,
    MemoryPositionStore,
    PositionStore,
)
from replica_client.stream.position.stores.file import FilePositionStore

__all__ = ["Checkpoint", "FilePositionStore", "MemoryPositionStore", "PositionStore"]
