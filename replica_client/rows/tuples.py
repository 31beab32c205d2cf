"""Rows under construction: the tuple of a row class, created before its values exist.

Compiled modules inline ``tuples.pxd`` instead of this file, and fill the tuple itself; here a list
takes its place. Each item must be set once before :func:`filled`.
"""

from __future__ import annotations

from typing import Any


def empty_row(row_type: Any, count: int) -> Any:
    """Return a row with room for ``count`` values."""
    return [None] * count


def put_value(row: Any, at: int, value: Any) -> None:
    """Set a value of the row."""
    row[at] = value


def filled(row: Any, row_type: Any) -> Any:
    """Return the finished row, all of whose values were set."""
    return row_type(row)


def value_at(row: Any, at: int) -> Any:
    """Return a value of a row or another tuple."""
    return tuple.__getitem__(row, at)
