"""Values that are bytes with a meaning: GEOMETRY, VECTOR, UUID, INET4 and INET6.

====== =====================================================
size   field
====== =====================================================
4      srid, little-endian
rest   WKB (the OGC format; longitude or x first, as stored)
====== =====================================================

Spec: MySQL "Internal Geometry Storage Format".

In a table map they look like BINARY columns of 16, 4 and 16 bytes; only the table's definition
shows the type. As for any BINARY column, row images omit trailing zero bytes.

Spec: MariaDB ``sql_type_uuid``, ``sql_type_inet`` (text forms as their ``to_string``).
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Sequence

from replica_client.errors import EncodeError
from replica_client.protocol.binlog.values.numbers import decode_float
from replica_client.protocol.codec.quick_dataclass import dataclass

_SRID_SIZE = 4


@dataclass(frozen=True, slots=True)
class Geometry:
    """A geometry value.

    Attributes:
        srid: spatial reference system, 0 for the flat plane.
        wkb: well-known binary. Empty for the empty string that old servers store in place of a
            missing value.

    Examples:
        >>> point = rc.Geometry(srid=4326, wkb=bytes.fromhex("0101000000" + "00" * 16))
        >>> point.srid, len(point.wkb)
        (4326, 21)
    """

    srid: int
    wkb: bytes


def decode_geometry(data: bytes) -> Geometry:
    """Decode a geometry's SRID and WKB.

    Raises:
        ValueError: one to three bytes, too few for an SRID.
    """
    if not data:
        return Geometry(0, b"")
    if len(data) < _SRID_SIZE:
        raise ValueError(f"a geometry of {len(data)} bytes has no srid")
    return Geometry(int.from_bytes(data[:_SRID_SIZE], "little"), data[_SRID_SIZE:])


def encode_geometry(value: Geometry) -> bytes:
    """Encode a geometry; return no bytes for ``Geometry(0, b"")``."""
    if not (value.srid or value.wkb):
        return b""
    if not 0 <= value.srid < 1 << 32:
        raise EncodeError(f"srid {value.srid} does not fit into 4 bytes")
    return value.srid.to_bytes(_SRID_SIZE, "little") + value.wkb


_ITEM_SIZE = 4


def decode_vector(data: bytes) -> tuple[float, ...]:
    """Return the vector's numbers, each the shortest that reads back as its 4-byte float.

    Raises:
        ValueError: the number of bytes is no multiple of four.
    """
    if len(data) % _ITEM_SIZE:
        raise ValueError(f"a vector of {len(data)} bytes is not a whole number of floats")
    return tuple(decode_float(data[at : at + 4]) for at in range(0, len(data), _ITEM_SIZE))


def encode_vector(value: Sequence[float]) -> bytes:
    """Encode a vector."""
    try:
        return struct.pack(f"<{len(value)}f", *value)
    except OverflowError as error:
        raise EncodeError("a number is too large for a vector") from error


UUID_SIZE = 16
INET4_SIZE = 4
INET6_SIZE = 16


def decode_uuid(data: bytes) -> str:
    """Return a UUID's text, in lower case with dashes."""
    text = _padded(data, UUID_SIZE).hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def decode_inet4(data: bytes) -> str:
    """Return an INET4's dotted text."""
    return str(ipaddress.IPv4Address(_padded(data, INET4_SIZE)))


def decode_inet6(data: bytes) -> str:
    """Return an INET6's text, as MariaDB writes it.

    The first longest run of zero groups becomes ``::``, even a run of one group; mapped and
    compatible IPv4 addresses (``::ffff:1.2.3.4``, ``::1.2.3.4``) have dots.
    """
    data = _padded(data, INET6_SIZE)
    groups = [int.from_bytes(data[at : at + 2], "big") for at in range(0, INET6_SIZE, 2)]
    start, size = _longest_zero_run(groups)
    if start == 0 and (size == 6 or (size == 5 and groups[5] == 0xFFFF)):
        return ("::" if size == 6 else "::ffff:") + decode_inet4(data[12:])
    if not size:
        return ":".join(f"{group:x}" for group in groups)
    head = ":".join(f"{group:x}" for group in groups[:start])
    tail = ":".join(f"{group:x}" for group in groups[start + size :])
    return f"{head}::{tail}"


def _longest_zero_run(groups: list[int]) -> tuple[int, int]:
    """Return start and length of the first longest run of zeros."""
    best, start = (0, 0), None
    for at, group in enumerate([*groups, 1]):
        if group == 0:
            start = at if start is None else start
        elif start is not None:
            if at - start > best[1]:
                best = (start, at - start)
            start = None
    return best


def encode_uuid(value: str) -> bytes:
    """Encode a UUID as 16 bytes."""
    import uuid  # no reader needs it

    return uuid.UUID(value).bytes


def encode_inet4(value: str) -> bytes:
    """Encode an INET4 as 4 bytes."""
    return ipaddress.IPv4Address(value).packed


def encode_inet6(value: str) -> bytes:
    """Encode an INET6 as 16 bytes."""
    return ipaddress.IPv6Address(value).packed


def _padded(data: bytes, size: int) -> bytes:
    if len(data) > size:
        raise ValueError(f"{len(data)} bytes, must be at most {size}")
    return data.ljust(size, b"\0")
