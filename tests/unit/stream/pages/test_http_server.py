"""The small HTTP server, and what it does with requests that are none."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest

from replica_client.errors import ConfigError
from replica_client.stream.pages.http_server import HttpServer
from replica_client.stream.pages.page import Page
from replica_client.stream.transport.connect_options import listen_address


def _broken() -> Page:
    raise ValueError("a fault of ours")


PAGES = {"/": lambda: Page(b"hello", "text/plain"), "/broken": _broken}


@pytest.fixture
async def server():
    one = HttpServer("127.0.0.1:0", PAGES)
    await one.start()
    yield one
    await one.close()


async def _send(server: HttpServer, data: bytes, where: str = "127.0.0.1") -> bytes:
    reader, writer = await asyncio.open_connection(where, server.port)
    writer.write(data)
    try:
        return await asyncio.wait_for(reader.read(), 30)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def _request(path: str, method: str = "GET", host: str = "localhost") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()


async def test_pages(server):
    answer = await _send(server, _request("/"))
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(b"\r\n\r\nhello")
    assert b"Content-Security-Policy: default-src 'none'" in answer
    answer = await _send(server, _request("/?x=1", "HEAD"))
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(b"\r\n\r\n")
    assert (await _send(server, _request("/none"))).startswith(b"HTTP/1.1 404")
    assert (await _send(server, _request("/", "POST"))).startswith(b"HTTP/1.1 405")


async def test_a_page_that_fails_is_logged_and_ends_nothing(server, caplog):
    assert (await _send(server, _request("/broken"))).startswith(b"HTTP/1.1 500")
    assert "a fault of ours" in caplog.text
    assert (await _send(server, _request("/"))).startswith(b"HTTP/1.1 200")


STRANGERS = ("evil.example", "evil.example:80", "localhost.evil", "", ":80", "127.0.0.1.evil.example",
             "evil.example.", "[evil.example]", "192.168.0.1.nip.io:9190", "1.2.3", "a.b@localhost.evil",
             "notlocal.evillocal.com", "EVIL.EXAMPLE", "xn--localhost-.com")  # fmt: skip
FRIENDS = ("localhost", "localhost:9190", "127.0.0.1:1", "[::1]:9", "[::1]", "LOCALHOST", "localhost.", "10.0.0.7:9190",
           "shop", "shop.default.svc.cluster.local:9190", "db.internal", "status.example.com", "Status.Example.Com.:80",
           "[fe80::1]:9190")  # fmt: skip


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "[::1]", "[::]"])
async def test_a_stranger_gives_the_server_no_name_on_any_address(address):
    one = HttpServer(f"{address}:0", PAGES, names=["Status.Example.com"])
    await one.start()
    try:
        where = "::1" if ":" in address else "127.0.0.1"
        for hosts, status in ((STRANGERS, b"403"), (FRIENDS, b"200")):
            for host in hosts:
                answer = await _send(one, _request("/", host=host), where)
                assert answer.startswith(b"HTTP/1.1 " + status), host
        for path in ("/none", "/broken"):
            answer = await _send(one, _request(path, host=STRANGERS[0]), where)
            assert answer.startswith(b"HTTP/1.1 403") and b"hosts" in answer
    finally:
        await one.close()


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/x\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20_000,
        b"\r\n" * 10_000,
        bytes(range(256)) * 100,
    ],
)
async def test_what_is_no_request_is_refused_and_the_next_one_answered(server, data):
    answer = b""
    with contextlib.suppress(ConnectionError):  # closed while we sent
        answer = await _send(server, data)
    assert not answer or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 5"))
    assert (await _send(server, _request("/"))).startswith(b"HTTP/1.1 200")


async def test_connections_are_bounded_and_silent_ones_ended(server, monkeypatch):
    monkeypatch.setattr("replica_client.stream.pages.http_server._REQUEST_SECONDS", 2.0)
    silent = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(64)]
    await asyncio.sleep(0.05)
    assert len(server._open) == 64
    assert (await _send(server, _request("/"))).startswith(b"HTTP/1.1 200")
    assert len(server._open) < 64  # the first one gave way
    await asyncio.gather(*(reader.read() for reader, _ in silent), return_exceptions=True)
    assert (await _send(server, _request("/"))).startswith(b"HTTP/1.1 200")
    for _, writer in silent:
        writer.close()
    await asyncio.gather(*(writer.wait_closed() for _, writer in silent), return_exceptions=True)


async def test_an_address_that_is_taken(server):
    with pytest.raises(ConfigError, match="listen"):
        await HttpServer(f"127.0.0.1:{server.port}", PAGES).start()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [(":80", ("127.0.0.1", 80)), ("[::1]:9", ("::1", 9)), ("0.0.0.0:0", ("0.0.0.0", 0))],
)
def test_addresses(text, wanted):
    assert listen_address(text) == wanted


@pytest.mark.parametrize("text", ["", "localhost", "a:b", "a:99999", "9190"])
def test_what_is_no_address(text):
    with pytest.raises(ConfigError):
        listen_address(text)


@pytest.mark.slow
async def test_silent_and_deaf_peers_keep_nobody_out():
    """Hundreds that send nothing, half a request, or read nothing of a large page."""
    large = {
        "/": lambda: Page(b"x" * (32 << 20), "text/plain"),
        "/healthz": lambda: Page(b"ok", "text/plain"),
    }
    one = HttpServer("127.0.0.1:0", large)
    await one.start()
    peers = []
    try:
        for number in range(300):
            peer = socket.socket()
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            peer.setblocking(False)
            peers.append(peer)
            await asyncio.get_running_loop().sock_connect(peer, ("127.0.0.1", one.port))
            if number % 3 == 1:
                peer.send(b"GET /healthz HTTP/1.1\r\n")
            elif number % 3 == 2:
                peer.send(_request("/"))
            if number % 50 == 49:
                async with asyncio.timeout(30):
                    assert (await _send(one, _request("/healthz"))).endswith(b"ok")
        assert len(one._open) <= 64
        async with asyncio.timeout(60):  # a request may take 5 seconds
            while one._open:  # noqa: ASYNC110  no event tells of it
                await asyncio.sleep(0.05)
        async with asyncio.timeout(30):
            assert (await _send(one, _request("/healthz"))).endswith(b"ok")
    finally:
        for peer in peers:
            peer.close()
        await one.close()
