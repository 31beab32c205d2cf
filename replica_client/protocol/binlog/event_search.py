# cython: boundscheck=False, wraparound=False
"""A search for events of some types in a piece of a file, by their headers alone.

This module is compiled where that is possible; elsewhere it runs as plain Python.
"""

from __future__ import annotations

from collections.abc import Iterable

import cython

if not cython.compiled:
    from replica_client.protocol.binlog.layout import EVENT_SIZE_OFFSET, HEADER_SIZE, TYPE_OFFSET
    from replica_client.protocol.codec.memory import load_le


def type_table(codes: Iterable[int]) -> bytes:
    """Return a table for :func:`find_events`: 256 bytes, with 1 for each of the type codes."""
    table = bytearray(256)
    for code in codes:
        table[code] = 1
    return bytes(table)


def find_events(data: bytes, table: bytes) -> tuple[list[int], int]:
    """Find events of some types in consecutive events of a binlog file.

    Args:
        data: begins with an event's header; its last event may be cut off.
        table: from :func:`type_table`.

    Returns:
        the offsets of the events of those types, and the end of the whole events. The search ends
        at an event that is cut off or has an impossible size.
    """
    raw: cython.p_const_uchar = data
    wanted: cython.p_const_uchar = table
    end: cython.Py_ssize_t = len(data)
    at: cython.Py_ssize_t = 0
    size: cython.Py_ssize_t
    found: list[int] = []
    if len(table) != 256:
        raise ValueError("the table of types has 256 bytes")
    while end - at >= HEADER_SIZE:
        size = load_le(raw, at + EVENT_SIZE_OFFSET, 4)
        if size < HEADER_SIZE or size > end - at:
            break
        if wanted[raw[at + TYPE_OFFSET]]:
            found.append(at)
        at += size
    return found, at
