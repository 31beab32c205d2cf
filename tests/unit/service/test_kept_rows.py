"""What was delivered is not kept while nothing comes: a part of a large transaction has megabytes of rows."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from replica_client.testing import BinlogSource
from tests.source.row_maker import RowMaker
from tests.unit.service.conftest import running, until


@pytest.fixture
def maker() -> RowMaker:
    made = RowMaker()
    made.statement(b"CREATE DATABASE shop")
    made.rows(3, 50)
    return made


@pytest.fixture
async def source(maker: RowMaker, tmp_path: Path):
    folder = tmp_path / "source"
    folder.mkdir()
    maker.save(folder / "binlog.000001")
    async with BinlogSource(folder) as one:
        yield one


@pytest.mark.parametrize("names", [("one",), ("one", "two")])
async def test_a_stream_at_rest_keeps_no_part(configure, disk, maker, source, names):
    disks = [disk(name) for name in names]
    seen = []
    path = configure(*({"name": name} for name in names), source={"part_size": 4_000})
    async with running(path) as service:
        await until(lambda: all(len(one.lines) == 3 for one in disks))
        disks[-1].before_write = seen.append
        source.append(maker.rows(40, 1_000))
        await until(lambda: all(len(one.lines) == 43 for one in disks))
        await until(lambda: all(service.lag_bytes(one) == 0 for one in service.routes))
        await asyncio.sleep(0.05)
        assert len(seen) > 5
        # That of the list, and that of the question.
        assert {sys.getrefcount(seen[at]) for at in range(len(seen))} == {2}
