"""Current tables of a lake read by readers that are not ours: deltalake, Polars, DuckDB and Spark."""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import polars
import pyarrow as pa

from replica_client.lake.lake_tables import CurrentTable


def plain(value: Any) -> Any:
    """A value as all readers give it."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat() if value.tzinfo else value.isoformat()
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, (Decimal, date)):
        return str(value)
    if isinstance(value, dict):
        if list(value) == ["key", "value"]:  # of a map, as Polars has it
            return [plain(one) for one in value.values()]
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value


def rows_of(table: pa.Table) -> list[str]:
    """All rows in an order of their own."""
    return sorted(
        repr([(name, plain(row[name])) for name in sorted(row)]) for row in table.to_pylist()
    )


def read_by_all(
    table: CurrentTable, spark: Any = None, options: dict[str, str] | None = None
) -> Iterator[tuple[str, pa.Table]]:
    """Each reader's name and rows.

    DuckDB's and Spark's own libraries for S3 are not on PyPI: there DuckDB reads by obstore's file system, and Spark
    reads the objects after that has copied them into a directory.

    Args:
        table: to be read.
        spark: a session; None: Spark does not read.
        options: of the store that the table is in.
    """
    files = table.delta().file_uris()
    yield "deltalake", table.delta().to_pyarrow_table()
    found = polars.scan_delta(table.uri, storage_options=options).collect()
    yield "polars", found.to_arrow()
    with duckdb.connect() as database, TemporaryDirectory() as directory:
        if options is not None:
            store = _file_system(options)
            database.register_filesystem(store)
        yield "duckdb", database.sql(f"select * from read_parquet({files})").to_arrow_table()
        if spark is None:
            return
        if options is not None:
            copies = [f"{directory}/{number}.parquet" for number in range(len(files))]
            for file, copy in zip(files, copies, strict=True):
                store.get(file, copy)
            files = copies
        yield "spark", spark.read.parquet(*files).toArrow()


def _file_system(options: dict[str, str]) -> Any:
    """The file system of a store that speaks S3, as the environment of :mod:`tests.object_stores` has it."""
    from obstore.fsspec import FsspecStore

    config = {name.lower(): value for name, value in options.items()}
    client = {"allow_http": config.pop("aws_allow_http") == "true"}
    return FsspecStore("s3", config=config, client_options=client)
