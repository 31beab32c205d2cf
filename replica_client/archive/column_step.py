"""A search condition: a change of one column."""

from __future__ import annotations

from typing import Any

from replica_client.archive.key_values import literal_of
from replica_client.codec.printable import did_you_mean
from replica_client.codec.quick_dataclass import dataclass
from replica_client.errors import ConfigError, DataLossError
from replica_client.rows.absent import ABSENT
from replica_client.rows.conditions import is_equal
from replica_client.rows.row import Row
from replica_client.rows.row_change import Change
from replica_client.rows.row_screen import AFTER, BEFORE
from replica_client.rows.screens import Wanted
from replica_client.rows.where import Comparison, Value
from replica_client.schema.shape import TableShape


@dataclass(frozen=True, slots=True)
class ColumnStep:
    """A change of one column.

    Attributes:
        column: its name.
        before: the value before the change, as a literal; None: any.
        after: the value after the change; None: any.
    """

    column: str
    before: Value | None = None
    after: Value | None = None

    def wanted(self, shape: TableShape) -> list[Wanted]:
        """Return the conditions on the images before and after the change.

        They do not check that the value changed; :meth:`takes` does.

        Raises:
            ConfigError: the table has no such column, or a value is of another kind.
        """
        if self.column not in shape.column_names:
            hint = did_you_mean(self.column, shape.column_names)
            raise ConfigError(
                f"{shape.database}.{shape.table} has no column {self.column!r}; {hint}"
            )
        column = shape.columns[shape.column_names.index(self.column)]
        return [
            (
                Comparison(
                    self.column, "=", literal_of(column, value) if isinstance(value, str) else value
                ),
                image,
            )
            for value, image in ((self.before, BEFORE), (self.after, AFTER))
            if value is not None
        ]

    def takes(self, change: Change) -> bool:
        """Return whether a change is such a step.

        Raises:
            ConfigError: the table has no such column, or a value is of another kind.
            DataLossError: the row images lack the column.
        """
        before, after = self._value(change, change.before), self._value(change, change.after)
        if change.kind == "update" and after is ABSENT:
            if before is ABSENT and self._is_computed(change.shape):
                raise self._undecided(change)
            return False  # what an after image leaves out was not changed
        if change.kind == "update" and self.before is None and before is not ABSENT:
            if _same(before, after):
                return False
        return self._is(change, before, self.before) and self._is(change, after, self.after)

    def _value(self, change: Change, row: Row | None) -> Any:
        if row is None:
            return None
        try:
            return row[self.column]
        except KeyError:
            raise ConfigError(
                f"{change.database}.{change.table} has no column {self.column!r}, only {', '.join(row.columns)}"
            ) from None

    def _is_computed(self, shape: TableShape) -> bool:
        return shape.columns[shape.column_names.index(self.column)].computed

    def _undecided(self, change: Change) -> DataLossError:
        return DataLossError(
            f"file {change.file}, position {change.offset}: the row image of {change.database}.{change.table} "
            f"left out column {self.column!r}, so that --from cannot be decided; leave it out, or set "
            "binlog_row_image=FULL on the source (MariaDB 11.8.9 leaves generated columns out even so)"
        )

    def _is(self, change: Change, value: Any, wanted: Value | None) -> bool:
        if wanted is None:
            return True
        if value is ABSENT:
            raise self._undecided(change)
        if isinstance(wanted, str):
            shape = change.shape
            wanted = literal_of(shape.columns[shape.column_names.index(self.column)], wanted)
        return is_equal(self.column, value, wanted)


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)
