"""The origin of each column of an altered table."""

from __future__ import annotations

from typing import Final

from replica_client.codec.quick_dataclass import dataclass
from replica_client.schema.ddl.column_clause import ColumnText
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.ddl.statements import read_statement
from replica_client.schema.ddl.steps import (
    AddColumn,
    AlterTable,
    ChangeColumn,
    DropColumn,
    RenameColumn,
)
from replica_client.schema.history import SchemaChange
from replica_client.schema.model import ColumnModel, TableModel
from replica_client.tables.table_copy import CopyNeededError

_TAKES_OUT: Final = frozenset(
    ("DROP PARTITION", "TRUNCATE PARTITION", "CONVERT PARTITION", "IGNORE", "DISCARD TABLESPACE")
)
"""What leaves a table that has no rows without any."""


FILLED: Final = "NULL may have become another value, as the session was not strict"


class CannotFollowError(Exception):
    """Raised when the effect of an alteration on existing rows cannot be known; the text says why."""


@dataclass(frozen=True, slots=True)
class ColumnSource:
    """A column of a table after an alteration.

    Attributes:
        column: its definition.
        old: its definition before; None for a new one.
        text: how a new one was written.
    """

    column: ColumnModel
    old: ColumnModel | None
    text: ColumnText | None = None


def column_sources(
    change: SchemaChange, before: TableModel, after: TableModel
) -> list[ColumnSource]:
    """Return the origin of each column after an ALTER TABLE.

    Args:
        change: the alteration.
        before: the table as the mirror has it.
        after: the table afterwards.

    Raises:
        CannotFollowError: the statement and the two definitions do not match, or its effect on the
            values is not known.
    """
    context = change.context or StatementContext(change.database)
    meaning = read_statement(change.statement, context)
    if not isinstance(meaning, AlterTable):
        raise CannotFollowError("the statement is not understood")
    if meaning.row_clauses:
        raise CannotFollowError(f"{meaning.row_clauses[0]} changes which rows there are")
    sources = sources_of(meaning, before, after)
    computed = {
        step.column.name.lower()
        for step in meaning.steps
        if isinstance(step, ChangeColumn) and step.column.generated
    }
    if any(source.column.generated for source in sources) and any(map(_is_converted, sources)):
        computed |= {one.column.name.lower() for one in sources if one.column.generated}
    for source in sources:
        if source.old is not None and source.column.name.lower() in computed:
            raise CannotFollowError(f"the source computes the values of {source.column.name} again")
        if fills_nulls(source, context):
            raise CannotFollowError(f"{source.column.name}: {FILLED}")
    return sources


def fills_nulls(source: ColumnSource, context: StatementContext) -> bool:
    """Return whether NULL in a column may have become the default of its type.

    That happens to a column that becomes NOT NULL in a session whose sql_mode is not strict.
    """
    old, new = source.old, source.column
    if old is None or context.is_strict or old.nullable == new.nullable:
        return False
    return old.nullable is not False and new.nullable is not True


def row_clauses(change: SchemaChange) -> tuple[str, ...]:
    """Return the clauses of an ALTER TABLE that change which rows exist (``DROP PARTITION``, ``IGNORE``)."""
    context = change.context or StatementContext(change.database)
    meaning = read_statement(change.statement, context)
    return meaning.row_clauses if isinstance(meaning, AlterTable) else ()


def brings_rows(change: SchemaChange) -> bool:
    """Return whether an ALTER TABLE may put rows into an empty table."""
    return not _TAKES_OUT.issuperset(row_clauses(change))


def replaces_table(change: SchemaChange) -> bool:
    """Return whether a CREATE TABLE replaces an existing table (OR REPLACE)."""
    context = change.context or StatementContext(change.database)
    meaning = read_statement(change.statement, context)
    return bool(getattr(meaning, "or_replace", False))


def _is_converted(source: ColumnSource) -> bool:
    """Return whether a column's definition changed, so that its values, and columns computed from it, may change."""
    old, new = source.old, source.column
    return old is not None and not new.generated and _typed(old) != _typed(new)


def _typed(column: ColumnModel) -> tuple[object, ...]:
    numbers = column.length, column.scale, column.fraction_digits, column.unsigned
    return column.kind, *numbers, column.charset, column.labels


def sources_of(meaning: AlterTable, before: TableModel, after: TableModel) -> list[ColumnSource]:
    """Return the origin of each column after an ALTER TABLE that was parsed.

    Its clauses name columns as they were before it, so that two columns can exchange their names
    and a dropped column can be added again. A column with neither ``old`` nor ``text`` has another
    origin.
    """
    left = {column.name.lower(): column for column in before.columns}
    renamed: dict[str, ColumnModel] = {}
    added: dict[str, ColumnText] = {}
    for step in meaning.steps:
        match step:
            case ChangeColumn(old=old, column=column) if old.lower() in left:
                renamed[column.name.lower()] = left.pop(old.lower())
            case RenameColumn(old=old, new=new) if old.lower() in left:
                renamed[new.lower()] = left.pop(old.lower())
            case DropColumn(name=name):
                left.pop(name.lower(), None)
            case AddColumn(column=column):
                added[column.name.lower()] = column
    sources = []
    for new_column in after.columns:
        name = new_column.name.lower()
        old_column = renamed.get(name, left.get(name))
        text = None if old_column is not None else added.get(name)
        sources.append(ColumnSource(new_column, old_column, text))
    return sources


def cannot_follow(change: SchemaChange, error: CannotFollowError) -> CopyNeededError:
    """Return the error for an alteration that a mirror cannot follow."""
    tables = {(change.database, change.table), change.name_after}
    return CopyNeededError(
        f"{change.database}.{change.table}: the mirror cannot follow {change.statement[:200]!r}: {error}; "
        "drop the table from the mirror and start it over, or let it be copied again with snapshot = true",
        tables,
    )
