"""Several tables of the source merged into one: their names, and statements about only one of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from replica_client.errors import ConfigError, DataLossError
from replica_client.schema.history_records import SchemaChange
from replica_client.stream.position.losses import Loss
from replica_client.stream.transactions.transaction import Transaction
from replica_client.stream.transforms.table_plan import TablePlan

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
