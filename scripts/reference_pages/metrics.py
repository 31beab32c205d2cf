"""The metrics of a service, from the collector that serves them."""

from __future__ import annotations

from prometheus_client.core import CounterMetricFamily

from reference_pages.markdown import table
from replica_client.daemon.metrics import _Collector


class _NoRoutes:
    """A service that follows nothing: its metrics have names and help, and no values."""

    routes: tuple[object, ...] = ()
    config_error = ""
    started_clock = 0.0


def metrics() -> str:
    """Names, kinds, labels and meanings."""
    collector = _Collector(_NoRoutes())  # type: ignore[arg-type]
    rows = []
    for family in collector.collect():
        counts = isinstance(family, CounterMetricFamily)
        labels = ", ".join(f"`{label}`" for label in getattr(family, "_labelnames", ()))
        name = f"{family.name}_total" if counts else family.name
        rows.append((f"`{name}`", "counter" if counts else "gauge", labels, family.documentation))
    return table(("metric", "kind", "labels", "meaning"), rows)
