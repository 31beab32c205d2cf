"""Ctrl-C and SIGTERM: finish what must be finished, then leave with status 130."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

_Item = TypeVar("_Item")

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_AGAIN_AFTER = 0.01


class Stop:
    """Whether the user asked to stop.

    Attributes:
        requested: set by the first signal; the second one interrupts at once.
    """

    def __init__(self) -> None:
        self.requested = False
        self._waits = False

    def _request(self, number: int, frame: FrameType | None) -> None:
        if self.requested or self._waits:
            self.requested = True
            raise KeyboardInterrupt
        self.requested = True

    def until(self, items: Iterable[_Item]) -> Iterator[_Item]:
        """The items up to the signal, which ends the work on the next one at once.

        Raises:
            KeyboardInterrupt: it came while the next item was made.
        """
        iterator = iter(items)
        while not self.requested:
            self._waits = True
            try:
                item = next(iterator)
            except StopIteration:
                return
            finally:
                self._waits = False
            yield item

    @contextmanager
    def watching(self) -> Iterator[Stop]:
        """Note signals while the block runs; raises KeyboardInterrupt at its end if one came."""
        before = {number: signal.signal(number, self._request) for number in SIGNALS}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        if self.requested:
            raise KeyboardInterrupt


def runs_the_daemon(words: Sequence[str]) -> bool:
    """Whether it is ``run CONFIG.toml``, not one of the questions that ``run`` answers."""
    options = [word for word in words if word.startswith("-") and word != "--"]
    return list(words[:1]) == ["run"] and not options


class _End:
    """A handler that ends the process: an exception could come in the middle of an import, and get lost there."""

    def __init__(self, status: int) -> None:
        self._status = status

    def __call__(self, number: int, frame: FrameType | None) -> None:
        os._exit(self._status)


def end_at_once(status: int) -> None:
    """Let a signal end the process while there is nothing to finish yet."""
    for number in SIGNALS:
        # The daemon, whose status is 0, hears what its parent ignores, too.
        if status and signal.getsignal(number) is signal.SIG_IGN:
            continue
        signal.signal(number, _End(status))


def terminate_like_interrupt() -> None:
    """Make SIGTERM raise KeyboardInterrupt, as SIGINT does; what :func:`end_at_once` did is over."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if isinstance(signal.getsignal(signal.SIGINT), _End):
        signal.signal(signal.SIGINT, signal.default_int_handler)


def interrupt_again(unraisable: sys.UnraisableHookArgs) -> None:
    """Raise a KeyboardInterrupt once more that came where Python drops exceptions, as in ``__del__``.

    It is for ``sys.unraisablehook``.
    """
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
        return
    # Not from here, where it would be dropped, too.
    again = threading.Timer(_AGAIN_AFTER, os.kill, (os.getpid(), signal.SIGINT))
    again.daemon = True
    again.start()


def run_async(work: Coroutine[Any, Any, None]) -> None:
    """Run ``work``; a signal cancels it, and its ``finally`` blocks run to their end.

    Raises:
        KeyboardInterrupt: a signal came.
    """
    import asyncio  # files need none

    interrupted = False

    async def _run() -> None:
        nonlocal interrupted
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(work)

        def stop() -> None:
            nonlocal interrupted
            interrupted = True
            task.cancel()

        for number in SIGNALS:
            loop.add_signal_handler(number, stop)
        try:
            await task
        except asyncio.CancelledError:
            if not interrupted:
                raise

    asyncio.run(_run())
    if interrupted:
        raise KeyboardInterrupt
