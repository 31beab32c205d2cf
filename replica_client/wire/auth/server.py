"""The server's side of logging in, for the testing source."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from replica_client.wire.auth import caching_sha2, ed25519, parsec, sha256
from replica_client.wire.auth.caching_sha2 import verify_sha2
from replica_client.wire.auth.native import verify_native
from replica_client.wire.auth.rsa import decrypt_password
from replica_client.wire.packets import AuthMoreData

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

SERVER_PLUGINS = (
    "mysql_native_password",
    "caching_sha2_password",
    "sha256_password",
    "mysql_clear_password",
    "dialog",
    "client_ed25519",
    "parsec",
)
"""Plugins that :class:`ServerLogin` can ask for."""

DIALOG_QUESTION = b"\x04Password: "
"""What dialog asks: a hidden answer is wanted."""


@dataclass(slots=True)
class ServerLogin:
    """Checks one client's proof of a password.

    Attributes:
        plugin: the account's plugin.
        password: the account's.
        scramble: random bytes that were sent to the client.
        secure: the connection is TLS or a Unix socket.
        unix_socket: it is a Unix socket.
        cached: caching_sha2_password: the fast path may be taken.
        private_key: for passwords that come encrypted.
    """

    plugin: str
    password: bytes = field(repr=False)
    scramble: bytes
    secure: bool
    cached: bool = True
    private_key: RSAPrivateKey | None = field(default=None, repr=False)
    unix_socket: bool = False
    _waiting: str = ""

    def receive(self, data: bytes) -> bytes | bool:
        """Take the client's bytes.

        Returns:
            True or False: the password was right or wrong; bytes: a payload to send, after which
            the client answers again (except after ``FAST_AUTH_SUCCEEDED``, when the login is done).
        """
        if self.plugin == "mysql_native_password":
            return verify_native(data, self.scramble, self.password)
        if self.plugin == "client_ed25519":
            return ed25519.verify(data, self.scramble, self.password)
        if self.plugin == "parsec":
            return self._parsec(data)
        if self.plugin in ("mysql_clear_password", "dialog"):
            return self._is_clear(data)
        if self.plugin == "sha256_password":
            return self._sha256(data)
        return self._caching_sha2(data)

    def _is_clear(self, data: bytes) -> bool:
        return data.removesuffix(b"\0") == self.password

    def _sha256(self, data: bytes) -> bytes | bool:
        if (self.secure and not self.unix_socket) or not self.password:
            return self._is_clear(data)
        if data == sha256.REQUEST_PUBLIC_KEY:
            return self._public_key()
        return self._is_encrypted(data)

    def _parsec(self, data: bytes) -> bytes | bool:
        # A fixed salt: nobody stores it, and each login has random bytes of both sides.
        salt = b"replica_client".ljust(parsec.SALT_SIZE, b".")
        if not self._waiting:
            self._waiting = "signature"
            return parsec.parameters(0, salt)
        return parsec.verify(data, self.scramble, self.password, 0, salt)

    def _caching_sha2(self, data: bytes) -> bytes | bool:
        if self._waiting == "password":
            if data == caching_sha2.REQUEST_PUBLIC_KEY and not self.secure:
                return self._public_key()
            return self._is_clear(data) if self.secure else self._is_encrypted(data)
        if not verify_sha2(data, self.scramble, self.password) and (data or self.cached):
            return False
        if not self.password:
            return True
        if self.cached:
            return AuthMoreData(caching_sha2.FAST_AUTH_SUCCEEDED).encode()
        self._waiting = "password"
        return AuthMoreData(caching_sha2.FULL_AUTH_NEEDED).encode()

    def _is_encrypted(self, data: bytes) -> bool:
        if self.private_key is None:
            return False
        return decrypt_password(data, self.scramble[:20], self.private_key) == self.password

    def _public_key(self) -> bytes | bool:
        from cryptography.hazmat.primitives import serialization

        if self.private_key is None:
            return False
        pem = self.private_key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return AuthMoreData(pem).encode()


def is_final(payload: bytes) -> bool:
    """Whether an answer of :meth:`ServerLogin.receive` already means success."""
    return payload == AuthMoreData(caching_sha2.FAST_AUTH_SUCCEEDED).encode()
