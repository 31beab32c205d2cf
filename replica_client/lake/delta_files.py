"""Delta tables on this machine or in an object store, and their rows.

Rows are read through Arrow's own file systems: deltalake's default is a file system in Python,
whose files Arrow's threads may free while the interpreter ends, and the process aborts after its
work is done. Files of a store are read one by one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyarrow import fs

from replica_client.errors import SinkError
from replica_client.lake.parquet_files import in_schema, read_parquet
from replica_client.storage.location import Location, ObjectUrl
from replica_client.storage.store_errors import reason_of

_TRIES: Final = 6
_FIRST_WAIT: Final = 0.025

Found = TypeVar("Found")


def delta_address(where: Location) -> tuple[str, dict[str, str] | None]:
    """Return deltalake's arguments for a table: its address, and the options of its store."""
    if isinstance(where, ObjectUrl):
        return str(where), dict(where.options) or None
    return str(where), None


def open_delta(where: Location) -> DeltaTable:
    """Open the newest version of a table.

    Raises:
        TableNotFoundError: there is no table.
        SinkError: the table cannot be read.
    """
    address, options = delta_address(where)
    return patiently(
        where, "the table cannot be read", lambda: DeltaTable(address, storage_options=options)
    )


def update_delta(table: DeltaTable, where: Location) -> None:
    """Update a table to its newest version.

    Raises:
        TableNotFoundError: the table was removed.
        SinkError: the table cannot be read.
    """
    patiently(where, "the table cannot be read", table.update_incremental)


def patiently(where: Location, what: str, function: Callable[[], Found]) -> Found:
    """Return the result of a function; retry it when it fails on a table in an object store.

    deltalake retries a failed request, but not one whose response was cut off.

    Args:
        where: the table.
        what: what failed, for the message.
        function: uses the table; safe to repeat.

    Raises:
        TableNotFoundError: there is no table.
        SinkError: the last attempt failed.
    """
    tries = _TRIES if isinstance(where, ObjectUrl) else 1
    for attempt in range(1, tries + 1):
        try:
            return function()
        except TableNotFoundError:
            raise
        except (DeltaError, OSError) as error:
            if attempt == tries:
                raise SinkError(f"{where}: {what}: {reason_of(error, where)}") from None
            time.sleep(_FIRST_WAIT * 2**attempt)
    raise AssertionError("the last attempt returns or raises")


def dataset_of(table: DeltaTable) -> ds.Dataset:
    """Return the rows of a table's version on this machine as a dataset, to read or filter.

    Raises:
        DeltaError: the table has features that Arrow cannot read.
        OSError: its storage is unavailable.
    """
    files, root = fs.FileSystem.from_uri(table.table_uri)
    found: ds.Dataset = table.to_pyarrow_dataset(filesystem=fs.SubTreeFileSystem(root, files))
    return found


def delta_rows(table: DeltaTable, where: Location) -> ds.Dataset:
    """Return the rows of a table's version as a dataset; rows from a store are in memory.

    Raises:
        OSError: a file cannot be read.
        StorageError: a file cannot be read from a store.
    """
    if isinstance(where, Path):
        return dataset_of(table)
    schema = pa.schema(table.schema().to_arrow())
    paths = pa.table(table.get_add_actions(flatten=True))["path"].to_pylist()
    parts = [in_schema(read_parquet(where / path), schema, None) for path in paths]
    return ds.dataset(pa.concat_tables(parts) if parts else schema.empty_table())


def data_paths(table: DeltaTable) -> set[str]:
    """Return the paths of the files of a table's version, relative to the table."""
    return set(pa.table(table.get_add_actions(flatten=True))["path"].to_pylist())
