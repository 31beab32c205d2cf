"""A table as it was at a moment, and its output as JSON lines, Parquet or Arrow."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from replica_client.archive.as_of.net_images import NetImages
from replica_client.archive.as_of.segment_images import PRESENT, WEIGHT, as_images
from replica_client.errors import ConfigError
from replica_client.protocol.position import Position
from replica_client.schema.ddl.steps import TableName
from replica_client.schema.shape import TableShape
from replica_client.storage.durable import new_file

Direction = Literal["backward", "forward"]

POSITION: Final = b"replica_client.position"
"""Key of a schema's metadata with the position of the rows."""

KEY: Final = b"replica_client.key"
"""Key of a schema's metadata with the names of the primary key's columns, one a line."""

_MAX_ROWS: Final = 1 << 14


class TableState:
    """A table as it was at a moment; made by :meth:`Archive.as_of`.

    Any library that takes ``__arrow_c_stream__`` reads it: Polars, DuckDB, PyArrow, DataFusion. The
    columns are the table's, with the types of record batches and ENUM and SET as text, followed by
    ``_lossless``. Rows are unordered.

    Attributes:
        database: the table's database.
        name: its name at the moment.
        position: the moment, between two transactions.
        direction: ``backward`` from the live table, or ``forward`` from a copy.
        key: columns of its primary key.
        changes: number of changes that were read.
        shape: the columns of its rows, where known.
        live_name: the database and name of the table from which ``backward`` began; else its own.

    Examples:
        >>> state = rc.open_archive("shop-bin.*").as_of("shop.orders", "shop-bin.000002:4")
        >>> state.direction, state.read_all().num_rows
        ('forward', 25)
    """

    def __init__(
        self,
        name: TableName,
        position: Position,
        direction: Direction,
        schema: pa.Schema,
        key: Sequence[str],
        shape: TableShape | None,
        net: NetImages,
        *,
        changes: int,
        exact: bool,
        live_name: TableName | None = None,
    ) -> None:
        self.database, self.name = name
        self.live_name = live_name or name
        self.position, self.direction, self.key = position, direction, tuple(key)
        self.changes, self.shape = changes, shape
        self._net, self._exact = net, exact
        metadata = {
            b"database": self.database.encode(),
            b"table": self.name.encode(),
            POSITION: str(position).encode(),
            KEY: "\n".join(key).encode(),
        }
        self.schema: pa.Schema = schema.with_metadata(metadata)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows.

        Raises:
            DataLossError: the changes do not fit the rows at the start.
        """
        for table in self._net.rows(exact=self._exact):
            if not self.key:
                table = _repeated(table)
            rows = table.drop_columns([PRESENT, WEIGHT]).replace_schema_metadata(
                self.schema.metadata
            )
            yield from rows.to_batches(_MAX_ROWS)

    def reader(self) -> pa.RecordBatchReader:
        """Return the rows as a stream; its batches raise the errors of :meth:`batches`."""
        return pa.RecordBatchReader.from_batches(self.schema, self.batches())

    def read_all(self) -> pa.Table:
        """Read all rows into memory.

        Raises:
            DataLossError: see :meth:`batches`.
        """
        return pa.Table.from_batches(self.batches(), self.schema)

    def __arrow_c_schema__(self) -> Any:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.reader().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"<TableState {self.database}.{self.name} at {self.position}>"


def difference(one: TableState, other: TableState) -> tuple[int, list[dict[str, Any]]]:
    """Compare two states of a table.

    Args:
        one: a state.
        other: the same state, reconstructed another way.

    Returns:
        how many rows ``one`` has, and the first rows that only one of them has.

    Raises:
        DataLossError: see :meth:`TableState.batches`.
    """
    net = NetImages(one.schema, (), "first")
    count = 0
    for batch in one.batches():
        count += batch.num_rows
        net.add(as_images(batch, one.schema))
    at = len(one.schema) + 1
    for batch in other.batches():
        images = as_images(batch, one.schema)
        net.add(images.set_column(at, WEIGHT, pc.negate(images.column(at))))
    found: list[dict[str, Any]] = []
    for table in net.differences():
        found += table.slice(0, 10 - len(found)).to_pylist()
    return count, found


def _repeated(table: pa.Table) -> pa.Table:
    """Repeat each row as often as its weight says."""
    weight = table[WEIGHT]
    if not table.num_rows or pc.max(weight).as_py() == 1:
        return table
    numbers = [at for at, count in enumerate(weight.to_pylist()) for _ in range(count)]
    return table.take(pa.array(numbers, pa.int64()))


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
