"""The columns of a change log, which are those of Spark's data source, and its statements."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Final

import pyarrow as pa

from replica_client.schema.history import SchemaChange

SNAPSHOT, SNAPSHOT_CHUNK = "snapshot", "snapshot_chunk"
"""Operations of a copied row, and of the last row of a chunk, which describes the chunk."""

CHANGE_LOG_SCHEMA: Final = pa.schema(
    [
        pa.field("_commit_version", pa.string(), nullable=False),
        pa.field("_commit_timestamp", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("_gtid", pa.string(), nullable=False),
        pa.field("_file", pa.string(), nullable=False),
        pa.field("_offset", pa.int64(), nullable=False),
        pa.field("_event_index", pa.int64(), nullable=False),
        pa.field("_row_index", pa.int64(), nullable=False),
        pa.field("database", pa.string(), nullable=False),
        pa.field("table", pa.string(), nullable=False),
        pa.field("operation", pa.string(), nullable=False),
        pa.field("before", pa.string()),
        pa.field("after", pa.string()),
    ]
)


def statement_json(change: SchemaChange) -> str:
    """Return a statement as JSON: its text, its session settings, and the resulting definition.

    ``{"statement": …, "session": {"database": …, "flavor": …, "version": […], "sql_mode": …,
    "server_charset": …, "thread_id": …, "error_code": …}, "definition": {"database": …, "name": …,
    "columns": […], …}}``; ``definition`` is null when the table was dropped or its definition is
    not known.
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
