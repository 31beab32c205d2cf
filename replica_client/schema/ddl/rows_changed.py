"""Whose rows a statement changes, by its text."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from replica_client.schema.ddl.cursor import Cursor, NotUnderstoodError
from replica_client.schema.ddl.lexer import WORD, LexerError, tokenize
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.ddl.statements import (
    LONG_STATEMENT,
    MOST_KEPT,
    read_statement,
    without_prefix,
)
from replica_client.schema.ddl.steps import CreateTable, TableName

_VERBS: Final = ("INSERT", "REPLACE", "UPDATE", "DELETE")
_CALLS: Final = ("CALL", "DO", "SELECT", "VALUES", "")
_MODIFIERS: Final = ("LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "QUICK", "IGNORE", "HISTORY")
_BEHIND_ONE_TABLE: Final = ("WHERE", "ORDER", "LIMIT", "PARTITION", "RETURNING", "FOR", "BEFORE")


def changed_tables(text: str, context: StatementContext) -> tuple[TableName, ...] | None:
    """The tables whose rows a statement changes.

    Of statements on several tables all are told, also those that are only read. What triggers, foreign
    keys and functions in the statement change beyond is not in the text.

    Args:
        text: the statement, of one that changes rows or may do so.
        context: of its session.

    Returns:
        None when the text does not tell: it calls a procedure or function, or is DML that is not
        understood.
    """
    # A long statement may have been read in another thread before.
    kept = LONG_STATEMENT < len(text) <= MOST_KEPT
    return (_kept_tables if kept else _tables)(text, context)


def _tables(text: str, context: StatementContext) -> tuple[TableName, ...] | None:
    if text[:6].upper() == "CREATE":
        # It was read a moment ago.
        meaning = read_statement(text, context)
        if isinstance(meaning, CreateTable):
            return filled_tables(meaning)
    try:
        cursor = Cursor(without_prefix(tokenize(text, context)))
        return _changed(cursor, text, context)
    except (LexerError, NotUnderstoodError):
        return None


_kept_tables = lru_cache(maxsize=3)(_tables)


def _changed(cursor: Cursor, text: str, context: StatementContext) -> tuple[TableName, ...] | None:
    database = context.database
    while cursor.take("("):
        pass
    word = cursor.step().upper
    if word == "ANALYZE":
        if cursor.take("FORMAT", "="):
            cursor.step()
        if cursor.token.upper not in (*_VERBS, "WITH"):
            return ()
        word = cursor.step().upper
    if word == "CREATE":
        meaning = read_statement(text, context)
        return filled_tables(meaning) if isinstance(meaning, CreateTable) else ()
    if word == "WITH":
        # The statement behind the common table expressions.
        while cursor.token.upper not in _VERBS:
            if cursor.done:
                return None
            if not cursor.skip_brackets():
                cursor.step()
        word = cursor.step().upper
    if word == "LOAD":
        while not cursor.take("INTO", "TABLE"):
            if cursor.done:
                return None
            cursor.step()
        return (cursor.table_name(database),)
    if word in _CALLS:
        return None
    if word not in _VERBS:
        return ()
    while cursor.take_one(*_MODIFIERS):
        pass
    if word in ("INSERT", "REPLACE"):
        cursor.take("INTO")
        return (cursor.table_name(database),)
    if word == "UPDATE":
        return _referenced(cursor, "SET", database)
    return _deleted(cursor, database)


def filled_tables(made: CreateTable) -> tuple[TableName, ...]:
    """The table itself, where a query fills it."""
    return (made.table,) if made.select and not made.temporary else ()


def _deleted(cursor: Cursor, database: str) -> tuple[TableName, ...]:
    if cursor.take("FROM"):
        first = cursor.table_name(database)
        if cursor.take("AS") or (
            cursor.at_name and cursor.token.upper not in (*_BEHIND_ONE_TABLE, "USING")
        ):
            cursor.name()
        if cursor.done or cursor.token.upper in _BEHIND_ONE_TABLE:
            return (first,)
        wanted = "USING"
    else:
        wanted = "FROM"
    # Of several tables: the names may be aliases of those behind.
    while not cursor.take(wanted):
        if cursor.done:
            cursor.refuse(wanted)
        cursor.step()
    return _referenced(cursor, "WHERE", database)


def _referenced(cursor: Cursor, end: str, database: str) -> tuple[TableName, ...]:
    """The tables of table references, up to a word or the end."""
    found: list[TableName] = []
    expected = True
    while not cursor.done:
        token = cursor.token
        if token.kind == WORD and token.upper == end:
            break
        if token.upper == "(" and cursor.peek().upper in ("SELECT", "WITH", "VALUES"):
            cursor.skip_brackets()
            expected = False
        elif token.upper in (",", "JOIN", "STRAIGHT_JOIN"):
            cursor.step()
            expected = True
        elif token.upper == "(" and expected:
            cursor.step()
        elif token.upper in ("(", ")"):
            # USING (columns), PARTITION (names), an end
            if not cursor.skip_brackets():
                cursor.step()
        elif expected:
            found.append(cursor.table_name(database))
            expected = False
        else:
            cursor.step()
    if not found:
        cursor.refuse("a table")
    return tuple(dict.fromkeys(found))
