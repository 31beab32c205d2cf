"""The rows of a Delta table through Arrow's own file systems.

deltalake's default is a file system in Python, whose files Arrow's threads may free while the interpreter
ends: the process aborts after its work is done.
"""

from __future__ import annotations

import pyarrow.dataset as ds
from deltalake import DeltaTable
from pyarrow import fs


def dataset_of(table: DeltaTable) -> ds.Dataset:
    """The rows of a table's version, to be read or filtered.

    Raises:
        DeltaError: it has features that Arrow cannot read.
        OSError: its storage cannot be had.
    """
    files, root = fs.FileSystem.from_uri(table.table_uri)
    found: ds.Dataset = table.to_pyarrow_dataset(filesystem=fs.SubTreeFileSystem(root, files))
    return found
