"""The server's side of the login."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from replica_client.codec.quick_dataclass import dataclass
from replica_client.wire.auth import caching_sha2, ed25519, parsec, sha256
from replica_client.wire.auth.rsa import decrypt_password
from replica_client.wire.auth.stored import ClearPassword, StoredPassword
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
"""dialog's question: asks for a hidden answer."""


@dataclass(slots=True)
class ServerLogin:
    """Check of one client's proof of a password.

    Attributes:
        plugin: the account's plugin.
        password: the account's password, as far as known.
        scramble: random bytes that were sent to the client.
        secure: the connection is TLS or a Unix socket.
        unix_socket: it is a Unix socket.
        cached: caching_sha2_password: the fast path may be taken.
        private_key: for passwords that come encrypted.
    """

    plugin: str
    password: StoredPassword = field(repr=False)
    scramble: bytes
    secure: bool
    cached: bool = True
    private_key: RSAPrivateKey | None = field(default=None, repr=False)
    unix_socket: bool = False
    _waiting: str = ""

    def receive(self, data: bytes) -> bytes | bool:
        """Take the client's bytes and return the verdict or the next packet.

        Returns:
            True or False: the password was right or wrong; bytes: a payload to send, after which
            the client answers again (except after ``FAST_AUTH_SUCCEEDED``, when the login is done).
        """
        if self.plugin == "mysql_native_password":
            if self.password.is_empty:
                return not data
            return self.password.proves_native(data, self.scramble)
        if self.plugin == "client_ed25519":
            return ed25519.verify(data, self.scramble, self._clear)
        if self.plugin == "parsec":
            return self._parsec(data)
        if self.plugin in ("mysql_clear_password", "dialog"):
            return self._is_clear(data)
        if self.plugin == "sha256_password":
            return self._sha256(data)
        return self._caching_sha2(data)

    @property
    def _clear(self) -> bytes:
        """The password in clear, for plugins whose stored form this package does not write."""
        if not isinstance(self.password, ClearPassword):
            raise TypeError(f"{self.plugin} needs the password itself")
        return self.password.password

    def _is_clear(self, data: bytes) -> bool:
        return self.password.is_password(data.removesuffix(b"\0"))

    def _sha256(self, data: bytes) -> bytes | bool:
        if (self.secure and not self.unix_socket) or self.password.is_empty:
            return self._is_clear(data)
        if data == sha256.REQUEST_PUBLIC_KEY:
            return self._public_key()
        return self._is_encrypted(data)

    def _parsec(self, data: bytes) -> bytes | bool:
        # A fixed salt is enough: nobody stores it, and each login has random bytes of both sides.
        salt = b"replica_client".ljust(parsec.SALT_SIZE, b".")
        if not self._waiting:
            self._waiting = "signature"
            return parsec.parameters(0, salt)
        return parsec.verify(data, self.scramble, self._clear, 0, salt)

    def _caching_sha2(self, data: bytes) -> bytes | bool:
        if self._waiting == "password":
            if data == caching_sha2.REQUEST_PUBLIC_KEY and not self.secure:
                return self._public_key()
            return self._is_clear(data) if self.secure else self._is_encrypted(data)
        if self.password.is_empty:
            return not data
        cached = self.cached and self.password.is_cached
        # If a response cannot be checked yet, the client sends the password itself next.
        proved = self.password.proves_sha2(data, self.scramble)
        if not proved and (cached or (data and self.password.is_cached)):
            return False
        if cached:
            return AuthMoreData(caching_sha2.FAST_AUTH_SUCCEEDED).encode()
        self._waiting = "password"
        return AuthMoreData(caching_sha2.FULL_AUTH_NEEDED).encode()

    def _is_encrypted(self, data: bytes) -> bool:
        if self.private_key is None:
            return False
        clear = decrypt_password(data, self.scramble[:20], self.private_key)
        return clear is not None and self.password.is_password(clear)

    def _public_key(self) -> bytes | bool:
        from cryptography.hazmat.primitives import serialization

        if self.private_key is None:
            return False
        pem = self.private_key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return AuthMoreData(pem).encode()


def is_final(payload: bytes) -> bool:
    """Return whether an answer of :meth:`ServerLogin.receive` already means success."""
    return payload == AuthMoreData(caching_sha2.FAST_AUTH_SUCCEEDED).encode()
