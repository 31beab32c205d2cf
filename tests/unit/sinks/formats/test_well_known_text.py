"""Geometries as text, in either order of bytes, in the spelling of JTS that Maxwell writes."""

from __future__ import annotations

import struct

import pytest

from replica_client.sinks.formats import message as well_known_text


def point(order: str, x: float, y: float) -> bytes:
    return struct.pack(f"{order}BIdd", order == "<", 1, x, y)


@pytest.mark.parametrize("outer", "<>")
@pytest.mark.parametrize("inner", "<>")
def test_the_order_of_bytes_is_that_of_each_geometry(outer: str, inner: str) -> None:
    line = struct.pack(f"{outer}BIIdddd", outer == "<", 2, 2, 0.0, 0.0, 1.5, -2.0)
    both = struct.pack(f"{outer}BII", outer == "<", 7, 2) + point(inner, 1.0, 2.0) + line
    reader = well_known_text._Reader(both)
    assert reader.geometry(0) == ("GEOMETRYCOLLECTION (POINT (1 2), LINESTRING (0 0, 1.5 -2))")


def nested(depth: int) -> bytes:
    """A point in so many collections."""
    return struct.pack("<BII", 1, 7, 1) * depth + point("<", 1.0, 2.0)


def test_how_deep_geometries_may_be_nested() -> None:
    deepest = well_known_text._MAX_DEPTH
    text = well_known_text._Reader(nested(deepest)).geometry(0)
    assert text == "GEOMETRYCOLLECTION (" * deepest + "POINT (1 2)" + ")" * deepest
    with pytest.raises(ValueError, match="nested too deep"):
        well_known_text._Reader(nested(deepest + 1)).geometry(0)
