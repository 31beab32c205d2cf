"""Polars: the changes of a table as a DataFrame, without copying the columns.

python polars_frame.py binlog.000024 shop.orders
"""

import sys

import polars as pl
import pyarrow as pa

import replica_client as rc


def frame(source: str, table: str) -> pl.DataFrame:
    batches = list(rc.open_binlog(source, tables=[table]).batches())
    if not batches:
        return pl.DataFrame()
    # Maps are the one type that Polars has not: the texts of values that Arrow cannot hold.
    found = pa.Table.from_batches(batches).drop_columns("_lossless")
    return pl.DataFrame(pl.from_arrow(found))


if __name__ == "__main__":
    changes = frame(sys.argv[1], sys.argv[2])
    print(changes.group_by("_change_type").len())
