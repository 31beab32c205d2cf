"""What stands in the brackets of CREATE TABLE and behind ADD: columns, and the keys among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from replica_client.codec.quick_dataclass import dataclass
from replica_client.schema.ddl.column_clause import ColumnText, read_column
from replica_client.schema.ddl.cursor import Cursor, split_commas
from replica_client.schema.ddl.lexer import NUMBER, WORD, Token
from replica_client.schema.ddl.statement_context import StatementContext

_KEY_WORDS = frozenset(
    ("CONSTRAINT", "PRIMARY", "UNIQUE", "KEY", "INDEX", "FULLTEXT", "SPATIAL", "FOREIGN", "CHECK")
)

PrimaryKey = tuple[tuple[str, int], ...]
"""Column names with prefix lengths; 0 for the whole column."""


@dataclass(slots=True)
class Definitions:
    """Columns and keys.

    Attributes:
        columns: in order.
        primary_key: the one that is a definition of its own; None where there is none.
        period: whether PERIOD FOR SYSTEM_TIME is among them.
        bounds: columns that bound a period: they cannot be NULL.
        application_period: those of the period of application time.
        without_overlaps: the period of application time that ends the primary key; ``""`` for none.
    """

    columns: list[ColumnText] = field(default_factory=list)
    primary_key: PrimaryKey | None = None
    period: bool = False
    bounds: list[str] = field(default_factory=list)
    application_period: list[str] = field(default_factory=list)
    without_overlaps: str = ""

    def key_of_columns(self) -> PrimaryKey | None:
        """The primary key, also where a column says PRIMARY KEY."""
        if self.primary_key is not None:
            # MariaDB has one period of application time at most; its end comes first.
            ends = reversed(self.application_period) if self.without_overlaps else ()
            return (*self.primary_key, *((name, 0) for name in ends))
        found = tuple((column.name, 0) for column in self.columns if column.primary)
        return found or None


def is_key(cursor: Cursor) -> bool:
    """Whether a key, constraint or period is here, and no column."""
    if cursor.token.kind != WORD:
        return False
    word = cursor.token.upper
    if word in _KEY_WORDS:
        return True
    if word == "PERIOD":
        return cursor.peek().upper == "FOR"
    return word == "VECTOR" and cursor.peek().upper in ("INDEX", "KEY")


def read_definitions(tokens: Sequence[Token], context: StatementContext) -> Definitions:
    """Read a list of definitions.

    Raises:
        NotUnderstoodError: a column among them is not understood.
    """
    found = Definitions()
    for part in split_commas(tokens):
        cursor = Cursor(part)
        if is_key(cursor):
            read_key(cursor, found)
        else:
            found.columns.append(read_column(cursor, context))
    bounds = {name.lower() for name in found.bounds}
    for column in found.columns:
        if column.name.lower() in bounds:
            column.nullable = False
    return found


def read_key(cursor: Cursor, found: Definitions) -> None:
    """Read a key; only a primary key and periods matter.

    Raises:
        NotUnderstoodError: a primary key or period without columns.
    """
    if cursor.take("PERIOD", "FOR"):
        is_system = cursor.token.upper == "SYSTEM_TIME"
        found.period = found.period or is_system
        cursor.take("IF", "NOT", "EXISTS")
        cursor.name()
        bounds = [Cursor(part).name() for part in split_commas(cursor.brackets())]
        found.bounds.extend(bounds)
        if not is_system:
            found.application_period = bounds
        return
    if cursor.take("CONSTRAINT") and cursor.token.upper not in _KEY_WORDS:
        cursor.name()
    if not cursor.take("PRIMARY", "KEY"):
        return
    while not cursor.done and cursor.token.upper != "(":
        cursor.step()  # its name, USING BTREE
    key: list[tuple[str, int]] = []
    for part in split_commas(cursor.brackets()):
        column = Cursor(part)
        name, prefix = column.name(), 0
        if column.token.upper == "(":
            inside = Cursor(column.brackets())
            prefix = inside.integer() if inside.token.kind == NUMBER else 0
        if column.take("WITHOUT", "OVERLAPS"):
            found.without_overlaps = name
        else:
            key.append((name, prefix))
    found.primary_key = tuple(key)
