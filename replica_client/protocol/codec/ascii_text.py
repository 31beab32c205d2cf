"""Decode UTF-8 text, which is mostly ASCII.

Compiled modules inline ``ascii_text.pxd`` instead of this file; the two are the same function.
"""

from __future__ import annotations

from typing import Any


def text_of(data: Any, offset: int, size: int) -> str:
    """Return `size` bytes at `offset` as text.

    Bounds are not checked.

    Raises:
        UnicodeDecodeError: the bytes are not UTF-8.
    """
    return str(data[offset : offset + size], "utf-8")
