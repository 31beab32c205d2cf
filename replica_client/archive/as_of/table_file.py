"""A table as it was, as a Parquet or Arrow file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq

from replica_client.archive.as_of.table_state import TableState
from replica_client.errors import ConfigError
from replica_client.storage.durable import new_file

FileForm = Literal["parquet", "arrow"]


def write_state(state: TableState, target: str, form: FileForm) -> int:
    """Write the rows of a table as it was; the file appears under its name once it is complete.

    Args:
        state: the rows.
        target: path of the file, which must not exist; ``-`` writes an Arrow stream to standard
            output.
        form: the format of the file.

    Returns:
        the number of rows.

    Raises:
        ConfigError: the path exists.
        DataLossError: the changes do not fit the rows at the start; no file appears.
        OSError: the file cannot be written.
    """
    if target == "-":
        if form != "arrow":
            raise ConfigError(f"--{form} -: only an Arrow stream goes to standard output")
        with pa.ipc.new_stream(sys.stdout.buffer, state.schema) as stream:
            return _written(state, stream)
    path = Path(target)
    if path.exists():
        raise ConfigError(f"{path}: this file exists; name a new one, or remove it")
    with new_file(path) as stream:
        if form == "parquet":
            with pq.ParquetWriter(stream, state.schema, compression="zstd") as writer:
                return _written(state, writer)
        with pa.ipc.new_stream(stream, state.schema) as writer:
            return _written(state, writer)


def _written(state: TableState, writer: pq.ParquetWriter | pa.ipc.RecordBatchStreamWriter) -> int:
    rows = 0
    for batch in state.batches():
        writer.write_batch(batch)
        rows += batch.num_rows
    return rows
