"""Transactions after the declared transforms."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from replica_client.errors import ConfigError, DataLossError
from replica_client.protocol.codec.printable import did_you_mean
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.json_values import ByDecoder
from replica_client.rows.where import columns_of
from replica_client.schema.history import SchemaChange
from replica_client.schema.model import TableModel
from replica_client.stream.position.losses import Loss
from replica_client.stream.transactions.transaction import Transaction
from replica_client.stream.transforms.declaration import TableTransform, read_transforms
from replica_client.stream.transforms.row_images import TransformedImages
from replica_client.stream.transforms.table_plan import (
    OF_ALL_SHARDS,
    ShardStatement,
    TablePlan,
    TargetNames,
    shard_statements,
)

_LOG = logging.getLogger("replica_client.stream")
WITHHELD: Final = "/* the statement is withheld: a transform hides columns */"
"""Replacement for a statement's text that may show what is hidden."""
_MAX_PLANS: Final = 100_000


class Transformer:
    """Application of transforms to everything that a stream delivers.

    Nothing passes that a transform might have wanted to hide and could not: a misfit is an error,
    which names columns but no values.

    Args:
        transforms: the transforms that were read.
    """

    def __init__(self, transforms: Sequence[TableTransform]) -> None:
        self._transforms = tuple(transforms)
        self._images = ByDecoder(self._made_images)
        self._plans: dict[tuple[str, str], TablePlan | None] = {}
        self._targets = TargetNames()
        self._warned: set[tuple[str, str, str]] = set()

    @classmethod
    def of(cls, tables: Sequence[Mapping[str, Any]]) -> Transformer | None:
        """Create a transformer from declarations; None without any.

        Raises:
            ConfigError: a declaration is wrong.
        """
        return cls(read_transforms(tables)) if tables else None

    @property
    def hides(self) -> bool:
        """Whether columns are hidden."""
        return any(one.hides for one in self._transforms)

    @property
    def merges(self) -> bool:
        """Whether several tables may be merged."""
        return any(one.shard is not None for one in self._transforms)

    @property
    def renames(self) -> bool:
        """Whether a table may be renamed."""
        return any(one.route is not None or one.shard is not None for one in self._transforms)

    @property
    def summaries(self) -> tuple[str, ...]:
        """The tables and the effect of each transform, in words, without the values of its keys."""
        return tuple(one.summary for one in self._transforms)

    @property
    def has_outbox(self) -> bool:
        """Whether rows of some table are messages."""
        return any(one.outbox is not None for one in self._transforms)

    @property
    def has_conditions(self) -> bool:
        """Whether a transform chooses rows by a condition."""
        return any(one.where is not None for one in self._transforms)

    def check_conditions(self, columns: Iterable[tuple[str, str, str]]) -> None:
        """Raise if a condition has a column that none of its transform's tables has.

        Args:
            columns: database, table and name of the columns of all tables.

        Raises:
            ConfigError: names the transform, and the nearest column.
        """
        conditions = [one for one in self._transforms if one.where is not None]
        known: list[set[str]] = [set() for _ in conditions]
        for database, table, name in columns:
            for one, names in zip(conditions, known, strict=True):
                if one.tables.wants(database, table):
                    names.add(name.lower())
        for one, names in zip(conditions, known, strict=True):
            assert one.where is not None
            for column in sorted(columns_of(one.where)):
                if names and column.lower() not in names:
                    near = did_you_mean(column, names)
                    raise ConfigError(
                        f"{one.name}: where: none of its tables has a column {column!r}; {near}"
                    )

    def plan(self, database: str, table: str) -> TablePlan | None:
        """Return a table's plan; None if the table stays as it is.

        Raises:
            ConfigError: two transforms, or two tables, conflict.
        """
        name = (database, table)
        try:
            return self._plans[name]
        except KeyError:
            pass
        plan = TablePlan.of(self._transforms, database, table)
        self._targets.take(name, plan)
        if len(self._plans) >= _MAX_PLANS:
            self._plans.clear()
        self._plans[name] = plan
        return plan

    def indexes(self, database: str, table: str) -> list[int]:
        """Return the transforms of a table, as indexes in the configuration."""
        return [at for at, one in enumerate(self._transforms) if one.tables.wants(database, table)]

    def target(self, database: str, table: str) -> tuple[str, str]:
        """Return the name of a table after the transforms."""
        plan = self.plan(database, table)
        return (database, table) if plan is None else plan.target

    def model(self, model: TableModel) -> TableModel:
        """Return a definition after the transforms.

        Raises:
            ConfigError: the transforms do not fit the table.
        """
        plan = self.plan(model.database, model.name)
        if plan is None:
            return model
        self._tell_withheld(plan, model.column_names)
        return plan.model(model)

    def transaction(
        self, transaction: Transaction, record_losses: Collection[str] = ()
    ) -> Transaction:
        """Return a transaction, or a part of one, after the transforms.

        Args:
            transaction: the source's transaction.
            record_losses: kinds of losses that do not stop the stream: ``statement`` for statements
                on one of several merged tables.

        Raises:
            ConfigError: the transforms do not fit a table.
            DataLossError: a row image lacks values that are needed.
            BinlogDecodeError: a row cannot be decoded.
        """
        changed: dict[str, Any] = {}
        given = transaction.rows
        rows = self._rows(given)
        if not (transaction.schema_changes or transaction.losses or transaction.statements):
            return transaction if rows is given else transaction.with_rows(rows)
        if rows is not given:
            changed["rows"] = rows
        if transaction.schema_changes or transaction.losses:
            made = list(self._schema_changes(transaction.schema_changes))
            losses = [self._loss(loss) for loss in transaction.losses]
            losses += [
                one.loss(transaction, record_losses)
                for one in made
                if isinstance(one, ShardStatement)
            ]
            changed["schema_changes"] = tuple(one for one in made if isinstance(one, SchemaChange))
            changed["losses"] = tuple(losses)
        if transaction.statements and self.hides:
            changed["statements"] = tuple(
                replace(one, text=WITHHELD) for one in transaction.statements
            )
        if changed.keys() == {"rows"}:
            return transaction.with_rows(rows)
        return transaction.__replace__(**changed) if changed else transaction

    def _rows(self, given: tuple[RowsOfEvent, ...]) -> tuple[RowsOfEvent, ...]:
        """Return events after the transforms; the same object if no transform applies to any."""
        found: list[RowsOfEvent] = []
        is_changed = False
        for rows in given:
            images = self._images.of(rows)
            if images is None:
                found.append(rows)
                continue
            is_changed = True
            quickly = images.quickly(rows)
            found += images.of(rows) if quickly is None else quickly
        return tuple(found) if is_changed else given

    def _made_images(self, rows: RowsOfEvent) -> TransformedImages | None:
        shape = rows.shape
        plan = self.plan(shape.database, shape.table)
        if plan is None:
            return None
        self._tell_withheld(plan, shape.column_names)
        return TransformedImages(plan, rows)

    def _tell_withheld(self, plan: TablePlan, columns: Iterable[str]) -> None:
        for column in plan.withheld(columns):
            key = (plan.database, plan.table, column)
            if key not in self._warned:
                self._warned.add(key)
                _LOG.warning(
                    "column %s of %s.%s is withheld: no transform says what becomes of it; name it in keep, drop "
                    "or a rule",
                    column,
                    plan.database,
                    plan.table,
                )

    def _schema_changes(
        self, changes: Iterable[SchemaChange]
    ) -> Iterator[SchemaChange | ShardStatement]:
        for change in changes:
            if change.table:
                yield from self._schema_change(change)
            elif change.kind == "drop_database" and any(
                one.route is not None and one.tables.wants_database(change.database)
                for one in self._transforms
            ):
                raise DataLossError(
                    f"{change.file}:{change.position}: DROP DATABASE {change.database}: its tables are routed "
                    "elsewhere, and which ones is not known; drop the tables one by one, or start this sink over"
                )
            else:
                yield change

    def _schema_change(self, change: SchemaChange) -> Iterator[SchemaChange | ShardStatement]:
        plan = self.plan(change.database, change.table)
        after_plan = self.plan(*change.name_after)
        self._check_renamed(change, plan, after_plan)
        if plan is None and after_plan is None:
            yield change
            return
        merged = any(one is not None and one.shard is not None for one in (plan, after_plan))
        if merged and change.kind not in OF_ALL_SHARDS:
            yield from shard_statements(change, plan, after_plan)
            return
        before = None if change.before is None else self.model(change.before)
        after = None if change.after is None else self.model(change.after)
        database, table = self.target(change.database, change.table)
        if change.kind == "rename_table" and after is not None:
            if (after.database, after.name) == (database, table) and before == after:
                return  # both names are routed to one
        elif change.kind == "alter_table" and before is not None and before == after:
            return  # nothing visible changed
        hidden = any(one is not None and one.changes_columns for one in (plan, after_plan))
        yield replace(
            change,
            database=database,
            table=table,
            before=before,
            after=after,
            statement=WITHHELD if hidden else change.statement,
            merged=merged,
            new_name=None if change.new_name is None else self.target(*change.new_name),
        )

    def _check_renamed(
        self, change: SchemaChange, plan: TablePlan | None, after: TablePlan | None
    ) -> None:
        """Raise if a table's new name would show columns that were hidden."""
        new = change.name_after
        if (
            plan is None
            or not plan.hides
            or plan is after
            or new == (change.database, change.table)
        ):
            return
        if after is None or not set(plan.hiding()) <= set(after.hiding()):
            raise ConfigError(
                f"{change.file}:{change.position}: {change.database}.{change.table}, which has hidden columns, "
                f"became {new[0]}.{new[1]}, for which no transform says so; add "
                "the name to its tables"
            )

    def _loss(self, loss: Loss) -> Loss:
        """Return a loss under the table's new name; its reason was withheld when it was recorded."""
        if not loss.table:
            return loss
        database, table = self.target(loss.database, loss.table)
        return replace(loss, database=database, table=table)
