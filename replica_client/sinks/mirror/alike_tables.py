"""Mirrored tables that merge several source tables, which are altered one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from replica_client.schema.model import ColumnModel, TableModel
from replica_client.schema.schema_change import SchemaChange
from replica_client.schema.shape import ColumnShape
from replica_client.sinks.column_models import column_model
from replica_client.tables.table_copy import CopyNeededError


def check_same_columns(model: TableModel, columns: Sequence[ColumnShape]) -> None:
    """Check that rows have the same columns as the mirror's table.

    Args:
        model: definition of the mirror's table.
        columns: columns of the rows.

    Raises:
        CopyNeededError: the columns differ; a copy is needed once all tables have the same
            definition.
    """
    if len(columns) == len(model.columns) and all(map(_same, model.columns, columns)):
        return
    raise different(model, "rows come with other columns than the mirror's table has")


def _same(known: ColumnModel, column: ColumnShape) -> bool:
    """Return whether a column of rows is defined like a column of the mirror."""
    found = [column_model(column)]  # row images say less than a definition
    if column.definition is not None:
        found.append(replace(column.definition, name=column.name))
    return any(_alike(known, one) for one in found)


def _alike(known: ColumnModel, other: ColumnModel) -> bool:
    """Return whether two columns hold the same values.

    Nullability is ignored: a NULL shows it when it comes.
    """
    return replace(other, nullable=known.nullable, visible=known.visible) == known


def _same_table(known: TableModel, other: TableModel) -> bool:
    columns = known.columns, other.columns
    same = len(columns[0]) == len(columns[1]) and all(map(_alike, *columns))
    return same and known.primary_key == other.primary_key


def is_followed(model: TableModel | None, change: SchemaChange) -> bool:
    """Return whether the mirror's table already has the result of a schema change.

    Another of the merged source tables brought the same change before.

    Raises:
        CopyNeededError: the mirror's table is neither the table after the change nor before it.
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
    """Return the error for merged tables with different definitions."""
    name = model.database, model.name
    return CopyNeededError(
        f"{model.database}.{model.name} is made of several tables, which do not look alike: {why}; alter all of them, "
        "then it can be copied again (snapshot = true)",
        {name},
    )
