"""CRC-32 of events (the polynomial of zlib, IEEE 802.3).

Compiled modules inline ``crc.pxd`` instead of :func:`valid_until` and :func:`cut_valid`; both forms
return the same.
"""

from __future__ import annotations

from typing import Any
from zlib import crc32 as _zlib_crc32

_HEADER = 19
_SHORT = 512


def crc32(data: bytes | memoryview, start: int = 0) -> int:
    """Return the CRC-32 of ``data``; ``start`` is the CRC of the bytes that come before it."""
    return _zlib_crc32(data, start)


def _is_valid(event: memoryview) -> bool:
    return len(event) >= 4 and _zlib_crc32(event[:-4]) == int.from_bytes(event[-4:], "little")


def valid_until(data: Any, marks: Any, first: int, last: int) -> int:
    """Return the index of the first event whose last four bytes are not its CRC-32.

    Args:
        data: the memory of the events.
        marks: start and end offset of each event.
        first: index of the first event to check.
        last: index after the last event to check.

    Returns:
        the index; ``last`` if every event has its CRC-32.
    """
    view = memoryview(data)
    for index in range(first, last):
        if not _is_valid(view[marks[2 * index] : marks[2 * index + 1]]):
            return index
    return last


def cut_valid(
    data: Any, at: int, end: int, marks: Any, last: int, room: int, most: int, stops: Any
) -> int:
    """Mark short events from an offset on, up to the first one without a right CRC-32.

    It may stop earlier: the compiled form checks only groups of four events.

    Args:
        data: events with headers of 19 bytes.
        at: offset of the first event.
        end: offset after the last byte.
        marks: receives the start and end offset of each event.
        last: index of the first mark to set.
        room: number of marks that fit.
        most: the most bytes that an event may have.
        stops: true for the event types to stop before.

    Returns:
        the index after the last mark set.
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
