"""What all transforms of a table together make of it: its columns, its rows, its name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from replica_client.errors import ConfigError
from replica_client.readers.transforms.column_rules import (
    ColumnRule,
    is_text,
    ruled_model,
    ruled_shape,
)
from replica_client.readers.transforms.declaration import TableTransform, matches_column, routed
from replica_client.rows.conditions import row_matches
from replica_client.rows.row import Row, row_class
from replica_client.rows.where import columns_of
from replica_client.schema.model import ColumnModel, TableModel
from replica_client.schema.shape import ColumnShape, TableShape

DROPPED = ColumnRule("drop")
_WILD = frozenset("*?[")


@dataclass(frozen=True)
class TablePlan:
    """What becomes of a table.

    Attributes:
        database: of the source.
        table: its name there.
        transforms: those that are of it; at least one.
        target: its database and name behind them.
    """

    database: str
    table: str
    transforms: tuple[TableTransform, ...]
    target: tuple[str, str]

    @classmethod
    def of(
        cls, transforms: Iterable[TableTransform], database: str, table: str
    ) -> TablePlan | None:
        """The plan of a table; None where no transform is of it.

        Raises:
            ConfigError: two transforms route it.
        """
        found = tuple(one for one in transforms if one.tables.wants(database, table))
        if not found:
            return None
        routes = [one for one in found if one.route is not None]
        if len(routes) > 1:
            raise ConfigError(
                f"{database}.{table}: {routes[0].name} and {routes[1].name} both route it"
            )
        target = database, table
        if routes and routes[0].route is not None:
            target = routed(routes[0].route, database, table)
        return cls(database, table, found, target)

    @property
    def hides(self) -> bool:
        """Whether something of the table may not be seen."""
        return any(one.hides for one in self.transforms)

    @property
    def changes_columns(self) -> bool:
        """Whether its columns are others than the source's."""
        return self.hides or any(one.rename for one in self.transforms)

    def hiding(self) -> tuple[int, ...]:
        """The numbers of the transforms that hide something."""
        return tuple(one.number for one in self.transforms if one.hides)

    def columns(
        self, columns: Sequence[ColumnShape] | Sequence[ColumnModel], key: Iterable[str]
    ) -> list[tuple[ColumnRule | None, str]]:
        """What becomes of each column, and its name.

        Raises:
            ConfigError: the transforms do not fit the table.
        """
        keyed = {name.lower() for name in key}
        self._check_rules(column.name for column in columns)
        found = [self._column(column, keyed) for column in columns]
        names = [name.lower() for rule, name in found if rule is not DROPPED]
        if not names:
            raise self._wrong("no column of it is left")
        if len(set(names)) != len(names):
            raise self._wrong("two of its columns would have one name")
        return found

    def _check_rules(self, columns: Iterable[str]) -> None:
        """Refuse a rule of a column that is not there, where the column meant may be seen under another name."""
        names = {name.lower() for name in columns}
        for one in self.transforms:
            if not one.names_tables or "*" not in (one.keep or ()):
                continue
            for pattern, rule in one.rules:
                if not _WILD.intersection(pattern) and pattern.lower() not in names:
                    raise self._wrong(f"{rule.kind}: there is no column {pattern}")

    def withheld(self, columns: Iterable[str]) -> list[str]:
        """Which columns nobody has decided about."""
        return [name for name in columns if self._rule(name)[1]]

    def _rule(self, column: str) -> tuple[ColumnRule | None, bool]:
        """The rule of a column, and whether it is withheld as nobody has decided about it."""
        rules = [
            (one, rule)
            for one in self.transforms
            for pattern, rule in one.rules
            if matches_column(pattern, column)
        ]
        if len(rules) > 1:
            raise self._wrong(
                f"column {column} has two rules: {rules[0][1].kind} of {rules[0][0].name} and "
                f"{rules[1][1].kind} of {rules[1][0].name}"
            )
        if rules:
            rule = rules[0][1]
            return (DROPPED if rule.kind == "drop" else rule), False
        keeps = [one.keep for one in self.transforms if one.keep is not None]
        kept = any(matches_column(pattern, column) for keep in keeps for pattern in keep)
        return (None, False) if kept or not keeps else (DROPPED, True)

    def _column(
        self, column: ColumnShape | ColumnModel, keyed: set[str]
    ) -> tuple[ColumnRule | None, str]:
        rule, _ = self._rule(column.name)
        new = [
            one.rename[column.name.lower()]
            for one in self.transforms
            if column.name.lower() in one.rename
        ]
        if len(set(new)) > 1:
            raise self._wrong(f"column {column.name} gets two names")
        if rule is not None and rule is not DROPPED:
            if rule.of_text and not is_text(column):
                raise self._wrong(f"{rule.kind} wants a column of text, which {column.name} is not")
            if column.name.lower() in keyed and not rule.unique:
                raise self._wrong(
                    f"column {column.name} is part of the primary key: after {rule.kind} it tells rows "
                    "apart no longer; hash keeps them apart, drop leaves the table without a key"
                )
        return rule, new[0] if new else column.name

    def shape(self, shape: TableShape) -> tuple[TableShape, list[ColumnRule | None]]:
        """The shape of row images behind the transforms, and each old column's rule.

        Raises:
            ConfigError: the transforms do not fit the table, or its columns' names are not known.
        """
        if self.changes_columns and not shape.names_resolved:
            raise self._wrong("the names of its columns are not known")
        key = [shape.columns[at].name for at in shape.primary_key]
        found = self.columns(shape.columns, key)
        columns = [
            ruled_shape(column, rule, name)
            for column, (rule, name) in zip(shape.columns, found, strict=True)
            if rule is not DROPPED
        ]
        if any(shape.columns[at].name for at in shape.primary_key if found[at][0] is DROPPED):
            columns = [replace(one, primary_key_index=None) for one in columns]
        return TableShape(*self.target, tuple(columns)), [rule for rule, _ in found]

    def model(self, model: TableModel) -> TableModel:
        """The definition behind the transforms.

        Raises:
            ConfigError: the transforms do not fit the table.
        """
        found = self.columns(model.columns, (name for name, _ in model.primary_key))
        by_name = dict(zip(model.column_names, found, strict=True))
        columns = tuple(
            ruled_model(column, *by_name[column.name])
            for column in model.columns
            if by_name[column.name][0] is not DROPPED
        )
        key: list[tuple[str, int]] = []
        for name, prefix in model.primary_key:
            rule, new = by_name[name]
            if rule is DROPPED:
                key = []
                break
            key.append((new, 0 if rule is not None else prefix))
        return replace(
            model,
            database=self.target[0],
            name=self.target[1],
            columns=columns,
            primary_key=tuple(key),
        )

    def shows_key(self, model: TableModel) -> bool:
        """Whether values of the primary key may be seen."""
        return all(self._rule(name)[0] is None for name, _ in model.primary_key)

    def gives(self, row: Row) -> bool:
        """Whether a row meets all conditions."""
        return all(
            one.where is None or row_matches(one.where, row, self.database, self.table)
            for one in self.transforms
        )

    @property
    def filters(self) -> bool:
        """Whether rows are chosen."""
        return any(one.where is not None for one in self.transforms)

    def asked_columns(self) -> set[str]:
        """The columns that conditions look at."""
        return {
            name
            for one in self.transforms
            if one.where is not None
            for name in columns_of(one.where)
        }

    def rows(self, model: TableModel, rows: Iterable[Row]) -> list[Row]:
        """Rows of a copy behind the transforms.

        Args:
            model: the source's table.
            rows: values of its columns that are not hidden by the server, in order.
        """
        columns = [column for column in model.columns if not column.hidden]
        found = self.columns(columns, (name for name, _ in model.primary_key))
        kept = [
            (at, rule, None if rule is None else _constant(rule, columns[at]))
            for at, (rule, _) in enumerate(found)
            if rule is not DROPPED
        ]
        make = row_class(tuple(found[at][1] for at, _, _ in kept))
        return [
            make([_value(row[at], rule, constant) for at, rule, constant in kept])
            for row in rows
            if self.gives(row)
        ]

    def _wrong(self, text: str) -> ConfigError:
        numbers = ", ".join(one.name for one in self.transforms)
        return ConfigError(f"{numbers}, table {self.database}.{self.table}: {text}")


def _constant(rule: ColumnRule, column: ColumnModel) -> str | None:
    return rule.constant if is_text(column) else None


def _value(value: Any, rule: ColumnRule | None, constant: str | None) -> Any:
    if rule is None:
        return value
    if rule.make is None:
        return constant
    return None if value is None else rule.make(value)
