"""Tables of the proof of truth, what SELECT says of them at a moment, and statements that change their rows."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from tests.integration.truth_kinds import Kind, quoted_text, text

State = dict[tuple[Any, ...], dict[str, Any]]


@dataclass
class Column:
    """A column.

    Attributes:
        generated: its expression's kind, STORED or VIRTUAL; "" for none.
        writable: whether statements give it values.
    """

    name: str
    kind: Kind
    generated: str = ""
    writable: bool = True

    @property
    def q(self) -> str:
        return f"`{self.name}`"


@dataclass
class Table:
    """A table.

    Attributes:
        key: columns that identify a row.
        special: ``sequence``, ``versioned`` or "".
        busy: an XA transaction that is prepared holds its rows.
        unproven: the binlog does not tell its default character set.
    """

    name: str
    columns: list[Column]
    key: tuple[str, ...] = ("id",)
    special: str = ""
    busy: bool = False
    unproven: bool = False
    next_id: int = 1

    @property
    def q(self) -> str:
        return f"`{self.name}`"

    @property
    def computed(self) -> set[str]:
        return {column.name for column in self.columns if column.generated}


@dataclass
class Moment:
    """What SELECT gave.

    Attributes:
        tables: rows by key, by table.
        families: of columns, by table.
        keys: columns of keys, by table.
        computed: generated columns, by table.
        made: tables that were made since the moment before; they began empty.
        altered: tables whose rows statements changed since the moment before without row events.
        position: before the marker.
        whole: whether images had to be whole since the moment before.
        unproven: tables whose character sets the binlog does not tell.
        loses_labels: the server loses labels of wide character sets when it alters a table.
    """

    number: int
    tables: dict[str, State]
    families: dict[str, dict[str, str]]
    keys: dict[str, tuple[str, ...]]
    computed: dict[str, set[str]]
    made: set[str]
    altered: set[str]
    position: tuple[str, int]
    whole: bool
    unproven: set[str]
    loses_labels: bool
    log: list[str] = field(default_factory=list)


def row_statement(rng: random.Random, table: Table) -> str:
    """Return a random statement that changes rows of a table."""
    if table.special == "sequence":
        return f"DO NEXTVAL({table.name})"
    writable = [one for one in table.columns if one.writable]
    others = writable[1:]
    what = rng.random()

    def row() -> str:
        table.next_id += 1
        values = ["NULL" if rng.random() < 0.1 else one.kind.literal(rng) for one in others]
        return f"({', '.join([str(table.next_id), *values])})"

    names = ", ".join(one.q for one in writable)
    where = rng.choice(
        (
            f"id % 3 = {rng.randrange(3)}",
            f"id <= {rng.randint(1, table.next_id)}",
            "1",
            f"id = {rng.randint(1, table.next_id)}",
        )
    )
    if what < 0.4 or not others:
        return f"INSERT INTO {table.q} ({names}) VALUES {', '.join(row() for _ in range(rng.randint(1, 5)))}"
    one = rng.choice(others)
    value = "NULL" if rng.random() < 0.1 else one.kind.literal(rng)
    if what < 0.7:
        documents = [c for c in others if c.kind.family == "json"]
        if documents and rng.random() < 0.6:
            one = rng.choice(documents)
            path = rng.choice(("$.a", "$.b", "$.nope", "$.a.k0"))
            function = rng.choice(("JSON_SET", "JSON_REPLACE"))
            value = (
                f"{function}({one.q}, '{path}', {rng.choice(('5', quoted_text(text(rng)), '1.5'))})"
            )
            if rng.random() < 0.3:
                value = f"JSON_REMOVE({one.q}, '{path}')"
        return f"UPDATE {table.q} SET {one.q} = {value} WHERE {where}"
    if what < 0.8:
        return (
            f"DELETE FROM {table.q} WHERE {where}"
            if rng.random() < 0.7
            else f"DELETE FROM {table.q} WHERE id % 2 = 0"
        )
    if what < 0.87:
        table.next_id += 1
        return (
            f"UPDATE {table.q} SET id = {table.next_id} WHERE id = {rng.randint(1, table.next_id)}"
        )
    again = rng.randint(1, table.next_id)
    values = ", ".join(c.kind.literal(rng) for c in others)
    if what < 0.93:
        return f"REPLACE INTO {table.q} ({names}) VALUES ({again}, {values})"
    return f"INSERT INTO {table.q} ({names}) VALUES ({again}, {values}) ON DUPLICATE KEY UPDATE {one.q} = {value}"
