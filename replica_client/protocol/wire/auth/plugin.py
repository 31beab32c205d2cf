"""The interface of an authentication plugin's client side.

MariaDB >= 11.4 sends in the OK packet of a login, as its text, 0x01 and 64 hexadecimal digits:
SHA-256 of what the server stores of the password
(:meth:`~replica_client.protocol.wire.auth.plugin.ClientPlugin.password_hash`), the 20 random bytes of its
greeting, and the SHA-256 fingerprint of its certificate. Somebody between client and server with
another certificate cannot make this proof.

Spec: MariaDB KB "Zero-Configuration SSL"; MDEV-31855.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import field
from enum import StrEnum

from replica_client.errors import UnexpectedPacketError
from replica_client.protocol.codec.quick_dataclass import dataclass

SCRAMBLE_SIZE = 20

_PREFIX = b"\x41\x01"  # 65 bytes of text; what they are
_DIGITS = 64


def fingerprint_of(certificate: bytes) -> str:
    """Return ``sha256:`` and the hex digits of a DER certificate's fingerprint; empty for none."""
    return f"sha256:{hashlib.sha256(certificate).hexdigest()}" if certificate else ""


def certificate_proof(password_hash: bytes, scramble: bytes, fingerprint: bytes) -> bytes:
    """Build the text of the OK packet that proves a certificate.

    Args:
        password_hash: the password as the server stores it.
        scramble: of the greeting, also when a plugin has random bytes of its own.
        fingerprint: SHA-256 of the server's certificate (DER), 32 bytes.
    """
    digest = hashlib.sha256(password_hash + scramble[:SCRAMBLE_SIZE] + fingerprint)
    return _PREFIX + digest.hexdigest().upper().encode()


def has_proof(info: bytes) -> bool:
    """Return whether the text of an OK packet is a proof, right or wrong."""
    return info.startswith(_PREFIX) and len(info) >= len(_PREFIX) + _DIGITS


def is_proved(info: bytes, password_hash: bytes, scramble: bytes, certificate: bytes) -> bool:
    """Return whether the text of an OK packet proves a certificate (DER)."""
    expected = certificate_proof(password_hash, scramble, hashlib.sha256(certificate).digest())
    return hmac.compare_digest(info[: len(expected)].upper(), expected)


class UnverifiedPassword(StrEnum):
    """Policy for sending the password itself inside TLS to an unverified server.

    ``never``: nobody; ``caching_sha2``: a server that asks for caching_sha2_password's full
    authentication, as MySQL's own client does; ``any``: also mysql_clear_password, dialog and
    sha256_password.
    """

    NEVER = "never"
    CACHING_SHA2 = "caching_sha2"
    ANY = "any"


@dataclass(frozen=True, slots=True)
class Credentials:
    """The password and connection facts that a plugin may use.

    Attributes:
        password: UTF-8 bytes.
        secure: the connection is inside TLS or a Unix socket.
        unix_socket: it is a Unix socket.
        allow_public_key_retrieval: without TLS, trust the RSA key that the server sends.
        server_public_key: the server's RSA key in PEM, when it was given beforehand.
        verified: it is a Unix socket, or the server's certificate was verified.
        unverified_password: what may be sent when it was not.
        certificate: the server's, in DER; empty without TLS.
    """

    password: bytes = field(repr=False)
    secure: bool = False
    unix_socket: bool = False
    allow_public_key_retrieval: bool = False
    server_public_key: bytes | None = None
    verified: bool = False
    unverified_password: UnverifiedPassword = UnverifiedPassword.CACHING_SHA2
    certificate: bytes = field(default=b"", repr=False)


class ClientPlugin:
    """Base of the client sides of authentication plugins; one object for one login.

    Attributes:
        name: the plugin's.
        exposed: the password itself went to a server that nothing had proved, inside TLS or under
            an RSA key that the server sent.
    """

    name = ""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self.exposed = False

    def begin(self, scramble: bytes) -> bytes:
        """Return the first answer to the server's random bytes.

        Raises:
            ProtocolError: the server's data does not fit the plugin, or answering would reveal the
                password.
        """
        raise NotImplementedError

    def more(self, data: bytes) -> bytes | None:
        """Return the answer to an AuthMoreData packet; None when nothing is to be sent.

        Raises:
            ProtocolError: as :meth:`begin`.
        """
        raise UnexpectedPacketError(f"unexpected data from the server during {self.name}")

    def password_hash(self) -> bytes:
        """Return the password as the server stores it, for the proof of a certificate; or nothing."""
        return b""

    def _clear_password(self) -> bytes:
        """Return the NUL-terminated password if the server may see it.

        Raises:
            UnexpectedPacketError: it may not.
        """
        credentials = self._credentials
        if not credentials.secure:
            raise UnexpectedPacketError(
                f"{self.name} sends the password in clear text, which is refused without TLS: "
                "use tls=required or a Unix socket"
            )
        if not credentials.verified:
            self._expect_permission()
            self.exposed = True
        return credentials.password + b"\0"

    def _expect_permission(self) -> None:
        policy = self._credentials.unverified_password
        if policy is UnverifiedPassword.ANY:
            return
        if policy is UnverifiedPassword.CACHING_SHA2 and self.name == "caching_sha2_password":
            return
        raise UnexpectedPacketError(
            f"{self.name}: the server asks for the password itself, which is refused because nothing "
            "proves that the certificate is the server's own: give tls_ca with tls=verify-identity, or "
            f"tls_fingerprint={fingerprint_of(self._credentials.certificate)} if that is the "
            "server's, or, where nobody can get in between, unverified_password=any"
        )
