"""Processes that outlive the command that started them, told from later ones of the same number."""

import os
import signal
import time
from pathlib import Path


def started_at(pid: int) -> str | None:
    """The start time of a living process in the kernel's own ticks; None when there is none.

    A zombie is none: it does nothing any more, and who should reap it may never do so.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else fields[19]


def is_alive(pid: int, start: str) -> bool:
    """Whether the process that had this number and this start time still runs."""
    return started_at(pid) == start


def terminate(pid: int, start: str, *, timeout: float) -> bool:
    """Ends a process, also a stopped one: asks, waits, then kills. True when it was killed."""
    if not _signal(pid, start, signal.SIGTERM):
        return False
    _signal(pid, start, signal.SIGCONT)
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if not is_alive(pid, start):
            return False
        time.sleep(0.05)
    _signal(pid, start, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while is_alive(pid, start) and time.monotonic() < deadline:
        time.sleep(0.05)
    return True


def _signal(pid: int, start: str, number: signal.Signals) -> bool:
    if not is_alive(pid, start):
        return False
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
