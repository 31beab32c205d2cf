"""GEOMETRY and its subtypes: a spatial reference id and well-known binary.

====== =====================================================
size   field
====== =====================================================
4      srid, little-endian
rest   WKB (the OGC format; longitude or x first, as stored)
====== =====================================================

Spec: MySQL "Internal Geometry Storage Format".
"""

from __future__ import annotations

from replica_client.codec.quick_dataclass import dataclass
from replica_client.errors import EncodeError

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
