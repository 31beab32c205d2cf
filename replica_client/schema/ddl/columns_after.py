"""Compute a table's columns after ALTER TABLE or CREATE TABLE … SELECT.

Servers log CREATE TABLE … SELECT as a query only in statement format. Only the server knows the types
of expressions: a query with expressions is not understood.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Final, NamedTuple

from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.schema.ddl.column_clause import ColumnText, literal_text
from replica_client.schema.ddl.lexer import (
    NAME,
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
    AddColumn,
    ChangeColumn,
    ConvertCharset,
    DropColumn,
    DropPrimaryKey,
    RenameColumn,
    SetBounds,
    SetCharset,
    SetDefault,
    SetPrimaryKey,
    SetVersioning,
    SetVisible,
    Step,
    TableName,
)
from replica_client.schema.ddl.type_clause import converted_column, resized_text
from replica_client.schema.kinds import DATES
from replica_client.schema.model import ColumnModel, TableModel

_HIDDEN_PERIOD = tuple(
    ColumnModel(name, "timestamp", fraction_digits=6, nullable=False, visible=False, hidden=True)
    for name in ("row_start", "row_end")
)

_GENERATED_KEY = "my_row_id"


@dataclass(slots=True)
class _Entry:
    """A column during an ALTER TABLE."""

    column: ColumnModel
    old: str = ""  # the name before the statement; "" for a new column
    is_new: bool = False  # the statement defines the column


def altered(
    table: TableModel,
    steps: Sequence[Step],
    database_charset: str | None,
    converted_charset: str | None = None,
    *,
    resizes: bool = False,
) -> TableModel:
    """Return the table after the clauses of an ALTER TABLE.

    Names in clauses are those before the statement, but for names after AFTER.

    Args:
        table: before the statement.
        steps: the clauses.
        database_charset: the database's default; None where it is uncertain.
        converted_charset: the meaning of CONVERT TO CHARACTER SET DEFAULT, None if uncertain.
        resizes: whether a column that becomes TEXT gets the size of its old type with CONVERT TO.

    Raises:
        NotUnderstoodError: the clauses do not fit the table.
    """
    charset = _charset_after(table, steps, database_charset, converted_charset)
    conversions = [step for step in steps if isinstance(step, ConvertCharset)]
    converts = bool(conversions)
    # On MariaDB, CONVERT TO also changes the default for columns that are defined later.
    inner = (conversions[-1].charset or converted_charset) if converts else charset
    entries = [_Entry(column, column.name) for column in table.columns]
    renames: dict[str, str] = {}
    _drop(entries, [step for step in steps if isinstance(step, DropColumn)])
    moved: list[tuple[ColumnText, _Entry]] = []
    by_old = {entry.old.lower(): entry for entry in reversed(entries)}
    # Columns per name, counted once: thousands of steps may meet thousands of columns.
    taken = Counter(entry.column.name.lower() for entry in entries)
    for step in steps:
        if isinstance(step, RenameColumn):
            found = _find(by_old, step.old, missing_ok=step.if_exists)
            if found is not None:
                taken.subtract((found.column.name.lower(),))
                taken.update((step.new.lower(),))
                renames[found.old] = step.new
                found.column = replace(found.column, name=step.new)
        elif isinstance(step, SetVisible):
            found = _required(by_old, step.name)
            found.column = replace(found.column, visible=step.visible)
        elif isinstance(step, ChangeColumn):
            found = _find(by_old, step.old, missing_ok=step.if_exists)
            if found is None:
                continue
            taken.subtract((found.column.name.lower(),))
            taken.update((step.column.name.lower(),))
            new = step.column.model(inner, converted=converts)
            if converts and resizes:
                new = resized_text(found.column, new, step.column.type.length)
            column = _changed(found.column, new, step.column)
            found.is_new = True
            renames[found.old] = column.name
            found.column = column
            if step.column.column_position:
                moved.append((step.column, found))
        elif isinstance(step, AddColumn):
            if taken[step.column.name.lower()] > 0:
                if step.if_not_exists:
                    continue
                raise NotUnderstoodError(f"column {step.column.name} is there already")
            taken.update((step.column.name.lower(),))
            moved.append(
                (step.column, _Entry(step.column.model(inner, converted=converts), is_new=True))
            )
    _insert_moved(entries, moved)
    if _has_generated_key(table):
        _keep_generated_key_first(entries)
    columns = [
        converted_column(entry.column, inner) if converts and not entry.is_new else entry.column
        for entry in entries
    ]
    versioned, columns = _versioned_after(table, steps, columns)
    key = _key_after(table, steps, renames, columns)
    bounds = (name for step in steps if isinstance(step, SetBounds) for name in step.columns)
    keyed = {name.lower() for name in (*(name for name, _ in key), *bounds)}
    columns = [
        replace(column, nullable=False) if column.name.lower() in keyed else column
        for column in columns
    ]
    if len({column.name.lower() for column in columns}) != len(columns):
        raise NotUnderstoodError("a column name occurs twice")
    if not columns:
        raise NotUnderstoodError("no columns are left")
    # CONVERT TO CHARACTER SET DEFAULT may mean the default of another database.
    takes_default = table.takes_default and not (converts and inner is None)
    made = replace(table, columns=tuple(columns), primary_key=key, charset=charset)
    return replace(made, versioned=versioned, takes_default=takes_default)


def _insert_moved(entries: list[_Entry], moved: Sequence[tuple[ColumnText, _Entry]]) -> None:
    """Insert added and moved columns, in the order of the clauses."""
    names = [entry.column.name.lower() for entry in entries]
    for text, entry in moved:
        if entry.old:
            index = names.index(entry.column.name.lower())
            del entries[index], names[index]
        at = _insert_index(entries, names, text)
        entries.insert(at, entry)
        names.insert(at, entry.column.name.lower())


def _keep_generated_key_first(entries: list[_Entry]) -> None:
    # MySQL keeps a generated invisible primary key first, but only in InnoDB.
    before = list(takewhile(lambda entry: entry.old != _GENERATED_KEY, entries))
    has_key = len(before) < len(entries)
    if before and has_key and all(_looks_like_key(entry.column) for entry in before):
        # Both orders have the same types, so a table map could not reveal a wrong guess.
        raise NotUnderstoodError(f"whether {_GENERATED_KEY} stays first depends on the engine")
    entries.sort(key=lambda entry: entry.old != _GENERATED_KEY)


def _versioned_after(
    table: TableModel, steps: Sequence[Step], columns: list[ColumnModel]
) -> tuple[bool, list[ColumnModel]]:
    versioned = table.versioned
    own_period = any(isinstance(step, AddColumn) and step.column.row_bound for step in steps)
    for step in steps:
        if isinstance(step, SetVersioning):
            versioned = step.versioned
            columns = [column for column in columns if not column.hidden]
            if versioned and not own_period:
                columns = list(with_system_period(columns))
    return versioned, columns


def with_system_period(columns: Sequence[ColumnModel]) -> tuple[ColumnModel, ...]:
    """Return a table's columns with the hidden period columns of WITH SYSTEM VERSIONING."""
    return (*columns, *_HIDDEN_PERIOD)


def with_defaults(table: TableModel, defaults: Sequence[SetDefault]) -> TableModel:
    """Return a table with changed column defaults."""
    if not defaults:
        return table
    found = {step.name.lower(): step.default for step in defaults}
    columns = []
    for column in table.columns:
        if column.name.lower() in found:
            tokens = found[column.name.lower()]
            text = None if tokens is None else literal_text(tokens, column.kind, column.charset)
            column = replace(column, default=text)
        columns.append(column)
    return replace(table, columns=tuple(columns))


def _changed(old: ColumnModel, new: ColumnModel, text: ColumnText) -> ColumnModel:
    """Return the column after MODIFY or CHANGE.

    A NOT NULL column that may bound a period gets an unknown nullability, as it may stay NOT NULL.
    """
    if old.nullable is not False or text.nullable is not None or new.nullable is False:
        return new
    return replace(new, nullable=None) if new.kind in DATES else new


def _looks_like_key(column: ColumnModel) -> bool:
    """Return whether a column has the type of a generated invisible primary key."""
    return column.kind == "bigint" and column.unsigned and column.nullable is not True


def _has_generated_key(table: TableModel) -> bool:
    first = table.columns[0] if table.columns else None
    return (
        first is not None
        and (first.name, first.kind, first.unsigned) == (_GENERATED_KEY, "bigint", True)
        and not first.visible
        and table.primary_key == ((_GENERATED_KEY, 0),)
    )


def _charset_after(
    table: TableModel,
    steps: Sequence[Step],
    database_charset: str | None,
    converted_charset: str | None,
) -> str | None:
    charset = table.charset
    for step in steps:
        if isinstance(step, SetCharset):
            charset = step.charset or database_charset
        elif isinstance(step, ConvertCharset):
            charset = step.charset or converted_charset
    return charset


def _find(by_old: dict[str, _Entry], name: str, *, missing_ok: bool = False) -> _Entry | None:
    entry = by_old.get(name.lower())
    if entry is not None or missing_ok:
        return entry
    raise NotUnderstoodError(f"column {name} is not there")


def _required(by_old: dict[str, _Entry], name: str) -> _Entry:
    found = _find(by_old, name)
    assert found is not None
    return found


def _drop(entries: list[_Entry], steps: list[DropColumn]) -> None:
    by_old = {entry.old.lower(): entry for entry in reversed(entries)}
    gone: set[int] = set()
    for step in steps:
        found = _find(by_old, step.name, missing_ok=step.if_exists)
        if found is not None:
            del by_old[found.old.lower()]
            gone.add(id(found))
    entries[:] = [entry for entry in entries if id(entry) not in gone]


def _insert_index(entries: list[_Entry], names: list[str], text: ColumnText) -> int:
    """Return the index at which a column is inserted; `names` are the columns in lower case."""
    if text.column_position == "FIRST":
        return 0
    if text.column_position == "AFTER":
        try:
            return names.index(text.after.lower()) + 1
        except ValueError:
            raise NotUnderstoodError(f"column {text.after} is not there") from None
    # Hidden columns of the server stay last.
    at = len(entries)
    while at and entries[at - 1].column.hidden:
        at -= 1
    return at


def _key_after(
    table: TableModel,
    steps: Sequence[Step],
    renames: dict[str, str],
    columns: list[ColumnModel],
) -> tuple[tuple[str, int], ...]:
    names = {column.name.lower() for column in columns}
    key = tuple((renames.get(name, name), prefix) for name, prefix in table.primary_key)
    if any(isinstance(step, DropPrimaryKey) for step in steps):
        key = ()
    for step in steps:
        if isinstance(step, SetPrimaryKey):
            key = step.key
    actual = {column.name.lower(): column.name for column in columns}
    return tuple((actual[name.lower()], prefix) for name, prefix in key if name.lower() in names)


TableLookup = Callable[[TableName], TableModel | None]

_MODIFIERS: Final = frozenset(
    (
        "ALL", "DISTINCT", "DISTINCTROW", "HIGH_PRIORITY", "STRAIGHT_JOIN", "SQL_SMALL_RESULT",
        "SQL_BIG_RESULT", "SQL_BUFFER_RESULT", "SQL_CACHE", "SQL_NO_CACHE", "SQL_CALC_FOUND_ROWS",
    )
)  # fmt: skip
# Clauses that may follow the tables and change no column.
_CLAUSES: Final = frozenset(
    ("WHERE", "GROUP", "HAVING", "WINDOW", "ORDER", "LIMIT", "OFFSET", "FETCH", "FOR", "LOCK")
)
_JOINS: Final = frozenset(("JOIN", "INNER", "CROSS", "LEFT", "RIGHT", "STRAIGHT_JOIN"))
_NOT_HERE: Final = frozenset(("UNION", "EXCEPT", "INTERSECT", "MINUS", "INTO", "PROCEDURE"))
_HINTS: Final = frozenset(("USE", "FORCE", "IGNORE", "PARTITION", "TABLESAMPLE"))
# Words that are values when they are not quoted.
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
    """A table of the query: its alias or name, its database and its definition."""

    name: str
    database: str
    model: TableModel


def selected_columns(
    query: str,
    defined: Sequence[ColumnModel],
    context: StatementContext,
    lookup: TableLookup,
) -> tuple[ColumnModel, ...]:
    """Return the columns of CREATE TABLE … SELECT: those only defined first, then the query's.

    Raises:
        NotUnderstoodError: the query has more than names of columns in known tables.
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
    # Whether NOT NULL is kept depends on the joins.
    return [replace(column, nullable=None, visible=True, hidden=False) for column in found]


def _until(cursor: Cursor, words: set[str] | frozenset[str]) -> tuple[list[Token], Cursor]:
    """Return the tokens before the first of some keywords outside brackets, and a cursor there."""
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
    """Return the columns of one item of the select list."""
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
    """Return whether the qualifier of a column or star means a table; no qualifier means all."""
    if len(names) > 2:
        raise NotUnderstoodError("a query with expressions")
    return not names or (
        table.name == names[-1] and (len(names) == 1 or table.database == names[0])
    )


def _tables(cursor: Cursor, context: StatementContext, lookup: TableLookup) -> list[_Table]:
    """Read the tables after FROM, up to the end of the query."""
    found = [_table(cursor, context, lookup)]
    while not cursor.done:
        if not cursor.take(","):
            if cursor.token.upper == "FOR" and cursor.peek().upper == "SYSTEM_TIME":
                raise NotUnderstoodError("a query of rows of another time")
            if cursor.token.kind == WORD and cursor.token.upper in _CLAUSES:
                _until(cursor, frozenset())  # raises if another query follows
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
    """Return the condition of a join, and a cursor after the condition."""
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
