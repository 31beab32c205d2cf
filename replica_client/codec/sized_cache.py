"""A cache of what was decoded, bounded by entries and by the bytes of the large ones."""

from __future__ import annotations

from typing import TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

SMALL = 16 << 10


class SizedCache(dict[_Key, _Value]):
    """A dict to look things up in, and :meth:`put` to fill it; it begins anew when it is full.

    Args:
        most: entries.
        most_bytes: bytes that the large entries were decoded from, together. A single larger one is kept as
            long as no other large one comes.
        small: bytes up to which an entry is not large.
    """

    def __init__(self, most: int, most_bytes: int = 4 << 20, small: int = SMALL) -> None:
        super().__init__()
        self._most = most
        self._small = small
        self._most_bytes = most_bytes
        self._bytes = 0

    def put(self, key: _Key, value: _Value, size: int) -> None:
        """Keep a value that was decoded from ``size`` bytes."""
        if key not in self:
            if size <= self._small:
                size = 0
            if len(self) >= self._most or (size and self._bytes + size > self._most_bytes):
                self.clear()
            self._bytes += size
        self[key] = value

    def clear(self) -> None:
        """Forget everything."""
        super().clear()
        self._bytes = 0
