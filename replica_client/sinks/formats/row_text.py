"""Rows as JSON objects: which function writes which column is found out once per table shape."""

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
"""Makes JSON text of a value that is neither None nor absent."""


class RowWriter:
    """Writes rows of one shape.

    Args:
        columns: of the rows' values, in order.
        writer_of: the function for a column.
        space: what follows ``:`` and ``,``.
        null_of: what is written for a NULL of a column; None: ``null``.
        of_strings: functions that do nothing but quote where a value is a string.
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
        """The row as an object without absent columns; ``null`` for None."""
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
        """``"name":value`` of each column that is there."""
        found = []
        for (name, write, null), value in zip(self._fields, row, strict=True):
            if value is None:
                found.append(null)
            elif value is not ABSENT:
                found.append(name + write(value))
        return found

    def changed(self, before: Sequence[Any], after: Sequence[Any]) -> list[str]:
        """``"name":value`` of the columns of ``before`` that differ in ``after``."""
        found = []
        for (name, write, null), old, new in zip(self._fields, before, after, strict=True):
            if old is ABSENT or new is ABSENT or old == new:
                continue
            found.append(null if old is None else name + write(old))
        return found


def delivered_columns(rows: RowsOfEvent) -> tuple[ColumnShape, ...]:
    """The columns that the rows' values are of: all, or those that were asked for."""
    wanted = frozenset(rows.decoder.column_names)
    return tuple(column for column in rows.shape.columns if column.name in wanted)


def numbered_rows(rows: RowsOfEvent) -> Iterator[tuple[int, Any, Any]]:
    """Row index, before and after image as tuples of each row that was not delivered before."""
    for change in rows:
        yield change.row_index, change.before, change.after


def base64_text(value: bytes) -> str:
    """JSON string of bytes in base64."""
    return f'"{b64encode(value).decode()}"'


def array(texts: Iterator[str] | Sequence[str]) -> str:
    """JSON array of JSON texts."""
    return "[" + ",".join(texts) + "]"


def float_text(value: float) -> str:
    """JSON number of a FLOAT or DOUBLE; neither can be infinite or no number."""
    return repr(value)
