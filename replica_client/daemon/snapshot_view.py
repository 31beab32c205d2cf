"""A table of a snapshot as the stream delivers it: name, columns and key after transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from replica_client.codec.quick_dataclass import dataclass
from replica_client.constants.flavor import ServerFlavor
from replica_client.daemon.changed_keys import Key
from replica_client.readers.transforms.column_rules import ColumnRule
from replica_client.readers.transforms.table_plan import DROPPED, TablePlan
from replica_client.readers.transforms.transformer import Transformer
from replica_client.rows.row import Row, row_class
from replica_client.rows.selection import Selection
from replica_client.rows.where import Condition
from replica_client.schema.model import TableModel
from replica_client.schema.model_shape import shape_of
from replica_client.schema.shape import ColumnShape, TableShape
from replica_client.snapshot.exact_conditions import NUMBERS, exact_sql
from replica_client.tables.table_copy import TableName


@dataclass(frozen=True, slots=True)
class SnapshotView:
    """A table as the stream delivers it.

    Attributes:
        model: the source's table.
        shape: of what is delivered, all columns.
        columns: the selected columns.
        key: names of the columns that identify rows; None if there are none, or they are hidden.
    """

    model: TableModel
    shape: TableShape
    columns: tuple[ColumnShape, ...]
    key: tuple[str, ...] | None
    _plan: TablePlan | None
    _indexes: tuple[int, ...] | None

    @classmethod
    def of(
        cls,
        model: TableModel,
        selection: Selection,
        transform: Transformer | None,
        flavor: ServerFlavor,
    ) -> Self:
        """Return the view of a table.

        Raises:
            ConfigError: the transforms do not fit the table.
            SchemaError: a column type is unknown.
        """
        plan = None if transform is None else transform.plan(model.database, model.name)
        seen = model if transform is None else transform.model(model)
        shape = shape_of(seen, flavor)
        if plan is not None:
            shape = plan.marked(shape)
        names = _given_names(model, plan, selection.columns_of(model.database, model.name))
        columns = tuple(column for column in shape.columns if column.name in names)
        indexes = None
        if len(columns) < len(shape.columns):
            indexes = tuple(at for at, column in enumerate(shape.columns) if column.name in names)
        key: tuple[str, ...] | None = tuple(name for name, _ in seen.primary_key)
        if not key or not set(key) <= names or (plan is not None and not plan.shows_key(model)):
            key = None
        return cls(model, shape, columns, key, plan, indexes)

    @property
    def name(self) -> TableName:
        """The table's name in the stream."""
        return self.shape.database, self.shape.table

    def rows(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Convert rows of the source to delivered rows."""
        if self._plan is not None:
            rows = self._plan.rows(self.model, rows)
        if self._indexes is None:
            return rows
        make = row_class(tuple(column.name for column in self.columns))
        return [make([row[at] for at in self._indexes]) for row in rows]

    def prefilter(self, wanted: Condition) -> str:
        """Return an SQL condition that excludes only rows that do not meet ``wanted``.

        It includes only tests that the server answers as :mod:`replica_client.rows.conditions`
        does: on numbers, and on columns that no transform changes. The returned rows are tested
        again.
        """
        return exact_sql(wanted, self._numbers()) or ""

    def _numbers(self) -> dict[str, str]:
        """Return the source's numeric columns that no transform changes, by delivered name."""
        columns = [one for one in self.model.columns if not one.hidden]
        given = {one.name for one in self.columns}
        rules: list[tuple[ColumnRule | None, str]] = [(None, one.name) for one in columns]
        if self._plan is not None:
            rules = self._plan.columns(columns, (name for name, _ in self.model.primary_key))
        return {
            new: column.name
            for column, (rule, new) in zip(columns, rules, strict=True)
            if rule is None and new in given and column.kind in NUMBERS
        }

    def keys(self, rows: Sequence[Row]) -> list[Key] | None:
        """Return the keys of delivered rows; None if rows have no visible key."""
        if self.key is None:
            return None
        names = [column.name for column in self.columns]
        indexes = [names.index(name) for name in self.key]
        return [tuple(row[at] for at in indexes) for row in rows]


def _given_names(
    model: TableModel, plan: TablePlan | None, wanted: frozenset[str] | None
) -> set[str]:
    """Return the names of the delivered columns, after the transforms."""
    columns = [column for column in model.columns if not column.hidden]
    if plan is None:
        return {one.name for one in columns if wanted is None or one.name in wanted}
    found = plan.columns(columns, (name for name, _ in model.primary_key))
    return plan.added_names | {
        new
        for column, (rule, new) in zip(columns, found, strict=True)
        if rule is not DROPPED and (wanted is None or column.name in wanted)
    }
