"""Cuts, stalls and drips at many places of a stream: always the same changes, each once.

scripts/proofs/cuts does the same at every byte offset of 200 kB of real servers' binlogs.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import replica_client as rc
from replica_client.testing import BinlogSource
from replica_client.testing.faults import CutAt
from tests.source import cuts

FILES = sorted((Path(rc.__file__).parent / "testing" / "data").glob("shop-bin.0*"))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", ["file", "gtid"])
async def test_chained_cuts(mode: str) -> None:
    with cuts.calm():
        counts = await cuts.prove(FILES, mode, every=331, stride=993, seeds=range(4))
    assert counts["offsets"] > 60
    assert counts["seeds"] == 4


async def test_chained_cuts_of_a_backup(tmp_path: Path) -> None:
    with cuts.calm():
        counts = await cuts.prove_backup(FILES, tmp_path, every=131, stride=393)
    assert counts["offsets"] > 60
    assert counts["connections"] == counts["offsets"] + 3


async def test_plan_names_the_positions_that_a_stream_resumes_at() -> None:
    async with BinlogSource(FILES) as source:
        start = cuts.start_of("gtid", False, source.library.files[0])
        plan = await cuts.plan_of(source, start)
        assert plan.lengths[str(start)] == plan.size
        for end in plan.ends[:-1]:
            resume = plan.resume_after(end)
            assert plan.lengths[str(resume)] <= plan.size


async def test_positions_after_a_reconnect_into_a_later_file() -> None:
    """A dump by GTID may begin in a later file than the one that was read last."""
    own = [t.position for t in rc.open_binlog(FILES).transactions()]
    async with BinlogSource(FILES) as source:
        start = cuts.start_of("gtid", False, source.library.files[0])
        plan = await cuts.plan_of(source, start)
        ended = [end for end in plan.ends if plan.resume_after(end).file == FILES[0].name]
        source.faults[:] = [CutAt(ended[-1], connection=source.connections)]
        async with rc.connect(
            source.url, start=start, stop_at_end=True, reconnect=cuts.POLICY
        ) as stream:
            assert [t.position async for t in stream.transactions()] == own
            assert stream.generation == 2
