"""Ctrl-C and SIGTERM: finish what must be finished, then leave with status 130."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

_Item = TypeVar("_Item")

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_AGAIN_AFTER = 0.01  # seconds


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
        """Yield the items up to the signal, which ends the work on the next one at once.

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
    """End the process on a signal, while it has nothing to finish."""
    for number in SIGNALS:
        # The daemon, whose status is 0, hears what its parent ignores, too.
        if status and signal.getsignal(number) is signal.SIG_IGN:
            continue
        signal.signal(number, _End(status))


def ignore_signals() -> None:
    """Ignore signals: Python removes its handlers next, and a signal would become the exit status."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def forget_interrupts() -> None:
    """Make this process end with the status that it gives.

    Python notes a KeyboardInterrupt that leaves a text given to ``exec`` (every dataclass is made so, while modules
    are imported), and a program run by ``python -m`` then ends as if by SIGINT, although it was caught. The next text
    that is run clears the note.
    """
    exec("")  # noqa: S102


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
    # Not from here, where it would be dropped, too: on a busy machine this function may last longer than any delay.
    threading.Thread(target=_interrupt_when_it_returned, daemon=True).start()


def _interrupt_when_it_returned() -> None:
    """Send SIGINT once the main thread has left :func:`interrupt_again`."""
    main_thread = threading.main_thread().ident or 0
    while _is_in_the_hook(sys._current_frames().get(main_thread)):
        time.sleep(_AGAIN_AFTER)
    os.kill(os.getpid(), signal.SIGINT)


def _is_in_the_hook(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code is interrupt_again.__code__:
            return True
        frame = frame.f_back
    return False


@contextmanager
def heard(calls: Mapping[signal.Signals, Callable[[], object]]) -> Iterator[None]:
    """In a coroutine of the main thread: have signals call something in the running loop.

    The loop's own handlers leave a moment when it closes in which a signal kills the process.
    """
    import asyncio  # files need none
    import socket

    loop = asyncio.get_running_loop()
    stated, heard_at = socket.socketpair()
    for end in (stated, heard_at):
        end.setblocking(False)

    by_number: dict[int, Callable[[], object]] = {int(one): call for one, call in calls.items()}

    def hear() -> None:
        for number in heard_at.recv(4096):
            if number in by_number:
                by_number[number]()

    loop.add_reader(heard_at, hear)
    before = {number: signal.signal(number, _note) for number in calls}
    fd_before = signal.set_wakeup_fd(stated.fileno(), warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(fd_before)
        for number, handler in before.items():
            signal.signal(number, handler)
        loop.remove_reader(heard_at)
        stated.close()
        heard_at.close()


def _note(number: int, frame: FrameType | None) -> None:
    """Do nothing: the wakeup descriptor tells the loop."""


def run_async(work: Coroutine[Any, Any, None]) -> None:
    """Run ``work``; a signal cancels it, and its ``finally`` blocks run to their end.

    Raises:
        KeyboardInterrupt: a signal came.
    """
    import asyncio

    interrupted = False

    async def _run() -> None:
        nonlocal interrupted
        task = asyncio.ensure_future(work)

        def stop() -> None:
            nonlocal interrupted
            interrupted = True
            task.cancel()

        with heard(dict.fromkeys(SIGNALS, stop)):
            try:
                await task
            except asyncio.CancelledError:
                if not interrupted:
                    raise

    asyncio.run(_run())
    if interrupted:
        raise KeyboardInterrupt
