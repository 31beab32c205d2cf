"""A table of a snapshot as the stream delivers it: its name, columns and key behind selection and transforms."""

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
    """See the module.

    Attributes:
        model: the source's table.
        shape: of what is delivered, all columns.
        columns: those that were asked for.
        key: names of the columns that tell rows apart; None where none do, or they may not be seen.
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
        """The view of a table.

        Raises:
            ConfigError: the transforms do not fit the table.
            SchemaError: a type that is not known.
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
        """As the stream has it."""
        return self.shape.database, self.shape.table

    def rows(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Rows of the source as they are delivered."""
        if self._plan is not None:
            rows = self._plan.rows(self.model, rows)
        if self._indexes is None:
            return rows
        make = row_class(tuple(column.name for column in self.columns))
        return [make([row[at] for at in self._indexes]) for row in rows]

    def prefilter(self, wanted: Condition) -> str:
        """The condition in SQL that leaves out rows which certainly do not meet another one; empty: none does so.

        Only tests that the server answers as :mod:`replica_client.rows.conditions` does are part of it: of numbers,
        and of columns that no transform changes. The rows that come are tested again.
        """
        return exact_sql(wanted, self._numbers()) or ""

    def _numbers(self) -> dict[str, str]:
        """The source's columns of numbers that are delivered as they are, by the delivered name."""
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
        """Their keys; None where nothing tells them apart."""
        if self.key is None:
            return None
        names = [column.name for column in self.columns]
        indexes = [names.index(name) for name in self.key]
        return [tuple(row[at] for at in indexes) for row in rows]


def _given_names(
    model: TableModel, plan: TablePlan | None, wanted: frozenset[str] | None
) -> set[str]:
    """Names of the delivered columns, behind the transforms."""
    columns = [column for column in model.columns if not column.hidden]
    if plan is None:
        return {one.name for one in columns if wanted is None or one.name in wanted}
    found = plan.columns(columns, (name for name, _ in model.primary_key))
    return plan.added_names | {
        new
        for column, (rule, new) in zip(columns, found, strict=True)
        if rule is not DROPPED and (wanted is None or column.name in wanted)
    }
