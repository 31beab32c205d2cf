"""A mirrored table that is made of several of the source, which are altered one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from replica_client.schema.model import ColumnModel, TableModel
from replica_client.schema.schema_change import SchemaChange
from replica_client.schema.shape import ColumnShape
from replica_client.sinks.column_models import column_model
from replica_client.tables.table_copy import CopyNeededError


def check_same_columns(model: TableModel, columns: Sequence[ColumnShape]) -> None:
    """Refuse rows of a table that does not look as the mirror's does.

    Args:
        model: the mirror's table.
        columns: of the rows.

    Raises:
        CopyNeededError: a copy is needed when all tables look alike again.
    """
    if len(columns) == len(model.columns) and all(map(_same, model.columns, columns)):
        return
    raise different(model, "rows come with other columns than the mirror's table has")


def _same(known: ColumnModel, column: ColumnShape) -> bool:
    """Whether a column of rows is defined as one of the mirror."""
    found = [column_model(column)]  # row images do not tell everything that a definition does
    if column.definition is not None:
        found.append(replace(column.definition, name=column.name))
    return any(_alike(known, one) for one in found)


def _alike(known: ColumnModel, other: ColumnModel) -> bool:
    """Whether two columns have the same values; whether these can be NULL is seen when one is."""
    return replace(other, nullable=known.nullable, visible=known.visible) == known


def _same_table(known: TableModel, other: TableModel) -> bool:
    columns = known.columns, other.columns
    same = len(columns[0]) == len(columns[1]) and all(map(_alike, *columns))
    return same and known.primary_key == other.primary_key


def is_followed(model: TableModel | None, change: SchemaChange) -> bool:
    """Whether the mirror's table is what a statement makes of one of the source's tables, as another has done it.

    Raises:
        CopyNeededError: it is neither that, nor what the table was before.
    """
    if model is None:
        return False
    if change.after is not None and _same_table(model, change.after):
        return True
    before = change.before
    if change.kind == "create_table" or (before is not None and not _same_table(model, before)):
        raise different(
            model, f"{change.kind.replace('_', ' ')} makes a table that looks different"
        )
    return False


def different(model: TableModel, why: str) -> CopyNeededError:
    """The error for tables that do not look alike."""
    name = model.database, model.name
    return CopyNeededError(
        f"{model.database}.{model.name} is made of several tables, which do not look alike: {why}; alter all of them, "
        "then it can be copied again (snapshot = true)",
        {name},
    )
