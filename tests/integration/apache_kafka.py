"""Apache Kafka's own broker with listeners for TLS and SASL, and accounts that have rights only where given."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from cryptography.hazmat.primitives import serialization

from tests.integration.daemon_process import free_port
from tests.integration.kafka_broker import KafkaBroker
from tests.integration.login_certificates import Certificates, make_certificates
from tests.servers.local import LocalServer, ServerUnavailableError
from tests.servers.plugin import unavailable

NAME = "kafka-4.4"
USER, PASSWORD = "writer", "secret"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


@dataclass(frozen=True)
class ApacheKafka:
    """A running broker.

    Attributes:
        server: its process.
        certificates: an authority, and what it signed.
        tls_port: of the listener with TLS.
        sasl_port: of the listener with TLS and SCRAM-SHA-512.
    """

    server: LocalServer
    certificates: Certificates
    tls_port: int
    sasl_port: int

    @property
    def plain(self) -> str:
        """The listener for everybody, who may do everything."""
        return f"127.0.0.1:{self.server.port}"

    @property
    def secure(self) -> dict[str, Any]:
        """Options of a sink that logs in with TLS and a password."""
        return {
            "bootstrap_servers": f"127.0.0.1:{self.sasl_port}",
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "SCRAM-SHA-512",
            "username": USER,
            "password": PASSWORD,
            "tls_ca": str(self.certificates.ca),
            "partitions": 1,
        }

    @property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.plain})

    def allow(self, kind: ResourceType, prefix: str, *operations: AclOperation) -> None:
        """Give the account rights on all that begins so."""
        bindings = [
            AclBinding(
                kind,
                prefix,
                ResourcePatternType.PREFIXED,
                f"User:{USER}",
                "*",
                one,
                AclPermissionType.ALLOW,
            )
            for one in operations
        ]
        admin = self.admin  # its answers end with it
        for made in admin.create_acls(bindings).values():
            made.result()


@contextmanager
def apache_kafka(**properties: str) -> Iterator[ApacheKafka]:
    """A broker of the block's own."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        certificates = make_certificates(directory)
        key = serialization.load_pem_private_key(certificates.server_key.read_bytes(), None)
        pem = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        store = directory / "store.pem"
        store.write_bytes(pem + certificates.server_cert.read_bytes())
        tls, sasl = free_port(), free_port()
        listeners = (
            f"PLAINTEXT://127.0.0.1:{{port}},SSL://127.0.0.1:{tls},SASL_SSL://127.0.0.1:{sasl}"
        )
        options = {
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{{controller}}",
            "advertised.listeners": listeners,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(certificates.ca),
            "ssl.client.auth": "requested",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": _SCRAM,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "add-scram": f"SCRAM-SHA-512=[name={USER},password={PASSWORD}]",
            **{name.replace("_", "."): value for name, value in properties.items()},
        }
        try:
            server = LocalServer(NAME, [f"{name}={value}" for name, value in options.items()])
        except ServerUnavailableError as error:
            unavailable(error)
        try:
            yield ApacheKafka(server, certificates, tls, sasl)
        finally:
            server.close()


class PlainBroker:
    """A broker without security that is killed and comes back on its data.

    Attributes:
        servers: its address.
        direct: the same, as that of other brokers here.
    """

    read_from = staticmethod(KafkaBroker.read_from)

    def __init__(self) -> None:
        try:
            self._server = LocalServer(NAME)
        except ServerUnavailableError as error:
            unavailable(error)
        self.servers = self.direct = f"127.0.0.1:{self._server.port}"

    def kill(self) -> None:
        """End it as a crash would."""
        self._server.kill()

    def restart(self) -> None:
        """Start it again."""
        self._server.restart()

    def stop(self) -> None:
        """End it, and remove its data."""
        self._server.close()
