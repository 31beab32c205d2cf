"""Schema changes as record batches of the table ``_schema_changes``."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa

from replica_client.readers.transaction import Transaction
from replica_client.schema.history import SchemaChange

SCHEMA_CHANGES = "_schema_changes"
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
