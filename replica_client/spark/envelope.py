"""The envelope: changes of any tables, rows as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from replica_client.readers.transaction import Transaction
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.json_values import row_to_json
from replica_client.schema.history import SchemaChange

MAX_ROWS = 8192
MAX_TEXT_SIZE = 16 << 20

PLACE_FIELDS = (
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
        *PLACE_FIELDS,
        StructField("database", StringType(), False),
        StructField("table", StringType(), False),
        StructField("operation", StringType(), False),
        StructField("before", StringType(), True),
        StructField("after", StringType(), True),
    ]
)
"""``operation`` is insert, update or delete; ``before`` and ``after`` are JSON objects, or null.

A statement that changes a wanted table, or a database, is a row too: ``operation`` is its kind
(``create_table``, ``alter_table``, ``rename_table``, ``drop_table``, ``truncate_table``,
``create_database``, ``alter_database``, ``drop_database``, ``not_understood``; ``table`` is empty for
a database), ``before`` the table's definition where it is known, and ``after`` the object that
:func:`statement_json` makes. One statement may be several rows, with ``_row_index`` 0, 1 …
"""

ROW_OPERATIONS = ("insert", "update", "delete")


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
        """The batch; empty afterwards."""
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


def commit_timestamp_us(transaction: Transaction, rows: RowsOfEvent) -> int:
    """When a transaction was committed; the rows event's own time where that is not logged."""
    known = transaction.commit_timestamp_us
    return rows.event.header.timestamp * 1_000_000 if known is None else known


class EnvelopeBatches:
    """Builds envelope batches."""

    schema = ENVELOPE_SCHEMA

    def __init__(self) -> None:
        self._columns = BatchColumns(ENVELOPE_SCHEMA)
        self._text_size = 0

    def add(self, transaction: Transaction) -> list[pa.RecordBatch]:
        """Take a transaction, or a part of one; returns the batches that became full."""
        full = []
        version = transaction.commit_version
        statements: dict[int, int] = {}
        for item in transaction.items:
            if isinstance(item, SchemaChange):
                index = statements.get(item.event_index, 0)
                statements[item.event_index] = index + 1
                full += self._append(_statement_row(transaction, item, index))
            elif isinstance(item, RowsOfEvent):
                full += self._add_rows(transaction, version, item)
        return full

    def _add_rows(
        self, transaction: Transaction, version: str, rows: RowsOfEvent
    ) -> list[pa.RecordBatch]:
        full = []
        timestamp = commit_timestamp_us(transaction, rows)
        for change in rows:
            before = None if change.before is None else row_to_json(change.before)
            after = None if change.after is None else row_to_json(change.after)
            full += self._append(
                (
                    version,
                    timestamp,
                    change.gtid,
                    change.file,
                    change.position,
                    change.event_index,
                    change.row_index,
                    change.database,
                    change.table,
                    change.kind,
                    before,
                    after,
                )
            )
        return full

    def _append(self, row: tuple[Any, ...]) -> list[pa.RecordBatch]:
        for column, value in zip(self._columns.values, row, strict=True):
            column.append(value)
        self._text_size += len(row[-2] or "") + len(row[-1] or "")
        if len(self._columns) < MAX_ROWS and self._text_size < MAX_TEXT_SIZE:
            return []
        self._text_size = 0
        return [self._columns.finish()]

    def finish(self) -> list[pa.RecordBatch]:
        """What is left."""
        self._text_size = 0
        return [self._columns.finish()] if len(self._columns) else []


def _statement_row(transaction: Transaction, change: SchemaChange, index: int) -> tuple[Any, ...]:
    known = transaction.commit_timestamp_us
    return (
        transaction.commit_version,
        transaction.timestamp * 1_000_000 if known is None else known,
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


def statement_json(change: SchemaChange) -> str:
    """A statement as JSON: its text, what its session was set to, the definition that it made.

    ``{"statement": …, "session": {"database": …, "flavor": …, "version": […], "sql_mode": …,
    "server_charset": …, "thread_id": …, "error_code": …}, "definition": {"database": …, "name": …,
    "columns": […], …}}``; ``definition`` is null when the table is gone or its definition not known.
    """
    after = change.after
    definition = None
    if after is not None:
        definition = {"database": after.database, "name": after.name, **after.to_json()}
    session = None if change.context is None else asdict(change.context)
    return json.dumps(
        {"statement": change.statement, "session": session, "definition": definition},
        ensure_ascii=False,
    )
