"""CREATE TABLE and CREATE SEQUENCE."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from replica_client.schema.character_sets import charset_of_collation
from replica_client.schema.ddl.cursor import Cursor
from replica_client.schema.ddl.definitions import Definitions, read_definitions
from replica_client.schema.ddl.lexer import NAME, STRING, WORD
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.ddl.steps import (
    CreateLike,
    CreateSequence,
    CreateTable,
    Meaning,
    TableName,
)
from replica_client.schema.ddl.type_clause import known_charset

_QUERY_WORDS = frozenset(("SELECT", "VALUES", "WITH", "TABLE"))


def read_create_sequence(
    cursor: Cursor, context: StatementContext, *, or_replace: bool, temporary: bool
) -> Meaning:
    """Behind CREATE SEQUENCE."""
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    table = cursor.table_name(context.database)
    return CreateSequence(table, if_not_exists, or_replace, temporary)


class TableHead(NamedTuple):
    """What stands before a table's definitions.

    Attributes:
        table: its name.
        if_not_exists: see :class:`~replica_client.schema.ddl.steps.CreateTable`.
        or_replace: see there.
        temporary: see there.
    """

    table: TableName
    if_not_exists: bool
    or_replace: bool
    temporary: bool


def read_table_head(cursor: Cursor, context: StatementContext) -> TableHead | None:
    """Read ``[OR REPLACE] [TEMPORARY] TABLE [IF NOT EXISTS] name`` behind CREATE; None for something else.

    Raises:
        NotUnderstoodError: it has no name.
    """
    start = cursor.at
    or_replace = cursor.take("OR", "REPLACE")
    temporary = cursor.take("TEMPORARY")
    if not cursor.take("TABLE"):
        cursor.at = start
        return None
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    return TableHead(cursor.table_name(context.database), if_not_exists, or_replace, temporary)


def read_create_table(
    cursor: Cursor, context: StatementContext, text: str, head: TableHead
) -> Meaning:
    """Behind CREATE TABLE and the name.

    Raises:
        NotUnderstoodError: its columns are not understood.
    """
    found = read_behind_name(cursor, context, text)
    if found is not None:
        return replace(found, **head._asdict())
    inside = cursor
    if cursor.token.upper == "(":
        inside = Cursor(cursor.brackets())
    inside.expect("LIKE")
    return CreateLike(head.table, inside.table_name(context.database), *head[1:])


def read_behind_name(cursor: Cursor, context: StatementContext, text: str) -> CreateTable | None:
    """What stands behind the name, as of a table that has none; None, and nothing read, for LIKE.

    Of the context only what types and literals mean counts, not the session's database.

    Raises:
        NotUnderstoodError: its columns are not understood.
    """
    if cursor.token.upper == "LIKE" or (
        cursor.token.upper == "(" and cursor.peek().upper == "LIKE"
    ):
        return None
    definitions = Definitions()
    if cursor.token.upper == "(" and not _is_query(cursor):
        definitions = read_definitions(cursor.brackets(), context)
    charset, versioned, select_at = _options(cursor)
    versioned = versioned or any(column.versioned for column in definitions.columns)
    if select_at < 0 and not definitions.columns:
        # Columns that a storage engine finds itself (MariaDB's discovery).
        cursor.refuse("columns")
    return CreateTable(
        ("", ""),
        tuple(definitions.columns),
        definitions.key_of_columns(),
        charset,
        versioned=versioned,
        period=definitions.period,
        select=text[select_at:] if select_at >= 0 else "",
    )


def _is_query(cursor: Cursor) -> bool:
    ahead = 0
    while cursor.peek(ahead).upper == "(":
        ahead += 1
    return cursor.peek(ahead).upper in _QUERY_WORDS and cursor.peek(ahead).kind == WORD


def _options(cursor: Cursor) -> tuple[str | None, bool, int]:
    """Table options: character set, versioning, and where a query begins (-1 for none)."""
    charset, versioned = None, False
    while not cursor.done:
        if cursor.take("START", "TRANSACTION"):
            continue
        if (cursor.token.upper == "(" and _is_query(cursor)) or _begins_query(cursor):
            return charset, versioned, cursor.token.start
        if cursor.take("PARTITION", "BY"):
            # Everything of it is in brackets but a few words.
            continue
        if cursor.token.upper == "(":
            cursor.brackets()
            continue
        found = read_charset_option(cursor)
        if found is not None:
            charset = found[0] or charset
        elif cursor.take("WITH", "SYSTEM", "VERSIONING"):
            versioned = True
        else:
            cursor.step()
            if cursor.take("="):
                # A value; TABLE and VALUES may be one.
                if not cursor.skip_brackets():
                    cursor.step()
    return charset, versioned, -1


def _begins_query(cursor: Cursor) -> bool:
    token = cursor.token
    if token.kind != WORD:
        return False
    if token.upper == "WITH":
        return cursor.peek().upper not in ("SYSTEM", "PARSER") and (
            cursor.peek().upper == "RECURSIVE" or cursor.peek(2).upper in ("AS", "(")
        )
    if token.upper == "VALUES":
        return cursor.peek().upper in ("(", "ROW")
    return token.upper == "SELECT" or (
        token.upper == "TABLE" and cursor.peek().kind in (WORD, NAME)
    )


def read_charset_option(cursor: Cursor) -> tuple[str | None] | None:
    """``[DEFAULT] CHARACTER SET [=] x`` or ``[DEFAULT] COLLATE [=] x``, when one is here.

    Returns:
        the character set in a tuple (None in it: the default; ``""``: as it was, for a collation of no
        character set in particular); None when something else is here.

    Raises:
        NotUnderstoodError: the character set is not known.
    """
    start = cursor.at
    cursor.take("DEFAULT")
    if cursor.take("CHARSET") or cursor.take("CHARACTER", "SET") or cursor.take("CHAR", "SET"):
        cursor.take("=")
        if cursor.take("DEFAULT"):
            return (None,)
        if cursor.token.kind not in (WORD, NAME, STRING):
            cursor.refuse("a character set")
        return (known_charset(cursor.step().text),)
    if cursor.take("COLLATE"):
        cursor.take("=")
        if cursor.take("DEFAULT"):
            return ("",)
        if cursor.token.kind not in (WORD, NAME, STRING):
            cursor.refuse("a collation")
        return (charset_of_collation(cursor.step().text) or "",)
    cursor.at = start
    return None
