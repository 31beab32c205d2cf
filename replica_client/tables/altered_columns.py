"""Where each column of an altered table comes from."""

from __future__ import annotations

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


class CannotFollowError(Exception):
    """What an alteration does to rows that are there cannot be known; the text says why."""


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
    """For each column after an ALTER TABLE which one it was.

    Args:
        change: the alteration.
        before: the table as the mirror has it.
        after: the table afterwards.

    Raises:
        CannotFollowError: the statement and the two definitions do not go together.
    """
    context = change.context or StatementContext(change.database)
    meaning = read_statement(change.statement, context)
    if not isinstance(meaning, AlterTable):
        raise CannotFollowError("the statement is not understood")
    return sources_of(meaning, before, after)


def sources_of(meaning: AlterTable, before: TableModel, after: TableModel) -> list[ColumnSource]:
    """For each column behind an ALTER TABLE that was read which one it was.

    Its clauses name columns as they were before it, so that two can exchange their names and one that is
    dropped can be added again. A column with neither ``old`` nor ``text`` came otherwise.
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
    """The error for an alteration that a mirror cannot follow."""
    tables = {(change.database, change.table)}
    if change.after is not None:
        tables.add((change.after.database, change.after.name))
    return CopyNeededError(
        f"{change.database}.{change.table}: the mirror cannot follow {change.statement[:200]!r}: {error}; "
        "drop the table from the mirror and start it over, or let it be copied again with snapshot = true",
        tables,
    )
