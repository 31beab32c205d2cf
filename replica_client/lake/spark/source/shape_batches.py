"""Batches of Spark's shapes: a table in its own columns, with images or as ``shape=cdc``, and the envelope."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from replica_client.errors import DataLossError, SchemaMismatchError
from replica_client.lake.change_log_files import LOSS
from replica_client.lake.source.envelope import MAX_ROWS, BatchColumns, loss_json, lost_row
from replica_client.lake.source.read_ranges import BinlogRange, envelope_batches, range_batches
from replica_client.lake.source_options import SourceOptions
from replica_client.lake.spark.source.shapes import (
    TypedTable,
    arrow_schema_of,
    fields_of,
    fields_text,
    variant_array,
    with_variants,
)
from replica_client.options import options_of
from replica_client.protocol.binlog.event import DecodeOptions
from replica_client.protocol.binlog.values.json_diff import JSON_DIFF
from replica_client.protocol.position import Position
from replica_client.rows.batches import BatchBuilder
from replica_client.rows.batching import BatchAssembler
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.image import RowImageDecoder
from replica_client.rows.special_values import WHY_ABSENT
from replica_client.schema.history import SchemaChange
from replica_client.schema.shape import TableShape
from replica_client.stream.position.losses import Loss
from replica_client.stream.tables.alterations import row_clauses
from replica_client.stream.transactions.transaction import Transaction

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
        self._target = arrow_schema_of(table.image_schema())
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
        if self._table.key is not None:
            _check_whole(batch, self._table)
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
        self._others = BatchColumns(arrow_schema_of(table.image_schema()))
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
        row += [None] * (len(self._others.values) - len(row))
        self._others.add(tuple(row))

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


def batches(
    source: SourceOptions, table: TypedTable | None, part: BinlogRange, schema: str | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the record batches of a range.

    Args:
        source: the options of the query.
        table: of a typed query, or None.
        part: the range.
        schema: the schema history, when the range does not carry it.

    Raises:
        ReplicaClientError: the range cannot be read to its end.
    """
    if table is None:
        found = envelope_batches(source, part, schema)
        yield from map(with_variants, found) if source.variant else found
        return
    if part.is_lost:
        yield _lost_batch(part, table)
        return
    changes = TypedChanges(source.decode, table)
    with options_of("spark"):
        for batch in range_batches(source, part, schema, changes):
            batch = part.filters.apply(batch)
            if table.key is not None:
                batch = _cdc_batch(batch, table, table.key)
            if batch.num_rows:
                yield batch


_LOG: Final = logging.getLogger("replica_client.lake")
_IMAGES: Final = pa.array(["insert", "update_preimage", "update_postimage", "delete"])
_GONE: Final = pa.array(["update_preimage", "delete"])


def _cdc_batch(batch: pa.RecordBatch, table: TypedTable, key: tuple[str, ...]) -> pa.RecordBatch:
    """Return rows with their images as rows of ``shape=cdc``.

    An update is its new row. Where the key changed or is not known, the old row comes before it, as a delete.

    Raises:
        DataLossError: a statement took rows away, or a value of the key is not known.
    """
    are_rows = pc.is_in(batch.column(0), value_set=_IMAGES)
    if are_rows.false_count:
        _take_statements(batch.filter(pc.invert(are_rows)), table)
        batch = batch.filter(are_rows)
    for name in key:
        if batch.column(name).null_count:
            row = batch.filter(batch.column(name).is_null()).slice(0, 1).to_pylist()[0]
            text = dict(row["_lossless"] or ()).get(name, "not in the row image")
            raise DataLossError(
                f"{_at(row, table)}: {name} of the key is {text}, for which Spark's type has no value; "
                "set binlog_row_image=FULL on the source, or read the envelope (tables instead of table)"
            )
    kinds = batch.column(0)
    if key and batch.num_rows > 1:
        # The images of an update stand one after the other.
        same = pc.equal(kinds.slice(0, len(kinds) - 1), "update_preimage")
        for name in key:
            column = batch.column(name)
            same = pc.and_(same, pc.equal(column.slice(0, len(column) - 1), column.slice(1)))
        if same.true_count:
            batch = batch.filter(pc.invert(pa.concat_arrays([same, pa.array([False])])))
            kinds = batch.column(0)
    schema = arrow_schema_of(table.schema())
    heads = batch.columns[:_HEAD_SIZE]
    gone = pc.is_in(kinds, value_set=_GONE)
    parts = [batch.column("_commit_version")]
    for name in ("_event_index", "_row_index"):
        parts.append(pc.utf8_lpad(batch.column(name).cast(pa.string()), 10, "0"))
    after = pc.if_else(pc.equal(kinds, "update_preimage"), "0", "1")
    sequence = pc.binary_join_element_wise(*parts, after, "-")
    replica = pa.StructArray.from_arrays(heads, fields=list(schema.field("_replica").type))
    return pa.RecordBatch.from_arrays(
        [sequence, gone, replica, *batch.columns[_HEAD_SIZE:]], schema=schema
    )


def _take_statements(statements: pa.RecordBatch, table: TypedTable) -> None:
    for row in statements.select(range(_HEAD_SIZE)).to_pylist():
        what = row["_change_type"].upper().replace("_", " ")
        text = f"{_at(row, table)}: {what} took rows away without row changes"
        if table.on_truncate == "error":
            raise DataLossError(
                f"{text}, and shape=cdc has no rows for it: empty the target, then go on with onTruncate=skip"
            )
        _LOG.warning("%s; it is left out (onTruncate=skip), and the target keeps these rows", text)


def _check_whole(batch: pa.RecordBatch, table: TypedTable) -> None:
    """Raise an error if a new image lacks values: NULL would replace them in the target.

    Raises:
        DataLossError: an image does; the message names table, position and columns.
    """
    for name, why in (
        ("_absent", f"{WHY_ABSENT}; set binlog_row_image=FULL on the source"),
        ("_lossless", "only what changed in them is there; set binlog_row_value_options='' there"),
    ):
        found = batch.column(name)
        if found.null_count == len(found):
            continue
        for row in batch.filter(found.is_valid()).to_pylist():
            kept = row[name]
            if name == "_lossless":
                kept = [column for column, text in kept if text.startswith(JSON_DIFF)]
            if kept and row["_change_type"] in ("insert", "update_postimage"):
                raise DataLossError(
                    f"{_at(row, table)}: the row image lacks {', '.join(kept)}, and NULL would replace the "
                    f"target's values: {why}, or leave these columns out with columns"
                )


def _at(row: dict[str, Any], table: TypedTable) -> str:
    return f"{table.database}.{table.table} at {Position(row['_file'], row['_offset'])}"


def _lost_batch(part: BinlogRange, table: TypedTable) -> pa.RecordBatch:
    assert part.stop is not None
    position, text = lost_row(part.start, part.stop, part.schema)
    columns = BatchColumns(arrow_schema_of(table.image_schema()))
    row = (LOSS, *position, None, [("loss", text)])
    columns.add((*row, *(None,) * (len(columns.values) - len(row))))
    return columns.finish()


def _takes_rows(change: SchemaChange) -> bool:
    """Return whether a statement adds or removes rows without row events."""
    if change.kind == "alter_table":
        return bool(row_clauses(change))
    return change.kind in _EMPTYING
