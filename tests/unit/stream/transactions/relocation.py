"""Binlogs that tests put together: each event's header says where it ends now, as a server's would."""

from __future__ import annotations

import zlib


def relocated(data: bytes) -> bytes:
    """The file with right ends in the headers; events with a wrong checksum keep one that is wrong."""
    out = bytearray(data)
    at = 4
    while at + 19 <= len(out):
        size = int.from_bytes(out[at + 9 : at + 13], "little")
        end = at + size
        if size < 23 or end > len(out):
            break
        stated = int.from_bytes(out[at + 13 : at + 17], "little")
        if stated and stated != end & 0xFFFFFFFF:
            is_right = zlib.crc32(out[at : end - 4]) == int.from_bytes(out[end - 4 : end], "little")
            out[at + 13 : at + 17] = (end & 0xFFFFFFFF).to_bytes(4, "little")
            if is_right:
                out[end - 4 : end] = zlib.crc32(out[at : end - 4]).to_bytes(4, "little")
        at = end
    return bytes(out)
