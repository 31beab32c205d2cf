"""What a running pipeline tells on the terminal."""

from __future__ import annotations

import json
import time
from typing import Any

from rich.console import Console
from rich.status import Status

from replica_client.spark.pipeline.run_history import lag_of, rows_of


class Progress:
    """Follows a query's micro-batches.

    On a terminal a line shows the state; elsewhere a line is printed now and then.

    Args:
        console: on standard error.
        every: seconds between two lines where there is no terminal.
    """

    def __init__(self, console: Console, every: float = 10.0) -> None:
        self._console = console
        self._every = every
        self._started = time.monotonic()
        self._printed = self._started
        self._status: Status | None = None
        self._last = -1
        self._said: tuple[int, str] | None = None
        self.batches = 0
        self.rows = 0
        self.position = ""
        self.lag: float | None = None

    def start(self, text: str) -> None:
        """Show what is done before the first batch."""
        if self._console.is_terminal:
            self._status = self._console.status(text)
            self._status.start()

    def show(self, text: str) -> None:
        """Show what is done now, where there is a terminal."""
        if self._status is not None:
            self._status.update(text)

    def say(self, text: str) -> None:
        """Tell what is done beside the stream."""
        if self._status is not None:
            self._status.update(text)
        elif time.monotonic() - self._printed >= self._every:
            self._printed = time.monotonic()
            self._console.print(text, highlight=False)

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
        if self._status is not None:
            self._status.update(self.line())
        elif self.batches and time.monotonic() - self._printed >= self._every:
            self._printed = time.monotonic()
            self._print()

    def line(self) -> str:
        """The state on one line."""
        seconds = max(time.monotonic() - self._started, 0.001)
        if not self.batches:
            return f"waiting for changes{f' at {self.position}' if self.position else ''}"
        return (
            f"{self.rows:,} changes in {_count(self.batches, 'batch', 'batches')}, "
            f"{self.rows / seconds:,.0f}/s, at {self.position}"
            + ("" if self.lag is None else f", {self.lag:.1f} s behind")
        )

    def _print(self) -> None:
        if self._said != (self.rows, self.position):
            self._said = (self.rows, self.position)
            self._console.print(self.line(), highlight=False)

    def stop(self) -> None:
        """Take the line away, and leave the last state."""
        if self._status is not None:
            self._status.stop()
            self._status = None
        if self.batches:
            self._print()


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def position_of(report: Any) -> str:
    """The position that a micro-batch reached, as text."""
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
