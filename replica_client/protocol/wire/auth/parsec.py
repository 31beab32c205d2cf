"""parsec (MariaDB >= 11.6): Ed25519 with a key that PBKDF2 derives from password and salt.

After the server's 32 random bytes the client sends an empty packet. The server answers with ``P``,
the iteration factor (1 byte) and the account's salt (18). The client then sends 32 random bytes of
its own and the signature (64) of both.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import TYPE_CHECKING

from replica_client.errors import MalformedPacketError
from replica_client.protocol.wire.auth.plugin import ClientPlugin, Credentials

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

SCRAMBLE_SIZE = 32
SALT_SIZE = 18
SIGNATURE_SIZE = 64
MAX_FACTOR = 10
"""Largest factor of 1024 << factor iterations: a larger one would keep us busy for hours."""

_ALGORITHM = b"P"


def _seed(password: bytes, factor: int, salt: bytes) -> bytes:
    return hashlib.pbkdf2_hmac("sha512", password, salt, 1024 << factor, 32)


def sign(password: bytes, factor: int, salt: bytes, message: bytes) -> bytes:
    """Sign a message with the account's key and return the signature."""
    return _key(password, factor, salt).sign(message)


def _key(password: bytes, factor: int, salt: bytes) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(_seed(password, factor, salt))


def parameters(factor: int, salt: bytes) -> bytes:
    """Build the server's second packet: iteration factor and salt."""
    return _ALGORITHM + bytes((factor,)) + salt


def verify(response: bytes, scramble: bytes, password: bytes, factor: int, salt: bytes) -> bool:
    """Return whether the client's last packet proves the password (server's side)."""
    if len(response) != SCRAMBLE_SIZE + SIGNATURE_SIZE:
        return False
    client, signature = response[:SCRAMBLE_SIZE], response[SCRAMBLE_SIZE:]
    return signature == sign(password, factor, salt, scramble + client)


class ParsecClient(ClientPlugin):
    """Client side of parsec."""

    name = "parsec"

    def __init__(self, credentials: Credentials) -> None:
        super().__init__(credentials)
        self._scramble = b""
        self._parameters = b""

    def begin(self, scramble: bytes) -> bytes:
        """Return the empty packet that asks for the salt."""
        if len(scramble) < SCRAMBLE_SIZE:
            raise MalformedPacketError(
                f"parsec: the server sent {len(scramble)} random bytes, not {SCRAMBLE_SIZE}"
            )
        self._scramble = scramble[:SCRAMBLE_SIZE]
        return b""

    def more(self, data: bytes) -> bytes | None:
        """Return 32 random bytes and the signature, in answer to the salt packet."""
        if self._parameters:
            return super().more(data)
        if data[:1] != _ALGORITHM or len(data) != 2 + SALT_SIZE or data[1] > MAX_FACTOR:
            raise MalformedPacketError("parsec: the server's salt packet cannot be read")
        self._parameters = data
        client = secrets.token_bytes(SCRAMBLE_SIZE)
        message = self._scramble + client
        return client + sign(self._credentials.password, data[1], data[2:], message)

    def password_hash(self) -> bytes:
        """Return the server's salt packet and the public key, 52 bytes; empty without a password."""
        password, data = self._credentials.password, self._parameters
        if not password or not data:
            return b""
        return data + _key(password, data[1], data[2:]).public_key().public_bytes_raw()
