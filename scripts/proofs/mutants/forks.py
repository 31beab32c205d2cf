"""Functions that run in forked processes, several at once."""

from __future__ import annotations

import contextlib
import functools
import os
import select
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

Task: TypeAlias = Callable[[Callable[[], None]], str]
"""Is given what tells that it goes on, and says something."""

_BEAT, _END = b"\0", b"\3"


def run_all(
    tasks: Sequence[Task], jobs: int, silent: float, is_late: Callable[[], bool]
) -> Iterator[tuple[int, str]]:
    """The number of each task, and what it says, as they end.

    Args:
        tasks: each runs in a process of its own.
        jobs: processes at once.
        silent: seconds after which a task that tells nothing is ended: it says ``timeout``.
        is_late: whether no further task is begun.
    """
    running: dict[int, _Fork] = {}
    waiting = iter(enumerate(tasks))
    try:
        while True:
            while (
                len(running) < jobs and not is_late() and (one := next(waiting, None)) is not None
            ):
                fork = _Fork(one[0], one[1], list(running))
                running[fork.reader] = fork
            if not running:
                return
            last = time.monotonic() - silent
            wait = min(fork.heard for fork in running.values()) - last
            ready = select.select(list(running), [], [], max(wait, 0))[0]
            for reader in ready:
                running[reader].read()
            for reader, fork in list(running.items()):
                if reader not in ready and fork.heard + silent <= time.monotonic():
                    fork.answer = "timeout"
                if fork.answer is not None:
                    del running[reader]
                    fork.end()
                    yield fork.number, fork.answer
    finally:
        for fork in running.values():
            fork.end()


class _Fork:
    """A process that runs a task; it ends with this one, also when a signal ends it.

    Args:
        number: of the task.
        task: what it runs.
        others: descriptors that are not the child's.
    """

    def __init__(self, number: int, task: Task, others: list[int]) -> None:
        self.number = number
        self.heard = time.monotonic()
        self.answer: str | None = None
        self._said = b""
        self.reader, writer = os.pipe()
        self._child = os.fork()
        if not self._child:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            for reader in (*others, self.reader):
                os.close(reader)
            os.setpgid(0, 0)
            text = "crash"
            try:
                text = task(functools.partial(_write, writer, _BEAT))
            except BaseException as error:  # noqa: BLE001  a fork says everything by its pipe
                text = f"{type(error).__name__}: {error}"
            finally:
                os.write(writer, text.encode("utf-8", "replace")[:4000] + _END)
                os._exit(0)
        os.close(writer)

    def read(self) -> None:
        """Take what the child wrote."""
        self.heard = time.monotonic()
        part = os.read(self.reader, 4096)
        self._said = (self._said + part).lstrip(_BEAT)
        if self._said.endswith(_END):
            self.answer = self._said[:-1].decode("utf-8", "replace")
        elif not part:
            self.answer = "crash"

    def end(self) -> None:
        """End the child."""
        os.close(self.reader)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._child, signal.SIGKILL)
        os.waitpid(self._child, 0)


def _write(writer: int, data: bytes) -> None:
    os.write(writer, data)
