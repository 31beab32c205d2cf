"""Certificates that a rogue server shows: its own, an expired one, one for another name."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import NameOID

from replica_client.protocol.wire.auth.plugin import fingerprint_of
from replica_client.server.accounts import rsa_key

CERTIFICATES = ("self-signed", "expired", "wrong name")
"""Of a rogue: ``expired`` and ``wrong name`` are signed by the authority that the client trusts."""


@dataclass(frozen=True)
class RogueCertificates:
    """TLS contexts by the names of :data:`CERTIFICATES`, and what the client trusts.

    Attributes:
        contexts: of the rogue.
        honest: of the real server: signed, for localhost and 127.0.0.1.
        ca: file of the authority.
        fingerprint: of the real server's certificate.
    """

    contexts: dict[str, ssl.SSLContext]
    honest: ssl.SSLContext
    ca: Path
    fingerprint: str


def rogue_certificates(directory: Path) -> RogueCertificates:
    """New ones, with files in a directory."""
    ca = directory / "rogue-ca.pem"
    ca.write_bytes(_signed("ca", "ca", authority=True))
    here: list[x509.GeneralName] = [
        x509.DNSName("localhost"),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
    ]
    elsewhere: list[x509.GeneralName] = [x509.DNSName("elsewhere.example")]
    made = {
        "self-signed": _signed("rogue", "rogue", here),
        "expired": _signed("server", "ca", here, age=40),
        "wrong name": _signed("elsewhere", "ca", elsewhere),
        "honest": _signed("server", "ca", here),
    }
    contexts = {name: _context(directory, pem) for name, pem in made.items()}
    return RogueCertificates(
        {name: contexts[name] for name in CERTIFICATES},
        contexts["honest"],
        ca,
        fingerprint_of(ssl.PEM_cert_to_DER_cert(made["honest"].decode())),
    )


def _signed(
    subject: str,
    issuer: str,
    names: list[x509.GeneralName] | None = None,
    *,
    age: int = 1,
    authority: bool = False,
) -> bytes:
    # One key for all: what differs is who vouches for it.
    key = rsa_key()
    now = datetime.datetime.now(datetime.UTC)
    begin = now - datetime.timedelta(days=age)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + datetime.timedelta(days=30))
        .add_extension(x509.BasicConstraints(authority, None), critical=True)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _context(directory: Path, certificate: bytes) -> ssl.SSLContext:
    file = directory / "rogue.pem"
    key = rsa_key().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    file.touch(mode=0o600)
    file.write_bytes(certificate + key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    file.unlink()
    return context
