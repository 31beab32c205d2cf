"""The batches, merges and lags of a run, for its report."""

from __future__ import annotations

import datetime
import time
from collections import deque
from dataclasses import field
from typing import Any, Final

from replica_client.lake.applier import Applied
from replica_client.protocol.codec.quick_dataclass import dataclass

_KEPT: Final = 5000


@dataclass(frozen=True, slots=True)
class BatchPoint:
    """A micro-batch.

    Attributes:
        at: seconds since the run began.
        rows: how many it had.
        seconds: how long it took.
        lag: seconds from the commit of its last change on the source to its end; None when not known.
    """

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


LAST_COMMIT: Final = "last_commit"
"""Metric that a pipeline's stream observes (:data:`OBSERVED`): when the last change was committed."""

CHANGES: Final = "changes"
"""Metric that it observes, too: how many changes the micro-batch has, whose rows are files."""

OBSERVED: Final = "mysql_binlog"
"""Name under which Spark's progress has that metric in ``observedMetrics``."""


def rows_of(report: Any) -> int:
    """Changes of a micro-batch; rows of a query that is not the pipeline's.

    Over Spark Connect its report has rows by source only.
    """
    metrics = report["observedMetrics"].get(OBSERVED)
    if metrics is not None and CHANGES in metrics:
        return int(metrics[CHANGES] or 0)
    rows = report["numInputRows"]
    if rows is None:
        rows = sum(one["numInputRows"] for one in report["sources"])
    return int(rows)


def lag_of(report: Any) -> float | None:
    """Return the seconds from the commit of a micro-batch's last change to the batch's end, or None."""
    metrics = report["observedMetrics"].get(OBSERVED)
    # Over Spark Connect a metric without a value is left out.
    last = None if metrics is None or LAST_COMMIT not in metrics else metrics[LAST_COMMIT]
    if last is None:
        return None
    begun = datetime.datetime.fromisoformat(report["timestamp"]).timestamp()
    seconds = float(report["durationMs"].get("triggerExecution", 0)) / 1000
    return max(0.0, begun + seconds - float(last))


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
    _last: tuple[str, int] = ("", -1)

    def take(self, recent: list[Any]) -> None:
        """Take a query's recent progress."""
        for report in recent:
            run, number = str(report["runId"]), int(report["batchId"])
            rows = rows_of(report)
            if (run == self._last[0] and number <= self._last[1]) or not rows:
                continue
            self._last = run, number
            seconds = float(report["durationMs"].get("triggerExecution", 0)) / 1000
            point = BatchPoint(time.time() - self.begun, rows, seconds, lag_of(report))
            self.batches.append(point)

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
