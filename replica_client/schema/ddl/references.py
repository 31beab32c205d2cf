"""Foreign keys in a statement's text that change rows of their table."""

from __future__ import annotations

from replica_client.schema.ddl.cursor import Cursor, NotUnderstoodError
from replica_client.schema.ddl.lexer import LexerError, tokenize
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.ddl.steps import TableName


def cascading_references(text: str, context: StatementContext, database: str) -> list[TableName]:
    """The tables whose DELETE or UPDATE changes rows of the one that a CREATE or ALTER TABLE is of.

    Args:
        text: the statement.
        context: of its session.
        database: of the table, which is that of a name without one.
    """
    try:
        cursor = Cursor(tokenize(text, context))
    except LexerError:
        return []
    found = []
    while not cursor.done:
        if cursor.step().upper != "REFERENCES" or not cursor.at_name:
            continue
        try:
            parent = cursor.table_name(database)
        except NotUnderstoodError:
            continue
        cursor.skip_brackets()
        if _cascades(cursor):
            found.append(parent)
    return found


def makes_cascade(text: str, context: StatementContext) -> bool:
    """Whether a CREATE or ALTER TABLE makes a foreign key that changes rows of its table."""
    return bool(cascading_references(text, context, context.database))


def _cascades(cursor: Cursor) -> bool:
    """Whether the clauses behind a reference ask for more than a refusal; goes on behind them."""
    found = False
    while True:
        if cursor.take("MATCH"):
            cursor.step()
        elif cursor.take("ON") and cursor.take_one("DELETE", "UPDATE"):
            action = cursor.step().upper
            if action in ("SET", "NO"):
                cursor.step()  # NULL, DEFAULT; ACTION
            found |= action in ("CASCADE", "SET")
        else:
            return found
