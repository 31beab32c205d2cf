"""The columns that CREATE TABLE … SELECT makes, where the query only names columns.

Servers log such statements in row format with full definitions; as text they are there only in
statement format. Expressions have types that only the server knows: with one of them the statement is
not understood.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from replica_client.schema.ddl.cursor import Cursor, NotUnderstoodError, split_commas
from replica_client.schema.ddl.lexer import NAME, STRING, WORD, LexerError, Token, tokenize
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.ddl.steps import TableName
from replica_client.schema.model import ColumnModel, TableModel

TableLookup = Callable[[TableName], TableModel | None]

_MODIFIERS: Final = frozenset(
    (
        "ALL", "DISTINCT", "DISTINCTROW", "HIGH_PRIORITY", "STRAIGHT_JOIN", "SQL_SMALL_RESULT",
        "SQL_BIG_RESULT", "SQL_BUFFER_RESULT", "SQL_CACHE", "SQL_NO_CACHE", "SQL_CALC_FOUND_ROWS",
    )
)  # fmt: skip
# What may follow the tables, and changes no column.
_CLAUSES: Final = frozenset(
    ("WHERE", "GROUP", "HAVING", "WINDOW", "ORDER", "LIMIT", "OFFSET", "FETCH", "FOR", "LOCK")
)
_JOINS: Final = frozenset(("JOIN", "INNER", "CROSS", "LEFT", "RIGHT", "STRAIGHT_JOIN"))
_NOT_HERE: Final = frozenset(("UNION", "EXCEPT", "INTERSECT", "MINUS", "INTO", "PROCEDURE"))
_HINTS: Final = frozenset(("USE", "FORCE", "IGNORE", "PARTITION", "TABLESAMPLE"))
# Words that are values where they stand without quotes.
_VALUES: Final = frozenset(
    (
        "NULL", "TRUE", "FALSE", "DEFAULT", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "CURRENT_USER",
        "CURRENT_ROLE", "LOCALTIME", "LOCALTIMESTAMP", "UTC_DATE", "UTC_TIME", "UTC_TIMESTAMP", "ROWNUM", "SYSDATE",
    )
)  # fmt: skip
_RESERVED: Final = (
    _CLAUSES | _JOINS | _NOT_HERE | _HINTS | {"ON", "USING", "NATURAL", "AS", "FROM", "OUTER"}
)


class _Table(NamedTuple):
    """A table of the query: the name that columns have before them, its database, its definition."""

    name: str
    database: str
    model: TableModel


def selected_columns(
    query: str,
    defined: Sequence[ColumnModel],
    context: StatementContext,
    lookup: TableLookup,
) -> tuple[ColumnModel, ...]:
    """The columns of the new table: those only defined first, then the query's.

    Raises:
        NotUnderstoodError: the query does more than naming columns of tables that are known.
    """
    found = _columns_of(query, context, lookup)
    names = {column.name.lower() for column in found}
    by_name = {column.name.lower(): column for column in defined}
    first = [column for column in defined if column.name.lower() not in names]
    return (*first, *(by_name.get(column.name.lower(), column) for column in found))


def _columns_of(query: str, context: StatementContext, lookup: TableLookup) -> list[ColumnModel]:
    try:
        tokens = tokenize(query, context)
    except LexerError as error:
        raise NotUnderstoodError(f"query: {error}") from error
    while tokens and tokens[-1].upper == ";":
        tokens.pop()
    cursor = Cursor(tokens)
    cursor.take("AS")
    while cursor.token.upper == "(":
        inner = cursor.brackets()
        if not cursor.done:
            raise NotUnderstoodError("a query that is not a plain SELECT")
        cursor = Cursor(inner)
    if not cursor.take("SELECT"):
        raise NotUnderstoodError("a query that is not a plain SELECT")
    while cursor.token.kind == WORD and cursor.token.upper in _MODIFIERS:
        cursor.step()
    projections, rest = _until(cursor, {"FROM"})
    if not rest.take("FROM"):
        raise NotUnderstoodError("a query without tables")
    tables = _tables(rest, context, lookup)
    found: list[ColumnModel] = []
    for part in split_commas(projections):
        found += _projected(Cursor(part), tables)
    # NOT NULL is kept or lost by rules of outer joins.
    return [replace(column, nullable=None, visible=True, hidden=False) for column in found]


def _until(cursor: Cursor, words: set[str] | frozenset[str]) -> tuple[list[Token], Cursor]:
    """The tokens before the first of these keywords that is in no brackets, and what follows."""
    rest = cursor.rest()
    depth = 0
    for at, token in enumerate(rest):
        depth += (token.upper == "(") - (token.upper == ")")
        if not depth and token.kind == WORD:
            if token.upper in _NOT_HERE:
                raise NotUnderstoodError("a query that is not a plain SELECT")
            if token.upper in words and not (at and rest[at - 1].upper == "."):
                return rest[:at], Cursor(rest[at:])
    return rest, Cursor(())


def _projected(cursor: Cursor, tables: Sequence[_Table]) -> list[ColumnModel]:
    """The columns that one part of the list between SELECT and FROM names."""
    if cursor.token.kind == WORD and cursor.token.upper in _VALUES:
        raise NotUnderstoodError("a query with expressions")
    names = [] if cursor.token.upper == "*" else [cursor.name()]
    while cursor.take("."):
        if cursor.token.upper == "*":
            break
        names.append(cursor.name())
    if cursor.take("*"):
        wanted = [one for one in tables if _is_meant(one, names)]
        if not cursor.done or not wanted:
            raise NotUnderstoodError("a query with expressions")
        return [column for one in wanted for column in one.model.columns if column.visible]
    *table, name = names
    alias = name
    if not cursor.done:
        cursor.take("AS")
        if cursor.token.kind not in (WORD, NAME, STRING):
            raise NotUnderstoodError("a query with expressions")
        alias = cursor.step().text
    if not cursor.done:
        raise NotUnderstoodError("a query with expressions")
    matches = [
        column
        for one in tables
        if _is_meant(one, table)
        for column in one.model.columns
        if column.name.lower() == name.lower()
    ]
    if len(matches) != 1:
        raise NotUnderstoodError(f"the query's column {name[:40]}")
    return [replace(matches[0], name=alias)]


def _is_meant(table: _Table, names: Sequence[str]) -> bool:
    """Whether the names before a column or a star mean a table; no names mean all."""
    if len(names) > 2:
        raise NotUnderstoodError("a query with expressions")
    return not names or (
        table.name == names[-1] and (len(names) == 1 or table.database == names[0])
    )


def _tables(cursor: Cursor, context: StatementContext, lookup: TableLookup) -> list[_Table]:
    """The tables behind FROM; goes to the end of the query."""
    found = [_table(cursor, context, lookup)]
    while not cursor.done:
        if not cursor.take(","):
            if cursor.token.upper == "FOR" and cursor.peek().upper == "SYSTEM_TIME":
                raise NotUnderstoodError("a query of rows of another time")
            if cursor.token.kind == WORD and cursor.token.upper in _CLAUSES:
                _until(cursor, frozenset())  # no other query is behind it
                break
            if not cursor.take_one("STRAIGHT_JOIN"):
                if cursor.take_one("LEFT", "RIGHT"):
                    cursor.take("OUTER")
                else:
                    cursor.take_one("INNER", "CROSS")
                if not cursor.take("JOIN"):
                    raise NotUnderstoodError("a query of more than tables and plain joins")
        found.append(_table(cursor, context, lookup))
        if cursor.take("ON"):
            _, cursor = _until_comma(cursor)
    return found


def _until_comma(cursor: Cursor) -> tuple[list[Token], Cursor]:
    """The condition of a join, and what follows it."""
    condition, rest = _until(cursor, _JOINS | _CLAUSES)
    first = split_commas(condition)[0] if condition else []
    if len(first) == len(condition):
        return condition, rest
    return first, Cursor([*condition[len(first) :], *rest.rest()])


def _table(cursor: Cursor, context: StatementContext, lookup: TableLookup) -> _Table:
    if cursor.token.kind not in (WORD, NAME):
        raise NotUnderstoodError("a query of more than tables")
    database, table = cursor.table_name(context.database)
    model = lookup((database, table))
    if model is None:
        raise NotUnderstoodError(f"the query's table {database}.{table} is not known")
    alias = ""
    if cursor.take("AS") or _at_alias(cursor):
        alias = cursor.name()
    return _Table(alias or table, "" if alias else database, model)


def _at_alias(cursor: Cursor) -> bool:
    token = cursor.token
    return token.kind == NAME or (token.kind == WORD and token.upper not in _RESERVED)
