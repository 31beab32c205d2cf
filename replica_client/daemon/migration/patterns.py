"""Regular expressions of other tools as our patterns of tables, where they mean the same."""

from __future__ import annotations

import re
from typing import Final

_PLAIN: Final = re.compile(r"[\w$-]+")
_ANY: Final = ("\\w*", "\\w+", "[^.]*", "[^.]+", ".*", ".+")


def list_of(text: str) -> list[str]:
    """The parts of a list with commas; those in brackets of an expression do not count."""
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
    r"""A regular expression as patterns of names with points between them.

    Args:
        expression: matches whole names such as ``shop\.orders``, in any letter case.
        parts: how many names.

    Returns:
        One list of names for each alternative; None where it says what no pattern can.
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
            # A point that is not escaped means any character, and stands for a point in practice.
            names = [_pattern(name) for name in re.split(r"\.(?![*+?])", one)]
        given = [name for name in names if name is not None]
        if len(given) != parts or len(names) != parts:
            return None
        found.append(given)
    return found


def _grouped(text: str, parts: int) -> list[list[str]] | None:
    r"""``shop\.(orders|items)`` as its alternatives."""
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
    """One name; None where it is another expression."""
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
            # A quantifier is of the last character.
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
