"""The combined effect of all transforms of a table: its columns, its rows, its name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from replica_client.errors import ConfigError, DataLossError
from replica_client.protocol.codec.printable import did_you_mean
from replica_client.rows.conditions import row_matches
from replica_client.rows.row import Row, row_class
from replica_client.rows.where import columns_of
from replica_client.schema.history_records import SchemaChange
from replica_client.schema.model import ColumnModel, TableModel
from replica_client.schema.shape import ColumnShape, OutboxColumns, TableShape
from replica_client.stream.position.losses import Loss
from replica_client.stream.transactions.transaction import Transaction
from replica_client.stream.transforms.column_rules import (
    ColumnRule,
    MarkerColumn,
    ShardColumn,
    is_text,
    ruled_model,
    ruled_shape,
)
from replica_client.stream.transforms.declaration import (
    TableTransform,
    filled,
    matches_column,
    routed,
    shard_length,
)

DROPPED = ColumnRule("drop")
_WILD = frozenset("*?[")


@dataclass(frozen=True)
class TablePlan:
    """The transforms of a table, combined.

    Attributes:
        database: database at the source.
        table: name at the source.
        transforms: the table's transforms; at least one.
        target: database and name after the transforms.
        shard: the column before the others; None if the table is not merged with others.
        marker: the column after the others; None if deletes stay deletes.
        outbox: columns of the messages that its rows become; None if it is no outbox.
    """

    database: str
    table: str
    transforms: tuple[TableTransform, ...]
    target: tuple[str, str]
    shard: ShardColumn | None = None
    marker: MarkerColumn | None = None
    outbox: OutboxColumns | None = None
    _columns_seen: set[str] = field(default_factory=set, compare=False, repr=False)

    @classmethod
    def of(
        cls, transforms: Iterable[TableTransform], database: str, table: str
    ) -> TablePlan | None:
        """Create the plan of a table; None if no transform applies.

        Raises:
            ConfigError: two transforms route it, mark its deleted rows, or make an outbox of it.
        """
        found = tuple(one for one in transforms if one.tables.wants(database, table))
        if not found:
            return None
        target, shard = (database, table), None
        for one in found:
            if one.route is not None:
                target = routed(one.route, database, table)
            if one.shard is not None:
                name, template = one.shard
                value = filled(template, database, table)
                shard = ShardColumn(name, value, shard_length(template))
        for key, what in (
            ("route", "route it"),
            ("soft_delete", "mark its deleted rows"),
            ("outbox", "make an outbox of it"),
        ):
            several = [one.name for one in found if getattr(one, key) is not None]
            if len(several) > 1:
                raise ConfigError(f"{database}.{table}: {several[0]} and {several[1]} both {what}")
        if any(one.outbox for one in found) and any(one.soft_delete for one in found):
            raise ConfigError(f"{database}.{table}: an outbox cannot have soft_delete")
        marker = next((one.soft_delete for one in found if one.soft_delete is not None), None)
        outbox = next((one.outbox for one in found if one.outbox is not None), None)
        return cls(
            *(database, table, found, target, shard),
            None if marker is None else MarkerColumn(marker),
            outbox,
        )

    @property
    def hides(self) -> bool:
        """Whether columns of the table are hidden."""
        return any(one.hides for one in self.transforms)

    @property
    def changes_columns(self) -> bool:
        """Whether columns of the source are missing or renamed."""
        return self.hides or any(one.rename for one in self.transforms)

    @property
    def added_names(self) -> set[str]:
        """The names of columns that the source does not have."""
        return {one.name for one in (self.shard, self.marker) if one is not None}

    def hiding(self) -> tuple[int, ...]:
        """Return the numbers of the transforms that hide columns."""
        return tuple(one.number for one in self.transforms if one.hides)

    def columns(
        self, columns: Sequence[ColumnShape] | Sequence[ColumnModel], key: Iterable[str]
    ) -> list[tuple[ColumnRule | None, str]]:
        """Return the rule and the new name of each column.

        Raises:
            ConfigError: the transforms do not fit the table.
        """
        keyed = {name.lower() for name in key}
        self._check_rules(column.name for column in columns)
        self._columns_seen.update(column.name.lower() for column in columns)
        if any(isinstance(column, ColumnShape) for column in columns):
            self._check_conditions()
        found = [self._column(column, keyed) for column in columns]
        names = [name.lower() for rule, name in found if rule is not DROPPED]
        if not names:
            raise self._wrong("no column of it is left")
        names += [name.lower() for name in self.added_names]
        if len(set(names)) != len(names):
            raise self._wrong("two of its columns would have one name")
        self._check_outbox(set(names))
        return found

    def _check_outbox(self, names: set[str]) -> None:
        """Raise if an outbox lacks a column, or a column of it is hidden."""
        for column in () if self.outbox is None else self.outbox.columns():
            if column.lower() not in names:
                raise self._wrong(f"outbox: there is no column {column}, or it is hidden")

    def _check_rules(self, columns: Iterable[str]) -> None:
        """Raise if a rule's column does not exist: the meant column could show under another name."""
        names = {name.lower() for name in columns}
        for one in self.transforms:
            if not one.names_tables or "*" not in (one.keep or ()):
                continue
            for pattern, rule in one.rules:
                if not _WILD.intersection(pattern) and pattern.lower() not in names:
                    raise self._wrong(f"{rule.kind}: there is no column {pattern}")

    def _check_conditions(self) -> None:
        """Raise if a condition's column never existed in a named table: no row would match.

        Rows from after the column was dropped do not match. A pattern may include tables without
        the column.
        """
        for one in self.transforms:
            if one.where is None or not one.names_tables:
                continue
            for column in sorted(columns_of(one.where)):
                if column.lower() not in self._columns_seen:
                    near = did_you_mean(column, self._columns_seen)
                    raise self._wrong(f"where: there is no column {column!r}; {near}")

    def withheld(self, columns: Iterable[str]) -> list[str]:
        """Return the columns that no transform mentions, in a table where others are hidden."""
        return [name for name in columns if self._rule(name)[1]]

    def _rule(self, column: str) -> tuple[ColumnRule | None, bool]:
        """Return a column's rule, and whether it is withheld because no transform mentions it."""
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
                raise self._wrong(f"{rule.kind} needs a text column, which {column.name} is not")
            if column.name.lower() in keyed and not rule.unique:
                raise self._wrong(
                    f"column {column.name} is part of the primary key: after {rule.kind} it no longer "
                    "identifies rows; hash keeps them distinct, drop leaves the table without a key"
                )
        return rule, new[0] if new else column.name

    def shape(self, shape: TableShape) -> tuple[TableShape, list[ColumnRule | None]]:
        """Return the shape of row images after the transforms, and the rule of each old column.

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
        keyed = bool(shape.primary_key)
        if any(found[at][0] is DROPPED for at in shape.primary_key):
            columns, keyed = [replace(one, primary_key_index=None) for one in columns], False
        if self.shard is not None:
            columns = [self.shard.shape(keyed=keyed), *map(_one_later, columns)]
        if self.marker is not None:
            columns.append(self.marker.shape)
        made = self.marked(TableShape(*self.target, tuple(columns)))
        return made, [rule for rule, _ in found]

    def marked(self, shape: TableShape) -> TableShape:
        """Return a shape after the transforms, with the facts that sinks need."""
        return replace(
            shape,
            merged=self.shard is not None,
            keeps_deleted=self.marker is not None,
            outbox=self.outbox,
        )

    def model(self, model: TableModel) -> TableModel:
        """Return the definition after the transforms.

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
        if self.shard is not None:
            columns = (self.shard.model, *columns)
            if key:
                key.insert(0, (self.shard.name, 0))
        if self.marker is not None:
            columns = (*columns, self.marker.model)
        return replace(
            model,
            database=self.target[0],
            name=self.target[1],
            columns=columns,
            primary_key=tuple(key),
        )

    def shows_key(self, model: TableModel) -> bool:
        """Return whether values of the primary key are unchanged."""
        return all(self._rule(name)[0] is None for name, _ in model.primary_key)

    def gives(self, row: Row) -> bool:
        """Return whether a row meets all conditions."""
        return all(
            one.where is None or row_matches(one.where, row, self.database, self.table)
            for one in self.transforms
        )

    @property
    def filters(self) -> bool:
        """Whether conditions choose rows."""
        return any(one.where is not None for one in self.transforms)

    def asked_columns(self) -> set[str]:
        """Return the columns that conditions use."""
        return {
            name
            for one in self.transforms
            if one.where is not None
            for name in columns_of(one.where)
        }

    def rows(self, model: TableModel, rows: Iterable[Row]) -> list[Row]:
        """Return rows of a copy after the transforms.

        Args:
            model: the source's table.
            rows: values of its columns that the server does not hide, in order.
        """
        columns = [column for column in model.columns if not column.hidden]
        found = self.columns(columns, (name for name, _ in model.primary_key))
        self._check_conditions()
        kept = [
            (at, rule, None if rule is None else _constant(rule, columns[at]))
            for at, (rule, _) in enumerate(found)
            if rule is not DROPPED
        ]
        names = [found[at][1] for at, _, _ in kept]
        first: list[Any] = []
        last: list[Any] = []
        if self.shard is not None:
            names.insert(0, self.shard.name)
            first = [self.shard.value]
        if self.marker is not None:
            names.append(self.marker.name)
            last = [0]
        make = row_class(tuple(names))
        return [
            make([*first, *(_value(row[at], rule, constant) for at, rule, constant in kept), *last])
            for row in rows
            if self.gives(row)
        ]

    def _wrong(self, text: str) -> ConfigError:
        numbers = ", ".join(one.name for one in self.transforms)
        return ConfigError(f"{numbers}, table {self.database}.{self.table}: {text}")


def _one_later(column: ColumnShape) -> ColumnShape:
    """Return a column moved one place back in the primary key, after a new first column."""
    at = column.primary_key_index
    return column if at is None else replace(column, primary_key_index=at + 1)


def _constant(rule: ColumnRule, column: ColumnModel) -> str | None:
    return rule.constant if is_text(column) else None


def _value(value: Any, rule: ColumnRule | None, constant: str | None) -> Any:
    if rule is None:
        return value
    if rule.make is None:
        return constant
    return None if value is None else rule.make(value)


TableName = tuple[str, str]
OF_ALL_SHARDS: Final = frozenset(("create_table", "alter_table", "not_understood"))
"""Kinds of statements that are run on one table after the other until all look alike again."""


@dataclass
class _Target:
    """A merged table: name and length of its shard column, and its tables by shard value.

    The shard value is "" without a shard column.
    """

    column: tuple[str, int] | None
    tables: dict[str, TableName] = field(default_factory=dict)


class TargetNames:
    """Registry of table names, which tables may share only if a column distinguishes them."""

    def __init__(self) -> None:
        self._targets: dict[TableName, _Target] = {}

    def take(self, name: TableName, plan: TablePlan | None) -> None:
        """Register a table.

        Raises:
            ConfigError: the table would be merged with another, and nothing would distinguish their
                rows.
        """
        target = name if plan is None else plan.target
        shard = None if plan is None else plan.shard
        column = None if shard is None else (shard.name, shard.length)
        value = "" if shard is None else shard.value
        known = self._targets.setdefault(target, _Target(column))
        if known.column == column:
            other = known.tables.setdefault(value, name)
        else:
            other = next(iter(known.tables.values()))
        if other != name:
            why = "route one of them elsewhere, or distinguish them by shard"
            if shard is not None:
                why = (
                    f"its column {shard.name} has to be the same in all, with another value in each"
                )
            raise ConfigError(
                f"{'.'.join(name)} and {'.'.join(other)} would both be {'.'.join(target)}; {why}"
            )


@dataclass(frozen=True)
class ShardStatement:
    """A statement about one of several merged tables.

    No statement about the merged table has the same effect.

    Attributes:
        change: the change at the source.
        target: the merged table.
    """

    change: SchemaChange
    target: TableName

    def loss(self, transaction: Transaction, record_losses: Collection[str]) -> Loss:
        """Return the statement as a loss, if such losses are recorded.

        Raises:
            DataLossError: they are not.
        """
        change, target = self.change, ".".join(self.target)
        what = change.kind.replace("_", " ")
        reason = (
            f"{what} of {change.database}.{change.table}, which is one of those that are {target}: the statement does "
            "not say what happens to its rows there"
        )
        if "statement" not in record_losses:
            raise DataLossError(
                f"{change.file}:{change.position}: {reason}; record_losses = ['statement'] counts it, and lets a "
                "mirror with snapshot = true copy the table again"
            )
        return Loss(
            *("statement", *self.target, None, reason, change.file, change.position),
            *(change.event_index, transaction.gtid, transaction.timestamp),
        )


def shard_statements(
    change: SchemaChange, plan: TablePlan | None, after: TablePlan | None
) -> Iterator[SchemaChange | ShardStatement]:
    """Yield what a statement about one of several merged tables means after the merge.

    Args:
        change: DROP, TRUNCATE or RENAME.
        plan: plan of its table.
        after: plan of the table that it becomes.
    """
    targets = {one.target for one in (plan, after) if one is not None and one.shard is not None}
    new = change.name_after
    if change.kind == "rename_table":
        if plan is None or plan.shard is None:
            gone = (change.database, change.table) if plan is None else plan.target
            yield replace(
                change,
                kind="drop_table",
                database=gone[0],
                table=gone[1],
                before=None,
                after=None,
                new_name=None,
                statement=f"DROP TABLE `{gone[1]}`",
            )
        elif after is None or after.shard is None:
            # The rows of the renamed table come with it.
            targets.add(new if after is None else after.target)
    for target in sorted(targets):
        yield ShardStatement(change, target)
