"""The NATS sink on a real nats-server."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nats", reason="the package nats-py is not installed")

from replica_client.errors import SinkError
from replica_client.sinks.event_sink import Event
from replica_client.sinks.formats.message import Message
from replica_client.sinks.protocol import Sink
from replica_client.sinks.registry import make_sink
from replica_client.testing.sink_conformance import SinkConformance
from tests.integration.nats_server import NatsServer


@pytest.fixture(scope="module")
def nats_server() -> Iterator[NatsServer]:
    with tempfile.TemporaryDirectory() as directory:
        server = NatsServer(Path(directory))
        yield server
        server.stop()


def stream_of(target: Path) -> str:
    return hashlib.sha256(str(target).encode()).hexdigest()[:20]


class TestNats(SinkConformance):
    step_stride = 9

    @pytest.fixture(autouse=True)
    def _server(self, nats_server: NatsServer) -> None:
        self.server = nats_server

    def make_sink(self, target: Path) -> Sink:
        name = stream_of(target)
        own = {"stream": name, "subject": name, "messages": 7}
        return make_sink("nats", {"url": self.server.url, **own})

    async def abandon(self, sink: Any) -> None:
        await sink.disconnect()

    async def content(self, target: Path) -> Any:
        return [data.decode() for _, data in await self.server.read(stream_of(target))]

    def _assert_same(self, target: Path, expected: Any) -> None:
        # Within the stream's duplicate window each is there once.
        assert asyncio.run(self.content(target)) == expected


async def test_names_are_tokens_of_subjects_and_a_large_message_is_named(
    nats_server: NatsServer,
) -> None:
    sink: Any = make_sink("nats", {"url": nats_server.url, "stream": "names", "subject": "names"})
    await sink.open()
    small, large = (Message("row", "a.b", "*> é", None, text) for text in ("{}", "x" * 2_000_000))
    await sink.send([Event("g:1", small), Event("g:2", Message("schema", "a", "", None, "{}"))])
    with pytest.raises(SinkError, match="the event g:3 of .* has 2000000 bytes"):
        await sink.send([Event("g:3", large)])
    await sink.send([Event("g:1", small)])
    await sink.close()
    found = await nats_server.read("names")
    assert found == [("names.a%2Eb.%2A%3E%20%C3%A9", b"{}"), ("names.schema", b"{}")]


async def test_a_server_that_is_away_may_come_back() -> None:
    sink = make_sink("nats", {"url": "nats://user:hush@127.0.0.1:1", "timeout": 2.0})
    with pytest.raises(SinkError, match=r"127\.0\.0\.1:1") as caught:
        await sink.open()
    assert caught.value.retriable
    assert "hush" not in str(caught.value)
    await sink.close()
