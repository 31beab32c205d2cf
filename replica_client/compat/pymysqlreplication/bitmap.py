"""Column bitmaps."""

bitCountInByte = [byte.bit_count() for byte in range(256)]


def BitCount(bitmap: bytes) -> int:
    """Return how many bits of a bitmap are set."""
    return int.from_bytes(bitmap, "little").bit_count()


def BitGet(bitmap: bytes, position: int) -> int:
    """Return a bit of a bitmap; not 0 when it is set."""
    return bitmap[position >> 3] & (1 << (position & 7))
