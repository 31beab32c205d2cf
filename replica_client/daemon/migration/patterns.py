"""Conversion of other tools' regular expressions to table patterns with the same meaning."""

from __future__ import annotations

import re
from typing import Final

_PLAIN: Final = re.compile(r"[\w$-]+")
_ANY: Final = ("\\w*", "\\w+", "[^.]*", "[^.]+", ".*", ".+")


def list_of(text: str) -> list[str]:
    """Split a list at commas outside brackets."""
    parts, depth, part = [], 0, ""
    for char in text:
        depth += (char in "([{") - (char in ")]}")
        if char == "," and depth <= 0:
            parts.append(part)
            part = ""
        else:
            part += char
    return [one.strip() for one in (*parts, part) if one.strip()]


def names_of(expression: str, parts: int) -> list[list[str]] | None:
    r"""Convert a regular expression to patterns of dotted names.

    Args:
        expression: matches whole names such as ``shop\.orders``, in any letter case.
        parts: how many names.

    Returns:
        One list of names for each alternative; None if no pattern can express it.
    """
    text = expression.strip().removeprefix("^").removesuffix("$")
    if text.startswith("(") and text.endswith(")") and not set("()") & set(text[1:-1]):
        text = text[1:-1].removeprefix("?:")
    if "(" in text:
        return _grouped(text, parts)
    if text in (".*", ".+", ".*\\..*", ".*[.].*"):
        return [["*"] * parts]
    found = []
    for one in text.split("|"):
        names = [_pattern(name) for name in re.split(r"\\\.|\[\.\]", one)]
        if len(names) == 1 and parts > 1:
            # An unescaped point matches any character, but is meant as a point in practice.
            names = [_pattern(name) for name in re.split(r"\.(?![*+?])", one)]
        given = [name for name in names if name is not None]
        if len(given) != parts or len(names) != parts:
            return None
        found.append(given)
    return found


def _grouped(text: str, parts: int) -> list[list[str]] | None:
    r"""Convert each alternative of a group such as ``shop\.(orders|items)``."""
    match = re.fullmatch(r"([^()]*)\((?:\?:)?([^()]*)\)([^()]*)", text)
    if match is None or "|" in match[1] + match[3]:
        return None
    found: list[list[str]] = []
    for one in match[2].split("|"):
        names = names_of(match[1] + one + match[3], parts)
        if names is None:
            return None
        found += names
    return found


def _pattern(text: str) -> str | None:
    """Convert the expression of one name; None if no pattern can express it."""
    made = ""
    while text:
        piece = next((one for one in _ANY if text.startswith(one)), None)
        if piece is not None:
            if piece.endswith("+"):
                made += "?"
            made += "*"
            text = text[len(piece) :]
            continue
        plain = _PLAIN.match(text)
        if plain is not None:
            # A quantifier would apply to the last character alone.
            if text[plain.end() : plain.end() + 1] in ("*", "+", "?", "{"):
                return None
            made += plain[0]
            text = text[plain.end() :]
            continue
        if text[0] == "\\" and text[1:2] in ("$", "-", "_"):
            made += text[1]
            text = text[2:]
            continue
        return None
    return made or None
