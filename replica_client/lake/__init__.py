"""The lake: current-state tables, built from the change log; ``verify`` checks them, and ``spark`` is built on it.

A table's directory is named by an id, not by the table: names are entries of the lake's catalog.
:func:`open_lake` finds them::

    import replica_client.lake

    lake = replica_client.lake.open_lake("lake")             # or s3://bucket/lake
    lake.tables()                                             # ["shop.orders", …]
    lake.table("shop.orders").arrow()                         # pyarrow.Table
    duckdb.sql(f"FROM delta_scan('{lake.table('shop.orders').uri}')")
    polars.scan_delta(lake.table("shop.orders").uri)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from replica_client.lake.lake_tables import (
        CurrentTable as CurrentTable,
        Lake as Lake,
        open_lake as open_lake,
    )

__all__ = ["CurrentTable", "Lake", "open_lake"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(name)
    from replica_client.lake import lake_tables

    return getattr(lake_tables, name)
