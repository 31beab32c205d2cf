"""The rows of a change log, read without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import TableNotFoundError

from replica_client.lake.change_files import envelope_rows, is_typed
from replica_client.lake.delta_files import data_paths, open_delta
from replica_client.lake.parquet_files import read_parquet
from replica_client.storage.location import Location

_OPERATIONS = ("insert", "update", "delete")


def change_log_rows(directory: Location) -> list[dict[str, Any]]:
    """Return all row changes in the order of the binlog, as mappings by the envelope's columns.

    Typed change files are converted to the envelope, with ``before`` and ``after`` as JSON objects.
    Without a table, the list is empty.
    """
    rows: list[dict[str, Any]] = []
    for found in _files(directory):
        if is_typed(found.schema):
            rows += envelope_rows(found)
        else:
            rows += [row for row in found.to_pylist() if row["operation"] in _OPERATIONS]
    rows.sort(key=lambda row: (row["_commit_version"], row["_event_index"], row["_row_index"]))
    return rows


def change_log_row_count(directory: Location) -> int:
    """Return the number of row changes in a change log; 0 without a table."""
    count = 0
    wanted = pa.array([*_OPERATIONS, "update_postimage"], pa.string())
    for found in _files(directory, ["operation"]):
        kinds = found["operation"].cast(pa.string())
        count += pc.sum(pc.is_in(kinds, value_set=wanted)).as_py() or 0
    return count


def _files(directory: Location, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
    try:
        paths = data_paths(open_delta(directory))
    except TableNotFoundError:
        return
    for path in sorted(paths):
        yield read_parquet(directory / path, columns)
