"""A cache of decoded values, limited by the number of entries and the bytes of large ones."""

from __future__ import annotations

from typing import TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

SMALL = 16 << 10


class SizedCache(dict[_Key, _Value]):
    """A dict that is filled by :meth:`put` and empties itself when it is full.

    Args:
        most: the most entries.
        most_bytes: the most bytes that all large entries were decoded from. One larger
            entry is kept until the next large one comes.
        small: the most bytes of an entry that is not large.
    """

    def __init__(self, most: int, most_bytes: int = 4 << 20, small: int = SMALL) -> None:
        super().__init__()
        self._most = most
        self._small = small
        self._most_bytes = most_bytes
        self._bytes = 0

    def put(self, key: _Key, value: _Value, size: int) -> None:
        """Add a value that was decoded from ``size`` bytes."""
        if key not in self:
            if size <= self._small:
                size = 0
            if len(self) >= self._most or (size and self._bytes + size > self._most_bytes):
                self.clear()
            self._bytes += size
        self[key] = value

    def clear(self) -> None:
        """Remove all entries."""
        super().clear()
        self._bytes = 0
