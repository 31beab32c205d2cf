"""Notices between rows: schema changes and losses, in the order of the binlog."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from replica_client.position.losses import Loss
from replica_client.position.position import Position
from replica_client.readers.transaction import Transaction, located_changes
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.row_change import Change
from replica_client.schema.history import SchemaChange

if TYPE_CHECKING:
    from replica_client.rows.batching import BatchAssembler, RecordBatch

Notice: TypeAlias = SchemaChange | Loss
"""A schema change or a loss, which ``notices=True`` delivers between rows."""


def changes_of(
    transaction: Transaction,
    *,
    notices: bool,
    before: Position | Transaction | None = None,
    without_rows: Transaction | None = None,
) -> Iterator[Change | Notice]:
    """Return an iterator over a transaction's row changes, with its notices if requested.

    Args:
        transaction: to be iterated.
        notices: whether schema changes and losses are included.
        before: the resume point before the transaction, or the transaction before it.
        without_rows: the transaction without its rows; None: it is created.
    """
    if without_rows is None:
        without_rows = transaction.with_rows(())
    if notices:
        return _with_notices(transaction, before, without_rows)
    return located_changes(transaction.rows, before, without_rows)


def _with_notices(
    transaction: Transaction, before: Position | Transaction | None, without_rows: Transaction
) -> Iterator[Change | Notice]:
    for item in transaction.items:
        if isinstance(item, RowsOfEvent):
            yield from located_changes((item,), before, without_rows)
        else:
            yield item


def batches_of(
    batches: BatchAssembler, transaction: Transaction, *, notices: bool
) -> Iterator[RecordBatch | Notice]:
    """Yield the batches that a transaction fills; before a notice, all earlier rows."""
    version, stamp = transaction.commit_version, transaction.commit_us
    if not notices or not (transaction.schema_changes or transaction.losses):
        yield from batches.add(transaction.rows, version, stamp)
        return
    for item in transaction.items:
        if isinstance(item, RowsOfEvent):
            yield from batches.add((item,), version, stamp)
        else:
            yield from batches.flush()
            yield item
