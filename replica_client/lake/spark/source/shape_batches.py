"""Batches of both shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from replica_client.errors import SchemaMismatchError
from replica_client.lake.change_log_files import LOSS
from replica_client.lake.spark.source.lost_range import loss_json, loss_row
from replica_client.lake.spark.source.shapes import (
    ENVELOPE_SCHEMA,
    POSITION_FIELDS,
    BatchColumns,
    TypedTable,
    change_rows,
    fields_of,
    fields_text,
    statement_row,
)
from replica_client.lake.spark.source.variant import variant_array
from replica_client.protocol.binlog.context import DecodeOptions
from replica_client.protocol.position import Position
from replica_client.rows.batches import BatchBuilder
from replica_client.rows.batching import BatchAssembler
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.image import RowImageDecoder, is_partial
from replica_client.rows.json_images import json_images
from replica_client.schema.history import SchemaChange
from replica_client.schema.shape import TableShape
from replica_client.stream.position.losses import Loss
from replica_client.stream.tables.alterations import row_clauses
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


_EMPTYING = ("truncate_table", "drop_table", "rename_table")
_HEAD_SIZE = 10
_SAFE_SCALE = 6


class TypedBuilder(BatchBuilder):
    """Collects the changes of the table, in one of its shapes.

    Args:
        table: as planned.
        position: returns the position of the reader.
        others: as of :class:`~replica_client.rows.batches.BatchBuilder`.

    Raises:
        SchemaMismatchError: this shape does not fit the plan.
    """

    def __init__(self, table: TypedTable, position: Callable[[], Position], *others: Any) -> None:
        super().__init__(*others)
        self._table = table
        self._target = BatchColumns(table.schema()).arrow_schema
        names = self.schema.names[_HEAD_SIZE:]
        self._missing = [name for name, _ in table.fields if name not in names]
        reason = self._misfit(names, position())
        if reason:
            found = [(field.name, str(field.type)) for field in list(self.schema)[_HEAD_SIZE:]]
            text = ", ".join(f"{name} {kind}" for name, kind in found)
            raise SchemaMismatchError(
                f"{self.shape.database}.{self.shape.table} at {position()} is ({text}), but the query "
                f"was planned with ({fields_text(table.fields)}): {reason}"
            )

    def _misfit(self, names: list[str], position: Position) -> str:
        """Return what to do about a shape that does not fit, or ``""`` when it fits."""
        target, table = self._target, self._table
        planned = [name for name, _ in table.fields]
        same = planned == names
        for name in names:
            if name not in planned:
                continue
            kinds = (self.schema.field(name).type, target.field(name).type)
            if not (_same(*kinds) or (table.evolves and _widens(*kinds))):
                return (
                    f"the type of {name} is another one; end the query before it (endingPosition) "
                    "and start a new one there, "
                    + ("" if table.evolves else "take a wider type with onSchemaChange=evolve, ")
                    + "or read the envelope (tables instead of table)"
                )
        if same:
            return ""
        if not table.evolves:
            return (
                "end the query before it (endingPosition) and start a new one there, take what fits "
                "with onSchemaChange=evolve, or read the envelope (tables instead of table)"
            )
        new = [name for name in names if name not in planned]
        at = table.planned_at
        if new and (at is None or position >= at):
            return f"{', '.join(new)} was added after the query was planned; start the query again to read it"
        return ""

    def finish(self) -> pa.RecordBatch:
        """Return the changes as a batch of the planned columns."""
        batch = super().finish()
        count = batch.num_rows
        arrays = []
        for field in self._target:
            if field.name == "_absent" and self._missing:
                arrays.append(self._absent_with_missing(batch.column("_absent"), field.type))
            elif field.name in self._missing:
                arrays.append(pa.nulls(count, field.type))
            else:
                arrays.append(converted(batch.column(field.name), field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self._target)

    def _absent_with_missing(self, absent: pa.Array, kind: pa.DataType) -> pa.Array:
        return pa.array(
            [[*(left_out or ()), *self._missing] for left_out in absent.to_pylist()], kind
        )


def _same(found: pa.DataType, target: pa.DataType) -> bool:
    """Return whether a column of type ``found`` is planned as ``target``."""
    if found == target:
        return True
    if pa.types.is_unsigned_integer(found):
        wide = {1: pa.int16(), 2: pa.int32(), 4: pa.int64()}.get(found.bit_width // 8)
        return bool(
            target == (wide or pa.decimal128(20, 0)) or (wide is None and target == pa.int64())
        )
    if pa.types.is_dictionary(found) or pa.types.is_decimal256(found):
        return bool(target == pa.string())
    if pa.types.is_string(found) and pa.types.is_struct(target):
        return True  # JSON as variant
    if pa.types.is_struct(found):
        return bool(pa.types.is_struct(target))
    if pa.types.is_list(found):
        return bool(pa.types.is_list(target))
    return False


def _widens(found: pa.DataType, target: pa.DataType) -> bool:
    """Return whether every value of a type fits into another type."""
    if pa.types.is_integer(found):
        digits = {8: 3, 16: 5, 32: 10, 64: 20}[found.bit_width]
        if pa.types.is_decimal128(target):
            return bool(target.precision - target.scale >= digits)
        if pa.types.is_signed_integer(target):
            signed = pa.types.is_signed_integer(found)
            return bool(target.bit_width > found.bit_width or (signed and target == found))
        return False
    if pa.types.is_decimal128(found) and pa.types.is_decimal128(target):
        whole = target.precision - target.scale >= found.precision - found.scale
        return bool(whole and target.scale >= found.scale)
    return bool(found == pa.float32() and target == pa.float64())


def converted(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the values of a column in Spark's type."""
    found = array.type
    if found == kind:
        return array
    if pa.types.is_decimal256(found):
        if found.scale <= _SAFE_SCALE:
            return array.cast(kind)
        # Arrow writes small numbers with an exponent.
        texts = (None if value is None else format(value, "f") for value in array.to_pylist())
        return pa.array(texts, kind)
    if pa.types.is_struct(kind) and pa.types.is_string(found):
        return variant_array(array, kind)
    if pa.types.is_struct(found):
        parts = [pc.struct_field(array, [at]).cast(part.type) for at, part in enumerate(kind)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=array.is_null())
    if array.null_count == len(array):
        return pa.nulls(len(array), kind)
    if pa.types.is_map(found) or pa.types.is_list(found):
        return pa.array(array.to_pylist(), kind)
    if pa.types.is_uint64(found) and pa.types.is_decimal(kind):
        return array.cast(pa.decimal128(20, 0)).cast(kind)
    return array.cast(kind)


class TypedChanges:
    """Takes the transactions of a range, gives batches of the table in the order of the binlog.

    Args:
        decode: how values are decoded.
        table: as planned.
    """

    def __init__(self, decode: DecodeOptions, table: TypedTable) -> None:
        self._table = table
        self._position = Position("", 0)
        self._others = BatchColumns(table.schema())
        self._pending: list[pa.RecordBatch] = []
        self.batches = BatchAssembler(MAX_ROWS, decode, self._make_builder)

    def _make_builder(
        self,
        shape: TableShape,
        columns: Any,
        options: DecodeOptions,
        decoder: RowImageDecoder,
        *more: Any,
    ) -> TypedBuilder:
        position = lambda: self._position  # noqa: E731
        return TypedBuilder(self._table, position, shape, columns, options, decoder, *more)

    def keep_back(self, transaction: Transaction) -> Transaction:
        """Take the unusual events of a transaction, and return the rest of the transaction."""
        for rows in transaction.rows[:1]:
            self._position = Position(rows.event.file, rows.event.position)
        emptied = any(map(_takes_rows, transaction.schema_changes))
        if not emptied and not transaction.losses:
            return transaction
        # Rows and such statements are not in one transaction, so that rows come first.
        self._pending += self.batches.flush()
        for change in transaction.schema_changes:
            if _takes_rows(change):
                self._keep(transaction, change)
        for number, loss in enumerate(transaction.losses):
            self._keep(transaction, loss, number)
        self._pending.append(self._others.finish())
        return transaction

    def _keep(self, transaction: Transaction, change: SchemaChange | Loss, index: int = 0) -> None:
        row: list[Any] = [
            LOSS if isinstance(change, Loss) else change.kind,
            transaction.commit_version,
            transaction.commit_us,
            transaction.gtid,
            change.file,
            change.position,
            change.event_index,
            index,
            None,
            [("loss", loss_json(change))] if isinstance(change, Loss) else None,
        ]
        columns = self._others.values
        row += [None] * (len(columns) - len(row))
        for column, value in zip(columns, row, strict=True):
            column.append(value)

    def take(self, ready: list[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
        """Take batches that became full after ``size`` bytes, and yield the batches that are due."""
        pending, self._pending = self._pending, []
        yield from pending
        yield from ready

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Yield all remaining batches."""
        yield from self.take([], 0)
        yield from self.batches.flush()


__all__ = ["RowsOfEvent", "TypedBuilder", "TypedChanges", "converted", "fields_of"]


def _takes_rows(change: SchemaChange) -> bool:
    """Return whether a statement adds or removes rows without row events."""
    if change.kind == "alter_table":
        return bool(row_clauses(change))
    return change.kind in _EMPTYING
