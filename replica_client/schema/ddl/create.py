"""A parser of CREATE TABLE and CREATE SEQUENCE.

Statements that differ only in the table's name are parsed once: the text after the name is parsed
separately and cached. This needs a name that certainly ends at the first bracket; other statements
are parsed as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field, replace
from functools import lru_cache
from typing import Final, NamedTuple

from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.schema.character_sets import charset_of_collation
from replica_client.schema.ddl.column_clause import ColumnText, PrimaryKey, read_column
from replica_client.schema.ddl.lexer import (
    NAME,
    NUMBER,
    STRING,
    WORD,
    Cursor,
    LexerError,
    NotUnderstoodError,
    Token,
    split_commas,
    tokenize,
)
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.ddl.steps import (
    AlterTable,
    ChangeColumn,
    CreateLike,
    CreateSequence,
    CreateTable,
    Meaning,
    Step,
    TableName,
)
from replica_client.schema.ddl.type_clause import TypeText, known_charset, read_type
from replica_client.schema.model import ColumnModel

_KEY_WORDS = frozenset(
    ("CONSTRAINT", "PRIMARY", "UNIQUE", "KEY", "INDEX", "FULLTEXT", "SPATIAL", "FOREIGN", "CHECK")
)


@dataclass(slots=True)
class Definitions:
    """The columns and keys of a CREATE TABLE.

    Attributes:
        columns: in order.
        primary_key: from a separate PRIMARY KEY clause; None without one.
        period: whether there is a PERIOD FOR SYSTEM_TIME.
        bounds: columns that bound a period; they cannot be NULL.
        application_period: the columns of the application-time period.
        without_overlaps: the application-time period that ends the primary key; ``""`` for none.
    """

    columns: list[ColumnText] = field(default_factory=list)
    primary_key: PrimaryKey | None = None
    period: bool = False
    bounds: list[str] = field(default_factory=list)
    application_period: list[str] = field(default_factory=list)
    without_overlaps: str = ""

    def key_of_columns(self) -> PrimaryKey | None:
        """Return the primary key, from a clause of its own or from a column's PRIMARY KEY."""
        if self.primary_key is not None:
            # MariaDB allows one application-time period; its end comes first in the key.
            ends = reversed(self.application_period) if self.without_overlaps else ()
            return (*self.primary_key, *((name, 0) for name in ends))
        found = tuple((column.name, 0) for column in self.columns if column.primary)
        return found or None


def is_key(cursor: Cursor) -> bool:
    """Return whether a key, constraint or period comes next, and not a column."""
    if cursor.token.kind != WORD:
        return False
    word = cursor.token.upper
    if word in _KEY_WORDS:
        return True
    if word == "PERIOD":
        return cursor.peek().upper == "FOR"
    return word == "VECTOR" and cursor.peek().upper in ("INDEX", "KEY")


def read_definitions(tokens: Sequence[Token], context: StatementContext) -> Definitions:
    """Read a list of column, key and period definitions.

    Raises:
        NotUnderstoodError: a column is not understood.
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
    """Read a key, constraint or period; record only primary keys and periods.

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
        cursor.step()  # the key's name, USING BTREE
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


_QUERY_WORDS = frozenset(("SELECT", "VALUES", "WITH", "TABLE"))


def read_create_sequence(
    cursor: Cursor, context: StatementContext, *, or_replace: bool, temporary: bool
) -> Meaning:
    """Read what follows CREATE SEQUENCE."""
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    table = cursor.table_name(context.database)
    found = CreateSequence(table, if_not_exists, or_replace, temporary)
    while not cursor.done:
        if cursor.take("AS"):
            made = _sequence_type(cursor, context)
            found = replace(found, kind=made.kind, unsigned=made.unsigned)
        else:
            cursor.step()
    return found


def read_alter_sequence(cursor: Cursor, context: StatementContext) -> AlterTable | None:
    """Read what follows ALTER SEQUENCE; return None where the columns do not change."""
    if_exists = cursor.take("IF", "EXISTS")
    table = cursor.table_name(context.database)
    steps: list[Step] = []
    while not cursor.done:
        if cursor.take("AS"):
            made = _sequence_type(cursor, context)
            for column in _SEQUENCE_COLUMNS[:4]:
                text = ColumnText(column.name, replace(made), nullable=False)
                steps.append(ChangeColumn(column.name, text))
        else:
            cursor.step()
    return AlterTable(table, tuple(steps), if_exists=if_exists) if steps else None


def _sequence_type(cursor: Cursor, context: StatementContext) -> TypeText:
    found, unsigned = read_type(cursor, context), False
    while word := cursor.take_one("UNSIGNED", "SIGNED", "ZEROFILL"):
        unsigned = unsigned or word != "SIGNED"
    return replace(found, unsigned=unsigned)


_BIG = ColumnModel("", "bigint", nullable=False)
_SEQUENCE = tuple(
    replace(_BIG, name=name)
    for name in (
        *("next_not_cached_value", "minimum_value", "maximum_value", "start_value", "increment"),
        "cache_size",
    )
)
_SEQUENCE_COLUMNS = (
    *_SEQUENCE[:5],
    replace(_SEQUENCE[5], unsigned=True),
    ColumnModel("cycle_option", "tinyint", unsigned=True, nullable=False),
    replace(_BIG, name="cycle_count"),
)


def sequence_columns(meaning: CreateSequence) -> tuple[ColumnModel, ...]:
    """Return the columns of a sequence; four of them have its type (MariaDB 11.5)."""
    typed = [
        replace(column, kind=meaning.kind, unsigned=meaning.unsigned)
        for column in _SEQUENCE_COLUMNS[:4]
    ]
    return (*typed, *_SEQUENCE_COLUMNS[4:])


class TableHead(NamedTuple):
    """The part of CREATE TABLE before the definitions.

    Attributes:
        table: the table's name.
        if_not_exists: see :class:`~replica_client.schema.ddl.steps.CreateTable`.
        or_replace: see there.
        temporary: see there.
    """

    table: TableName
    if_not_exists: bool
    or_replace: bool
    temporary: bool


def read_table_head(cursor: Cursor, context: StatementContext) -> TableHead | None:
    """Read ``[OR REPLACE] [TEMPORARY] TABLE [IF NOT EXISTS] name`` after CREATE.

    Returns:
        the head; None for another statement.

    Raises:
        NotUnderstoodError: there is no name.
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
    """Read what follows CREATE TABLE and the name.

    Raises:
        NotUnderstoodError: the columns are not understood.
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
    """Read what follows the name, into a CREATE TABLE with an empty name.

    The session's database must not matter: the result is cached for all databases.

    Returns:
        the statement; None, with nothing read, for LIKE.

    Raises:
        NotUnderstoodError: the columns are not understood.
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
        # A storage engine finds the columns itself (MariaDB's discovery).
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
    """Read table options: character set, versioning, and where a query begins (-1 for none)."""
    charset, versioned = None, False
    while not cursor.done:
        if cursor.take("START", "TRANSACTION"):
            continue
        if (cursor.token.upper == "(" and _is_query(cursor)) or _begins_query(cursor):
            return charset, versioned, cursor.token.start
        if cursor.take("PARTITION", "BY"):
            # Apart from a few words, partition clauses are in brackets.
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
                # The option's value, which may be the word TABLE or VALUES.
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
    """Read ``[DEFAULT] CHARACTER SET [=] x`` or ``[DEFAULT] COLLATE [=] x``, if one comes next.

    Returns:
        the character set in a tuple: None in it for the default, ``""`` for a collation without a
        character set, which changes nothing. None when something else comes next.

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


_KEPT: Final = 256
_LONGEST: Final = 4096
# Brackets do not count in comments and strings. A bracket in backquotes leaves an unclosed name.
_DOUBTFUL: Final = re.compile(r"['\"#/]|--")

_NAME: Final = r"(?:`([^`]+)`|([a-z_][a-z0-9_]*))"
_PLAIN: Final = re.compile(
    rf"CREATE[ \n]+TABLE[ \n]+(IF[ \n]+NOT[ \n]+EXISTS[ \n]+)?(?:{_NAME}\.)?{_NAME}[ \n]*\Z",
    re.IGNORECASE,
)


def read_alike(text: str, context: StatementContext) -> CreateTable | None:
    """Return the CREATE TABLE that a text contains; None for statements that need the full parser.

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
    """Parse the text before the bracket; return None if it is not exactly a table head."""
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
    """Parse the text after a table's name; return None if it is not understood."""
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
    """Return the tokens of a statement without the semicolons at the end."""
    end = len(tokens)
    while end and tokens[end - 1].upper == ";":
        end -= 1
    return tokens[:end]
