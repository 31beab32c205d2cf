"""Queries of ``information_schema`` and how to read their results.

No input or output here: the caller runs the statements.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from replica_client.errors import SchemaError
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.schema.character_sets import BINARY, charset_name, charset_of_collation
from replica_client.schema.ddl.column_clause import literal_text, read_column
from replica_client.schema.ddl.columns_after import with_system_period
from replica_client.schema.ddl.lexer import Cursor, LexerError, NotUnderstoodError, tokenize
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.model import TEXT_KINDS, ColumnModel, DatabaseModel, TableModel

TableName = tuple[str, str]

_OWN: Final = "('information_schema', 'performance_schema', 'sys')"
_MOST_PATTERNS: Final = 64
SHOW_HIDDEN: Final = "SET SESSION show_gipk_in_create_table_and_information_schema = ON"
"""MySQL 8.0.30: include generated invisible primary keys in listings; others refuse it."""

ALL_TABLES: Final = (
    "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES"
    " WHERE TABLE_SCHEMA NOT IN ('information_schema', 'performance_schema')"
)
ALL_COLUMNS: Final = "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME FROM information_schema.COLUMNS"
DATABASES: Final = (
    "SELECT SCHEMA_NAME, DEFAULT_CHARACTER_SET_NAME FROM information_schema.SCHEMATA"
    f" WHERE SCHEMA_NAME NOT IN {_OWN}"
)


Where = tuple[str, Sequence[str]]
"""A condition, and its arguments."""


def where_patterns(patterns: Sequence[tuple[str, str]]) -> Where | None:
    """Return the condition for tables that match patterns of LIKE for database and name.

    In a pattern, ``|`` escapes the character after it.

    Returns:
        the condition; None for too many patterns: then query all tables.
    """
    if len(patterns) > _MOST_PATTERNS:
        return None
    found, arguments = [], []
    for pattern in patterns:
        parts = []
        for column, text in zip(("TABLE_SCHEMA", "TABLE_NAME"), pattern, strict=True):
            plain = re.sub(r"\|(.)", r"\1", text)
            # Servers scan all tables unless the condition is an equality.
            is_plain = re.search(r"(?<!\|)(?:\|\|)*[%_]", text) is None
            parts.append(f"{column} = %s" if is_plain else f"{column} LIKE %s ESCAPE '|'")
            arguments.append(plain if is_plain else text)
        found.append(f"({' AND '.join(parts)})")
    return f"({' OR '.join(found) or 'FALSE'})", arguments


def where_table(table: TableName) -> Where:
    """Return the condition for one table."""
    return "TABLE_SCHEMA = %s AND TABLE_NAME = %s", table


def where_tables(database: str, names: Sequence[str]) -> Where:
    """Return the condition for tables of a database.

    It may match other tables: server collations may ignore case and accents.
    """
    marks = ", ".join(["%s"] * len(names))
    return f"TABLE_SCHEMA = %s AND TABLE_NAME IN ({marks})", (database, *names)


def _where(where: Where | None) -> Where:
    if where is not None:
        return f"TABLE_SCHEMA NOT IN {_OWN} AND {where[0]}", where[1]
    return f"TABLE_SCHEMA NOT IN {_OWN}", ()


def names_query(where: Where | None = None) -> Where:
    """Return the query for database and name of tables and views, which opens no table."""
    condition, arguments = _where(where)
    return (
        f"SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE {condition}",
        arguments,
    )


def tables_query(where: Where | None = None) -> Where:
    """Return the query for database, name, type and default collation of tables."""
    condition, arguments = _where(where)
    return (
        "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, TABLE_COLLATION"
        f" FROM information_schema.TABLES WHERE {condition}"
        " AND TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED', 'SEQUENCE')"
    ), arguments


def columns_query(flavor: ServerFlavor, where: Where | None = None) -> Where:
    """Return the query for the columns that :func:`read_tables` reads."""
    condition, arguments = _where(where)
    # Only MariaDB has period columns, which this expression shows.
    period = "GENERATION_EXPRESSION" if flavor == ServerFlavor.MARIADB else "''"
    return (
        "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, CHARACTER_SET_NAME,"
        f" IS_NULLABLE, EXTRA, {period}, COLUMN_DEFAULT, COLUMN_COMMENT"
        " FROM information_schema.COLUMNS"
        f" WHERE {condition} ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION"
    ), arguments


def keys_query(where: Where | None = None) -> Where:
    """Return the query for database, table, column and prefix of primary keys, in order."""
    condition, arguments = _where(where)
    return (
        "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, SUB_PART FROM information_schema.STATISTICS"
        f" WHERE INDEX_NAME = 'PRIMARY' AND {condition}"
        " ORDER BY TABLE_SCHEMA, TABLE_NAME, SEQ_IN_INDEX"
    ), arguments


def read_databases(rows: Iterable[Sequence[Any]]) -> dict[str, DatabaseModel]:
    """Read the result of :data:`DATABASES`."""
    return {
        text_of(name): DatabaseModel(charset_name(text_of(charset)), complete=True)
        for name, charset in rows
    }


def read_tables(
    tables: Iterable[Sequence[Any]],
    columns: Iterable[Sequence[Any]],
    keys: Iterable[Sequence[Any]],
    flavor: ServerFlavor,
    version: tuple[int, int, int],
) -> list[TableModel]:
    """Read the results of the three queries above into definitions.

    Raises:
        SchemaError: a column's type is not understood.
    """
    context = StatementContext("", flavor, version)
    found: dict[TableName, list[ColumnModel]] = {}
    # Thousands of tables may have equal columns: share them.
    seen: dict[tuple[Any, ...], ColumnModel] = {}
    with_period: set[TableName] = set()
    for row in columns:
        name = (text_of(row[0]), text_of(row[1]))
        alike = tuple(row[2:])
        column = seen.get(alike)
        if column is None:
            column = seen[alike] = _column(row, context)
        found.setdefault(name, []).append(column)
        if text_of(row[7]).upper() in ("ROW START", "ROW END"):
            with_period.add(name)
    key_columns: dict[TableName, list[tuple[str, int]]] = {}
    for database, table, column, prefix in keys:
        key = key_columns.setdefault((text_of(database), text_of(table)), [])
        key.append((text_of(column), int(prefix or 0)))
    models: list[TableModel] = []
    for database, table, kind, collation in tables:
        name = (text_of(database), text_of(table))
        listed: Sequence[ColumnModel] = found.get(name, ())
        if not listed:
            continue
        versioned = text_of(kind) == "SYSTEM VERSIONED"
        if versioned and name not in with_period:
            listed = with_system_period(listed)
        models.append(
            TableModel(
                *name,
                tuple(listed),
                tuple(key_columns.get(name, ())),
                charset_of_collation(text_of(collation)),
                versioned,
            )
        )
    return models


def _column(row: Sequence[Any], context: StatementContext) -> ColumnModel:
    database, table, name, column_type, charset, nullable, extra = map(text_of, row[:7])
    try:
        tokens = tokenize("`x` " + column_type, context)
        column = read_column(Cursor(tokens), context).model(charset_name(charset) or BINARY)
    except (LexerError, NotUnderstoodError) as error:
        raise SchemaError(
            f"{database}.{table}: the type {column_type[:80]!r} of column {name} is not understood: {error}"
        ) from error
    words = extra.upper().split()
    return replace(
        column,
        auto_increment="AUTO_INCREMENT" in words,
        on_update="ON UPDATE" in extra.upper(),
        default=_default(row[8], words, context, column),
        comment=text_of(row[9]),
        generated="GENERATED" in words,
        name=name,
        nullable=nullable.upper() == "YES",
        visible="INVISIBLE" not in words,
        charset=charset_name(charset) if column.kind in TEXT_KINDS and charset else column.charset,
    )


def _default(
    value: Any, extra: Sequence[str], context: StatementContext, column: ColumnModel
) -> str | None:
    """Return a listed default as a definition has it.

    MariaDB lists SQL; MySQL lists the value, or SQL marked DEFAULT_GENERATED.
    """
    if value is None:
        return None
    text = text_of(value)
    is_sql = context.is_mariadb or "DEFAULT_GENERATED" in extra
    if not is_sql and not text.upper().startswith("CURRENT_TIMESTAMP"):
        return text
    try:
        return literal_text(tokenize(text, context), column.kind, column.charset)
    except LexerError:
        return None


def text_of(value: Any) -> str:
    """Return a value of a result as text."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return "" if value is None else str(value)
