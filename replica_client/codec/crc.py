"""CRC-32 of events (the polynomial of zlib, IEEE 802.3).

Compiled modules inline ``crc.pxd`` instead of :func:`valid_until` and :func:`cut_valid`; they are the
same functions.
"""

from __future__ import annotations

from typing import Any
from zlib import crc32 as _zlib_crc32

_HEADER = 19
_SHORT = 512


def crc32(data: bytes | memoryview, start: int = 0) -> int:
    """CRC-32 of ``data``; ``start`` is the CRC of the bytes that come before it."""
    return _zlib_crc32(data, start)


def _is_valid(event: memoryview) -> bool:
    return len(event) >= 4 and _zlib_crc32(event[:-4]) == int.from_bytes(event[-4:], "little")


def valid_until(data: Any, marks: Any, first: int, last: int) -> int:
    """Which is the first of some events that does not end with the CRC-32 of its other bytes.

    Args:
        data: where they are.
        marks: of each one the offset where it begins and the one behind it.
        first: index of the first one to look at.
        last: index behind the last one.

    Returns:
        its index; ``last`` when all do.
    """
    view = memoryview(data)
    for index in range(first, last):
        if not _is_valid(view[marks[2 * index] : marks[2 * index + 1]]):
            return index
    return last


def cut_valid(
    data: Any, at: int, end: int, marks: Any, last: int, room: int, most: int, stops: Any
) -> int:
    """Mark the events that begin at an offset, as long as they are short and end with their CRC-32.

    It may stop before any of them: the compiled form looks at four together, and not at fewer.

    Args:
        data: where they are, with headers of 19 bytes.
        at: offset of the first one.
        end: offset behind what is there.
        marks: gets of each one the offset where it begins and the one behind it.
        last: index of the first mark to set.
        room: index behind the last mark that can be set.
        most: bytes that an event may have.
        stops: is true for the types of events to stop before.

    Returns:
        the index behind the last mark set.
    """
    view = memoryview(data)
    while last < room and end - at >= _HEADER:
        size = int.from_bytes(view[at + 9 : at + 13], "little")
        if not _HEADER <= size <= min(most, _SHORT, end - at) or stops[view[at + 4]]:
            break
        if not _is_valid(view[at : at + size]):
            break
        marks[2 * last] = at
        at += size
        marks[2 * last + 1] = at
        last += 1
    return last
