"""Metrics and traces sent to a collector by OTLP over HTTP; needs the extra ``otlp``.

Metrics are those of ``/metrics``, by the same names. Each commit of a sink is a span ``commit``,
each failure a span ``failure``. The SDK takes other settings, such as headers and samplers, from
its environment variables (``OTEL_EXPORTER_OTLP_HEADERS``, ``OTEL_TRACES_SAMPLER`` …).
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

import httpx
import requests
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import CallbackOptions, Meter, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Status, StatusCode, Tracer
from prometheus_client.core import Metric
from requests.adapters import HTTPAdapter

from replica_client._version import __version__
from replica_client.service.metrics import HISTOGRAMS, service_metrics
from replica_client.service.observation import SECONDS
from replica_client.sinks.bounded_http import SHORT_ANSWER, BoundedTransport

if TYPE_CHECKING:
    from replica_client.service.observation import Pending
    from replica_client.service.route import Route
    from replica_client.service.service import Service

_LOG = logging.getLogger("replica_client.service")
_NAME: Final = "replica_client"
_TIMEOUT: Final = 5.0
"""Seconds in which a collector must answer; otherwise the data is dropped."""
_BILLION: Final = 1_000_000_000


class Telemetry:
    """A sender of a service's metrics and traces.

    Args:
        service: the observed service.
        endpoint: URL of the collector, without ``/v1/…``.
        seconds: between two exports of metrics.
    """

    def __init__(self, service: Service, endpoint: str, seconds: float) -> None:
        self._service, self._seconds = service, seconds
        base = endpoint.rstrip("/")
        resource = Resource.create(
            {
                "service.name": os.environ.get("OTEL_SERVICE_NAME", "replica-client"),
                "service.version": __version__,
                "service.instance.id": f"{socket.gethostname()}:{os.getpid()}",
            }
        )
        self._session = _bounded_session()
        # Values are taken on the loop, where they change, and sent from a thread, so the reader has no timer.
        reader = PeriodicExportingMetricReader(
            OTLPMetricExporter(
                endpoint=f"{base}/v1/metrics", timeout=_TIMEOUT, session=self._session
            ),
            export_interval_millis=math.inf,
            export_timeout_millis=_TIMEOUT * 1000,
        )
        self._meters = MeterProvider([reader], resource, shutdown_on_exit=False)
        self._meter: Meter = self._meters.get_meter(_NAME, __version__)
        self._traces = TracerProvider(resource=resource, shutdown_on_exit=False)
        exporter = OTLPSpanExporter(
            endpoint=f"{base}/v1/traces", timeout=_TIMEOUT, session=self._session
        )
        self._traces.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer: Tracer = self._traces.get_tracer(_NAME, __version__)
        self._commit_times, self._commit_lags = (
            self._meter.create_histogram(
                f"{_NAME}_{name}", "s", text, explicit_bucket_boundaries_advisory=SECONDS
            )
            for name, text, _ in HISTOGRAMS
        )
        self._families: dict[str, Metric] = {}
        # One export at a time: closing cancels a waiting export, and older values must not arrive last.
        self._exporting = threading.Lock()

    async def run(self) -> None:
        """Send metrics periodically, until cancelled."""
        while True:
            await asyncio.sleep(self._seconds)
            self.look()
            await asyncio.to_thread(self._export)

    def _export(self) -> None:
        try:
            with self._exporting:
                self._meters.force_flush(_TIMEOUT * 1000)
        except Exception as error:  # noqa: BLE001
            # The SDK may raise anything on a timeout; the next export sends current metrics.
            _LOG.warning("otlp: metrics were not sent: %s", type(error).__name__)

    def look(self) -> None:
        """Take the current values."""
        for family in service_metrics(self._service):
            if family.type == "histogram":
                continue  # recorded at each commit
            if family.name not in self._families:
                make = (
                    self._meter.create_observable_counter
                    if family.type == "counter"
                    else self._meter.create_observable_gauge
                )
                make(family.name, [self._reader_of(family.name)], description=family.documentation)
            self._families[family.name] = family

    def _reader_of(self, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def read(_: CallbackOptions) -> Iterable[Observation]:
            return [
                Observation(sample.value, sample.labels) for sample in self._families[name].samples
            ]

        return read

    def committed(self, route: Route, pending: Pending, seconds: float) -> None:
        """Record a span for a commit and its duration."""
        end = time.time_ns()
        self._commit_times.record(seconds, _names(route))
        self._commit_lags.record(pending.lag, _names(route))
        one = self._tracer.start_span(
            "commit",
            attributes={
                **_names(route),
                "transactions": pending.transactions,
                "rows": pending.rows,
                "bytes": pending.bytes,
            },
            start_time=end - int(seconds * _BILLION),
        )
        one.end(end)

    def failed(self, route: Route, text: str) -> None:
        """Record a span for a failure, whose text must contain no hidden values."""
        one = self._tracer.start_span("failure", attributes=_names(route))
        one.set_status(Status(StatusCode.ERROR, text))
        one.end()

    async def close(self) -> None:
        """Send remaining spans and the values of the last :meth:`look`, in bounded time."""
        await asyncio.to_thread(self._shut_down)

    def _shut_down(self) -> None:
        self._export()
        self._meters.shutdown(_TIMEOUT * 1000)
        self._traces.shutdown()
        self._session.close()


def _names(route: Route) -> dict[str, str]:
    return {"source": route.config.source.name, "sink": route.config.sink.name}


class _BoundedAdapter(HTTPAdapter):
    """An adapter that limits the time and memory of the SDK's requests.

    A collector is not trusted with them.
    """

    def __init__(self) -> None:
        super().__init__()
        self._transports: dict[tuple[Any, Any], BoundedTransport] = {}

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: Any = True,
        cert: Any = None,
        proxies: Any = None,
    ) -> requests.Response:
        """Send a request of the SDK; ``proxies`` is ignored in favour of the environment's."""
        transport = self._transports.get((verify, cert))
        if transport is None:
            context: Any = verify
            if isinstance(verify, str) or cert:
                context = ssl.create_default_context(
                    cafile=verify if isinstance(verify, str) else None
                )
                if cert:
                    context.load_cert_chain(*((cert,) if isinstance(cert, str) else cert))
            transport = BoundedTransport(seconds=_TIMEOUT, limit=SHORT_ANSWER, verify=context)
            self._transports[verify, cert] = transport
        made = httpx.Request(
            str(request.method),
            str(request.url),
            headers=dict(request.headers),
            content=request.body,
        )
        try:
            answer = transport.handle_request(made)
        except httpx.TransportError as error:
            raise requests.ConnectionError(f"{type(error).__name__}: {error}") from None
        found = requests.Response()
        found.status_code, found.reason = answer.status_code, answer.reason_phrase
        found.headers.update(answer.headers)
        found._content, found.url, found.request = answer.content, str(request.url), request
        return found

    def close(self) -> None:
        """Close all transports."""
        for one in self._transports.values():
            one.close()
        self._transports.clear()
        super().close()


def _bounded_session() -> requests.Session:
    session, adapter = requests.Session(), _BoundedAdapter()
    for scheme in ("http://", "https://"):
        session.mount(scheme, adapter)
    return session
