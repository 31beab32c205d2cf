"""Every client of a sink meets a rogue: a certificate of nobody, and one of a trusted authority for another name."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from replica_client.sinks.mirror.clickhouse_client import ClickhouseClient
from replica_client.sinks.mirror.mirror_options import ClickhouseOptions
from tests.source.rogue_certificates import RogueCertificates, rogue_certificates


class Rogue:
    """Takes TLS connections, and keeps what comes through them."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.read = b""
        self._context, self._socket = context, socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with suppress(OSError):
            while True:
                peer, _ = self._socket.accept()
                peer.settimeout(5)
                with closing(peer), suppress(OSError):
                    tls = self._context.wrap_socket(peer, server_side=True)
                    self.read += tls.recv(1 << 16)
                    tls.close()

    def close(self) -> None:
        self._socket.close()


def _http(port: int, ca: Path) -> None:
    from replica_client.sinks.webhook_sink import make

    async def send() -> None:
        sink = make(
            {"url": f"https://127.0.0.1:{port}/", "ca": str(ca), "retries": 0, "timeout": 5}
        )
        await sink.connect()
        try:
            await sink._post("a", "a", b"x")
        finally:
            await sink.disconnect()

    asyncio.run(send())


def _clickhouse(port: int, ca: Path) -> None:
    options = ClickhouseOptions(url=f"https://127.0.0.1:{port}/", ca=str(ca), timeout=5)
    with closing(ClickhouseClient(options, "s")) as client:
        client.execute("SELECT 1")


def _redis(port: int, ca: Path) -> None:
    from replica_client.sinks.formats.line_format import chosen_format
    from replica_client.sinks.redis_sink import RedisOptions, RedisSink

    options = RedisOptions(url=f"rediss://:pw@127.0.0.1:{port}/?ssl_ca_certs={ca}", timeout=5)
    asyncio.run(RedisSink(options, chosen_format(options)).probe())


def _registry(port: int, ca: Path) -> None:
    from replica_client.sinks.kafka.avro_messages import AvroMessages
    from replica_client.sinks.kafka.kafka_options import RegistryOptions

    options = RegistryOptions(
        url=f"https://127.0.0.1:{port}", ca=str(ca), username="u", password="pw", timeout=5
    )
    messages = AvroMessages(options)
    rest: Any = messages._connected()._rest_client
    rest.max_retries = 0
    with closing(messages):
        messages.probe()


def _telemetry(port: int, ca: Path) -> None:
    from replica_client.service.telemetry import _bounded_session

    with closing(_bounded_session()) as session:
        session.post(f"https://127.0.0.1:{port}/", data=b"x", verify=str(ca))


CLIENTS: dict[str, Callable[[int, Path], None]] = {
    one.__name__.strip("_"): one for one in (_http, _clickhouse, _redis, _registry, _telemetry)
}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RogueCertificates]:
    yield rogue_certificates(tmp_path_factory.mktemp("rogue"))


@pytest.mark.parametrize("certificate", ["self-signed", "wrong name", "expired", "honest"])
@pytest.mark.parametrize("client", sorted(CLIENTS))
def test_a_rogue_reads_nothing(
    client: str, certificate: str, certificates: RogueCertificates
) -> None:
    honest = certificate == "honest"
    rogue = Rogue(certificates.honest if honest else certificates.contexts[certificate])
    with closing(rogue), suppress(Exception):
        CLIENTS[client](rogue.port, certificates.ca)
    assert bool(rogue.read) is honest
