"""What stands between rows: schema changes and losses, in the order of the binlog."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from replica_client.position.losses import Loss
from replica_client.readers.transaction import Transaction
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.row_change import Change
from replica_client.schema.history import SchemaChange

if TYPE_CHECKING:
    from replica_client.rows.batching import BatchAssembler, RecordBatch

Notice: TypeAlias = SchemaChange | Loss
"""A schema change or a loss: what ``notices=True`` gives between rows."""


def changes_of(transaction: Transaction, *, notices: bool) -> Iterator[Change | Notice]:
    """A transaction's row changes, with its notices in order among them when they are wanted."""
    return _with_notices(transaction) if notices else iter(transaction.changes)


def _with_notices(transaction: Transaction) -> Iterator[Change | Notice]:
    for item in transaction.items:
        if isinstance(item, RowsOfEvent):
            yield from item
        else:
            yield item


def batches_of(
    batches: BatchAssembler, transaction: Transaction, *, notices: bool
) -> Iterator[RecordBatch | Notice]:
    """The batches that a transaction fills; before a notice, all rows that stand before it."""
    version, stamp = transaction.commit_version, transaction.commit_timestamp_us
    if stamp is None and transaction.xa_commit:
        stamp = transaction.timestamp * 1_000_000  # of the XA COMMIT, not of the events before it
    if not notices or not (transaction.schema_changes or transaction.losses):
        yield from batches.add(transaction.rows, version, stamp)
        return
    for item in transaction.items:
        if isinstance(item, RowsOfEvent):
            yield from batches.add((item,), version, stamp)
        else:
            yield from batches.flush()
            yield item
