"""The daemon's state as Prometheus metrics."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from replica_client._version import __version__
from replica_client.service.observation import SECONDS, Histogram, RouteState
from replica_client.storage.durable import joined_name
from replica_client.stream.position.losses import loss_kinds

if TYPE_CHECKING:
    from replica_client.service.route import Route
    from replica_client.service.service import Service

_LABELS = ("source", "sink")

# Name, help, whether it is a counter, and the function that reads it.
_OF_ROUTES: tuple[tuple[str, str, bool, Callable[[Route], float]], ...] = (
    (
        "lag_seconds",
        "Age of the oldest change that is not committed in the sink; 0 when there is none.",
        False,
        lambda route: route.observation.lag_seconds(),
    ),
    (
        "last_commit_timestamp_seconds",
        "When the sink committed last; 0 before the first time.",
        False,
        lambda route: route.observation.committed_at or 0.0,
    ),
    (
        "queue_bytes",
        "Bytes of events that wait for the sink; the source is made to wait when they are many.",
        False,
        lambda route: route.observation.queued,
    ),
    (
        "pending_rows",
        "Rows that were written and are not committed.",
        False,
        lambda route: route.observation.pending.rows,
    ),
    (
        "up",
        "Whether changes flow: connected to source and sink.",
        False,
        lambda route: route.observation.shown_state is RouteState.STREAMING,
    ),
    (
        "transactions",
        "Transactions that were committed in the sink.",
        True,
        lambda route: route.observation.transactions,
    ),
    (
        "received_bytes",
        "Bytes that came from the source.",
        True,
        lambda route: route.observation.received,
    ),
    (
        "commits",
        "Commits of the sink.",
        True,
        lambda route: route.observation.commits,
    ),
    (
        "reconnects",
        "Connections to the source after the first.",
        True,
        lambda route: route.observation.reconnects,
    ),
    (
        "retries",
        "Failures after which stream and sink were opened again.",
        True,
        lambda route: route.observation.retries,
    ),
    (
        "copied_rows",
        "Rows of first copies.",
        True,
        lambda route: route.observation.copied_rows,
    ),
    (
        "snapshot_tables_left",
        "Tables of which a first copy is not done; 0 where none is needed.",
        False,
        lambda route: route.observation.snapshot_tables or 0,
    ),
    (
        "tables_set_aside",
        "Tables that the sink does not get, as they could not be written or followed; the others go on.",
        False,
        lambda route: len(route.observation.set_aside),
    ),
    (
        "unaccepted_tables",
        "Tables that are set aside and not named in accept_set_aside.",
        False,
        lambda route: len(route.observation.unaccepted()),
    ),
    (
        "dead_letters",
        "Changes that went to the dead letters.",
        True,
        lambda route: route.observation.dead_letters,
    ),
    (
        "replaced_values",
        "Values that the destination does not have and NULL was stored for (unstorable_values), those of a repetition "
        "too.",
        True,
        lambda route: route.observation.replaced_values,
    ),
)

HISTOGRAMS: Final[tuple[tuple[str, str, Callable[[Route], Histogram]], ...]] = (
    (
        "commit_seconds",
        "Time that a commit took.",
        lambda route: route.observation.commit_times,
    ),
    (
        "commit_lag_seconds",
        "Age of the oldest change of a commit when it was committed in the sink.",
        lambda route: route.observation.commit_lags,
    ),
)
"""Name, help and reader of each histogram."""


class _Collector:
    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        prefix = "replica_client_"
        routes = self._service.routes
        info = GaugeMetricFamily(f"{prefix}info", "The version that runs.", labels=("version",))
        info.add_metric((__version__,), 1.0)
        yield info
        for name, text, grows, value in _OF_ROUTES:
            kind = CounterMetricFamily if grows else GaugeMetricFamily
            family = kind(prefix + name, text, labels=_LABELS)
            for route in routes:
                family.add_metric(_labels(route), float(value(route)))
            yield family
        for name, text, histogram in HISTOGRAMS:
            distribution = HistogramMetricFamily(prefix + name, text, labels=_LABELS)
            for route in routes:
                found = histogram(route)
                counts = zip((*SECONDS, "+Inf"), accumulate(found.counts), strict=True)
                distribution.add_metric(
                    _labels(route), [(str(bound), count) for bound, count in counts], found.sum
                )
            yield distribution
        behind = GaugeMetricFamily(
            f"{prefix}lag_bytes", "Bytes of binlog that are not committed.", labels=_LABELS
        )
        state = GaugeMetricFamily(
            f"{prefix}state", "1 for the state that it is in.", labels=(*_LABELS, "state")
        )
        rows = CounterMetricFamily(
            f"{prefix}rows",
            "Rows that were written, those of a repetition too.",
            labels=(*_LABELS, "table"),
        )
        sizes = CounterMetricFamily(
            f"{prefix}bytes",
            "Bytes of their events.",
            labels=(*_LABELS, "table"),
        )
        losses = CounterMetricFamily(
            f"{prefix}losses",
            "What could not be delivered and was put on record (record_losses), since the first run: "
            "events, for gtid_gap transactions.",
            labels=(*_LABELS, "kind"),
        )
        orders = CounterMetricFamily(
            f"{prefix}orders", "Orders of `replica-client service`.", labels=("command",)
        )
        for command, count in self._service.control.counts.items():
            orders.add_metric((command,), float(count))
        yield orders
        for route in routes:
            labels = _labels(route)
            for lost, count in _lost(route).items():
                losses.add_metric((*labels, lost), float(count))
            bytes_behind = self._service.lag_bytes(route)
            if bytes_behind is not None:
                behind.add_metric(labels, float(bytes_behind))
            for one in RouteState:
                is_in = route.observation.shown_state is one
                state.add_metric((*labels, str(one).replace(" ", "_")), float(is_in))
            for (database, table), tally in list(route.observation.tables.items()):
                name = joined_name(database, table)
                rows.add_metric((*labels, name), float(tally.rows))
                sizes.add_metric((*labels, name), float(tally.bytes))
        yield from (behind, state, rows, sizes, losses)
        failed = GaugeMetricFamily(
            f"{prefix}config_reload_failed", "Whether the last reload was refused."
        )
        failed.add_metric((), float(bool(self._service.config_error)))
        yield failed
        uptime = GaugeMetricFamily(f"{prefix}uptime_seconds", "Since the start.")
        uptime.add_metric((), time.monotonic() - self._service.started_clock)
        yield uptime


def service_metrics(service: Service) -> list[Metric]:
    """Return the metrics of a service, without those of the process and of Python."""
    return list(_Collector(service).collect())


def _lost(route: Route) -> dict[str, int]:
    """Return a route's losses by kind; 0 for kinds that it may record and that never occurred."""
    found = dict.fromkeys(sorted(loss_kinds(route.config.source.options["record_losses"] or ())), 0)
    for one in route.observation.losses:
        count = one.count if one.kind == "gtid_gap" else one.events
        found[one.kind] = found.get(one.kind, 0) + count
    return {str(kind): count for kind, count in found.items()}


def _labels(route: Route) -> tuple[str, str]:
    return (route.config.source.name, route.config.sink.name)
