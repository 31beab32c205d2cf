"""The version number in a binlog's server version text."""

from __future__ import annotations

import re
from functools import lru_cache

_VERSION = re.compile(r"(?:5\.5\.5-)?([0-9]{1,3})\.([0-9]{1,3})(?:\.([0-9]{1,3}))?")


@lru_cache(maxsize=64)
def parse_server_version(text: str) -> tuple[int, int, int]:
    """Return (10, 11, 6) for ``10.11.6-MariaDB-log``; (0, 0, 0) for a text without a version."""
    match = _VERSION.match(text)
    if match is None:
        return (0, 0, 0)
    return int(match[1]), int(match[2]), int(match[3] or 0)
