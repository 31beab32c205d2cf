"""Conversion of geometries from well-known binary to well-known text (OGC simple features).

======  ========================================
size    field
======  ========================================
1       byte order: 0 big-endian, 1 little-endian
4       type: 1 POINT … 7 GEOMETRYCOLLECTION
rest    POINT: two doubles; LINESTRING: count and
        points; POLYGON: count and rings, each a
        count and points; others: count and
        geometries, each whole
======  ========================================
"""

from __future__ import annotations

from struct import error as StructError
from struct import unpack_from

_NAMES = (
    "",
    "POINT",
    "LINESTRING",
    "POLYGON",
    "MULTIPOINT",
    "MULTILINESTRING",
    "MULTIPOLYGON",
    "GEOMETRYCOLLECTION",
)
_MAX_DEPTH = 64


def well_known_text(wkb: bytes) -> str:
    """Return the well-known text of a geometry.

    Raises:
        ValueError: the bytes are no well-known binary.
    """
    reader = _Reader(wkb)
    try:
        text = reader.geometry(0)
    except StructError as error:
        raise ValueError(f"a geometry of {len(wkb)} bytes ends early") from error
    if reader.at != len(wkb):
        raise ValueError(f"a geometry has {len(wkb) - reader.at} bytes too many")
    return text


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.order = "<"

    def geometry(self, depth: int, *, named: bool = True) -> str:
        if depth > _MAX_DEPTH:
            raise ValueError("geometries are nested too deep")
        (order,) = self._take("B")
        self.order = "<" if order else ">"
        (kind,) = self._take("I")
        if not 1 <= kind <= 7:
            raise ValueError(f"geometry type {kind} is not known")
        text = self._body(kind, depth)
        return f"{_NAMES[kind]} {text}" if named else text

    def _body(self, kind: int, depth: int) -> str:
        if kind == 1:
            return f"({self._point()})"
        if kind == 2:
            return self._points()
        (count,) = self._take("I")
        if not count:
            return "EMPTY"
        if kind == 3:
            parts = [self._points() for _ in range(count)]
        else:
            parts = [self.geometry(depth + 1, named=kind == 7) for _ in range(count)]
        return "(" + ", ".join(parts) + ")"

    def _points(self) -> str:
        (count,) = self._take("I")
        if not count:
            return "EMPTY"
        return "(" + ", ".join(self._point() for _ in range(count)) + ")"

    def _point(self) -> str:
        x, y = self._take("dd")
        return f"{_number(x)} {_number(y)}"

    def _take(self, form: str) -> tuple[int, ...]:
        found = unpack_from(self.order + form, self.data, self.at)
        self.at += {"B": 1, "I": 4, "dd": 16}[form]
        return found


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
