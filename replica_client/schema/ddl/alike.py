"""CREATE TABLE statements that differ in nothing but the table's name are read once.

What stands behind the name is read without it, and kept by its text. A statement whose name does not
end, for certain, at the first bracket is left to the general way.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from replica_client.constants.flavor import ServerFlavor
from replica_client.schema.ddl.create import TableHead, read_behind_name, read_table_head
from replica_client.schema.ddl.cursor import Cursor, NotUnderstoodError
from replica_client.schema.ddl.lexer import LexerError, Token, tokenize
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.ddl.steps import CreateTable

_KEPT: Final = 256
_LONGEST: Final = 4096
# Comments and strings, whose brackets are none; a name in backquotes would not be closed.
_DOUBTFUL: Final = re.compile(r"['\"#/]|--")

_NAME: Final = r"(?:`([^`]+)`|([a-z_][a-z0-9_]*))"
_PLAIN: Final = re.compile(
    rf"CREATE[ \n]+TABLE[ \n]+(IF[ \n]+NOT[ \n]+EXISTS[ \n]+)?(?:{_NAME}\.)?{_NAME}[ \n]*\Z",
    re.IGNORECASE,
)


def read_alike(text: str, context: StatementContext) -> CreateTable | None:
    """The meaning of a CREATE TABLE with columns; None for what else has to be read.

    Args:
        text: of the statement.
        context: of its session.
    """
    at = text.find("(")
    if at < 0 or len(text) - at > _LONGEST or _DOUBTFUL.search(text, 0, at):
        return None
    head = _head(text[:at], context)
    if head is None:
        return None
    found = _behind_name(
        text[at:],
        context.flavor,
        context.version,
        context.sql_mode,
        context.client_charset,
        context.connection_charset,
    )
    return None if found is None else found.behind(*head)


def _head(text: str, context: StatementContext) -> TableHead | None:
    """What stands before the bracket; None where it is not understood, or more than that."""
    plain = _PLAIN.match(text) if text.isascii() else None
    if plain is not None:
        if_not_exists, quoted_database, database, quoted_name, name = plain.groups()
        table = (quoted_database or database or context.database, quoted_name or name)
        return TableHead(table, if_not_exists is not None, or_replace=False, temporary=False)
    try:
        cursor = Cursor(tokenize(text, context))
        head = read_table_head(cursor, context) if cursor.take("CREATE") else None
    except (LexerError, NotUnderstoodError):
        return None
    return head if head is not None and cursor.done else None


@lru_cache(_KEPT)
def _behind_name(
    text: str,
    flavor: ServerFlavor,
    version: tuple[int, int, int],
    sql_mode: int,
    client_charset: str | None,
    connection_charset: str | None,
) -> CreateTable | None:
    """What stands behind a table's name, of a table without one; None where it is not understood."""
    context = StatementContext(
        flavor=flavor,
        version=version,
        sql_mode=sql_mode,
        client_charset=client_charset,
        connection_charset=connection_charset,
    )
    try:
        tokens = without_semicolons(tokenize(text, context))
        return read_behind_name(Cursor(tokens), context, text)
    except (LexerError, NotUnderstoodError):
        return None


def without_semicolons(tokens: list[Token]) -> list[Token]:
    """The tokens of a statement without what ends it."""
    end = len(tokens)
    while end and tokens[end - 1].upper == ";":
        end -= 1
    return tokens[:end]
