"""Foreign text, made safe for a terminal or a log."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_STEERING: Final = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_STEERING_UTF8: Final = re.compile(
    rb"\x7f|\xc2[\x80-\x9f]|\xd8\x9c|\xe2(?:\x80[\x8e\x8f\xa8-\xae]|\x81[\xa6-\xa9])"
)
_FIRST_BYTES: Final = (b"\x7f", b"\xc2", b"\xd8\x9c", b"\xe2\x80", b"\xe2\x81")


def escaped_json(text: str) -> str:
    """Return JSON with more characters escaped: those that control a terminal.

    JSON itself allows DEL, C1 controls, line separators and marks of direction.
    """
    if text.isascii() and "\x7f" not in text:
        return text
    return _STEERING.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def escaped_json_lines(lines: bytes | bytearray) -> bytes | bytearray:
    """Return lines of JSON in UTF-8 with the escapes of :func:`escaped_json`."""
    if not any(first in lines for first in _FIRST_BYTES):
        return lines
    return _STEERING_UTF8.sub(lambda match: b"\\u%04x" % ord(match[0].decode()), lines)


def printable(text: str) -> str:
    """Return text with control characters as escapes, so that it cannot control the terminal."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode()
        for c in text
    )


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a hint: the known name probably meant, or all of them; ``""`` if there are none."""
    import difflib  # most runs have no such error

    names = sorted(known)
    lowered = {name.lower(): name for name in names}
    close = difflib.get_close_matches(word.lower(), list(lowered), 1, 0.5)
    if close:
        return f"did you mean {printable(lowered[close[0]])}?"
    shown = ", ".join(map(printable, names[:10])) + (" …" if names[10:] else "")
    return f"there are {shown}" if names else ""
