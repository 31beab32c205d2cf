"""The interface of an authentication plugin's client side, and its input."""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum

from replica_client.codec.quick_dataclass import dataclass
from replica_client.errors import UnexpectedPacketError
from replica_client.wire.auth.certificate_proof import fingerprint_of


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
            f"{self.name}: the server wants the password itself, which is refused because nothing "
            "proves that the certificate is the server's own: give tls_ca with tls=verify-identity, or "
            f"tls_fingerprint={fingerprint_of(self._credentials.certificate)} if that is the "
            "server's, or, where nobody can get in between, unverified_password=any"
        )
