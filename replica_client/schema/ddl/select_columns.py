"""The columns that CREATE TABLE … SELECT makes, where the query only names columns.

Servers log such statements in row format with full definitions; as text they are there only in
statement format. The query is parsed by sqlglot. Expressions have types that only the server knows:
with one of them the statement is not understood.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from replica_client.schema.ddl.changes import TableName
from replica_client.schema.ddl.context import StatementContext
from replica_client.schema.ddl.cursor import NotUnderstoodError
from replica_client.schema.model import ColumnModel, TableModel

TableLookup = Callable[[TableName], TableModel | None]


def selected_columns(
    query: str,
    defined: Sequence[ColumnModel],
    context: StatementContext,
    lookup: TableLookup,
    charset: str | None,
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
    import sqlglot
    from sqlglot import expressions as exp

    text = query.strip().removeprefix("AS ").removeprefix("as ").strip()
    try:
        parsed = sqlglot.parse_one(text, dialect="mysql")
    except (sqlglot.errors.SqlglotError, RecursionError) as error:
        raise NotUnderstoodError(f"query: {str(error).splitlines()[0][:80]}") from error
    while isinstance(parsed, exp.Subquery):
        parsed = parsed.this
    if not isinstance(parsed, exp.Select) or parsed.args.get("with_") or parsed.args.get("with"):
        raise NotUnderstoodError("a query that is not a plain SELECT")
    sources = _sources(parsed, context, lookup)
    found: list[ColumnModel] = []
    for projection in parsed.expressions:
        alias = projection.alias if isinstance(projection, exp.Alias) else ""
        inner = projection.this if isinstance(projection, exp.Alias) else projection
        is_star = isinstance(inner, exp.Star) or (
            isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star)
        )
        if is_star:
            wanted = inner.table if isinstance(inner, exp.Column) else ""
            for name, table in sources:
                if not wanted or wanted == name:
                    found.extend(column for column in table.columns if column.visible)
            continue
        if not isinstance(inner, exp.Column):
            raise NotUnderstoodError("a query with expressions")
        matches = [
            column
            for name, table in sources
            if not inner.table or inner.table == name
            for column in table.columns
            if column.name.lower() == inner.name.lower()
        ]
        if len(matches) != 1:
            raise NotUnderstoodError(f"the query's column {inner.name[:40]}")
        found.append(replace(matches[0], name=alias or inner.name))
    # NOT NULL is kept or lost by rules of outer joins.
    return [replace(column, nullable=None, visible=True, hidden=False) for column in found]


def _sources(
    select: object, context: StatementContext, lookup: TableLookup
) -> list[tuple[str, TableModel]]:
    from sqlglot import expressions as exp

    assert isinstance(select, exp.Select)
    clause = select.args.get("from_") or select.args.get("from")
    parts = [clause.this] if clause is not None else []
    for join in select.args.get("joins") or ():
        if join.args.get("using") or join.args.get("method"):
            raise NotUnderstoodError("a query with a natural join")
        parts.append(join.this)
    found: list[tuple[str, TableModel]] = []
    for part in parts:
        if not isinstance(part, exp.Table):
            raise NotUnderstoodError("a query of more than tables")
        name = (part.db or context.database, part.name)
        table = lookup(name)
        if table is None:
            raise NotUnderstoodError(f"the query's table {'.'.join(name)} is not known")
        found.append((part.alias or part.name, table))
    return found
