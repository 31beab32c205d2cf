"""The report of a run: one HTML file with its plots, without anything from elsewhere."""

from __future__ import annotations

import datetime
import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, Final

from replica_client._version import __version__
from replica_client.errors import SinkError, StorageError
from replica_client.lake.lake_catalog import TableEntry
from replica_client.lake.pipeline.lake_run import LakeRun
from replica_client.lake.pipeline.run_history import Progress, RunHistory
from replica_client.storage.files import write_file
from replica_client.storage.location import Location
from replica_client.stream.pages.page import Page, alive, json_page, metrics_page

if TYPE_CHECKING:
    from prometheus_client.core import Metric


_WIDTH: Final = 720
_HEIGHT: Final = 180
_LEFT: Final = 70
_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 60em; padding: 0 1em;
  color: #1c2733; background: #fff }
h1 { font-size: 1.4em } h2 { font-size: 1.1em; margin-top: 2em }
table { border-collapse: collapse } td, th { padding: .2em 1em .2em 0; text-align: left }
th { border-bottom: 1px solid #c5ced8 } td.n { text-align: right; font-variant-numeric: tabular-nums }
svg { max-width: 100% } .grid { stroke: #dde3ea } .line { stroke: #1769aa; fill: none; stroke-width: 1.5 }
.dot { fill: #1769aa } text { font-size: 11px; fill: #55616e }
@media (prefers-color-scheme: dark) { body { color: #dbe3ea; background: #14191f }
  .grid { stroke: #2c3640 } .line { stroke: #6cb6ff } .dot { fill: #6cb6ff } text { fill: #93a1af } }
"""

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class PipelineResult:
    """The result of a run.

    Attributes:
        rows: changes written by this run.
        position: reached in the source, as text.
        change_log, version: directory and version of the Delta table.
        tables, copied: number of current tables, and of rows of first copies.
        lag: seconds from the last change's commit to its arrival in the tables, or None.
        not_current: tables that are not kept current, with status and reason.
        report: file of the report, or None.
    """

    rows: int
    position: str
    change_log: Location
    version: int
    tables: int = 0
    copied: int = 0
    lag: float | None = None
    not_current: tuple[Mapping[str, str], ...] = ()
    report: Location | None = None


def write_report(
    path: Location, origin: str, result: PipelineResult, lake: LakeRun, history: RunHistory
) -> None:
    """Write the report.

    Raises:
        SinkError: it cannot be written.
    """
    try:
        write_file(path, _page(origin, result, lake, history).encode())
    except OSError as error:
        raise SinkError(f"{path}: {error.strerror}") from None
    except StorageError as error:
        raise SinkError(str(error)) from None


def _page(origin: str, result: PipelineResult, lake: LakeRun, history: RunHistory) -> str:
    now = datetime.datetime.now(datetime.UTC)
    applied = lake.applied
    lag = "no change came" if result.lag is None else f"{result.lag:.1f} s"
    facts = [
        ("source", origin),
        ("position", result.position or "the beginning"),
        ("changes written", f"{result.rows:,}"),
        ("changes taken into tables", f"{applied.changes:,}"),
        ("rows copied", f"{result.copied:,} of {lake.copied.tables} tables"),
        ("current tables", f"{result.tables:,}"),
        ("files written or removed", f"{applied.files:,}"),
        ("files passed over by their ranges", f"{applied.kept:,}"),
        ("lag of the last change", lag),
        ("change log", f"{result.change_log} (version {result.version})"),
    ]
    merges, batches = history.merges, history.batches
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        f"<title>Pipeline run of {escape(origin)}</title><style>{_STYLE}</style>",
        f"<h1>Pipeline run, {now:%Y-%m-%d %H:%M:%S} UTC</h1><table>",
        *(f"<tr><th>{escape(name)}<td>{escape(value)}" for name, value in facts),
        "</table>",
        plot("Changes per micro-batch", "rows", [(one.at, one.rows) for one in batches]),
        plot("Duration of micro-batches", "s", [(one.at, one.seconds) for one in batches]),
        plot("Duration of merges", "s", [(one.at, one.seconds) for one in merges]),
        plot("Changes per merge", "rows", [(one.at, one.changes) for one in merges]),
        plot(
            "Lag of the change log",
            "s",
            [(one.at, one.lag) for one in batches if one.lag is not None],
        ),
        plot(
            "Lag of the tables", "s", [(one.at, one.lag) for one in merges if one.lag is not None]
        ),
    ]
    left = result.not_current
    if left:
        parts.append("<h2>Tables that are not current</h2><table><tr><th>table<th>status<th>why")
        parts += [
            f"<tr><td>{escape(one['table'])}<td>{escape(one['status'])}<td>{escape(one['reason'])}"
            for one in left
        ]
        parts.append("</table>")
    return "\n".join(parts) + "\n"


def plot(title: str, unit: str, points: Points, across: str = " s") -> str:
    """Return a plot over seconds (or another axis) as SVG, or a sentence when there are no points."""
    head = f"<h2>{escape(title)}</h2>"
    if not points:
        return f"{head}<p>Nothing in this run."
    last = max(at for at, _ in points) or 1.0
    top = max(value for _, value in points) or 1.0

    def point(at: float, value: float) -> tuple[float, float]:
        x = _LEFT + at / last * (_WIDTH - _LEFT - 10)
        return x, _HEIGHT - 25 - value / top * (_HEIGHT - 45)

    rows = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role=img aria-label="{escape(title)}">']
    for part in (0.0, 0.5, 1.0):
        _, y = point(0, top * part)
        rows.append(f"<line class=grid x1={_LEFT} x2={_WIDTH - 10} y1={y:.1f} y2={y:.1f} />")
        rows.append(
            f"<text x={_LEFT - 8} y={y + 4:.1f} text-anchor=end>{top * part:,.4g} {unit}</text>"
        )
    for part in (0.0, 0.5, 1.0):
        x, _ = point(last * part, 0)
        rows.append(
            f"<text x={x:.1f} y={_HEIGHT - 6} text-anchor=middle>{last * part:,.0f}{across}</text>"
        )
    plotted = [point(at, value) for at, value in sorted(points)]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in plotted)
    rows.append(f'<polyline class=line points="{line}" />')
    if len(plotted) <= 200:
        rows += [f"<circle class=dot cx={x:.1f} cy={y:.1f} r=2 />" for x, y in plotted]
    return head + "".join(rows) + "</svg>"


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
