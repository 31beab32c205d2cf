"""Delta tables where they are, on this machine or in an object store, and their rows.

Rows are read through Arrow's own file systems: deltalake's default is a file system in Python, whose files
Arrow's threads may free while the interpreter ends, and the process aborts after its work is done. Of a store
the files are read one by one.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable
from pyarrow import fs

from replica_client.lake.parquet_files import in_schema, read_parquet
from replica_client.storage.location import Location, ObjectUrl


def delta_address(where: Location) -> tuple[str, dict[str, str] | None]:
    """What deltalake takes for a table: its address, and the options of its store."""
    if isinstance(where, ObjectUrl):
        return str(where), dict(where.options) or None
    return str(where), None


def open_delta(where: Location) -> DeltaTable:
    """The newest version of a table.

    Raises:
        TableNotFoundError: there is none.
        DeltaError: it cannot be read.
    """
    address, options = delta_address(where)
    return DeltaTable(address, storage_options=options)


def dataset_of(table: DeltaTable) -> ds.Dataset:
    """The rows of a table's version on this machine, to be read or filtered.

    Raises:
        DeltaError: it has features that Arrow cannot read.
        OSError: its storage cannot be had.
    """
    files, root = fs.FileSystem.from_uri(table.table_uri)
    found: ds.Dataset = table.to_pyarrow_dataset(filesystem=fs.SubTreeFileSystem(root, files))
    return found


def delta_rows(table: DeltaTable, where: Location) -> ds.Dataset:
    """The rows of a table's version; those of a table in a store are in memory.

    Raises:
        OSError: a file cannot be read.
        StorageError: likewise, in a store.
    """
    if isinstance(where, Path):
        return dataset_of(table)
    schema = pa.schema(table.schema().to_arrow())
    paths = pa.table(table.get_add_actions(flatten=True))["path"].to_pylist()
    parts = [in_schema(read_parquet(where / path), schema, None) for path in paths]
    return ds.dataset(pa.concat_tables(parts) if parts else schema.empty_table())


def data_paths(table: DeltaTable) -> set[str]:
    """The files of a table's version, relative to it."""
    return set(pa.table(table.get_add_actions(flatten=True))["path"].to_pylist())
