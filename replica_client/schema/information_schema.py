"""Definitions as ``information_schema`` tells them: what to ask, and what the answers mean.

No input or output here: the caller runs the statements.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from replica_client.constants.flavor import ServerFlavor
from replica_client.errors import SchemaError
from replica_client.schema.character_sets import BINARY, charset_name, charset_of_collation
from replica_client.schema.ddl.columns import read_column
from replica_client.schema.ddl.columns_after import with_system_period
from replica_client.schema.ddl.context import StatementContext
from replica_client.schema.ddl.cursor import Cursor, NotUnderstoodError
from replica_client.schema.ddl.lexer import LexerError, tokenize
from replica_client.schema.model import TEXT_KINDS, ColumnModel, DatabaseModel, TableModel

TableName = tuple[str, str]

_OWN: Final = "('information_schema', 'performance_schema', 'sys')"
SHOW_HIDDEN: Final = "SET SESSION show_gipk_in_create_table_and_information_schema = ON"
"""MySQL 8.0.30: lets listings have generated invisible primary keys; other servers refuse it."""

DATABASES: Final = (
    "SELECT SCHEMA_NAME, DEFAULT_CHARACTER_SET_NAME FROM information_schema.SCHEMATA"
    f" WHERE SCHEMA_NAME NOT IN {_OWN}"
)


def _where(one_table: bool) -> str:
    if one_table:
        return "TABLE_SCHEMA = %s AND TABLE_NAME = %s"
    return f"TABLE_SCHEMA NOT IN {_OWN}"


def tables_query(*, one_table: bool = False) -> str:
    """Database, name, type and default collation of tables."""
    return (
        "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, TABLE_COLLATION"
        f" FROM information_schema.TABLES WHERE {_where(one_table)}"
        " AND TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED', 'SEQUENCE')"
    )


def columns_query(flavor: ServerFlavor, *, one_table: bool = False) -> str:
    """Database, table, name, type, character set, nullability and the rest of columns, in order."""
    # What tells a period column: only MariaDB has them.
    period = "GENERATION_EXPRESSION" if flavor == ServerFlavor.MARIADB else "''"
    return (
        "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, CHARACTER_SET_NAME,"
        f" IS_NULLABLE, EXTRA, {period} FROM information_schema.COLUMNS"
        f" WHERE {_where(one_table)} ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION"
    )


def keys_query(*, one_table: bool = False) -> str:
    """Database, table, column and prefix of primary keys, in order."""
    return (
        "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, SUB_PART FROM information_schema.STATISTICS"
        f" WHERE INDEX_NAME = 'PRIMARY' AND {_where(one_table)}"
        " ORDER BY TABLE_SCHEMA, TABLE_NAME, SEQ_IN_INDEX"
    )


def read_databases(rows: Iterable[Sequence[Any]]) -> dict[str, DatabaseModel]:
    """The answer to :data:`DATABASES`."""
    return {
        _text(name): DatabaseModel(charset_name(_text(charset)), complete=True)
        for name, charset in rows
    }


def read_tables(
    tables: Iterable[Sequence[Any]],
    columns: Iterable[Sequence[Any]],
    keys: Iterable[Sequence[Any]],
    flavor: ServerFlavor,
    version: tuple[int, int, int],
) -> list[TableModel]:
    """The answers to the three queries above as definitions.

    Raises:
        SchemaError: a column's type is not understood.
    """
    context = StatementContext("", flavor, version)
    found: dict[TableName, list[ColumnModel]] = {}
    with_period: set[TableName] = set()
    for row in columns:
        name = (_text(row[0]), _text(row[1]))
        found.setdefault(name, []).append(_column(row, context))
        if _text(row[7]).upper() in ("ROW START", "ROW END"):
            with_period.add(name)
    key_columns: dict[TableName, list[tuple[str, int]]] = {}
    for database, table, column, prefix in keys:
        key = key_columns.setdefault((_text(database), _text(table)), [])
        key.append((_text(column), int(prefix or 0)))
    models: list[TableModel] = []
    for database, table, kind, collation in tables:
        name = (_text(database), _text(table))
        listed: Sequence[ColumnModel] = found.get(name, ())
        if not listed:
            continue
        versioned = _text(kind) == "SYSTEM VERSIONED"
        if versioned and name not in with_period:
            listed = with_system_period(listed)
        models.append(
            TableModel(
                *name,
                tuple(listed),
                tuple(key_columns.get(name, ())),
                charset_of_collation(_text(collation)),
                versioned,
            )
        )
    return models


def _column(row: Sequence[Any], context: StatementContext) -> ColumnModel:
    database, table, name, column_type, charset, nullable, extra = map(_text, row[:7])
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
        name=name,
        nullable=nullable.upper() == "YES",
        visible="INVISIBLE" not in words,
        charset=charset_name(charset) if column.kind in TEXT_KINDS and charset else column.charset,
    )


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return "" if value is None else str(value)
