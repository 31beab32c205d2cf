"""The batches of a run, its lags and its progress."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import field
from typing import Final, NamedTuple

from rich.console import Console
from rich.status import Status

from replica_client.lake.applier import Applied
from replica_client.protocol.codec.printable import printable
from replica_client.protocol.codec.quick_dataclass import dataclass

_KEPT: Final = 5000


class Batch(NamedTuple):
    """A batch of the stream.

    Attributes:
        rows: the changes that it had.
        position: where it ends, as text.
        seconds: how long it took.
        lag: seconds from the commit of its last change on the source to its end; None when not known.
    """

    rows: int
    position: str
    seconds: float
    lag: float | None = None


@dataclass(frozen=True, slots=True)
class BatchPoint:
    """A batch in the history of a run; ``at`` is in seconds since the run began."""

    at: float
    rows: int
    seconds: float
    lag: float | None = None


@dataclass(frozen=True, slots=True)
class MergePoint:
    """Changes taken into the tables.

    Attributes:
        at: seconds since the run began.
        changes: rows.
        tables: that were written.
        files: that were written or removed.
        seconds: how long it took.
        lag: seconds since the last change was committed on the source; None when not known.
    """

    at: float
    changes: int
    tables: int
    files: int
    seconds: float
    lag: float | None


@dataclass
class RunHistory:
    """The last batches and merges of a run.

    Attributes:
        begun: when the run began, in seconds since 1970.
        batches: the last ones.
        merges: the last ones.
        merge_count: all of them.
        merge_seconds: time that all of them took.
        last_commit: when the source committed the last change that was merged, in seconds since 1970; None for none.
    """

    begun: float = field(default_factory=time.time)
    batches: deque[BatchPoint] = field(default_factory=lambda: deque(maxlen=_KEPT))
    merges: deque[MergePoint] = field(default_factory=lambda: deque(maxlen=_KEPT))
    merge_count: int = 0
    merge_seconds: float = 0.0
    last_commit: float | None = None

    def take(self, batches: Iterable[Batch]) -> None:
        """Take batches that ended."""
        at = time.time() - self.begun
        for one in batches:
            if one.rows:
                self.batches.append(BatchPoint(at, one.rows, one.seconds, one.lag))

    def applied(self, done: Applied, seconds: float) -> None:
        """Take a merge."""
        self.merge_count += 1
        self.merge_seconds += seconds
        self.last_commit = done.last_commit or self.last_commit
        lag = None if done.last_commit is None else max(0.0, time.time() - done.last_commit)
        self.merges.append(
            MergePoint(
                time.time() - self.begun,
                done.changes,
                len(done.tables),
                done.files,
                seconds,
                lag,
            )
        )

    @property
    def lag(self) -> float | None:
        """The lag of the last merge that had changes of the stream."""
        return next((one.lag for one in reversed(self.merges) if one.lag is not None), None)


_BRIEF: Final = 1.0
"""Seconds; what is done sooner is not worth a line."""


class Progress:
    """Follows the batches of a stream, and shows other work between them.

    On a terminal one line shows the state. Elsewhere lines are printed: the other work when it
    takes long, and the state of the stream when it has moved. A thread prints them, because the run
    waits for workers or merges.

    Args:
        console: on standard error.
        every: least seconds between two lines where there is no terminal.
        again: seconds after which work that still goes on is printed again.

    Attributes:
        doing: the work besides the stream; ``""`` for none.
        batches: batches that had changes.
        rows: their changes.
        position: that the stream reached, as text.
        lag: of the last batch, in seconds; None when not known.
    """

    def __init__(self, console: Console, every: float = 3.0, again: float = 30.0) -> None:
        self._console = console
        self._every = every
        self._again = again
        self._started = time.monotonic()
        self._printed = self._begun = self._started
        self._status: Status | None = None
        self._said = self._noted = ""
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._teller: threading.Thread | None = None
        self.doing = ""
        self.batches = 0
        self.rows = 0
        self.position = ""
        self.lag: float | None = None

    def start(self, text: str) -> None:
        """Show the work before the first batch."""
        self.say(text)
        if self._console.is_terminal:
            self._status = self._console.status(text)
            self._status.start()
        else:
            self._teller = threading.Thread(target=self._tell, name="progress", daemon=True)
            self._teller.start()

    def say(self, text: str) -> None:
        """Show the work that is done besides the stream; ``""`` clears the text."""
        with self._lock:
            self.doing, self._begun = text, time.monotonic()
        if self._status is not None:
            self._status.update(text or self.line())

    def note(self, text: str) -> None:
        """Show a state that may last for ever: without a terminal it is printed at once, and once."""
        if text == self.doing:
            return
        self.say(text)
        if self._status is None:
            with self._lock:
                self._noted = text
                self._print(text, text)

    def update(self, batches: Iterable[Batch]) -> None:
        """Take batches that ended."""
        for one in batches:
            self.position = one.position
            if one.rows:
                self.batches += 1
                self.rows += one.rows
                self.lag = one.lag
        self.say("")

    def _tell(self) -> None:
        while not self._ended.wait(min(1.0, self._every)):
            with self._lock:
                now = time.monotonic()
                since = now - self._printed
                if since < self._every:
                    continue
                if not self.doing:
                    self._tell_state()
                elif now - self._begun < _BRIEF:
                    continue
                elif self._said != self.doing:
                    self._print(self.doing, self.doing)
                elif since >= self._again and self.doing != self._noted:
                    self._print(self.doing, f"{self.doing} ({now - self._begun:.0f} s)")

    def _tell_state(self) -> None:
        # Not the line itself: the rate of a stream that stands still changes with each look.
        state = f"{self.rows} {self.position}"
        if self.batches and state != self._said:
            self._print(state, self.line())

    def _print(self, key: str, line: str) -> None:
        self._said, self._printed = key, time.monotonic()
        self._console.print(printable(line), highlight=False, soft_wrap=True, markup=False)

    def line(self) -> str:
        """Return the state on one line."""
        seconds = max(time.monotonic() - self._started, 0.001)
        if not self.batches:
            return f"waiting for changes{f' at {self.position}' if self.position else ''}"
        return (
            f"{self.rows:,} changes in {_count(self.batches, 'batch', 'batches')}, "
            f"{self.rows / seconds:,.0f}/s, at {self.position}"
            + ("" if self.lag is None else f", {self.lag:.1f} s behind")
        )

    def stop(self, *, tell: bool = True) -> None:
        """Remove the line from the terminal and print the last state if ``tell`` is set."""
        if self._status is not None:
            self._status.stop()
            self._status = None
        self._ended.set()
        if self._teller is not None:
            self._teller.join()
            self._teller = None
        self.doing = ""
        if tell:
            self._tell_state()


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
