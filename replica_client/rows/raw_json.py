"""Text that is JSON already."""

from __future__ import annotations


class RawJson(str):
    """Text that is JSON already and is written as it stands."""

    __slots__ = ()

    @property
    def text(self) -> str:
        """The document, as of one that comes from the binlog."""
        return str(self)
