"""Rows and spatial values as text.

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

from base64 import b64encode
from collections.abc import Callable, Collection, Iterator, Sequence
from operator import call
from struct import error as StructError
from struct import unpack_from
from typing import Any

from replica_client.rows.change import RowsOfEvent
from replica_client.rows.json_values import quote
from replica_client.rows.special_values import ABSENT
from replica_client.schema.shape import ColumnShape

ValueWriter = Callable[[Any], str]
"""Returns the JSON text of a value that is neither None nor absent."""


class RowWriter:
    """Writes rows of one shape.

    Args:
        columns: columns of the row values, in order.
        writer_of: returns the writer of a column.
        space: what follows ``:`` and ``,``.
        null_of: returns the text for NULL in a column; None: ``null``.
        of_strings: writers that only quote if the value is a string.
    """

    def __init__(
        self,
        columns: Sequence[ColumnShape],
        writer_of: Callable[[ColumnShape], ValueWriter],
        space: str = "",
        null_of: Callable[[ColumnShape], str] | None = None,
        of_strings: Collection[ValueWriter] = (),
    ) -> None:
        self._fields = []
        for column in columns:
            name, null = f"{quote(column.name)}:{space}", "null"
            if null_of is not None:
                null = null_of(column)
            self._fields.append((name, writer_of(column), name + null))
        self._comma = "," + space
        names = (name.replace("%", "%%") + "%s" for name, _, _ in self._fields)
        self._whole = "{" + self._comma.join(names) + "}"
        self._writers = tuple(
            quote if write in of_strings else write for _, write, _ in self._fields
        )

    def text(self, row: Sequence[Any] | None) -> str:
        """Return the row as an object without absent columns; ``null`` for None."""
        if row is None:
            return "null"
        values = tuple(row)
        if None not in values and ABSENT not in values:
            try:
                return self._whole % (*map(call, self._writers, values),)
            except TypeError:
                pass  # bytes in a column of text
        return "{" + self._comma.join(self.members(row)) + "}"

    def members(self, row: Sequence[Any]) -> list[str]:
        """Return ``"name":value`` for each column that is present in the row."""
        found = []
        for (name, write, null), value in zip(self._fields, row, strict=True):
            if value is None:
                found.append(null)
            elif value is not ABSENT:
                found.append(name + write(value))
        return found

    def changed(self, before: Sequence[Any], after: Sequence[Any]) -> list[str]:
        """Return ``"name":value`` for the columns of ``before`` that differ in ``after``."""
        found = []
        for (name, write, null), old, new in zip(self._fields, before, after, strict=True):
            if old is ABSENT or new is ABSENT or old == new:
                continue
            found.append(null if old is None else name + write(old))
        return found


def delivered_columns(rows: RowsOfEvent) -> tuple[ColumnShape, ...]:
    """Return the columns of the rows' values: all columns, or those that were selected."""
    wanted = frozenset(rows.decoder.column_names)
    return tuple(column for column in rows.shape.columns if column.name in wanted)


def numbered_rows(rows: RowsOfEvent) -> Iterator[tuple[int, Any, Any]]:
    """Yield row index, before image and after image of each row not delivered before."""
    for change in rows:
        yield change.row_index, change.before, change.after


def base64_text(value: bytes) -> str:
    """Return bytes as a JSON string in base64."""
    return f'"{b64encode(value).decode()}"'


def array(texts: Iterator[str] | Sequence[str]) -> str:
    """Return a JSON array of JSON texts."""
    return "[" + ",".join(texts) + "]"


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
