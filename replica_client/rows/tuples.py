"""Rows as they are filled: the tuple of a row class, made before its values are there.

Compiled modules inline ``tuples.pxd`` instead of this file, and fill the very tuple; here a list
stands for it. Each place must be set once before :func:`filled`.
"""

from __future__ import annotations

from typing import Any


def empty_row(row_type: Any, count: int) -> Any:
    """A row of ``count`` places."""
    return [None] * count


def put_value(row: Any, at: int, value: Any) -> None:
    """Put a value in its place."""
    row[at] = value


def filled(row: Any, row_type: Any) -> Any:
    """The row, all of whose places were set."""
    return row_type(row)


def value_at(row: Any, at: int) -> Any:
    """The value in a place of a row or another tuple."""
    return tuple.__getitem__(row, at)
