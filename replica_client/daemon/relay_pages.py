"""The relay's HTTP pages: status page, its data, metrics and health."""

from __future__ import annotations

import html
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from replica_client._version import __version__
from replica_client.errors import ServerError
from replica_client.monitoring.page import Page, alive, json_page
from replica_client.monitoring.prometheus import metrics_page
from replica_client.server.relay.relay_server import Relay
from replica_client.server.served_files import ServedFile

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_MAX_GTID_TEXT: Final = 2000
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
        "/readyz": lambda: _ready(relay),
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


def _ready(relay: Relay) -> Page:
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
