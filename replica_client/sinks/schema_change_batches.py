"""Record batches of schema changes and of snapshot rows.

Schema changes are rows of the table ``_schema_changes``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from replica_client.binlog.options import DecodeOptions
from replica_client.readers.transaction import Transaction
from replica_client.rows.batches import BatchBuilder
from replica_client.rows.buffers import number_array, text_array
from replica_client.rows.row_change import Change
from replica_client.schema.history import SchemaChange
from replica_client.sinks.snapshot_sink import SnapshotRows

SCHEMA_CHANGES = "_schema_changes"
_READ: Final = text_array([b"read"])
_SCHEMA = pa.schema(
    [
        pa.field("_commit_timestamp", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("_commit_version", pa.string(), nullable=False),
        pa.field("_gtid", pa.string(), nullable=False),
        pa.field("_file", pa.string(), nullable=False),
        pa.field("_offset", pa.int64(), nullable=False),
        pa.field("_event_index", pa.int64(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("database", pa.string(), nullable=False),
        pa.field("table", pa.string(), nullable=False),
        pa.field("statement", pa.string(), nullable=False),
        pa.field("definition", pa.string()),
    ],
    metadata={b"database": b"", b"table": SCHEMA_CHANGES.encode()},
)


def schema_changes_batch(
    transaction: Transaction, changes: Sequence[SchemaChange]
) -> pa.RecordBatch:
    """Return a record batch of schema changes.

    ``definition`` is the table's new definition as JSON, with its name.
    """
    stamp = transaction.commit_us
    rows = [
        {
            "_commit_timestamp": stamp,
            "_commit_version": transaction.commit_version,
            "_gtid": transaction.gtid,
            "_file": change.file,
            "_offset": change.position,
            "_event_index": change.event_index,
            "kind": change.kind,
            "database": change.database,
            "table": change.table,
            "statement": change.statement,
            "definition": _definition(change),
        }
        for change in changes
    ]
    return pa.RecordBatch.from_pylist(rows, _SCHEMA)


def _definition(change: SchemaChange) -> str | None:
    after = change.after
    if after is None:
        return None
    return json.dumps({"database": after.database, "table": after.name, **after.to_json()})


def snapshot_batches(
    rows: SnapshotRows, decoding: DecodeOptions, max_rows: int
) -> Iterator[pa.RecordBatch]:
    """Yield batches of snapshot rows, with the ``_change_type`` ``read``."""
    shape, low = rows.shape, rows.low
    names = tuple(column.name for column in rows.columns)
    builder = BatchBuilder(shape, names, decoding, None, max_rows)
    stamp, version = rows.timestamp * 1_000_000, low.sort_key()
    for number, row in zip(rows.numbers, rows.rows, strict=True):
        coordinates = (low.file, low.offset, 0, number, "", rows.timestamp, shape)
        change = Change("insert", shape.database, shape.table, None, row, *coordinates)
        if not builder.try_append(change, version, stamp):
            yield _as_read(builder.finish())
            builder.append(change, version, stamp)
    if len(builder):
        yield _as_read(builder.finish())


def _as_read(batch: pa.RecordBatch) -> pa.RecordBatch:
    kinds = pa.DictionaryArray.from_arrays(number_array([0] * batch.num_rows), _READ)
    return batch.set_column(0, batch.schema.field(0), kinds)
