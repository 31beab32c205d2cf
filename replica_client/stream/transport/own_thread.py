"""Coroutines in a thread of their own, each with its own event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

_Result = TypeVar("_Result")


async def in_own_thread(work: Callable[[], Coroutine[Any, Any, _Result]]) -> _Result:
    """Run a coroutine in a thread with an event loop of its own, and wait for the result.

    Decrypting and copying received bytes does not need the interpreter: several connections, each
    in a thread, use several processors. When this task is cancelled, the coroutine is cancelled,
    too, and has ended when this returns.

    Args:
        work: makes the coroutine; called in that thread. It shares nothing with this loop.

    Raises:
        BaseException: what the coroutine raised.
    """
    beside = _Beside(work)
    thread = threading.Thread(target=beside.run, name="replica_client beside", daemon=True)
    thread.start()
    ended = asyncio.wrap_future(beside.ended)
    try:
        return await asyncio.shield(ended)
    except asyncio.CancelledError:
        beside.cancel()
        await asyncio.wait([ended])
        if not ended.cancelled():
            ended.exception()  # marks the error as retrieved: nobody else asks for it
        raise


class _Beside(Generic[_Result]):
    """A coroutine and its thread.

    Attributes:
        ended: its result.
    """

    def __init__(self, work: Callable[[], Coroutine[Any, Any, _Result]]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._running: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None
        self._is_cancelled = False
        self.ended: Future[_Result] = Future()

    def run(self) -> None:
        """Run the coroutine in the thread and store its result or error."""
        try:
            result = asyncio.run(self._main())
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is waited for
            self.ended.set_exception(error)
        else:
            self.ended.set_result(result)

    def cancel(self) -> None:
        """Cancel the coroutine, whether it has begun or not."""
        with self._lock:
            self._is_cancelled = True
            if self._running is not None:
                loop, task = self._running
                loop.call_soon_threadsafe(task.cancel)

    async def _main(self) -> _Result:
        task = asyncio.current_task()
        assert task is not None
        with self._lock:
            if self._is_cancelled:
                raise asyncio.CancelledError
            self._running = asyncio.get_running_loop(), task
        try:
            return await self._work()
        finally:
            # The loop is closed soon and takes no more calls.
            with self._lock:
                self._running = None
