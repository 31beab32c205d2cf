"""A live stream that is cancelled at any turn of the event loop ends there: no cancellation is lost.

``asyncio.wait_for`` of Python 3.11 forgets one that comes as the awaited work ends.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

import replica_client as rc
from replica_client.testing import BinlogSource
from replica_client.testing.faults import CutAt
from tests.source.test_stream import DATA, FAST, WHOLE


class CountedLoop(asyncio.SelectorEventLoop):
    """Cancels a task behind a number of its turns."""

    left = 0
    task: asyncio.Task[None] | None = None

    def cancel_behind(self, turns: int, task: asyncio.Task[None]) -> None:
        self.left, self.task = turns, task

    def _run_once(self) -> None:
        super()._run_once()  # type: ignore[misc]
        self.left -= 1
        if self.left == 0 and self.task is not None:
            self.task.cancel()


async def rows_when_cancelled(turns: int, query: str, way: str) -> int:
    """How many rows a stream had given that was cancelled behind some turns of the loop."""
    rows = 0

    async def follow(url: str) -> None:
        nonlocal rows
        async with rc.connect(url, start="earliest", reconnect=FAST) as stream:
            if way == "changes":
                async with aclosing(stream.changes()) as changes:
                    async for _ in changes:
                        rows += 1
            else:
                async with aclosing(stream.batches(max_seconds=0.001)) as batches:
                    async for batch in batches:
                        rows += batch.num_rows

    # The second connection is a reconnect, inside a transaction.
    faults = [CutAt(700, connection=0)]
    async with BinlogSource(DATA, faults=faults, tls="required" in query) as source:
        task = asyncio.ensure_future(follow(f"{source.url}?{query}"))
        loop = asyncio.get_running_loop()
        assert isinstance(loop, CountedLoop)
        loop.cancel_behind(turns, task)
        await asyncio.wait((task,), timeout=10)
        assert task.cancelled(), f"cancelled behind {turns} turns of the loop: {task}"
    return rows


@pytest.mark.parametrize(
    ("query", "way"), [("tls=disabled", "changes"), ("tls=required", "batches")]
)
def test_a_cancelled_stream_ends(query: str, way: str) -> None:
    turns = rows = 0
    while rows < len(WHOLE):
        turns += 1
        with asyncio.Runner(loop_factory=CountedLoop) as runner:
            rows = runner.run(rows_when_cancelled(turns, query, way))
    assert turns > 50
