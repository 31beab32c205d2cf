# cython: boundscheck=False, wraparound=False
"""Where the events of some types are in a piece of a file, by the headers alone.

This module is compiled where that is possible and runs as it stands everywhere else.
"""

from __future__ import annotations

from collections.abc import Iterable

import cython

if cython.compiled:
    from cython.cimports.replica_client.binlog.layout import (
        EVENT_SIZE_OFFSET,
        HEADER_SIZE,
        TYPE_OFFSET,
    )
    from cython.cimports.replica_client.codec.memory import load_le
else:
    from replica_client.binlog.layout import EVENT_SIZE_OFFSET, HEADER_SIZE, TYPE_OFFSET
    from replica_client.codec.memory import load_le


def type_table(codes: Iterable[int]) -> bytes:
    """Type codes as :func:`find_events` takes them: 256 bytes, 1 where a type is one of them."""
    table = bytearray(256)
    for code in codes:
        table[code] = 1
    return bytes(table)


def find_events(data: bytes, table: bytes) -> tuple[list[int], int]:
    """Look through whole events, one behind the other as in a binlog file.

    Args:
        data: begins with an event's header; its last event may be cut off.
        table: of :func:`type_table`.

    Returns:
        The offsets of the events of those types, and where the whole events end. It ends before an event that
        is not whole or has an impossible size.
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
