"""A coroutine in a thread of its own: results, errors, cancellation; nothing of it stays."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest

from replica_client.stream.live.binlog_scan import in_own_thread


def threads() -> list[str]:
    return [one.name for one in threading.enumerate() if "beside" in one.name]


async def gone() -> bool:
    """Whether the threads end, which their results come shortly before."""
    for _ in range(500):
        if not threads():
            return True
        await asyncio.sleep(0.01)
    return False


async def doubled(number: int) -> tuple[int, int]:
    await asyncio.sleep(0.01)
    return 2 * number, threading.get_ident()


async def test_results_of_several() -> None:
    """Each has a thread, and none of them is this one."""
    together = threading.Barrier(4, timeout=30)

    async def at_once(n: int) -> tuple[int, int]:
        together.wait()  # a thread that has ended gives its number to the next one
        return await doubled(n)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(in_own_thread(partial(at_once, n))) for n in range(4)]
    assert [task.result()[0] for task in tasks] == [0, 2, 4, 6]
    idents = {task.result()[1] for task in tasks}
    assert len(idents) == 4
    assert threading.get_ident() not in idents
    assert await gone()


async def test_an_error_comes_here() -> None:
    async def fails() -> None:
        raise ValueError("there")

    with pytest.raises(ValueError, match="there"):
        await in_own_thread(fails)
    assert await gone()


@pytest.mark.parametrize("delay", [0, 0.001, 0.05])
async def test_cancelled_here_and_there(delay: float) -> None:
    """What the coroutine does at its end is done when the waiting ends."""
    begun = threading.Event()
    ended = threading.Event()

    async def waits() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.02)
            ended.set()

    task = asyncio.create_task(in_own_thread(waits))
    await asyncio.sleep(delay)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set() or not begun.is_set()
    assert await gone()


async def test_one_that_fails_ends_the_others() -> None:
    ended = threading.Event()

    async def waits() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    async def fails() -> None:
        await asyncio.sleep(0.05)
        raise ValueError("one of them")

    with pytest.raises(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(in_own_thread(waits))
            group.create_task(in_own_thread(fails))
    assert ended.is_set()
    assert await gone()
