"""What a relay shows over HTTP: status page, its data, metrics and health."""

from __future__ import annotations

import html
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from replica_client._version import __version__
from replica_client.monitoring.page import Page, alive, json_page
from replica_client.monitoring.prometheus import metrics_page
from replica_client.server.relay.relay_server import Relay

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_MAX_GTID_TEXT: Final = 2000
_MAX_CLIENTS: Final = 500
_REFRESH_SECONDS: Final = 2
_PREFIX: Final = "replica_client_relay_"


def relay_pages(relay: Relay) -> Mapping[str, Callable[[], Page]]:
    """The pages by path."""
    started = time.time()
    return {
        "/": lambda: Page(_page(relay_status(relay, started)), "text/html; charset=utf-8"),
        "/page.css": _style,
        "/status.json": lambda: json_page(relay_status(relay, started)),
        "/metrics": metrics_page(lambda: _metrics(relay, started)),
        "/healthz": alive,
        "/readyz": lambda: _ready(relay),
    }


def relay_status(relay: Relay, started: float) -> dict[str, Any]:
    """Everything that the status page shows."""
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
        "error": "" if upstream is None else upstream.error,
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


def _is_connected(relay: Relay) -> bool:
    upstream = relay.upstream
    return upstream is not None and upstream.status is not None and upstream.connected


def _clients(relay: Relay) -> Iterator[dict[str, Any]]:
    server, library = relay.server, relay.library
    if server is None or library is None:
        return
    offsets: dict[str, int] = {}
    total = 0
    for file in library.files:
        offsets[file.name] = total
        total += file.size
    for session in server.sessions[:_MAX_CLIENTS]:
        sender = session.sender
        sent = None if sender is None else sender.file
        behind = None
        if sender is not None and sent is not None and sent.name in offsets:
            behind = max(0, total - offsets[sent.name] - sender.position)
        yield {
            "user": session.user,
            "address": session.peer,
            "server_id": session.dump_server_id,
            "uuid": session.replica_uuid,
            "file": None if sent is None else sent.name,
            "position": None if sender is None else sender.position,
            "behind_bytes": behind,
        }


def _ready(relay: Relay) -> Page:
    ready = relay.server is not None and _is_connected(relay)
    error = "" if relay.upstream is None else relay.upstream.error
    return json_page({"ready": ready, "error": error}, 200 if ready else 503)


def _metrics(relay: Relay, started: float) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    status = relay_status(relay, started)
    behind = max((one["behind_bytes"] or 0 for one in status["clients"]), default=0)
    for name, text, value in (
        ("connected", "Whether the source is connected.", int(status["connected"])),
        ("files", "Binlog files that are kept.", status["files"]),
        ("file_bytes", "Bytes of the binlog files that are kept.", status["bytes"]),
        ("clients", "Clients that are connected.", status["connections"]),
        ("client_behind_bytes", "Bytes that the slowest client was not sent yet.", behind),
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
    """The page; every text of a peer is escaped."""
    state = "connected" if status["connected"] else "not connected"
    facts = (
        ("Source", f"{status['source']} ({state})"),
        ("Error", status["error"]),
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
            for key in ("user", "address", "server_id", "uuid", "file", "position", "behind_bytes")
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
<th>bytes behind</th></tr></thead><tbody>{clients}</tbody></table></section></main>
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
