"""Text that is already JSON."""

from __future__ import annotations


class RawJson(str):
    """Text that is already JSON and is written unchanged."""

    __slots__ = ()

    @property
    def text(self) -> str:
        """The document's text, as of a document from the binlog."""
        return str(self)
