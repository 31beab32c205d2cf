"""Receivers that answer without end, in drips, or with a bomb: each client of HTTP is bounded in time and memory."""

from __future__ import annotations

import asyncio
import gzip
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from replica_client.errors import SinkError
from replica_client.sinks.bounded_http import BoundedTransport, exchange
from replica_client.sinks.event_sink import Event
from replica_client.sinks.mirror.clickhouse_client import ClickhouseClient, ClickhouseError
from replica_client.sinks.mirror.stored_values import ClickhouseOptions
from replica_client.sinks.webhook_sink import make

SECONDS = 1.0
_BOMB = gzip.compress(gzip.compress(bytes(1 << 30), 9), 9)
_HEAD = b"HTTP/1.1 200 OK\r\n"


def _endless(peer: socket.socket) -> None:
    peer.sendall(_HEAD + b"Content-Length: 999999999999\r\n\r\n")
    while True:
        peer.sendall(bytes(1 << 20))


def _endless_chunks(peer: socket.socket) -> None:
    peer.sendall(_HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    while True:
        peer.sendall(b"10000\r\n" + bytes(1 << 16) + b"\r\n")


def _bomb(peer: socket.socket) -> None:
    head = f"Content-Encoding: gzip\r\nContent-Length: {len(_BOMB)}\r\n\r\n".encode()
    peer.sendall(_HEAD + head + _BOMB)


def _drip_body(peer: socket.socket) -> None:
    peer.sendall(_HEAD + b"Content-Length: 9000\r\n\r\n")
    while True:
        peer.sendall(b"x")
        time.sleep(0.1)


def _drip_head(peer: socket.socket) -> None:
    for byte in _HEAD + b"X-Padding: " + b"x" * 60_000:
        peer.sendall(bytes([byte]))
        time.sleep(0.1)


def _endless_head(peer: socket.socket) -> None:
    peer.sendall(_HEAD)
    while True:
        peer.sendall(b"X-Padding: " + b"x" * 1000 + b"\r\n")


def _silent(peer: socket.socket) -> None:
    time.sleep(20)


RECEIVERS = {
    one.__name__.strip("_"): one
    for one in (_endless, _endless_chunks, _bomb, _drip_body, _drip_head, _endless_head, _silent)
}


class Receiver:
    """Answers each connection in one hostile manner."""

    def __init__(self, answer: Callable[[socket.socket], None]) -> None:
        self._answer, self._socket = answer, socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/"
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with suppress(OSError):
            while True:
                peer, _ = self._socket.accept()
                threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        with closing(peer), suppress(OSError):
            peer.settimeout(20)
            peer.recv(1 << 16)
            self._answer(peer)

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(params=sorted(RECEIVERS))
def receiver(request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    found = Receiver(RECEIVERS[request.param])
    yield request.param, found.url
    found.close()


class Bounds:
    """Checks what a block took."""

    def __enter__(self) -> Bounds:
        self._begun, self._memory = time.monotonic(), _peak()
        return self

    def __exit__(self, *_: object) -> None:
        assert time.monotonic() - self._begun < 4 * SECONDS
        assert _peak() - self._memory < 100 << 20


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def test_the_sink_http(receiver: tuple[str, str]) -> None:
    name, url = receiver
    message: Any = SimpleNamespace(data=b"{}")

    async def send() -> None:
        sink = make({"url": url, "timeout": SECONDS, "retries": 0})
        await sink.connect()
        try:
            await sink.send([Event("1:2", message)])
        finally:
            await sink.disconnect()

    with Bounds():
        if name in ("endless", "endless_chunks"):
            asyncio.run(send())  # the status was enough
        else:
            with pytest.raises(SinkError):
                asyncio.run(send())


def test_the_client_of_clickhouse(
    receiver: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replica_client.sinks.bounded_http.LONG_ANSWER", 1 << 20)
    options = ClickhouseOptions(url=receiver[1], timeout=SECONDS)
    client = ClickhouseClient(options, "s")
    with closing(client), Bounds(), pytest.raises(ClickhouseError) as error:
        list(client.rows("SELECT 1"))
    assert error.value.passing


def test_the_client_of_the_registry(receiver: tuple[str, str]) -> None:
    pytest.importorskip("confluent_kafka", reason="the extra avro is not installed")
    from replica_client.sinks.kafka.avro_messages import AvroMessages
    from replica_client.sinks.kafka.kafka_options import RegistryOptions

    messages = AvroMessages(RegistryOptions(url=receiver[1], timeout=SECONDS))
    client = messages._connected()
    rest: Any = client._rest_client
    rest.max_retries = 0
    with closing(messages), Bounds(), pytest.raises(SinkError):
        messages.probe()


def test_the_exporter_of_telemetry(
    receiver: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = pytest.importorskip("requests", reason="the extra otlp is not installed")
    pytest.importorskip("opentelemetry.exporter", reason="the extra otlp is not installed")
    from replica_client.service import telemetry

    monkeypatch.setattr(telemetry, "_TIMEOUT", SECONDS)
    session = telemetry._bounded_session()
    with closing(session), Bounds(), pytest.raises(requests.ConnectionError):
        session.post(receiver[1], data=b"x")


def test_an_honest_answer_comes_whole() -> None:
    asked: list[bytes] = []

    def answer(peer: socket.socket) -> None:
        asked.append(b"")
        peer.sendall(b"HTTP/1.1 503 Later\r\nRetry-After: 7\r\nContent-Length: 3\r\n\r\nabc")

    receiver = Receiver(answer)

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient() as client:
            request = client.build_request("POST", receiver.url, content=b"x")
            assert "gzip" in request.headers["Accept-Encoding"]
            found = await exchange(client, request, seconds=SECONDS)
            assert request.headers["Accept-Encoding"] == "identity"
            return found

    found = asyncio.run(ask())
    receiver.close()
    assert (found.status_code, found.reason_phrase, found.content) == (503, "Later", b"abc")
    assert found.headers["Retry-After"] == "7"


def test_who_is_cut_off_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    transport = BoundedTransport(seconds=SECONDS)
    transport.close()
    transport.close()
    assert not set(threading.enumerate()) - before
