"""The Kafka sink on a broker that keeps Kafka's transaction semantics."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replica_client.sinks.protocol import Sink
from replica_client.sinks.registry import make_sink
from replica_client.testing.sink_conformance import SinkConformance
from tests.integration.kafka_broker import KafkaBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with tempfile.TemporaryDirectory() as directory:
        broker = KafkaBroker(Path(directory))
        yield broker
        broker.stop()


def prefix_of(target: Path) -> str:
    return str(target).strip("/").replace("/", "-")


class TestKafka(SinkConformance):
    options: dict[str, Any] = {}
    step_stride = 3

    @pytest.fixture(autouse=True)
    def _server(self, broker: KafkaBroker) -> None:
        self.broker = broker

    def make_sink(self, target: Path) -> Sink:
        table = {"bootstrap_servers": self.broker.servers, "topic_prefix": prefix_of(target)}
        return make_sink("kafka", {**table, "partitions": 1, **self.options})

    async def abandon(self, sink: Any) -> None:
        # A process that is gone aborts nothing.
        if sink._writer is not None:
            sink._writer._open = False
            sink._writer.close()

    async def content(self, target: Path) -> Any:
        found = self.broker.read(prefix_of(target) + ".")
        prefix = prefix_of(target)
        found |= self.broker.read(prefix) if prefix in self.broker.topics() else {}
        return {
            name.removeprefix(prefix): records
            for name, records in sorted(found.items())
            if not name.endswith(".position")
        }
