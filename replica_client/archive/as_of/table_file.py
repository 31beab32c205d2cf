"""A table as it was, as a Parquet or Arrow file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq

from replica_client.archive.as_of.table_state import TableState
from replica_client.errors import ConfigError
from replica_client.storage.durable import publish_file

FileForm = Literal["parquet", "arrow"]


def write_state(state: TableState, target: str, form: FileForm) -> int:
    """Write the rows of a table as it was; a file appears under its name when it is whole.

    Args:
        state: the rows.
        target: path of the file, where nothing is; ``-`` writes an Arrow stream to standard output.
        form: of the file.

    Returns:
        how many rows there are.

    Raises:
        ConfigError: something is at the path.
        DataLossError: the rows to start from and the changes do not fit together; no file appears.
        OSError: it cannot be written.
    """
    if target == "-":
        if form != "arrow":
            raise ConfigError(f"--{form} -: only an Arrow stream goes to standard output")
        with pa.ipc.new_stream(sys.stdout.buffer, state.schema) as stream:
            return _written(state, stream)
    with new_file(Path(target)) as part:
        if form == "parquet":
            with pq.ParquetWriter(part, state.schema, compression="zstd") as writer:
                return _written(state, writer)
        with pa.ipc.new_stream(str(part), state.schema) as writer:
            return _written(state, writer)


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """A path to write to, which becomes the other one at the end.

    Raises:
        ConfigError: something is there.
    """
    if path.exists():
        raise ConfigError(f"{path}: this file exists; name a new one, or remove it")
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    try:
        yield part
        publish_file(part, path)
    finally:
        part.unlink(missing_ok=True)


def _written(state: TableState, writer: pq.ParquetWriter | pa.ipc.RecordBatchStreamWriter) -> int:
    rows = 0
    for batch in state.batches():
        writer.write_batch(batch)
        rows += batch.num_rows
    return rows
