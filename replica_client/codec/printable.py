"""Text of others for a terminal or a log."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with control characters as escapes, so that a value cannot steer the terminal."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode()
        for c in text
    )
