"""Batches of the envelope, made of whole record batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from replica_client.lake.spark.source.envelope import (
    ENVELOPE_SCHEMA,
    POSITION_FIELDS,
    BatchColumns,
    change_rows,
    statement_row,
)
from replica_client.lake.spark.source.lost_range import loss_row
from replica_client.protocol.binlog.context import DecodeOptions
from replica_client.rows.batches import BatchBuilder
from replica_client.rows.batching import BatchAssembler
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.image import is_partial
from replica_client.rows.json_images import json_images
from replica_client.schema.history import SchemaChange
from replica_client.schema.shape import TableShape
from replica_client.stream.position.losses import Loss
from replica_client.stream.transactions.transaction import Transaction

MAX_ROWS = 16384
_MIN_ROWS = 8192
_ROWS_PER_TABLE = 64
_MAX_READ = 16 << 20
_MAX_TEXT = 16 << 20
_COLUMNS = BatchColumns(ENVELOPE_SCHEMA)
_SCHEMA = _COLUMNS.arrow_schema
_POSITION = [field.name for field in POSITION_FIELDS]
_EVENT_ORDER = [
    ("_offset", "ascending"),
    ("_event_index", "ascending"),
    ("_row_index", "ascending"),
]
_ORDER = [("_commit_version", "ascending"), *_EVENT_ORDER[1:]]


class EnvelopeBuilder(BatchBuilder):
    """Collects the changes of one table and shape for the envelope."""

    has_user_names: ClassVar[bool] = False

    def finish(self) -> pa.RecordBatch:
        """Return the changes as a batch of the envelope."""
        return envelope_batch(super().finish(), self.shape)


def envelope_batch(batch: pa.RecordBatch, shape: TableShape) -> pa.RecordBatch:
    """Convert the changes of a table's batch to the envelope."""
    images = json_images(batch, shape)
    kept = batch.select([batch.schema.names.index(n) for n in ("_change_type", *_POSITION)])
    if images.rows is not None:
        kept = kept.take(images.rows)
    count = kept.num_rows
    operation, *position = map(_plain, kept.columns)
    if images.rows is not None:
        updates = pc.equal(operation, "update_preimage")
        operation = pc.if_else(updates, "update", operation)
    return pa.RecordBatch.from_arrays(
        [
            *position,
            pa.repeat(pa.scalar(shape.database, pa.string()), count),
            pa.repeat(pa.scalar(shape.table, pa.string()), count),
            operation,
            images.before,
            images.after,
        ],
        schema=_SCHEMA,
    )


def _plain(array: pa.Array) -> pa.Array:
    """Return a column without its dictionary, which Spark would not accept."""
    return array.cast(pa.string()) if pa.types.is_dictionary(array.type) else array


class EnvelopeChanges:
    """Takes the transactions of a range, gives batches of the envelope in the order of the binlog.

    Args:
        decode: how values are decoded.

    Attributes:
        batches: takes the rows.
    """

    def __init__(self, decode: DecodeOptions) -> None:
        self.batches = BatchAssembler(MAX_ROWS, decode, EnvelopeBuilder)
        self._others = BatchColumns(ENVELOPE_SCHEMA)
        self._others_size = 0
        self._ready: list[pa.RecordBatch] = []
        self._ready_rows = 0
        self._read = 0
        self._has_xa = False

    def keep_back(self, transaction: Transaction) -> Transaction:
        """Take the unusual events of a transaction, and return the rest of the transaction."""
        self._has_xa |= transaction.xa_commit
        stated = transaction.schema_changes or transaction.losses
        if not stated and not any(is_partial(r.event.body) for r in transaction.rows):
            return transaction
        left: list[RowsOfEvent] = []
        statements: dict[int, int] = {}
        for item in transaction.items:
            if isinstance(item, SchemaChange):
                index = statements.get(item.event_index, 0)
                statements[item.event_index] = index + 1
                self._keep(statement_row(transaction, item, index))
            elif isinstance(item, Loss):
                index = statements.get(item.event_index, 0)
                statements[item.event_index] = index + 1
                self._keep(loss_row(transaction, item, index))
            elif isinstance(item, RowsOfEvent):
                if is_partial(item.event.body):
                    for row in change_rows(transaction, item):
                        self._keep(row)
                else:
                    left.append(item)
        return transaction.__replace__(rows=tuple(left))

    def _keep(self, row: tuple[Any, ...]) -> None:
        for column, value in zip(self._others.values, row, strict=True):
            column.append(value)
        self._others_size += len(row[-2] or "") + len(row[-1] or "")

    def take(self, ready: list[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
        """Take batches that became full after ``size`` bytes, and yield the batches that are due."""
        self._ready += ready
        self._ready_rows += sum(batch.num_rows for batch in ready)
        self._read += size
        waiting = self._ready_rows + self.batches.waiting + len(self._others)
        # Where tables are many, a batch takes more rows, as each table's part of it has its cost.
        wanted = _MIN_ROWS + _ROWS_PER_TABLE * self.batches.tables
        full = waiting >= wanted or self._others_size >= _MAX_TEXT
        if full or (self._read >= _MAX_READ and waiting):
            yield from self.flush()

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Yield all remaining batches."""
        found = [*self._ready, *self.batches.flush()]
        if len(self._others):
            found.append(self._others.finish())
        self._ready, self._ready_rows = [], 0
        self._read = self._others_size = 0
        if len(found) == 1:
            yield found[0]
        elif found:
            yield from _in_order(found, by_offset=not self._has_xa)
        self._has_xa = False


def _in_order(batches: list[pa.RecordBatch], *, by_offset: bool) -> Iterator[pa.RecordBatch]:
    """Merge batches that are each in order, and yield all rows in order.

    Args:
        batches: the batches.
        by_offset: whether the offsets of events of one file ascend; those of XA transactions do not.
    """
    table = pa.Table.from_batches(batches)
    # In one file numbers give the order, else only the version's text does.
    one_file = by_offset and pc.count_distinct(table.column("_file")).as_py() == 1
    order = pc.sort_indices(table, sort_keys=_EVENT_ORDER if one_file else _ORDER)
    for at in range(0, len(order), MAX_ROWS):
        part = table.take(order.slice(at, MAX_ROWS)).combine_chunks()
        yield from part.to_batches()
