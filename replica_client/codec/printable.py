"""Text of others for a terminal or a log."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_STEERING: Final = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def escaped_json(text: str) -> str:
    """Return JSON with escapes for what steers a terminal, and JSON leaves alone: DEL, C1, line ends, directions."""
    if text.isascii() and "\x7f" not in text:
        return text
    return _STEERING.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def printable(text: str) -> str:
    """The text with control characters as escapes, so that a value cannot steer the terminal."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode()
        for c in text
    )


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a hint at the known name that was probably meant, or at the names that there are; ``""`` without any."""
    import difflib  # most runs have no such error

    names = sorted(known)
    lowered = {name.lower(): name for name in names}
    close = difflib.get_close_matches(word.lower(), list(lowered), 1, 0.5)
    if close:
        return f"did you mean {printable(lowered[close[0]])}?"
    shown = ", ".join(map(printable, names[:10])) + (" …" if names[10:] else "")
    return f"there are {shown}" if names else ""
