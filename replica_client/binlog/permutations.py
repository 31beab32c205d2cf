"""Type numbers of the 5.1 and 5.2 development trees, which numbered some events differently.

The ``a_drop`` alphas (5.1.1 to 5.1.5, 5.2.0 to 5.2.2) numbered TABLE_MAP and the rows events before
XID. Later servers translate the numbers when they read such a file, and so does the decoder: its
headers have today's numbers.

Spec: MySQL ``Format_description_event::event_type_permutation`` (control_events.cpp, up to 5.7).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_TREES = re.compile(r"5\.(?:1\.[1-5]|2\.[0-2])-a_drop")

# Index: number in the file; value: today's number. The first 16 are the same.
_PERMUTATION: Final = (*range(16), 19, 20, 21, 22, 16, 17, 18)
_INVERSE: Final = tuple(_PERMUTATION.index(code) for code in range(len(_PERMUTATION)))


@lru_cache(maxsize=64)
def is_permuted(server_version: str) -> bool:
    """Return whether files of this version have other type numbers."""
    return _TREES.match(server_version) is not None


def current_type_code(code: int) -> int:
    """Return today's number for a number in a permuted file."""
    return _PERMUTATION[code] if code < len(_PERMUTATION) else code


def permuted_type_code(code: int) -> int:
    """Return the number in a permuted file for one of today's numbers."""
    return _INVERSE[code] if code < len(_INVERSE) else code


def current_post_header_sizes(server_version: str, sizes: bytes) -> bytes:
    """Return the post-header lengths of a format description, in today's order of types."""
    if len(sizes) < len(_PERMUTATION) - 1 or not is_permuted(server_version):
        return sizes
    known = bytes(sizes[_INVERSE[code] - 1] for code in range(1, len(_PERMUTATION)))
    return known + sizes[len(_PERMUTATION) - 1 :]
