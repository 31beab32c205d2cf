"""Rows as JSON objects, with the writers of a table's columns chosen once per table shape."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Collection, Iterator, Sequence
from operator import call
from typing import Any

from replica_client.rows.absent import ABSENT
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.json_values import quote
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


def float_text(value: float) -> str:
    """Return a FLOAT or DOUBLE as a JSON number. Neither can be infinite or NaN."""
    return repr(value)
