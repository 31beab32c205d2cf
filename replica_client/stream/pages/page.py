"""Pages, and metrics in Prometheus' text format."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from replica_client.protocol.codec.quick_dataclass import dataclass

if TYPE_CHECKING:
    from prometheus_client.core import Metric


@dataclass(frozen=True, slots=True)
class Page:
    """An answer."""

    body: bytes
    content_type: str
    status: int = 200


@dataclass(frozen=True, slots=True)
class Request:
    """A POST request.

    Attributes:
        headers: by name in lower case.
        body: whole.
        peer: address of the client.
    """

    headers: Mapping[str, str]
    body: bytes
    peer: str

    def header(self, name: str) -> str:
        """Return a header, empty if there is none."""
        return self.headers.get(name, "")


Action: TypeAlias = Callable[[Request], Awaitable[Page]]
"""The answer to a POST request."""


def alive() -> Page:
    """Return the answer of a process that runs (``/healthz``)."""
    return Page(b"ok\n", "text/plain; charset=utf-8")


def json_page(value: Any, status: int = 200) -> Page:
    """Return a page with a value as JSON."""
    return Page(json.dumps(value).encode() + b"\n", "application/json", status)


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def metrics_page(collect: Callable[[], Iterable[Metric]]) -> Callable[[], Page]:
    """Return the function that makes the page ``/metrics``, with the metrics of the process and of Python.

    Args:
        collect: returns the metrics; it is called for each page.
    """
    made: list[Callable[[], bytes]] = []

    def page() -> Page:
        # The library takes a tenth of a second to import: not at the start, and only when asked.
        if not made:
            made.append(_exposition(collect))
        return Page(made[0](), CONTENT_TYPE)

    return page


def _exposition(collect: Callable[[], Iterable[Metric]]) -> Callable[[], bytes]:
    from prometheus_client import (
        CollectorRegistry,
        GCCollector,
        PlatformCollector,
        ProcessCollector,
    )
    from prometheus_client.exposition import generate_latest
    from prometheus_client.registry import Collector

    class State(Collector):
        def collect(self) -> Iterable[Metric]:
            """Return the metrics."""
            return collect()

    registry = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    registry.register(State())
    return lambda: generate_latest(registry)
