"""The HTTP sink against a receiver in this process, which fails now and then."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httpx", reason="the package httpx is not installed")

from replica_client.errors import SinkError
from replica_client.sinks.event_sink import Event
from replica_client.sinks.formats.message import Message
from replica_client.sinks.protocol import Sink
from replica_client.sinks.registry import make_sink
from replica_client.sinks.webhook_sink import retry_after, signature, signing_key
from replica_client.stream.position.stores.base import Checkpoint
from replica_client.testing.sink_conformance import SinkConformance
from tests.integration.event_receiver import KEY, EventReceiver


class TestWebhook(SinkConformance):
    """A receiver that keeps all it gets, some of it twice."""

    step_stride = 11
    honours, faults = False, 0.0

    @pytest.fixture(autouse=True)
    def _receiver(self) -> Iterator[None]:
        self.receiver = EventReceiver(honours=self.honours, faults=self.faults)
        yield
        self.receiver.close()

    def make_sink(self, target: Path) -> Sink:
        url = self.receiver.url + str(target)
        return make_sink("http", {"url": url, "key": KEY, "events": 7, "retries": 30})

    async def abandon(self, sink: Any) -> None:
        await sink.disconnect()

    async def content(self, target: Path) -> Any:
        return list(self.receiver.lines.get(str(target), ()))


class TestWebhookToOneThatHonoursKeys(TestWebhook):
    """Each change is there once, though requests are refused, and answers are lost."""

    honours, faults = True, 0.1

    def _assert_same(self, target: Path, expected: Any) -> None:
        assert asyncio.run(self.content(target)) == expected


async def test_cloud_events_are_an_array_of_each_request() -> None:
    receiver = EventReceiver()
    options = {"url": f"{receiver.url}/all", "key": KEY, "events": 2, "format": "cloudevents"}
    sink: Any = make_sink("http", options)
    try:
        await sink.open()
        for transaction in SinkConformance().transactions():
            await sink.write(transaction)
        await sink.commit(Checkpoint(transaction.position))
    finally:
        await sink.close()
        receiver.close()
    batches = [json.loads(line) for line in receiver.lines["/all"]]
    assert all(1 <= len(batch) <= 2 for batch in batches)
    found = [one for batch in batches for one in batch]
    assert len({one["id"] for one in found}) == len(found) > 20
    assert receiver.content_types == {"application/cloudevents-batch+json; charset=UTF-8"}


def events(*ids: str) -> list[Event]:
    return [Event(one, Message("row", "d", "t", None, "{}")) for one in ids]


async def test_what_a_receiver_refuses_stops_and_tells_no_secret() -> None:
    receiver = EventReceiver()
    url = f"{receiver.url}/hush?token=hush"
    sink: Any = make_sink("http", {"url": url, "key": "another", "headers": {"X-Key": "hush"}})
    try:
        await sink.open()
        with pytest.raises(SinkError, match="answers 401 .* events a:1 to a:2") as caught:
            await sink.send(events("a:1", "a:2"))
        assert not caught.value.retriable
        assert "hush" not in str(caught.value) + repr(sink._options)
    finally:
        await sink.close()
        receiver.close()


async def test_a_receiver_that_is_away_may_come_back() -> None:
    sink: Any = make_sink("http", {"url": "http://127.0.0.1:1/", "retries": 1})
    await sink.open()
    with pytest.raises(SinkError, match=r"http://127\.0\.0\.1:1: ConnectError") as caught:
        await sink.send(events("a:1"))
    assert caught.value.retriable
    await sink.close()


def test_the_signature_is_that_of_the_specification() -> None:
    # The example of the reference libraries of Standard Webhooks.
    key = signing_key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = b'{"test": 2432232314}'
    made = signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert made == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_retry_after() -> None:
    assert retry_after("7") == 7
    assert retry_after("soon") is None
    assert retry_after("") is None
    later = datetime.now(UTC) + timedelta(hours=1)
    assert 3000 < (retry_after(format_datetime(later, usegmt=True)) or 0) <= 3600
    assert retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0
