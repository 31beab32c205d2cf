"""The terminal output of a running pipeline."""

from __future__ import annotations

import json
import threading
import time
from typing import Any, Final

from rich.console import Console
from rich.status import Status

from replica_client.lake.spark.pipeline.run_history import lag_of, rows_of
from replica_client.protocol.codec.printable import printable

_BRIEF: Final = 1.0
"""Seconds; what is done sooner is not worth a line."""


class Progress:
    """Follows the micro-batches of a query, and shows other work between them.

    On a terminal one line shows the state. Elsewhere lines are printed: the other work when it
    takes long, and the state of the stream when it has moved. A thread prints them, because the run
    waits for Spark or merges.

    Args:
        console: on standard error.
        every: least seconds between two lines where there is no terminal.
        again: seconds after which work that still goes on is printed again.

    Attributes:
        doing: the work besides the stream; ``""`` for none.
        batches: micro-batches that had changes.
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
        self._last = -1
        self._said = ""
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

    def update(self, recent: list[Any]) -> None:
        """Take the query's recent progress."""
        for report in recent:
            batch = int(report["batchId"])
            position = position_of(report)
            if position:
                self.position = position
            rows = rows_of(report)
            if batch <= self._last or not rows:
                continue
            self._last = batch
            self.batches += 1
            self.rows += rows
            self.lag = lag_of(report)
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
                elif since >= self._again:
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


def position_of(report: Any) -> str:
    """Return the position that a micro-batch reached, as text; ``""`` if its report has none."""
    sources = report["sources"]
    end = sources[0]["endOffset"] if sources else None
    if isinstance(end, str):
        try:
            end = json.loads(end)
        except ValueError:
            return ""
    if not isinstance(end, dict) or not end.get("file"):
        return ""
    return f"{end['file']}:{end['offset']}"
