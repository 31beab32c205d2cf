"""Bytes and numbers under asyncmy's names."""

from __future__ import annotations


def byte2int(b: bytes | int) -> int:
    """Return the number of a byte."""
    return b if isinstance(b, int) else b[0]


def int2byte(i: int) -> bytes:
    """Return a number as one byte.

    Raises:
        OverflowError: the number is not in 0 to 255.
    """
    return i.to_bytes(1, "little")
