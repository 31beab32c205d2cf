"""Stores of positions between runs."""

from replica_client.position.stores.base import Checkpoint, PositionStore
from replica_client.position.stores.file import FilePositionStore
from replica_client.position.stores.in_memory import MemoryPositionStore

__all__ = ["Checkpoint", "FilePositionStore", "MemoryPositionStore", "PositionStore"]
