"""Sizes with units, as people write them: ``64k``, ``16m``, ``2 GiB``."""

from __future__ import annotations

import re
from typing import Final

_SIZE: Final = re.compile(r"([0-9]+)\s*([kmg]?)(?:i?b)?", re.IGNORECASE)
_FACTORS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def size_of(text: str) -> int | None:
    """Parse a number with an optional k, m or g (steps of 1024) into bytes; return None if it is no size."""
    match = _SIZE.fullmatch(text.strip())
    return int(match[1]) * _FACTORS[match[2].lower()] if match else None
