"""The sinks that the daemon's proofs run with, and how each is compared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.integration.daemon_kills import DATABASE, ProvedSink
from tests.integration.sink_comparison import compare_sink
from tests.servers.local import LocalServer, LocalServers

_OPTIONS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "file": lambda place: {"type": "file", "path": place, "rotate_bytes": 1 << 20},
    "debezium": lambda place: {"type": "file", "path": place, "format": "debezium"},
    "parquet": lambda place: {"type": "parquet", "path": place},
    "sqlite": lambda place: {"type": "sqlite", "path": place.with_suffix(".db")},
}
SINKS = tuple(_OPTIONS)


def sinks_of(names: list[str], directory: Path, servers: LocalServers) -> list[ProvedSink]:
    """The sinks with some names, with the servers that they need."""
    return [_proved(name, _OPTIONS[name](directory / name)) for name in names]


def _proved(name: str, options: dict[str, Any]) -> ProvedSink:
    def compare(source: LocalServer) -> str:
        own = {key: value for key, value in options.items() if key != "type"}
        found = compare_sink(options["type"], own, source, tables=[f"{DATABASE}.*"])
        return f"{found.rows} rows or lines, {found.repeated} repeated"

    return ProvedSink(name, options, compare)
