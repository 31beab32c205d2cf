"""Writes of undo and redo: one row each, and statements for many rows at once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal, NamedTuple, Self

MOST_ROWS: Final = 500
"""Rows of a statement at most."""
_MOST_TEXT: Final = 1 << 18
_LARGE: Final = str(2**63 - 1)

Verb = Literal["insert", "update", "delete"]


class RowWrite(NamedTuple):
    """A write of one row, in the terms of SQL; all names are quoted.

    Attributes:
        verb: the kind of the statement.
        table: the table's name in SQL.
        columns: the columns that it sets.
        values: their values.
        key: condition on the key of the row that must exist; empty for an insert.
        compared: the columns that must still have the values that the change left.
        exact: a condition for each of them.
        free: condition on a key that no row may have; empty: no key must be free.
        alone: whether no other row may be in its statement: the key changes, or the table has none.
        name: database and table.
    """

    verb: Verb
    table: str
    columns: tuple[str, ...]
    values: tuple[str, ...]
    key: str
    compared: tuple[str, ...]
    exact: tuple[str, ...]
    free: str
    alone: bool
    name: tuple[str, str]

    def to_text(self) -> str:
        """Return the write as JSON."""
        return json.dumps(self)

    @classmethod
    def of_text(cls, text: str) -> Self:
        """Return the write from the text of :meth:`to_text`."""
        values: list[Any] = [
            tuple(one) if isinstance(one, list) else one for one in json.loads(text)
        ]
        return cls(*values)

    @property
    def row(self) -> str:
        """The condition on the key of the row, before the write if there is one."""
        return self.key or self.free

    @property
    def where(self) -> str:
        """The condition on the row as the change left it."""
        return " AND ".join(dict.fromkeys(one for one in (self.key, *self.exact) if one))


def statement(writes: list[RowWrite]) -> str:
    """Return the statement of writes that :func:`grouped` put together."""
    first = writes[0]
    rows = " OR ".join(f"({one.where})" for one in writes) if len(writes) > 1 else first.where
    limit = "" if len(writes) > 1 else " LIMIT 1"
    if first.verb == "insert":
        values = ", ".join(f"({', '.join(one.values)})" for one in writes)
        return f"INSERT INTO {first.table} ({', '.join(first.columns)}) VALUES {values}"  # noqa: S608 - as below
    if first.verb == "delete":
        return f"DELETE FROM {first.table} WHERE {rows}{limit}"  # noqa: S608 - names and values are quoted
    sets = ", ".join(
        f"{column} = {_value(writes, number)}" for number, column in enumerate(first.columns)
    )
    return f"UPDATE {first.table} SET {sets} WHERE {rows}{limit}"  # noqa: S608 - as above


def _value(writes: list[RowWrite], number: int) -> str:
    """Return the expression for a column's value in each of several rows.

    A row whose value is NULL has no WHEN. MySQL 5.6 takes a CASE with a NULL among its values for
    signed, and stores 0 for numbers above the signed ones.
    """
    values = [one.values[number] for one in writes]
    if len(set(values)) == 1:
        return values[0]
    cases = " ".join(
        f"WHEN {one.key} THEN {value}"
        for one, value in zip(writes, values, strict=True)
        if value != "NULL"
    )
    return f"CASE {cases} END"


def grouped(writes: Iterable[RowWrite], most: int = MOST_ROWS) -> Iterator[list[RowWrite]]:
    """Yield writes, in order, in lists that one statement can do."""
    group: list[RowWrite] = []
    rows: set[str] = set()
    kinds: list[str] = []
    size = 0
    for one in writes:
        mine = list(map(_kind, one.values))
        size += sum(map(len, one.values)) + len(one.where)
        if group and (
            len(group) >= most
            or size > _MOST_TEXT
            or one.alone
            or group[0].alone
            or one[:3] != group[0][:3]
            or one.row in rows
            or not all(a == b or not a or not b for a, b in zip(kinds, mine, strict=True))
        ):
            yield group
            group, rows, kinds = [], set(), []
            size = sum(map(len, one.values)) + len(one.where)
        group.append(one)
        rows.add(one.row)
        kinds = [a or b for a, b in zip(kinds, mine, strict=True)] if kinds else mine
    if group:
        yield group


def _kind(value: str) -> str:
    """Return the kind of a value as SQL, empty for NULL.

    A CASE gives its values one common type. Values of one kind keep their bytes in it; text with
    another character set, or a number above the signed ones, might not.
    """
    if value == "NULL":
        return ""
    if value[0].isdigit() and len(value) >= len(_LARGE) and value.isdigit():
        return "unsigned" if (len(value), value) > (len(_LARGE), _LARGE) else "number"
    head = value[0]
    if head == "_":
        return value.partition(" ")[0]
    return "number" if head == "-" or head.isdigit() else head
