"""Changes in the envelope of the change log: a row for a change, a statement or a loss, with its images as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc

from replica_client.lake.change_log_files import CHANGE_LOG_SCHEMA, LOSS, statement_json
from replica_client.protocol.binlog.event import DecodeOptions
from replica_client.protocol.position import Position
from replica_client.rows.batches import BatchBuilder
from replica_client.rows.batching import BatchAssembler
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.image import is_partial
from replica_client.rows.json_images import json_images
from replica_client.rows.json_values import json_null_columns, row_to_json, with_json_nulls
from replica_client.rows.row import Row
from replica_client.schema.history import SchemaChange
from replica_client.schema.shape import TableShape
from replica_client.stream.position.losses import Loss
from replica_client.stream.transactions.transaction import Transaction

MAX_ROWS: Final = 16384
_MIN_ROWS: Final = 8192
_ROWS_PER_TABLE: Final = 64
_MAX_READ: Final = 16 << 20
_MAX_TEXT: Final = 16 << 20
_POSITION: Final = CHANGE_LOG_SCHEMA.names[:7]
_EVENT_ORDER = [
    ("_offset", "ascending"),
    ("_event_index", "ascending"),
    ("_row_index", "ascending"),
]
_ORDER = [("_commit_version", "ascending"), *_EVENT_ORDER[1:]]


class BatchColumns:
    """Values by column, and the Arrow batch that they make.

    Args:
        schema: of the batch.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.arrow_schema = schema
        self.values: list[list[Any]] = [[] for _ in self.arrow_schema]

    def __len__(self) -> int:
        return len(self.values[0])

    def add(self, row: tuple[Any, ...]) -> None:
        """Add a row."""
        for column, value in zip(self.values, row, strict=True):
            column.append(value)

    def finish(self) -> pa.RecordBatch:
        """Return the collected rows as a batch and start an empty one."""
        arrays = [
            _array(values, field.type)
            for values, field in zip(self.values, self.arrow_schema, strict=True)
        ]
        self.values = [[] for _ in self.arrow_schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow_schema)


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return pa.array(values, pa.int64()).cast(kind)
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).cast(kind)
    return pa.array(values, kind)


def change_rows(transaction: Transaction, rows: RowsOfEvent) -> Iterator[tuple[Any, ...]]:
    """Yield the envelope rows of a rows event one value at a time, for rare events."""
    timestamp = transaction.commit_us
    for change in rows:
        yield (
            transaction.commit_version,
            timestamp,
            change.gtid,
            change.file,
            change.offset,
            change.event_index,
            change.row_index,
            change.database,
            change.table,
            change.kind,
            _row_json(change.before),
            _row_json(change.after),
        )


def _row_json(row: Row | None) -> str | None:
    """Return a row as JSON that names its documents ``null``."""
    if row is None:
        return None
    text = row_to_json(row)
    return with_json_nulls(text, json_null_columns(row.columns, row, text))


def statement_row(transaction: Transaction, change: SchemaChange, index: int) -> tuple[Any, ...]:
    """Return the envelope row of a statement; ``index`` counts the rows of one statement."""
    return (
        transaction.commit_version,
        transaction.commit_us,
        transaction.gtid,
        change.file,
        change.position,
        change.event_index,
        index,
        change.database,
        change.table,
        change.kind,
        None if change.before is None else json.dumps(change.before.to_json()),
        statement_json(change),
    )


GAP: Final = "gtid_gap"
"""Kind of the loss of whole transactions, such as those that a source purged."""


def loss_json(loss: Loss) -> str:
    """Return a loss as JSON: ``{"kind": …, "count": …, "reason": …, "gtid": …}``.

    Kinds are :data:`~replica_client.stream.position.losses.LossKind`.
    """
    stated = {"kind": loss.kind, "count": loss.count, "reason": loss.reason, "gtid": loss.gtid}
    return json.dumps(stated, ensure_ascii=False)


def loss_row(transaction: Transaction, loss: Loss, index: int) -> tuple[Any, ...]:
    """Return the envelope row of a loss; ``index`` counts the losses of one event."""
    return (
        transaction.commit_version,
        transaction.commit_us,
        transaction.gtid,
        loss.file,
        loss.position,
        loss.event_index,
        index,
        loss.database,
        loss.table,
        LOSS,
        None,
        loss_json(loss),
    )


def lost_row(start: Position, end: Position, schema: str | None) -> tuple[tuple[Any, ...], str]:
    """Return the position of the row that stands for a range that the source purged, and the loss as JSON.

    Args:
        start: of the first change that is lost.
        end: where the changes continue.
        schema: the table definitions there, as ``SchemaHistory.to_state`` returns them.
    """
    stated = {
        "kind": GAP,
        "count": None,
        "reason": f"the source purged the changes from {start} to {end} before they were read",
        "from": str(start),
        "to": str(end),
        "schema": schema,
    }
    text = json.dumps(stated, ensure_ascii=False)
    before = Position(end.file, end.offset - 1)  # changes from ``end`` on sort after it
    position = (before.sort_key(), 0, "", before.file, before.offset, 0, 0)
    return position, text


def lost_batch(start: Position, end: Position, schema: str | None) -> pa.RecordBatch:
    """Return the row of the envelope that stands for a purged range; see :func:`lost_row`."""
    position, text = lost_row(start, end, schema)
    columns = BatchColumns(CHANGE_LOG_SCHEMA)
    columns.add((*position, "", "", LOSS, None, text))
    return columns.finish()


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
        schema=CHANGE_LOG_SCHEMA,
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
        self._others = BatchColumns(CHANGE_LOG_SCHEMA)
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
        self._others.add(row)
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
