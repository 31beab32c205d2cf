"""The pages of a running pipeline: metrics, health, and its state as JSON."""

from __future__ import annotations

import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from replica_client._version import __version__
from replica_client.lake.lake_catalog import TableEntry
from replica_client.lake.pipeline.lake_run import LakeRun
from replica_client.lake.pipeline.run_history import Progress, RunHistory
from replica_client.stream.pages.page import Page, alive, json_page, metrics_page

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_PREFIX: Final = "replica_client_pipeline_"
_STATUSES: Final = ("current", "copying", "left_out")


@dataclass
class RunState:
    """The state of a run that its pages show.

    Attributes:
        origin: the source, without secrets.
        progress: of the stream.
        history: batches and merges.
        lake: the current tables; None before they are known, and where there are none.
        streams: whether the stream runs.
        retries: how often the source became unavailable.
        error: why the stream does not run; ``""`` while it does.
        started: when the run began, in seconds since 1970.
    """

    origin: str
    progress: Progress
    history: RunHistory
    lake: LakeRun | None = None
    streams: bool = False
    retries: int = 0
    error: str = ""
    started: float = field(default_factory=time.time)

    @property
    def tables(self) -> list[TableEntry]:
        """The tables that are wanted."""
        return [] if self.lake is None else list(self.lake.catalog.tables.values())

    @property
    def not_current(self) -> list[dict[str, str]]:
        """Tables that are not kept current, with status and reason."""
        return [] if self.lake is None else self.lake.catalog.report()


def pages_of(run: RunState) -> Mapping[str, Callable[[], Page]]:
    """Return the pages by path."""
    return {
        "/metrics": metrics_page(lambda: pipeline_metrics(run)),
        "/healthz": alive,
        "/readyz": lambda: _ready(run),
        "/status.json": lambda: json_page(_status(run)),
    }


def _ready(run: RunState) -> Page:
    """Return the readiness page: status 200 when changes flow and all tables are current."""
    wrong = run.not_current
    ready = run.streams and not wrong
    stated = {"ready": ready, "streams": run.streams, "error": run.error, "not_current": wrong}
    return json_page(stated, 200 if ready else 503)


def _status(run: RunState) -> dict[str, Any]:
    progress = run.progress
    return {
        "version": __version__,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "now": time.time(),
        "started": run.started,
        "source": run.origin,
        "doing": progress.doing,
        "streams": run.streams,
        "error": run.error,
        "retries": run.retries,
        "position": progress.position,
        "changes": progress.rows,
        "batches": progress.batches,
        "lag_seconds": run.history.lag,
        "last_commit": run.history.last_commit,
        "copied_rows": 0 if run.lake is None else run.lake.copied.rows,
        "tables": [
            {
                "table": ".".join(entry.table),
                "status": entry.status,
                "reason": entry.reason,
                "waiting_change_files": len(entry.waiting),
            }
            for entry in run.tables
        ],
    }


def pipeline_metrics(run: RunState) -> Iterator[Metric]:
    """Yield the metrics of a run, without those of the process and of Python."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    progress, history, lake = run.progress, run.history, run.lake
    info = GaugeMetricFamily("replica_client_info", "The version that runs.", labels=("version",))
    info.add_metric((__version__,), 1.0)
    yield info
    for name, text, value in (
        ("up", "Whether the stream of changes runs.", float(run.streams)),
        (
            "lag_seconds",
            "From the commit of the last change on the source to its arrival in the current tables.",
            history.lag or 0.0,
        ),
        (
            "last_commit_timestamp_seconds",
            "When the source committed the last change that the current tables have; 0 before the first.",
            history.last_commit or 0.0,
        ),
        ("uptime_seconds", "Since the start.", time.time() - run.started),
    ):
        yield GaugeMetricFamily(_PREFIX + name, text, value)
    for name, text, count in (
        ("changes", "Changes that were written to the change log.", progress.rows),
        ("batches", "Micro-batches that had changes.", progress.batches),
        ("merges", "Times that changes were taken into the current tables.", history.merge_count),
        ("merge_seconds", "Time that these took.", history.merge_seconds),
        ("copied_rows", "Rows of copies.", 0 if lake is None else lake.copied.rows),
        ("retries", "Times that the source went away.", run.retries),
    ):
        yield CounterMetricFamily(_PREFIX + name, text, float(count))
    counts = Counter(entry.status for entry in run.tables)
    tables = GaugeMetricFamily(_PREFIX + "tables", "Tables by their status.", labels=("status",))
    current = GaugeMetricFamily(
        _PREFIX + "table_current", "Whether a table is kept current.", labels=("table",)
    )
    waiting = GaugeMetricFamily(
        _PREFIX + "waiting_change_files",
        "Change files that are not merged into their table yet (merge in [lake]).",
        labels=("table",),
    )
    for status in _STATUSES:
        tables.add_metric((status,), float(counts[status]))
    for entry in run.tables:
        name = ".".join(entry.table)
        current.add_metric((name,), float(entry.status == "current"))
        waiting.add_metric((name,), float(len(entry.waiting)))
    yield from (tables, current, waiting)
