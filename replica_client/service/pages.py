"""Pages of the service and the relay."""

from __future__ import annotations

import asyncio
import hmac
import html
import logging
import os
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from replica_client._version import __version__
from replica_client.errors import ConfigError, ServerError
from replica_client.server.relay.relay_server import Relay
from replica_client.server.served_files import ServedFile
from replica_client.service.configuration import DaemonConfig
from replica_client.service.external_values import resolve
from replica_client.service.observation import Remark, RouteState
from replica_client.service.tables_set_aside import with_reason
from replica_client.storage.durable import joined_name
from replica_client.stream.pages.page import Action, Page, Request, alive, json_page, metrics_page

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from replica_client.service.route import Route
    from replica_client.service.service import Service


_LOG = logging.getLogger("replica_client.service")
_MAX_TABLES = 200
_SHORTEST_TOKEN: Final = 16
_REFUSED_SECONDS: Final = 10.0
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


def orders_of(service: Service) -> Mapping[str, Action]:
    """Return the action that takes orders with a token; none without ``control_token``."""
    if not service.config.daemon.control_token:
        return {}
    refused = [0.0]

    async def control(request: Request) -> Page:
        config = service.config
        token = await asyncio.to_thread(control_token, config)
        scheme, _, given = request.header("authorization").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(given.encode(), token.encode()):
            if time.monotonic() - refused[0] > _REFUSED_SECONDS:
                refused[0] = time.monotonic()
                _LOG.warning("control: an order from %s without the token", request.peer)
            return json_page({"error": "give the token: Authorization: Bearer TOKEN"}, 401)
        answer = await service.control.answer(request.body, f"the token, from {request.peer}")
        return json_page(answer, 400 if "error" in answer else 200)

    return {"/control": control}


def control_token(config: DaemonConfig) -> str:
    """Return the token that orders over HTTP need.

    Raises:
        ConfigError: it cannot be read, or is too short.
    """
    daemon = config.daemon
    token = resolve("control_token", daemon.control_token, config.directory, os.environ)
    if len(token) < _SHORTEST_TOKEN or not token.isascii():
        raise ConfigError(
            f"control_token: it has {len(token)} characters; give at least {_SHORTEST_TOKEN} of ASCII, for example "
            "from: openssl rand -hex 32"
        )
    return token


def tls_of(config: DaemonConfig) -> ssl.SSLContext | None:
    """Return the TLS context of the status page; None without a certificate.

    Raises:
        ConfigError: the certificate or its key cannot be used.
    """
    daemon = config.daemon
    if not daemon.tls_certificate:
        return None
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    certificate, key = (config.directory / one for one in (daemon.tls_certificate, daemon.tls_key))
    try:
        made.load_cert_chain(certificate, key)
    except OSError as error:  # ssl.SSLError, too
        raise ConfigError(
            f"tls_certificate {certificate}, tls_key {key}: {error.strerror or error}"
        ) from error
    return made


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
        "orders": list(service.control.recent),
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
        "owner": _owner(route),
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
        "pause_at": "" if seen.orders is None else seen.orders.pause_at,
        "skips": [] if seen.orders is None else list(seen.orders.skips),
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


def _owner(route: Route) -> dict[str, str] | None:
    """Return who writes to a sink's destination; None before the first try."""
    owner = route.owner
    if owner is None:
        return None
    return {"id": owner.id, "service": owner.service, "since": owner.since}


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
    from replica_client.service.metrics import service_metrics

    return service_metrics(service)


def _asset(name: str, content_type: str) -> Page:
    return Page(files(__package__).joinpath("web", name).read_bytes(), content_type)


_MAX_CLIENTS: Final = 500
_REFRESH_SECONDS: Final = 2
_FRESH_SECONDS: Final = 0.25
_PREFIX: Final = "replica_client_relay_"


def relay_pages(relay: Relay) -> Mapping[str, Callable[[], Page]]:
    """Return the pages by path."""
    status = _Status(relay)
    return {
        "/": lambda: Page(_page(status.now()), "text/html; charset=utf-8"),
        "/page.css": _style,
        "/status.json": lambda: json_page(status.now()),
        "/metrics": metrics_page(lambda: _metrics(status.now())),
        "/healthz": alive,
        "/readyz": lambda: _relay_ready(relay),
    }


class _Status:
    """The data of the pages, computed at most a few times a second for all requests."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._started = time.time()
        self._made = 0.0
        self._status: dict[str, Any] = {}

    def now(self) -> dict[str, Any]:
        """Return the status, at most a quarter of a second old."""
        if not self._status or time.monotonic() - self._made > _FRESH_SECONDS:
            self._status = relay_status(self._relay, self._started)
            self._made = time.monotonic()
        return self._status


def relay_status(relay: Relay, started: float) -> dict[str, Any]:
    """Return the data of the status page."""
    library, upstream, server = relay.library, relay.upstream, relay.server
    found = [] if library is None else library.files
    last = found[-1] if found else None
    status = None if upstream is None else upstream.status
    return {
        "version": __version__,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "now": time.time(),
        "started": started,
        "source": "" if upstream is None else upstream.host,
        "connected": _is_connected(relay),
        "error": _error(relay),
        "lag_seconds": None if upstream is None else _rounded(upstream.lag_seconds),
        "port": None if server is None else server.port,
        "files": len(found),
        "bytes": sum(file.size for file in found),
        "archived": None if relay.archive is None else len(relay.archive.sizes),
        "archive_error": "" if relay.archive is None else relay.archive.error,
        "oldest_file": found[0].name if found else None,
        "file": None if last is None else last.name,
        "position": None if last is None else last.size,
        "gtids": None
        if library is None or last is None or server is None
        else str(library.executed()).replace("\n", "")[:_MAX_GTID_TEXT],
        "received": 0 if status is None else status.appended,
        "connections": 0 if server is None else len(server.sessions),
        "accepted": 0 if server is None else server.connections,
        "failed_logins": 0 if server is None else server.failed_logins,
        "clients": list(_clients(relay)),
    }


def _error(relay: Relay) -> str:
    upstream = relay.upstream
    return (upstream.error if upstream is not None else "") or relay.disk_error


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def _client_lag(file: ServedFile, position: int, now: float) -> float | None:
    """Return the age of the oldest event not sent to a client; 0 when it has all of the file."""
    if position >= file.size:
        return 0.0
    try:
        header = file.header_at(position)
    except (OSError, ServerError):  # in the archive, or removed meanwhile
        return None
    if header is None or not header.timestamp:
        return 0.0 if header is None else None
    return max(0.0, now - header.timestamp)


def _is_connected(relay: Relay) -> bool:
    upstream = relay.upstream
    return upstream is not None and upstream.status is not None and upstream.connected


def _clients(relay: Relay) -> Iterator[dict[str, Any]]:
    server, library = relay.server, relay.library
    if server is None or library is None:
        return
    now = time.time()
    offsets: dict[str, int] = {}
    total = 0
    for file in library.files:
        offsets[file.name] = total
        total += file.size
    for session in server.sessions[:_MAX_CLIENTS]:
        sender = session.sender
        sent = None if sender is None else sender.file
        behind = None
        lag = None
        if sender is not None and sent is not None and sent.name in offsets:
            behind = max(0, total - offsets[sent.name] - sender.position)
            lag = 0.0 if not behind else _rounded(_client_lag(sent, sender.position, now))
        yield {
            "user": session.user,
            "address": session.peer,
            "server_id": session.dump_server_id,
            "uuid": session.replica_uuid,
            "file": None if sent is None else sent.name,
            "position": None if sender is None else sender.position,
            "behind_bytes": behind,
            "lag_seconds": lag,
        }


def _relay_ready(relay: Relay) -> Page:
    ready = relay.server is not None and _is_connected(relay)
    return json_page({"ready": ready, "error": _error(relay)}, 200 if ready else 503)


def _metrics(status: Mapping[str, Any]) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    lag = max((one["lag_seconds"] or 0.0 for one in status["clients"]), default=0.0)
    behind = max((one["behind_bytes"] or 0 for one in status["clients"]), default=0)
    for name, text, value in (
        ("connected", "Whether the source is connected.", int(status["connected"])),
        ("files", "Binlog files that are kept.", status["files"]),
        ("file_bytes", "Bytes of the binlog files that are kept.", status["bytes"]),
        ("clients", "Clients that are connected.", status["connections"]),
        ("client_behind_bytes", "Bytes that the slowest client was not sent yet.", behind),
        ("client_lag_seconds", "Age of the oldest event that a client was not sent yet.", lag),
        (
            "lag_seconds",
            "Seconds that the relay is behind its source.",
            status["lag_seconds"] or 0.0,
        ),
    ):
        yield GaugeMetricFamily(_PREFIX + name, text, value)
    for name, text, value in (
        ("received_bytes", "Bytes from the source since the start.", status["received"]),
        ("accepted", "Connections since the start.", status["accepted"]),
        ("failed_logins", "Refused logins since the start.", status["failed_logins"]),
    ):
        yield CounterMetricFamily(_PREFIX + name, text, value)


def _style() -> Page:
    return Page(files(__package__).joinpath("web", "page.css").read_bytes(), "text/css")


def _page(status: Mapping[str, Any]) -> bytes:
    """Return the HTML page; all values from clients and servers are escaped."""
    state = "connected" if status["connected"] else "not connected"
    facts = (
        ("Source", f"{status['source']} ({state})"),
        ("Error", status["error"]),
        ("Lag", None if status["lag_seconds"] is None else f"{status['lag_seconds']:g} s"),
        ("Files", f"{status['files']} files, {_size(status['bytes'])}, from {status['oldest_file']}"),
        ("End", f"{status['file']}:{status['position']}"),
        ("GTIDs", status["gtids"]),
        ("Clients", f"{status['connections']} connected, {status['failed_logins']} logins refused"),
    )  # fmt: skip
    rows = "".join(
        f"<dt>{name}</dt><dd>{html.escape(str(text))}</dd>" for name, text in facts if text
    )
    clients = "".join(
        "<tr>"
        + "".join(
            f"<td>{html.escape(str(one[key] if one[key] is not None else ''))}</td>"
            for key in (
                "user",
                "address",
                "server_id",
                "uuid",
                "file",
                "position",
                "behind_bytes",
                "lag_seconds",
            )
        )
        + "</tr>"
        for one in status["clients"]
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="{_REFRESH_SECONDS}">
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<title>replica-client relay</title><link rel="icon" href="data:,"><link rel="stylesheet" href="page.css"></head>
<body><header><h1>replica-client relay</h1><p>{html.escape(status["host"])}, version {status["version"]}</p></header>
<main><section><dl class="facts">{rows}</dl></section><section><h2>Clients</h2><table>
<thead><tr><th>user</th><th>address</th><th>server id</th><th>UUID</th><th>file</th><th>position</th>
<th>bytes behind</th><th>lag (s)</th></tr></thead><tbody>{clients}</tbody></table></section></main>
<footer><a href="status.json">status.json</a> <a href="metrics">metrics</a> <a href="readyz">readyz</a></footer>
</body></html>
""".encode()


def _size(count: int) -> str:
    size = float(count)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} TiB"
