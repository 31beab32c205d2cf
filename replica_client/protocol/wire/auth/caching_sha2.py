"""caching_sha2_password: SHA-256 challenge and response; the clear password if the cache is cold."""

from __future__ import annotations

import hashlib

from replica_client.errors import UnexpectedPacketError
from replica_client.protocol.wire.auth.plugin import ClientPlugin, Credentials
from replica_client.protocol.wire.auth.sha256 import encrypt_password

REQUEST_PUBLIC_KEY = b"\x02"
FAST_AUTH_SUCCEEDED = b"\x03"
FULL_AUTH_NEEDED = b"\x04"


def scramble_sha2(password: bytes, scramble: bytes) -> bytes:
    """Compute SHA256(password) XOR SHA256(SHA256(SHA256(password)) + scramble).

    Returns nothing for an empty password.
    """
    if not password:
        return b""
    stage1 = hashlib.sha256(password).digest()
    stage2 = hashlib.sha256(hashlib.sha256(stage1).digest() + scramble[:20]).digest()
    return bytes(a ^ b for a, b in zip(stage1, stage2, strict=True))


def verify_sha2(response: bytes, scramble: bytes, password: bytes) -> bool:
    """Return whether a response of the fast path proves the password (server's side)."""
    return response == scramble_sha2(password, scramble)


class CachingSha2Client(ClientPlugin):
    """Client side of caching_sha2_password.

    The server answers the first response with 3 (cached: done) or 4 (send the password itself):
    inside TLS or a Unix socket in clear text, otherwise under the server's RSA key, which is known
    or, when that is allowed, asked for.
    """

    name = "caching_sha2_password"

    def __init__(self, credentials: Credentials) -> None:
        super().__init__(credentials)
        self._scramble = b""
        self._key_asked = False

    def begin(self, scramble: bytes) -> bytes:
        """Return the 32-byte response; empty without a password (servers expect no NUL)."""
        self._scramble = scramble[:20]
        return scramble_sha2(self._credentials.password, scramble)

    def more(self, data: bytes) -> bytes | None:
        """Return the answer to the server's next packet; None when the fast path succeeded."""
        credentials = self._credentials
        if self._key_asked:
            self._key_asked = False
            self.exposed = True
            return encrypt_password(credentials.password, self._scramble, data)
        if data == FAST_AUTH_SUCCEEDED:
            return None
        if data != FULL_AUTH_NEEDED:
            return super().more(data)
        if credentials.secure:
            return self._clear_password()
        if credentials.server_public_key is not None:
            return encrypt_password(
                credentials.password, self._scramble, credentials.server_public_key
            )
        if not credentials.allow_public_key_retrieval:
            raise UnexpectedPacketError(
                "caching_sha2_password: the server has not cached this account and wants the "
                "password itself, which is refused without TLS: use tls=required, or give "
                "server_public_key, or set allow_public_key_retrieval=true"
            )
        self._key_asked = True
        return REQUEST_PUBLIC_KEY
