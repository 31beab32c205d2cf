"""A certificate authority of a test's own, a server's certificate and a client's."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

CLIENT_NAME = "replica of the test"
KEY_PASSWORD = "key s€cret"


@dataclass(frozen=True)
class Certificates:
    """Files in PEM; ``locked_key`` is the client's key under :data:`KEY_PASSWORD`."""

    ca: Path
    server_cert: Path
    server_key: Path
    client_cert: Path
    client_key: Path
    locked_key: Path
    other_ca: Path

    @property
    def server_options(self) -> list[str]:
        return [
            f"ssl-ca={self.ca}",
            f"ssl-cert={self.server_cert}",
            f"ssl-key={self.server_key}",
        ]


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _signed(
    subject: str,
    key: rsa.RSAPrivateKey,
    issuer: str,
    issuer_key: rsa.RSAPrivateKey,
    names: list[x509.GeneralName] | None = None,
) -> bytes:
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(x509.BasicConstraints(subject == issuer, None), critical=True)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(issuer_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _pem(key: rsa.RSAPrivateKey, password: str | None = None) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        # MySQL 5.6 reads no other form.
        serialization.PrivateFormat.PKCS8
        if password
        else serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.BestAvailableEncryption(password.encode())
        if password
        else serialization.NoEncryption(),
    )


def make_certificates(directory: Path) -> Certificates:
    """New ones; the server's is for localhost, 127.0.0.1 and ::1."""
    authority, other, server, client = (
        rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(4)
    )
    names: list[x509.GeneralName] = [x509.DNSName("localhost")]
    names += [x509.IPAddress(ipaddress.ip_address(one)) for one in ("127.0.0.1", "::1")]
    contents = {
        "ca.pem": _signed("ca", authority, "ca", authority),
        "server-cert.pem": _signed("server", server, "ca", authority, names),
        "server-key.pem": _pem(server),
        "client-cert.pem": _signed(CLIENT_NAME, client, "ca", authority),
        "client-key.pem": _pem(client),
        "client-key-locked.pem": _pem(client, KEY_PASSWORD),
        "other-ca.pem": _signed("other", other, "other", other),
    }
    for name, data in contents.items():
        path = directory / name
        path.touch(mode=0o600)
        path.write_bytes(data)
    return Certificates(*(directory / name for name in contents))
