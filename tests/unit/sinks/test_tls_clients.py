"""Every client meets a rogue: a certificate of nobody, one of a trusted authority for another name, and no TLS."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from replica_client.errors import SinkError
from replica_client.protocol.constants.client_server import Capability
from replica_client.protocol.wire.connection_phase import BASE_CAPABILITIES, HandshakeV10
from replica_client.protocol.wire.framing import encode_packets
from replica_client.sinks.mirror.clickhouse_client import ClickhouseClient
from replica_client.sinks.mirror.stored_values import ClickhouseOptions
from replica_client.stream.transport.connect_options import parse_url
from replica_client.stream.transport.connection import SourceConnection
from tests.source.rogue_certificates import RogueCertificates, rogue_certificates


def _greet_nats(peer: socket.socket, tls: bool) -> None:
    info = {"server_id": "x", "version": "2.12.0", "max_payload": 1 << 20, "tls_required": tls}
    peer.sendall(b"INFO " + json.dumps(info).encode() + b"\r\n")


def _greet_postgres(peer: socket.socket, tls: bool) -> None:
    assert peer.recv(8)[4:] == b"\x04\xd2\x16\x2f"  # SSLRequest
    peer.sendall(b"S" if tls else b"N")


def _greet_mysql(peer: socket.socket, tls: bool) -> None:
    capabilities = BASE_CAPABILITIES | (Capability.CLIENT_SSL if tls else 0)
    greeting = HandshakeV10(
        "9.7.4",
        1,
        bytes(range(1, 21)),
        Capability(capabilities),
        auth_plugin="mysql_clear_password",
    )
    peer.sendall(encode_packets(greeting.encode()))
    if tls:
        peer.recv(36)  # the request for TLS, without a name


GREETINGS: dict[str, Callable[[socket.socket, bool], None]] = {
    "nats": _greet_nats, "postgres": _greet_postgres, "mysql": _greet_mysql, "mysql_mirror": _greet_mysql,
}  # fmt: skip
"""What a server says before TLS begins, by client."""


class Rogue:
    """Takes TLS connections, and keeps what comes through them.

    Args:
        context: certificate; None: the server says that it has no TLS.
        greet: what comes before TLS.
    """

    def __init__(
        self,
        context: ssl.SSLContext | None,
        greet: Callable[[socket.socket, bool], None] = lambda peer, tls: None,
    ) -> None:
        self.read, self.met = b"", 0
        self._greet = greet
        self._context, self._socket = context, socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with suppress(OSError):
            while True:
                peer, _ = self._socket.accept()
                peer.settimeout(5)
                self.met += 1
                with closing(peer), suppress(OSError):
                    self._greet(peer, self._context is not None)
                    if self._context is None:
                        self.read += peer.recv(1 << 16)
                        continue
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


def _kafka(port: int, ca: Path) -> None:
    from replica_client.sinks.kafka.kafka_sink import make

    sink = make(
        {
            "bootstrap_servers": f"127.0.0.1:{port}", "security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN",
            "username": "u", "password": "pw", "tls_ca": str(ca), "timeout": 3, "topic_prefix": "x",
        }
    )  # fmt: skip
    asyncio.run(sink.probe())


def _nats(port: int, ca: Path) -> None:
    from replica_client.sinks.nats_sink import make

    sink = make({"url": f"tls://u@127.0.0.1:{port}", "password": "pw", "ca": str(ca), "timeout": 3})
    asyncio.run(sink.probe())


def _postgres(port: int, ca: Path) -> None:
    from replica_client.sinks.mirror.postgres_sink import make

    query = f"sslmode=verify-full&sslrootcert={ca}&gssencmode=disable"
    url = f"postgresql://u:pw@127.0.0.1:{port}/d?{query}"
    asyncio.run(make({"url": url, "timeout": 3}).probe())


def _mysql_url(port: int, ca: Path) -> str:
    return f"mysql://u:pw@127.0.0.1:{port}/?tls=verify-identity&tls_ca={ca}&connect_timeout=3"


def _mysql(port: int, ca: Path) -> None:
    asyncio.run(SourceConnection.open(parse_url(_mysql_url(port, ca), {})))


def _mysql_mirror(port: int, ca: Path) -> None:
    from replica_client.sinks.mirror.mysql_sink import make

    asyncio.run(make({"url": _mysql_url(port, ca)}).probe())


def _s3(port: int, ca: Path) -> None:
    """In a process of its own, which reads the authorities of its system once."""
    pytest.importorskip("obstore")
    program = (
        "from replica_client.storage import object_store as o; o._RETRY_SECONDS = 1; "
        f"o.ObjectStore('s3://b/x', dict(aws_endpoint='https://127.0.0.1:{port}', aws_region='r', "
        "aws_access_key_id='k', aws_secret_access_key='s')).status('y')"
    )
    environment = {**os.environ, "SSL_CERT_FILE": str(ca)}
    subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True)


CLIENTS: dict[str, Callable[[int, Path], None]] = {
    one.__name__.strip("_"): one
    for one in (
        *(_http, _clickhouse, _redis, _registry, _telemetry, _kafka, _nats, _postgres, _mysql),
        *(_mysql_mirror, _s3),
    )
}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RogueCertificates]:
    yield rogue_certificates(tmp_path_factory.mktemp("rogue"))


@pytest.mark.parametrize("client", sorted(GREETINGS))
def test_nobody_on_the_way_takes_tls_out(client: str, certificates: RogueCertificates) -> None:
    """Clients that begin in clear end there, where their options ask for TLS."""
    rogue = Rogue(None, GREETINGS[client])
    with closing(rogue), pytest.raises(Exception, match="(?i)tls|ssl"):
        CLIENTS[client](rogue.port, certificates.ca)
    assert rogue.met and rogue.read == b""


def test_a_file_that_is_no_certificate_is_an_error_of_the_sink(tmp_path: Path) -> None:
    from replica_client.sinks.kafka.kafka_sink import make

    options = {"bootstrap_servers": "127.0.0.1:1", "security_protocol": "SSL", "topic_prefix": "x"}
    (tmp_path / "x.pem").write_text("no certificate")
    for name in ("tls_ca", "tls_certificate"):
        sink = make({**options, name: str(tmp_path / "x.pem"), "timeout": 3})
        for step in (sink.probe, sink.open, sink.saved, sink.owners):
            with pytest.raises(SinkError, match="ssl"):
                asyncio.run(step())


def test_every_row_of_the_threat_model_is_tried() -> None:
    page = (Path(__file__).parents[3] / "docs/content/explanation/threat-model.md").read_text()
    rows = page.partition("## Who verifies whose certificate")[2].split("\n| ")[2:]
    assert len(rows) == 9 and all(row.rstrip("\n |").endswith("tested") for row in rows)


@pytest.mark.parametrize("certificate", ["self-signed", "wrong name", "expired", "honest"])
@pytest.mark.parametrize("client", sorted(CLIENTS))
def test_a_rogue_reads_nothing(
    client: str, certificate: str, certificates: RogueCertificates
) -> None:
    honest = certificate == "honest"
    context = certificates.honest if honest else certificates.contexts[certificate]
    rogue = Rogue(context, GREETINGS.get(client, lambda peer, tls: None))
    with closing(rogue), suppress(Exception):
        CLIENTS[client](rogue.port, certificates.ca)
    assert rogue.met and bool(rogue.read) is honest
