"""Tests of a consumer without a server: made changes and binlogs, and a source that speaks the replication protocol.

::

    from replica_client.testing import BinlogSource, faults, make_change

    def test_my_handler():
        handle(make_change("shop.orders", after={"id": 7, "state": "paid"}))

    async def test_my_consumer():
        async with BinlogSource("binlog.000001", faults=[faults.CutAt(500, connection=0)]) as source:
            ...  # the first connection breaks after 500 bytes; connect to source.url

The pytest plugin adds the fixtures ``binlog_source`` and ``sample_binlogs``.
"""

from __future__ import annotations

from replica_client.testing import faults
from replica_client.testing.made_changes import (
    make_change,
    make_transaction,
    sample_binlogs,
    write_binlog,
)
from replica_client.testing.source import BinlogSource, run_source

__all__ = [
    "BinlogSource",
    "faults",
    "make_change",
    "make_transaction",
    "run_source",
    "sample_binlogs",
    "write_binlog",
]
