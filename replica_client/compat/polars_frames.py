"""Binlog tables as Polars LazyFrames; the extra ``polars``.

::

    from replica_client.compat.polars_frames import scan

    orders = scan("/backup/binlogs", "shop.orders")
    orders.filter(pl.col("total") > 100).select("id", "total").collect()

A query reads only the columns that it uses, filters each batch as it is decoded, and stops reading where it has
enough rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl
from polars.io.plugins import register_io_source

from replica_client.archive.arrow_tables import BinlogTable
from replica_client.archive.scan import scan_binlog
from replica_client.rows.selection import Pattern
from replica_client.stream.files.file_bytes import FileSource


def scan(source: FileSource, table: str, **options: Any) -> pl.LazyFrame:
    """Return the row changes of one table as a LazyFrame.

    Args:
        source: binlog files or the URL of a live source, as of :func:`~replica_client.scan_binlog`.
        table: ``database.table``.
        options: those of :func:`~replica_client.scan_binlog`, such as ``since`` and ``where``.

    Raises:
        ConfigError: an option is wrong.
        KeyError: the table has no rows there.
        ReplicaClientError: the source cannot be read.
    """
    Pattern(table, "table")
    tables = scan_binlog(source, tables=[table], **options)
    if len(tables) == 1:
        return lazy_frame(next(iter(tables.values())))
    return lazy_frame(tables[table])


def lazy_frame(table: BinlogTable) -> pl.LazyFrame:
    """Return a LazyFrame that reads only the columns, filters and number of rows that its query needs.

    Raises:
        SchemaMismatchError: an ALTER changed a column's type to one that has nothing in common with it.
        BinlogDecodeError: a fault in a file.
    """

    def read(
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Iterator[pl.DataFrame]:
        return _frames(table, with_columns, predicate, n_rows)

    schema = _frame(table.schema.empty_table()).schema
    return register_io_source(read, schema=schema, validate_schema=True, is_pure=True)


def _frames(
    table: BinlogTable,
    columns: Sequence[str] | None,
    predicate: pl.Expr | None,
    left: int | None,
) -> Iterator[pl.DataFrame]:
    """Yield the frames of a query; ``left`` limits the rows before the filter."""
    wanted = table if columns is None else table.select(columns)
    with wanted.reader() as reader:
        for batch in reader:
            if left is not None:
                batch = batch.slice(0, left)
                left -= batch.num_rows
            frame = _frame(batch)
            yield frame if predicate is None else frame.filter(predicate)
            if left is not None and left <= 0:
                return


def _frame(arrow: Any) -> pl.DataFrame:
    frame = pl.from_arrow(arrow)
    assert isinstance(frame, pl.DataFrame)
    return frame
