"""The rows of a change log, read without Spark."""

from __future__ import annotations

from typing import Any

import pyarrow.dataset as ds
from deltalake.exceptions import TableNotFoundError

from replica_client.lake.delta_files import delta_rows, open_delta
from replica_client.storage.location import Location

_ROWS = ds.field("operation").isin(["insert", "update", "delete"])


def change_log_rows(directory: Location) -> list[dict[str, Any]]:
    """All row changes in the order of the binlog, as mappings by column name; empty without a table."""
    try:
        table = delta_rows(open_delta(directory), directory).to_table(filter=_ROWS)
    except TableNotFoundError:
        return []
    rows: list[dict[str, Any]] = table.to_pylist()
    rows.sort(key=lambda row: (row["_commit_version"], row["_event_index"], row["_row_index"]))
    return rows


def change_log_row_count(directory: Location) -> int:
    """How many row changes it has; 0 without a table."""
    try:
        return int(delta_rows(open_delta(directory), directory).count_rows(filter=_ROWS))
    except TableNotFoundError:
        return 0
