"""CRC-32 of events (the polynomial of zlib, IEEE 802.3)."""

from __future__ import annotations

from zlib import crc32 as _zlib_crc32


def crc32(data: bytes | memoryview, start: int = 0) -> int:
    """CRC-32 of ``data``; ``start`` is the CRC of the bytes that come before it."""
    return _zlib_crc32(data, start)
