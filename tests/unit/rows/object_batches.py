"""Batches made value by value from row objects: what the columnar path is compared with."""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from replica_client.protocol.binlog.event import DecodeOptions
from replica_client.rows.arrow_types import arrow_column
from replica_client.rows.batches import CHANGE_FIELDS
from replica_client.rows.columnar import lossless_text
from replica_client.rows.row_change import Change
from replica_client.rows.special_values import ABSENT
from replica_client.schema.shape import TableShape


def rows_of(change: Change, version: str, timestamp_us: int) -> Iterator[tuple[Any, Any]]:
    """The rows that a change has in a batch: values of the change columns, and the row."""
    kinds = ("update_preimage", "update_postimage")
    images = (change.before, change.after)
    for kind, row in zip(kinds, images, strict=True):
        if row is not None:
            name = kind if change.kind == "update" else change.kind
            yield (
                (
                    name,
                    timestamp_us,
                    version,
                    change.gtid,
                    change.file,
                    change.offset,
                    change.event_index,
                    change.row_index,
                ),
                row,
            )


def object_table(
    shape: TableShape,
    names: Iterable[str],
    rows: Iterable[tuple[Any, Any]],
    options: DecodeOptions | None = None,
) -> pa.Table:
    """A table of rows as :func:`rows_of` gives them."""
    taken = set(names)
    columns = [(c.name, arrow_column(c, options)) for c in shape.columns if c.name in taken]
    values: list[list[Any]] = [[] for _ in range(len(CHANGE_FIELDS) + len(columns))]
    for head, row in rows:
        absent, lossless, converted = [], [], []
        for at, (name, column) in enumerate(columns):
            value = row[at]
            if value is ABSENT:
                absent.append(name)
                value = None
            elif value is not None:
                text = value
                value = column.convert(value)
                if value is None:
                    lossless.append((name, lossless_text(text)))
            converted.append(value)
        line = (*head, absent or None, lossless or None, *converted)
        for column_values, value in zip(values, line, strict=True):
            column_values.append(value)
    fields = [*CHANGE_FIELDS, *(pa.field(name, column.type) for name, column in columns)]
    arrays = [_array(v, field.type) for v, field in zip(values, fields, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return pa.array(values, pa.string()).dictionary_encode()
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return pa.array(values, pa.int64()).cast(kind)
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).cast(kind)
    return pa.array(values, kind)


def assert_same(batches: Iterable[pa.RecordBatch], expected: pa.Table) -> None:
    """The batches are valid, and hold what the expected table holds."""
    found = list(batches)
    for batch in found:
        batch.validate(full=True)
        assert [(f.name, f.type) for f in batch.schema] == [
            (f.name, f.type) for f in expected.schema
        ]
    table = pa.Table.from_batches(found) if found else expected.slice(0, 0)
    assert table.num_rows == expected.num_rows
    for name in expected.column_names:
        assert _plain(table[name]) == _plain(expected[name]), name


def _plain(column: pa.ChunkedArray) -> Any:
    kind = column.type
    if pa.types.is_dictionary(kind):
        return column.cast(kind.value_type).to_pylist()
    if pa.types.is_temporal(kind):
        width = pa.int32() if kind.bit_width == 32 else pa.int64()
        return column.cast(width).to_pylist()
    if pa.types.is_floating(kind):
        return [None if v is None else v.hex() for v in column.to_pylist()]
    return column.to_pylist()
