"""What happened in a run, for its report: batches, merges, lag."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

from replica_client.spark.lake.applier import Applied

_KEPT: Final = 5000


@dataclass(frozen=True, slots=True)
class BatchPoint:
    """A micro-batch.

    Attributes:
        at: seconds since the run began.
        rows: how many it had.
        seconds: how long it took.
    """

    at: float
    rows: int
    seconds: float


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
    """The last batches and merges of a run."""

    begun: float = field(default_factory=time.time)
    batches: deque[BatchPoint] = field(default_factory=lambda: deque(maxlen=_KEPT))
    merges: deque[MergePoint] = field(default_factory=lambda: deque(maxlen=_KEPT))
    _last: tuple[str, int] = ("", -1)

    def take(self, recent: list[Any]) -> None:
        """Take a query's recent progress."""
        for report in recent:
            run, number = str(report["runId"]), int(report["batchId"])
            rows = int(report["numInputRows"])
            if (run == self._last[0] and number <= self._last[1]) or not rows:
                continue
            self._last = run, number
            seconds = float(report["durationMs"].get("triggerExecution", 0)) / 1000
            self.batches.append(BatchPoint(time.time() - self.begun, rows, seconds))

    def applied(self, done: Applied, seconds: float) -> None:
        """Take a merge."""
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
        """Of the last merge that had changes of the stream."""
        return next((one.lag for one in reversed(self.merges) if one.lag is not None), None)
