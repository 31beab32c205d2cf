"""A source that speaks the replication protocol from binlog files, for tests without a server.

::

    from replica_client.testing import BinlogSource, faults

    async def test_my_consumer():
        async with BinlogSource("tests/data/binlog.000001", faults=[faults.CutAt(500,
        connection=0)]) as source:
            ...  # the first connection breaks after 500 bytes; connect to source.url

With pytest, ``pytest_plugins = ["replica_client.testing.pytest_plugin"]`` gives the fixture
``binlog_source``.
"""

from __future__ import annotations

from replica_client.testing import faults
from replica_client.testing.source import BinlogSource, run_source

__all__ = ["BinlogSource", "faults", "run_source"]
