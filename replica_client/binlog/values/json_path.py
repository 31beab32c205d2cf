r"""Paths into a JSON document, as the server writes them into partial updates.

A path is ``$`` and legs: ``.name``, ``."any \"name\""``, ``[3]``, ``[last]``, ``[last-2]``.
Wildcards and ranges, which name several values, never occur in an update.

Spec: MySQL json_path.cc.
"""

from __future__ import annotations

import json
import re
from typing import TypeAlias

from replica_client.errors import ColumnDecodeError

JsonPathLeg: TypeAlias = str | int
"""A member's name, or an array index: negative ones count from the end, -1 is ``[last]``."""

_SPACE = re.compile(r"[ \t\r\n]*")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NAME = re.compile(r"[^\s.\[\]*\"]+")
_CELL = re.compile(r"\[\s*(?:(?P<index>\d{1,10})|last(?:\s*-\s*(?P<back>\d{1,10}))?)\s*\]")


def parse_path(text: str) -> tuple[JsonPathLeg, ...]:
    """Return the legs of a path; none for ``$``, the whole document.

    Raises:
        ColumnDecodeError: the text is not a path to exactly one value.
    """
    at = _skip(text, 0)
    if text[at : at + 1] != "$":
        raise _invalid(text, at)
    legs: list[JsonPathLeg] = []
    at = _skip(text, at + 1)
    while at < len(text):
        leg: JsonPathLeg
        if text[at] == ".":
            leg, at = _member(text, _skip(text, at + 1))
        else:
            cell = _CELL.match(text, at)
            if cell is None:
                raise _invalid(text, at)
            index, back = cell.group("index", "back")
            leg = int(index) if index is not None else -1 - int(back or 0)
            at = cell.end()
        legs.append(leg)
        at = _skip(text, at)
    return tuple(legs)


def _member(text: str, at: int) -> tuple[str, int]:
    quoted = _QUOTED.match(text, at)
    found = quoted or _NAME.match(text, at)
    if found is None:
        raise _invalid(text, at)
    source = quoted.group() if quoted else f'"{found.group()}"'
    try:
        name: str = json.loads(source, strict=False)
        name.encode()
    except ValueError:
        raise _invalid(text, at) from None
    return name, found.end()


def _skip(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space else at


def _invalid(text: str, at: int) -> ColumnDecodeError:
    shown = text if len(text) <= 80 else text[:77] + "..."
    return ColumnDecodeError(f"JSON path {shown!r} is not understood at its character {at}")
