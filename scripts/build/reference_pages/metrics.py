"""The metrics of a service and of a pipeline, from what serves them."""

from __future__ import annotations

import io
from collections.abc import Iterable
from types import SimpleNamespace

from prometheus_client.core import CounterMetricFamily, Metric
from rich.console import Console

from reference_pages.markdown import table
from replica_client.service.metrics import _Collector


class _NoRoutes:
    """A service that follows nothing: its metrics have names and help, and no values."""

    routes: tuple[object, ...] = ()
    config_error = ""
    started_clock = 0.0
    control = SimpleNamespace(counts={})


def metrics() -> str:
    """Names, kinds, labels and meanings of the service's."""
    return _table(_Collector(_NoRoutes()).collect())  # type: ignore[arg-type]


def pipeline_metrics() -> str:
    """Those of the pipeline."""
    from replica_client.lake.pipeline import report
    from replica_client.lake.pipeline.run_history import Progress, RunHistory

    progress = Progress(Console(file=io.StringIO()))
    return _table(report.pipeline_metrics(report.RunState("", progress, RunHistory())))


def _table(families: Iterable[Metric]) -> str:
    rows = []
    for family in families:
        counts = isinstance(family, CounterMetricFamily)
        labels = ", ".join(f"`{label}`" for label in getattr(family, "_labelnames", ()))
        name = f"{family.name}_total" if counts else family.name
        rows.append((f"`{name}`", family.type, labels, family.documentation))
    return table(("metric", "kind", "labels", "meaning"), rows)
