"""A parser of statements: their effect on tables, rows and foreign keys."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from replica_client.schema.ddl.alter import drops_primary_key, read_alter_table
from replica_client.schema.ddl.create import (
    read_alike,
    read_alter_sequence,
    read_charset_option,
    read_create_sequence,
    read_create_table,
    read_table_head,
    without_semicolons,
)
from replica_client.schema.ddl.lexer import (
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
    AlterDatabase,
    AlterTable,
    CreateDatabase,
    CreateTable,
    DropDatabase,
    DropPrimaryKey,
    DropTables,
    Meaning,
    NotUnderstood,
    RenameTables,
    TableName,
    TruncateTable,
    Unrelated,
)

_UNRELATED: Final = Unrelated()
_DDL: Final = re.compile(r"\b(?:CREATE|ALTER|DROP|RENAME|TRUNCATE)\b", re.IGNORECASE)
_START: Final = re.compile(r"\s*(?:BEGIN|COMMIT|INSERT|UPDATE|DELETE|REPLACE|SAVEPOINT|XA)\b", re.I)
# First words of statements that change no table's shape.
_OTHERS: Final = frozenset(
    (
        *("ANALYZE", "BEGIN", "BINLOG", "CACHE", "CALL", "CHANGE", "CHECK", "CHECKSUM", "CLONE"),
        *("COMMIT", "DEALLOCATE", "DELETE", "DESC", "DESCRIBE", "DO", "END", "EXECUTE", "EXPLAIN"),
        *("FLUSH", "GRANT", "HANDLER", "HELP", "INSERT", "INSTALL", "KILL", "LOAD", "LOCK"),
        *("OPTIMIZE", "PREPARE", "PURGE", "RELEASE", "REPAIR", "REPLACE", "RESET", "RESTART"),
        *("REVOKE", "ROLLBACK", "SAVEPOINT", "SELECT", "SET", "SHOW", "SHUTDOWN", "SIGNAL"),
        *("START", "STOP", "UNINSTALL", "UNLOCK", "UPDATE", "USE", "VALUES", "WITH", "XA", "TABLE"),
        *("IMPORT", "BACKUP", "REBUILD", "DELIMITER", "CLOSE", "OPEN", "FETCH", "IF", "RETURN"),
    )
)
LONG_STATEMENT: Final = 1 << 16
"""Length in characters above which a statement should not be parsed in an event loop."""

MOST_KEPT: Final = 16 << 20
"""Length in characters up to which the meaning of a long statement is cached."""
_TABLE_WORDS: Final = ("TABLE", "TABLES")
_DATABASE_WORDS: Final = ("DATABASE", "SCHEMA")


def read_statement(text: str, context: StatementContext) -> Meaning:
    """Return the meaning of a statement; never fails, see :class:`NotUnderstood`."""
    if _START.match(text):
        return _UNRELATED
    # Callers ask several times; for a long statement another thread may have filled the cache.
    if len(text) <= LONG_STATEMENT:
        return _kept_meaning(text, context)
    return (_kept_long if len(text) <= MOST_KEPT else _meaning)(text, context)


def _meaning(text: str, context: StatementContext) -> Meaning:
    return read_alike(text, context) or general_meaning(text, context)


def general_meaning(text: str, context: StatementContext) -> Meaning:
    """Return the meaning of a statement by parsing all of it."""
    try:
        tokens = tokenize(text, context)
    except LexerError as error:
        return _not_lexed(text, str(error))
    cursor = Cursor(without_prefix(tokens))
    try:
        return _read(cursor, context, text)
    except NotUnderstoodError as error:
        return _affected(cursor.tokens, context, str(error))


_kept_meaning = lru_cache(maxsize=4)(_meaning)
_kept_long = lru_cache(maxsize=3)(_meaning)


def without_prefix(tokens: list[Token]) -> list[Token]:
    """Return the tokens without MariaDB's ``SET STATEMENT … FOR`` and without semicolons."""
    tokens = without_semicolons(tokens)
    if len(tokens) < 4 or tokens[0].upper != "SET" or tokens[1].upper != "STATEMENT":
        return tokens
    depth = 0
    for at, token in enumerate(tokens):
        depth += (token.upper == "(") - (token.upper == ")")
        if token.upper == "FOR" and token.kind == WORD and not depth:
            return tokens[at + 1 :]
    return tokens


def _read(cursor: Cursor, context: StatementContext, text: str) -> Meaning:
    word = cursor.step().upper
    if word == "CREATE":
        return _create(cursor, context, text)
    if word == "ALTER":
        return _alter(cursor, context)
    if word == "DROP":
        return _drop(cursor, context)
    if word == "RENAME":
        return _rename(cursor, context)
    if word == "TRUNCATE":
        cursor.take("TABLE")
        return TruncateTable(cursor.table_name(context.database))
    if word in _OTHERS or word in ("", "(", ";"):
        return _UNRELATED
    if any(token.upper in (*_TABLE_WORDS, *_DATABASE_WORDS) for token in cursor.tokens):
        raise NotUnderstoodError(f"{word[:20]} is not a known statement")
    return _UNRELATED


def _create(cursor: Cursor, context: StatementContext, text: str) -> Meaning:
    head = read_table_head(cursor, context)
    if head is not None:
        return read_create_table(cursor, context, text, head)
    or_replace = cursor.take("OR", "REPLACE")
    temporary = cursor.take("TEMPORARY")
    if cursor.take("SEQUENCE"):
        return read_create_sequence(cursor, context, or_replace=or_replace, temporary=temporary)
    if cursor.take_one(*_DATABASE_WORDS):
        if_not_exists = cursor.take("IF", "NOT", "EXISTS")
        name = cursor.name()
        return CreateDatabase(name, _database_charset(cursor), if_not_exists, or_replace)
    return _UNRELATED


def _alter(cursor: Cursor, context: StatementContext) -> Meaning:
    cursor.take_one("ONLINE", "OFFLINE")
    ignore = cursor.take("IGNORE")
    if cursor.take("TABLE"):
        return read_alter_table(cursor, context, ignore=ignore)
    if cursor.take("SEQUENCE"):
        return read_alter_sequence(cursor, context) or _UNRELATED
    if cursor.take_one(*_DATABASE_WORDS):
        named = cursor.at_name and not _is_database_option(cursor)
        name = cursor.name() if named else context.database
        if cursor.take("UPGRADE"):
            return NotUnderstood("ALTER DATABASE … UPGRADE", databases=(name,))
        return AlterDatabase(name, _database_charset(cursor))
    return _UNRELATED


def _is_database_option(cursor: Cursor) -> bool:
    word, following = cursor.token.upper, cursor.peek().upper
    if word == "CHARACTER":
        return following == "SET"
    if word in ("COLLATE", "CHARSET", "ENCRYPTION", "COMMENT"):
        return True
    if word == "READ":
        return following == "ONLY"
    return word == "DEFAULT" and following in ("CHARACTER", "CHARSET", "COLLATE", "ENCRYPTION")


def _database_charset(cursor: Cursor) -> str | None:
    charset = None
    while not cursor.done:
        found = read_charset_option(cursor)
        if found is None:
            cursor.step()
        else:
            charset = found[0] or charset
    return charset


def _drop(cursor: Cursor, context: StatementContext) -> Meaning:
    temporary = cursor.take("TEMPORARY")
    if cursor.take_one(*_DATABASE_WORDS):
        cursor.take("IF", "EXISTS")
        return DropDatabase(cursor.name())
    cursor.take_one("ONLINE", "OFFLINE")
    if cursor.take("INDEX"):
        return _drop_index(cursor, context)
    if not cursor.take_one("TABLE", "TABLES", "SEQUENCE"):
        return _UNRELATED
    cursor.take("IF", "EXISTS")
    tables: list[TableName] = []
    for part in split_commas(cursor.rest()):
        tables.append(Cursor(part).table_name(context.database))
    return DropTables(tuple(tables), temporary)


def _drop_index(cursor: Cursor, context: StatementContext) -> Meaning:
    """Read DROP INDEX, which may drop the primary key."""
    if not drops_primary_key(cursor) or not cursor.take("ON"):
        return _UNRELATED
    return AlterTable(cursor.table_name(context.database), (DropPrimaryKey(),))


def _rename(cursor: Cursor, context: StatementContext) -> Meaning:
    if not cursor.take_one(*_TABLE_WORDS):
        return _UNRELATED
    if_exists = cursor.take("IF", "EXISTS")
    renames: list[tuple[TableName, TableName]] = []
    for part in split_commas(cursor.rest()):
        one = Cursor(part)
        old = one.table_name(context.database)
        if one.take("WAIT"):
            one.step()
        one.take("NOWAIT")
        one.expect("TO")
        renames.append((old, one.table_name(context.database)))
    return RenameTables(tuple(renames), if_exists)


def _affected(tokens: Sequence[Token], context: StatementContext, reason: str) -> NotUnderstood:
    """Return what is not understood, with the tables that the statement names."""
    tables: list[TableName] = []
    databases: list[str] = []
    for at, token in enumerate(tokens):
        if token.kind != WORD:
            continue
        cursor = Cursor(tokens)
        cursor.at = at + 1
        try:
            if token.upper in _TABLE_WORDS or (token.upper == "TRUNCATE" and not at):
                cursor.take("IF", "NOT", "EXISTS") or cursor.take("IF", "EXISTS")
                tables.append(cursor.table_name(context.database))
            elif token.upper == "RENAME" and at:
                cursor.take_one("TO", "AS", "=")
                tables.append(cursor.table_name(context.database))
            elif token.upper in _DATABASE_WORDS and at < 4:
                cursor.take("IF", "NOT", "EXISTS") or cursor.take("IF", "EXISTS")
                databases.append(cursor.name())
        except NotUnderstoodError:
            continue
    if tokens and tokens[0].upper == "RENAME":
        # RENAME TABLE may name further tables, which were not read.
        databases.append(context.database)
    if any(not database for database, _ in tables) or not (tables or databases):
        return NotUnderstood(reason, anything=True)
    return NotUnderstood(reason, tuple(tables), tuple(databases))


def _not_lexed(text: str, reason: str) -> Meaning:
    if _DDL.search(text[:400]):
        return NotUnderstood(reason, anything=True)
    return _UNRELATED


def cascading_references(text: str, context: StatementContext, database: str) -> list[TableName]:
    """Return the tables whose DELETE or UPDATE changes rows of the table created or altered.

    Args:
        text: a CREATE or ALTER TABLE.
        context: of its session.
        database: of the table; names without a database belong to it.
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
    """Return whether a CREATE or ALTER TABLE adds a foreign key that changes the table's rows."""
    return bool(cascading_references(text, context, context.database))


def _cascades(cursor: Cursor) -> bool:
    """Read the clauses after a reference; return whether they change rows."""
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


_VERBS: Final = ("INSERT", "REPLACE", "UPDATE", "DELETE")
_CALLS: Final = ("CALL", "DO", "SELECT", "VALUES", "")
_MODIFIERS: Final = ("LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "QUICK", "IGNORE", "HISTORY")
_BEHIND_ONE_TABLE: Final = ("WHERE", "ORDER", "LIMIT", "PARTITION", "RETURNING", "FOR", "BEFORE")


def changed_tables(text: str, context: StatementContext) -> tuple[TableName, ...] | None:
    """Return the tables whose rows a statement changes.

    Of a statement on several tables, those only read are returned too. The text does not say what
    triggers, foreign keys and functions change.

    Args:
        text: a statement that changes rows or may do so.
        context: of its session.

    Returns:
        the tables; None if the text does not show them: it calls a procedure or function, or is
        DML that is not understood.
    """
    # Another thread may have parsed a long statement before.
    kept = LONG_STATEMENT < len(text) <= MOST_KEPT
    return (_kept_tables if kept else _tables)(text, context)


def _tables(text: str, context: StatementContext) -> tuple[TableName, ...] | None:
    if text[:6].upper() == "CREATE":
        # Its meaning is still in the cache.
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
        # Find the statement after the common table expressions.
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
    """Return the table of a CREATE TABLE … SELECT; nothing for other or temporary tables."""
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
    # Several tables: these names may be aliases of the table references that follow.
    while not cursor.take(wanted):
        if cursor.done:
            cursor.refuse(wanted)
        cursor.step()
    return _referenced(cursor, "WHERE", database)


def _referenced(cursor: Cursor, end: str, database: str) -> tuple[TableName, ...]:
    """Return the tables in table references, up to a word or the end."""
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
