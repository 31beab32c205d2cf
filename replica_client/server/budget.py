"""Budgets of memory and processor time for the sessions of an account.

The budget belongs to the account: its sessions share one budget and one turn, so that opening more
connections gains nothing. Work on the event loop is cut into slices, one at a time per account:
every other client gets the loop after at most one slice of each account.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from types import coroutine
from typing import TYPE_CHECKING, Any, Final, TypeVar

from replica_client.errors import ServerError
from replica_client.server.accounts import Limits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator

_Result = TypeVar("_Result")

COMMAND_SECONDS: Final = 50e-6
"""Processor time charged for each command and compressed packet in addition to its own."""

BYTE_SECONDS: Final = 2e-9
"""Processor time charged for each byte of a command: it was read in pieces."""

LOGIN_SECONDS: Final = 2e-3
"""Processor time charged for each login."""

SLICE_SECONDS: Final = 0.005
"""Seconds for which one piece of work may keep the event loop."""

_BURST_SECONDS: Final = 2.0
_LONGEST_PAUSE: Final = 5.0
_M_MMAP_THRESHOLD: Final = -3


def return_large_blocks() -> None:
    """Make glibc return each freed block of 256 KiB or more to the system at once.

    By default glibc raises that size up to 32 MiB as blocks are freed: after commands of 1 MiB from
    many sessions a relay kept 700 MiB. Other C libraries have no ``mallopt``; nothing is done there.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, 256 << 10)


class AccountBudget:
    """The memory and processor time that the sessions of one account use together.

    Args:
        limits: how much that may be.
        clock: seconds.

    Attributes:
        memory: bytes held now.
        turn: held while one slice of work is done.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.memory = 0
        self.turn = asyncio.Lock()
        self._limits = limits
        self._clock = clock
        self._credit = _BURST_SECONDS
        self._counted = clock()

    def hold(self, size: int) -> None:
        """Take bytes out of the budget.

        Raises:
            ServerError: fewer bytes are left.
        """
        most = self._limits.account_memory
        if most is not None and self.memory + size > most:
            raise _too_much("this account's sessions hold", most)
        self.memory += size

    def release(self, size: int) -> None:
        """Give bytes back to the budget."""
        self.memory -= size

    def charge(self, seconds: float) -> None:
        """Charge processor time to the account."""
        self._refill()
        self._credit -= seconds

    @property
    def pause(self) -> float:
        """Seconds until the account may work again."""
        share = self._limits.account_share
        if share is None:
            return 0.0
        self._refill()
        return 0.0 if self._credit >= 0 else min(-self._credit / share, _LONGEST_PAUSE)

    async def ready(self) -> None:
        """Wait until the account may work again; yields to other tasks at least once."""
        await asyncio.sleep(self.pause)
        while pause := self.pause:  # noqa: ASYNC110  time is what it waits for
            await asyncio.sleep(pause)

    def _refill(self) -> None:
        now, share = self._clock(), self._limits.account_share
        if share is not None:
            self._credit = min(_BURST_SECONDS, self._credit + (now - self._counted) * share)
        self._counted = now


class SessionBudget:
    """The memory that one session uses, out of its account's budget.

    Args:
        account: the budget of the session's account.
        limits: how much one session may hold.
    """

    def __init__(self, account: AccountBudget, limits: Limits) -> None:
        self.account = account
        self.memory = 0
        self._limits = limits
        self._slice = 0.0

    def hold(self, size: int) -> None:
        """Take bytes out of the budgets of the session and of its account.

        Raises:
            ServerError: fewer bytes are left in one of them.
        """
        most = self._limits.session_memory
        if most is not None and self.memory + size > most:
            raise _too_much("this session holds", most)
        self.account.hold(size)
        self.memory += size

    def release(self, size: int) -> None:
        """Give bytes back to both budgets."""
        self.account.release(size)
        self.memory -= size

    def release_all(self) -> None:
        """Give back all bytes of the session, at its end."""
        self.release(self.memory)

    async def admit(self, size: int) -> None:
        """Charge a command of so many bytes to the account, and wait until the account may work."""
        self.account.charge(COMMAND_SECONDS + size * BYTE_SECONDS)
        await self.account.ready()

    @asynccontextmanager
    async def working(self, seconds: float | None = None) -> AsyncIterator[None]:
        """Hold the account's turn for a piece of work, once the account may work.

        Args:
            seconds: how long the wait and the work may take; None: for ever.

        Raises:
            ServerError: they took longer.
        """
        try:
            async with asyncio.timeout(seconds):
                await self.account.ready()
                async with self.account.turn:
                    self._slice = time.perf_counter()
                    yield
        except TimeoutError:
            text = "Query execution was interrupted: it took too long"
            raise ServerError(3024, "HY000", text) from None

    async def pace(self) -> None:
        """Yield to other tasks if this slice has used up its time."""
        if time.perf_counter() - self._slice >= SLICE_SECONDS:
            await asyncio.sleep(0)
            self._slice = time.perf_counter()

    def timed(self, work: Callable[..., _Result], *arguments: Any) -> _Result:
        """Return the result of a function; charge its processor time to the account."""
        begun = time.thread_time()
        try:
            return work(*arguments)
        finally:
            self.account.charge(time.thread_time() - begun)

    async def metered(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Await work, and charge the processor time of its steps to the account.

        Wall-clock time would include the work of other processes on the machine.
        """
        return await _metered(work, self.account.charge)


class Worker:
    """One thread for long statements, shared by all accounts, so that the event loop goes on."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(1, "statements")

    async def run(
        self, budget: SessionBudget, work: Callable[..., _Result], *arguments: Any
    ) -> _Result:
        """Run a function in the thread; charge its time to the account even if nobody waits."""
        loop = asyncio.get_running_loop()

        def timed() -> _Result:
            begun = time.thread_time()
            try:
                return work(*arguments)
            finally:
                spent = time.thread_time() - begun
                with contextlib.suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(budget.account.charge, spent)

        return await loop.run_in_executor(self._threads, timed)

    def close(self) -> None:
        """End the thread."""
        self._threads.shutdown(wait=False, cancel_futures=True)


@coroutine
def _metered(
    work: Coroutine[Any, Any, _Result], charge: Callable[[float], None]
) -> Generator[Any, Any, _Result]:
    """Drive a coroutine step by step; charge the processor time between two waits."""
    step: Callable[[], Any] = lambda: work.send(None)  # noqa: E731
    while True:
        begun = time.thread_time()
        try:
            waited_for = step()
        except StopIteration as end:
            result: _Result = end.value
            return result
        finally:
            charge(time.thread_time() - begun)
        try:
            yield waited_for
            step = lambda: work.send(None)  # noqa: E731
        except BaseException as error:  # noqa: BLE001  it is the coroutine's
            step = _thrower(work, error)


def _thrower(work: Coroutine[Any, Any, Any], error: BaseException) -> Callable[[], Any]:
    return lambda: work.throw(error)


def _too_much(who: str, most: int) -> ServerError:
    return ServerError(1041, "HY000", f"Out of memory: {who} more than {most} bytes")
