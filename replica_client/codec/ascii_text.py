"""Text of bytes in UTF-8, nearly all of which is ASCII.

Compiled modules inline ``ascii_text.pxd`` instead of this file; the two are the same function.
"""

from __future__ import annotations

from typing import Any


def text_of(data: Any, offset: int, size: int) -> str:
    """The text of ``size`` bytes, which are there.

    Raises:
        UnicodeDecodeError: they are not UTF-8.
    """
    return str(data[offset : offset + size], "utf-8")
