"""A line of a format together with what a broker wants to know of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal, NamedTuple

from replica_client.errors import PoisonChangeError, SinkError
from replica_client.rows.absent import ABSENT
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.json_values import quote
from replica_client.schema.shape import ColumnShape, TableShape
from replica_client.sinks.formats.row_text import ValueWriter

MessageKind = Literal["row", "schema", "transaction"]


class Message(NamedTuple):
    """A line, and its key.

    Attributes:
        kind: a row change (or a TRUNCATE, which is one of a whole table), a schema change (or a loss), or a
            transaction's beginning or end.
        database: that it is about, ``""`` for none.
        table: likewise.
        key: JSON of what tells one row from the others; None where the table has no key.
        value: the line, without a line end; empty where the format is none of lines.
        gone: key of which there is no row after this; None where there is none.
        headers: names and values that belong to the message and not to its value.
        rows: the event that the row is of, where it is known.
        row_index: of the row in its event.
        topic: where it goes, whatever its table; ``""``: by that.
        schemas: Connect schemas of its keys and of its value, as JSON, where the format tells them beside messages.
        binary: the value of a format that is none of lines.
    """

    kind: MessageKind
    database: str
    table: str
    key: str | None
    value: str
    gone: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    rows: RowsOfEvent | None = None
    row_index: int = 0
    topic: str = ""
    schemas: tuple[str, str] = ("", "")
    binary: bytes | None = None

    @property
    def data(self) -> bytes:
        """The value as bytes: of a line in UTF-8."""
        if self.binary is not None:
            return self.binary
        return self.value.encode("utf-8", "backslashreplace")


def row_message(
    database: str,
    table: str,
    key: str | None,
    value: str,
    gone: str | None,
    headers: tuple[tuple[str, str], ...],
    rows: RowsOfEvent,
    row_index: int,
    schemas: tuple[str, str] = ("", ""),
) -> Message:
    """The message of a row, made as quickly as a tuple: nearly all messages are such."""
    members = (
        "row",
        database,
        table,
        key,
        value,
        gone,
        headers,
        rows,
        row_index,
        "",
        schemas,
        None,
    )
    return tuple.__new__(Message, members)


def unwritable(message: Message, text: str) -> SinkError:
    """The error for a message that can never be written: of its row, where the row is known.

    Args:
        message: which.
        text: what is wrong.
    """
    rows = message.rows
    if rows is None:
        return SinkError(text)
    return PoisonChangeError(
        text,
        event_index=rows.event_index,
        row_index=message.row_index,
        file=rows.event.file,
        position=rows.event.position,
        table_name=(rows.shape.database, rows.shape.table),
    )


class KeyWriter:
    """Writes the key of a table's rows as a JSON object.

    Args:
        columns: of the rows' values, in order.
        key: names of the key's columns, in order.
        writer_of: the function for a column.
        space: what follows ``:`` and ``,``.
        prefix: put before each name.
        first: members that stand before those of the row.
        unique: whether there is one row of a key at most.
    """

    def __init__(
        self,
        columns: Sequence[ColumnShape],
        key: Sequence[str],
        writer_of: Callable[[ColumnShape], ValueWriter],
        *,
        space: str = "",
        prefix: str = "",
        first: Sequence[str] = (),
        unique: bool = True,
    ) -> None:
        names = [column.name for column in columns]
        # A key of which a column is not delivered does not tell rows apart.
        self.indexes = tuple(names.index(name) for name in key) if set(key) <= set(names) else ()
        chosen = [columns[at] for at in self.indexes]
        self._fields = [
            (f"{quote(prefix + column.name)}:{space}", writer_of(column)) for column in chosen
        ]
        self._one = self._fields[0] if len(self._fields) == 1 else None
        self._unique = unique
        self._head = "{" + "".join(f"{member},{space}" for member in first)
        self._comma = "," + space

    def text(self, row: Sequence[Any]) -> str | None:
        """The key of a row; None where the table has none, or the row image lacks a column of it."""
        if self._one is not None:
            name, write = self._one
            value = row[self.indexes[0]]
            if value is ABSENT:
                return None
            return f"{self._head}{name}{'null' if value is None else write(value)}}}"
        if not self._fields:
            return None
        found = []
        for (name, write), at in zip(self._fields, self.indexes, strict=True):
            value = row[at]
            if value is ABSENT:
                return None
            found.append(name + ("null" if value is None else write(value)))
        return self._head + self._comma.join(found) + "}"

    def of_change(
        self, before: Sequence[Any] | None, after: Sequence[Any] | None
    ) -> tuple[str | None, str | None]:
        """The key of a changed row, and the key of which there is no row any more.

        An after image that leaves key columns out has those of the one before.
        """
        if before is None:
            return (None if after is None else self.text(after)), None
        old = self.text(before)
        if after is None:
            return old, old if self._unique else None
        if not self.is_changed(before, after):
            return old, None
        if any(after[at] is ABSENT for at in self.indexes):
            after = [old if new is ABSENT else new for old, new in zip(before, after, strict=True)]
        return self.text(after), old if self._unique else None

    def is_changed(self, before: Sequence[Any], after: Sequence[Any]) -> bool:
        """Whether an update changed the key; a column that the after image left out did not change."""
        for at in self.indexes:
            new = after[at]
            if new is not ABSENT and before[at] != new:
                return True
        return False


class KeyChoice:
    """Which columns are the key of a table's rows.

    Args:
        columns: names of columns by pattern of the table (``shop.orders``, ``*.orders``), instead of the primary key.
    """

    def __init__(self, columns: Mapping[str, Sequence[str]] | None = None) -> None:
        self._columns = dict(columns or {})

    def of(self, shape: TableShape) -> tuple[list[str], bool]:
        """The key's columns, and whether they are the primary key."""
        name = f"{shape.database}.{shape.table}"
        for pattern, columns in self._columns.items():
            if fnmatchcase(name, pattern):
                return list(columns), False
        return [shape.columns[at].name for at in shape.primary_key], True
