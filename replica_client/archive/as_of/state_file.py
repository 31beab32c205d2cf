"""A table as it was, as a Parquet or Arrow file, or as a table of a DuckDB database."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq

from replica_client.archive.as_of.table_state import TableState
from replica_client.errors import ConfigError
from replica_client.storage.durable import sync_directory

FileForm = Literal["parquet", "arrow", "duckdb"]


def write_state(state: TableState, target: str, form: FileForm) -> int:
    """Write the rows of a table as it was; a file appears under its name when it is whole.

    Args:
        state: the rows.
        target: path of the file, where nothing is; ``-`` writes an Arrow stream to standard output.
        form: of the file.

    Returns:
        how many rows there are.

    Raises:
        ConfigError: something is at the path, or duckdb is not installed.
        DataLossError: the rows to start from and the changes do not fit together; no file appears.
        OSError: it cannot be written.
    """
    if target == "-":
        if form != "arrow":
            raise ConfigError(f"--{form} -: only an Arrow stream goes to standard output")
        with pa.ipc.new_stream(sys.stdout.buffer, state.schema) as stream:
            return _written(state, stream)
    with _part_of(Path(target)) as part:
        if form == "duckdb":
            return _duckdb(state, part)
        if form == "parquet":
            with pq.ParquetWriter(part, state.schema, compression="zstd") as writer:
                return _written(state, writer)
        with pa.ipc.new_stream(str(part), state.schema) as writer:
            return _written(state, writer)


@contextmanager
def _part_of(path: Path) -> Iterator[Path]:
    """A path to write to, which becomes the other one at the end."""
    if path.exists():
        raise ConfigError(f"{path}: this file exists; name a new one, or remove it")
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    try:
        yield part
        with part.open("rb") as stream:
            os.fsync(stream.fileno())
        part.rename(path)
        sync_directory(path.parent)
    finally:
        part.unlink(missing_ok=True)


def _written(state: TableState, writer: pq.ParquetWriter | pa.ipc.RecordBatchStreamWriter) -> int:
    rows = 0
    for batch in state.batches():
        writer.write_batch(batch)
        rows += batch.num_rows
    return rows


def _duckdb(state: TableState, path: Path) -> int:
    try:
        import duckdb
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"--duckdb needs duckdb ({error}): pip install 'replica-client[duckdb]'"
        ) from error
    name = '"' + state.name.replace('"', '""') + '"'
    with duckdb.connect(str(path)) as database:
        database.register("replica_client_rows", state.reader())
        database.execute(f"CREATE TABLE {name} AS SELECT * FROM replica_client_rows")  # noqa: S608 - the name is quoted
        found = database.execute(f"SELECT count(*) FROM {name}").fetchone()  # noqa: S608 - as above
        database.unregister("replica_client_rows")
    assert found is not None
    return int(found[0])
