"""A server's version, as its binlog names it."""

from __future__ import annotations

import re
from functools import lru_cache

_VERSION = re.compile(r"(?:5\.5\.5-)?([0-9]{1,3})\.([0-9]{1,3})(?:\.([0-9]{1,3}))?")


@lru_cache(maxsize=64)
def parse_server_version(text: str) -> tuple[int, int, int]:
    """``10.11.6-MariaDB-log`` gives (10, 11, 6); (0, 0, 0) when it is no version."""
    match = _VERSION.match(text)
    if match is None:
        return (0, 0, 0)
    return int(match[1]), int(match[2]), int(match[3] or 0)
