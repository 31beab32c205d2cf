"""The rows of a change log, read without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from replica_client.lake.delta_files import dataset_of

_ROWS = ds.field("operation").isin(["insert", "update", "delete"])


def change_log_rows(directory: Path) -> list[dict[str, Any]]:
    """All row changes in the order of the binlog, as mappings by column name; empty without a table."""
    try:
        table = dataset_of(DeltaTable(str(directory))).to_table(filter=_ROWS)
    except TableNotFoundError:
        return []
    rows: list[dict[str, Any]] = table.to_pylist()
    rows.sort(key=lambda row: (row["_commit_version"], row["_event_index"], row["_row_index"]))
    return rows


def change_log_row_count(directory: Path) -> int:
    """How many row changes it has; 0 without a table."""
    try:
        return int(dataset_of(DeltaTable(str(directory))).count_rows(filter=_ROWS))
    except TableNotFoundError:
        return 0
