"""Metrics and traces by OTLP, at a receiver that reads the protocol."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from replica_client.errors import ConfigError
from replica_client.service.checking import check
from replica_client.service.config_file import read_config
from tests.otlp_collector import OtlpCollector
from tests.unit.service.conftest import running, until
from tests.unit.service.memory_sink import Disk

pytestmark = pytest.mark.timeout(90)


class Receiver(OtlpCollector):
    """A collector: keeps the spans and the last value of each metric.

    Args:
        status: that it answers with.
    """

    def __init__(self, status: int = 200) -> None:
        self.values: dict[tuple[str, str], float] = {}
        self.spans: list[dict[str, Any]] = []
        self.requests = 0
        super().__init__(status)

    def take(self, path: str, data: bytes) -> None:
        self.requests += 1
        if path == "/v1/metrics":
            for of_resource in ExportMetricsServiceRequest.FromString(data).resource_metrics:
                for scope in of_resource.scope_metrics:
                    for metric in scope.metrics:
                        kind = metric.WhichOneof("data")
                        for point in getattr(metric, kind).data_points:
                            labels = {one.key: one.value.string_value for one in point.attributes}
                            if kind == "histogram":
                                value = float(point.count)
                            else:
                                value = point.as_double or float(point.as_int)
                            told = labels.get("state") or labels.get("table") or ""
                            self.values[metric.name, told] = value
        elif path == "/v1/traces":
            for of_resource in ExportTraceServiceRequest.FromString(data).resource_spans:
                names = {one.key: one.value.string_value for one in of_resource.resource.attributes}
                for scope in of_resource.scope_spans:
                    for span in scope.spans:
                        attributes = {
                            one.key: one.value.string_value or one.value.int_value
                            for one in span.attributes
                        }
                        self.spans.append(
                            {
                                "service": names["service.name"],
                                "name": span.name,
                                "seconds": (span.end_time_unix_nano - span.start_time_unix_nano)
                                / 1e9,
                                "error": span.status.message,
                                **attributes,
                            }
                        )


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    one = Receiver()
    yield one
    one.close()


async def test_metrics_and_commits_arrive(configure, disk, wanted, receiver: Receiver) -> None:
    one = disk()
    path = configure(daemon={"otlp": receiver.url, "otlp_seconds": 0.2})
    async with running(path) as service:
        await until(lambda: one.lines == wanted)
        await until(lambda: receiver.values.get(("replica_client_rows", "shop.orders")) == 73)
        await until(lambda: receiver.values.get(("replica_client_state", "streaming")) == 1)
        seen = service.routes[0].observation
    # The end of the service sends what is left.
    assert receiver.values["replica_client_commits", ""] == seen.commits
    commits = [span for span in receiver.spans if span["name"] == "commit"]
    assert sum(span["rows"] for span in commits) == len(wanted)
    for name in ("replica_client_commit_seconds", "replica_client_commit_lag_seconds"):
        assert receiver.values[name, ""] == len(commits)
    for span in commits:
        assert (span["service"], span["source"], span["sink"]) == ("replica-client", "shop", "one")
        assert 0 <= span["seconds"] < 30


async def test_failures_arrive_without_what_is_hidden(
    configure, disk, wanted, receiver: Receiver
) -> None:
    """An error's text is the one of the status page."""
    one = disk()
    # No column of this name: the transform stops the sink.
    transform = {"tables": ["shop.orders"], "keep": ["*"], "mask": {"no_such": "x"}}
    path = configure(
        daemon={"otlp": receiver.url, "otlp_seconds": 0.2}, source={"transform": [transform]}
    )
    async with running(path) as service:
        await until(lambda: bool(service.routes[0].observation.errors))
        await until(lambda: receiver.values.get(("replica_client_retries", ""), 0) > 0)
    failures = [span for span in receiver.spans if span["name"] == "failure"]
    assert failures
    assert "there is no column no_such" in failures[0]["error"]
    assert one.lines != wanted


async def test_a_collector_that_is_away_stops_nothing(configure, disk, wanted) -> None:
    """Nor one that refuses: delivery goes on, and the service ends in bounded time."""
    refusing = Receiver(status=400)
    try:
        for url in ("http://127.0.0.1:9", refusing.url):
            one = disk()
            daemon = {"otlp": url, "otlp_seconds": 0.1, "state": url[-5:].strip("/:")}
            async with running(configure(daemon=daemon)):
                await until(partial(_is_level, one, wanted))
        assert refusing.requests
    finally:
        refusing.close()


def _is_level(disk: Disk, wanted: list[str]) -> bool:
    return bool(disk.lines == wanted)


@pytest.mark.parametrize(
    "url", ["collector:4318", "grpc://collector:4317", "http://", "http:///v1"]
)
def test_what_is_no_collector_is_refused(configure, disk, url: str) -> None:
    disk()
    (fault,) = check(read_config(configure(daemon={"otlp": url}), {}))
    assert "otlp must be a URL" in fault.what


async def test_a_wrong_url_ends_the_start(configure, disk) -> None:
    disk()
    with pytest.raises(ConfigError, match="otlp must be a URL"):
        async with running(configure(daemon={"otlp": "nowhere"})):
            pass


def test_a_token_in_the_url_is_in_no_repr(configure: Any, disk: Any, tmp_path: Path) -> None:
    disk()
    config = read_config(configure(daemon={"otlp": "http://user:hunter2@c:4318"}), {})
    assert "hunter2" not in repr(config)
    assert json.dumps(repr(config.daemon))


async def test_older_values_never_arrive_last(configure, disk, wanted) -> None:
    """The end waits for an export that is under way, however slow the collector is."""
    slow = Receiver()
    take, delays = slow.take, [1.0]

    def late(path: str, data: bytes) -> None:
        if path == "/v1/metrics" and delays:
            time.sleep(delays.pop())
        take(path, data)

    slow.take = late
    one = disk()
    try:
        async with running(configure(daemon={"otlp": slow.url, "otlp_seconds": 0.1})) as service:
            await until(lambda: not delays)
            await until(partial(_is_level, one, wanted))
            seen = service.routes[0].observation
        assert slow.values["replica_client_commits", ""] == seen.commits
    finally:
        slow.close()


async def test_the_end_sends_values_that_no_export_had(
    configure, disk, wanted, receiver: Receiver
) -> None:
    one = disk()
    async with running(configure(daemon={"otlp": receiver.url, "otlp_seconds": 1000.0})) as service:
        await until(partial(_is_level, one, wanted))
        seen = service.routes[0].observation
    assert receiver.values["replica_client_commits", ""] == seen.commits > 0
