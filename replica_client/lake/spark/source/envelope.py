"""The envelope: changes of any tables, rows as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from replica_client.lake.change_log_files import statement_json
from replica_client.lake.spark.source.variant import variant_array
from replica_client.rows.by_decoder import json_null_columns, with_json_nulls
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.json_values import row_to_json
from replica_client.rows.row import Row
from replica_client.schema.history import SchemaChange
from replica_client.stream.transactions.transaction import Transaction

POSITION_FIELDS = (
    StructField("_commit_version", StringType(), False),
    StructField("_commit_timestamp", TimestampType(), False),
    StructField("_gtid", StringType(), False),
    StructField("_file", StringType(), False),
    StructField("_offset", LongType(), False),
    StructField("_event_index", LongType(), False),
    StructField("_row_index", LongType(), False),
)
"""Where a change stands. ``_commit_version`` is the same for all rows of a transaction and sorts as
transactions do; with ``_event_index`` and ``_row_index`` it names a change and sorts changes."""

ENVELOPE_SCHEMA = StructType(
    [
        *POSITION_FIELDS,
        StructField("database", StringType(), False),
        StructField("table", StringType(), False),
        StructField("operation", StringType(), False),
        StructField("before", StringType(), True),
        StructField("after", StringType(), True),
    ]
)
"""``operation`` is insert, update or delete; ``before`` and ``after`` are JSON objects, or null.

A ``null`` in them is SQL NULL. A row that holds the JSON document ``null`` names these columns in a member
without a name: ``{"id": 1, "doc": null, "": ["doc"]}``.

A statement that changes a wanted table, or a database, is a row too: ``operation`` is its kind
(``create_table``, ``alter_table``, ``rename_table``, ``drop_table``, ``truncate_table``,
``create_database``, ``alter_database``, ``drop_database``, ``not_understood``; ``table`` is empty for
a database), ``before`` the table's definition where it is known, and ``after`` the object that
:func:`~replica_client.lake.change_log_files.statement_json` makes. One statement may be several rows,
with ``_row_index`` 0, 1 …

With ``recordLosses`` what could not be delivered is a row: ``operation`` is ``loss``, and ``after``
describes it (:func:`~replica_client.lake.spark.source.lost_range.loss_json`).
"""

VARIANT_ENVELOPE_SCHEMA = StructType(
    [
        StructField(field.name, VariantType(), True) if field.name in ("before", "after") else field
        for field in ENVELOPE_SCHEMA
    ]
)
"""The same with ``before`` and ``after`` as VARIANT."""


class BatchColumns:
    """Values by column, and the Arrow batch that they make.

    Args:
        schema: Spark's.
    """

    def __init__(self, schema: StructType) -> None:
        self.arrow_schema: pa.Schema = to_arrow_schema(schema, timezone="UTC")
        self.values: list[list[Any]] = [[] for _ in self.arrow_schema]

    def __len__(self) -> int:
        return len(self.values[0])

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


_VARIANT_ARROW_SCHEMA = to_arrow_schema(VARIANT_ENVELOPE_SCHEMA, timezone="UTC")


def with_variants(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch of the envelope with ``before`` and ``after`` as VARIANT."""
    arrays = [
        variant_array(array, field.type) if field.name in ("before", "after") else array
        for array, field in zip(batch.columns, _VARIANT_ARROW_SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_VARIANT_ARROW_SCHEMA)


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
