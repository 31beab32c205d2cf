"""The daemon's HTTP pages: status page, its data, metrics and health."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from replica_client._version import __version__
from replica_client.daemon.observation import Remark, RouteState
from replica_client.daemon.tables_set_aside import with_reason
from replica_client.monitoring.page import Page, alive, json_page
from replica_client.monitoring.prometheus import metrics_page
from replica_client.storage.file_names import joined_name

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from replica_client.daemon.route import Route
    from replica_client.daemon.service import Service

_MAX_TABLES = 200
_MAX_GTID_TEXT = 2000


def pages_of(service: Service) -> Mapping[str, Callable[[], Page]]:
    """Return the pages by path."""
    return {
        "/": lambda: _asset("page.html", "text/html; charset=utf-8"),
        "/page.js": lambda: _asset("page.js", "text/javascript; charset=utf-8"),
        "/page.css": lambda: _asset("page.css", "text/css; charset=utf-8"),
        "/status.json": lambda: json_page(status(service)),
        "/metrics": metrics_page(lambda: _collected(service)),
        "/healthz": alive,
        "/readyz": lambda: _ready(service),
    }


def status(service: Service) -> dict[str, Any]:
    """Return the data of the status page."""
    return {
        "version": __version__,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "now": time.time(),
        "started": service.started,
        "config": str(service.config.file),
        "config_error": service.config_error,
        "sample_seconds": service.config.daemon.sample_seconds,
        "sources": [_source(service, source.name) for source in service.config.sources],
        "routes": [_route(service, route) for route in service.routes],
    }


def _source(service: Service, name: str) -> dict[str, Any]:
    watch = service.watch(name)
    end = None if watch is None else watch.end
    return {
        "name": name,
        "error": "" if watch is None else watch.error,
        "version": None if end is None else end.version,
        "file": None if end is None else end.file,
        "offset": None if end is None else end.offset,
        "gtids": None if end is None else end.gtids[:_MAX_GTID_TEXT],
        "looked_at": None if end is None else end.looked_at,
    }


def _route(service: Service, route: Route) -> dict[str, Any]:
    seen = route.observation
    history = service.history(route)
    position = seen.committed
    busiest = sorted(seen.tables.items(), key=lambda item: -item[1].bytes)[:_MAX_TABLES]
    return {
        "name": route.name,
        "source": route.config.source.name,
        "sink": route.config.sink.name,
        "type": route.config.sink.type,
        "guarantee": seen.guarantee,
        "state": str(seen.shown_state),
        "since": seen.since,
        "error": seen.shown_error,
        "lag_seconds": round(seen.lag_seconds(), 3),
        "lag_bytes": service.lag_bytes(route),
        "file": None if position is None else position.file,
        "offset": None if position is None else position.offset,
        "gtids": None
        if position is None or position.gtid_set is None
        else position.gtid_set.compact()[:_MAX_GTID_TEXT],
        "last_commit": seen.committed_at,
        "transactions": seen.transactions,
        "rows": seen.rows,
        "bytes": seen.bytes,
        "received": seen.received,
        "commits": seen.commits,
        "commit_seconds": round(seen.commit_times.sum, 3),
        "copying": seen.copying,
        "copied_rows": seen.copied_rows,
        "snapshot_tables": seen.snapshot_tables,
        "transforms": list(route.transforms),
        "queued": seen.queued,
        "pending_rows": seen.pending.rows,
        "reconnects": seen.reconnects,
        "retries": seen.retries,
        "dead_letters": seen.dead_letters,
        "replaced_values": seen.replaced_values,
        "set_aside": with_reason(seen.set_aside),
        "losses": [
            {
                "kind": one.kind,
                "database": one.database,
                "table": one.table,
                "count": one.count,
                "text": str(one),
            }
            for one in seen.losses
        ],
        "dead_letter_file": str(route.dead_letters),
        "tables": [
            {"name": joined_name(database, table), "rows": tally.rows, "bytes": tally.bytes}
            for (database, table), tally in busiest
        ],
        "table_count": len(seen.tables),
        "errors": _remarks(seen.errors),
        "schema_changes": _remarks(seen.schema_changes),
        "history": [] if history is None else history.to_json(),
    }


def _remarks(remarks: Iterable[Remark]) -> list[dict[str, Any]]:
    return [{"at": remark.at, "text": remark.text} for remark in reversed(list(remarks))]


def _ready(service: Service) -> Page:
    waiting = {
        route.name: f"{route.observation.shown_state}: {route.observation.shown_error}".rstrip(": ")
        for route in service.routes
        if route.observation.shown_state is not RouteState.STREAMING
    }
    losses = {
        route.name: [str(one) for one in route.observation.losses]
        for route in service.routes
        if route.observation.losses
    }
    set_aside = {
        route.name: with_reason(route.observation.set_aside)
        for route in service.routes
        if route.observation.set_aside
    }
    is_ready = not waiting and not any(route.observation.unaccepted() for route in service.routes)
    stated = {"ready": is_ready, "waiting": waiting, "losses": losses, "set_aside": set_aside}
    return json_page(stated, 200 if is_ready else 503)


def _collected(service: Service) -> list[Metric]:
    from replica_client.daemon.metrics import service_metrics

    return service_metrics(service)


def _asset(name: str, content_type: str) -> Page:
    return Page(files(__package__).joinpath("web", name).read_bytes(), content_type)
