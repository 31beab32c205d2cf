"""sha256_password: the clear password inside TLS, otherwise encrypted for the server's RSA key.

Servers require the RSA key also over a Unix socket, which caching_sha2_password considers safe;
nobody can insert another key there.
"""

from __future__ import annotations

from replica_client.errors import UnexpectedPacketError
from replica_client.wire.auth.plugin import ClientPlugin, Credentials
from replica_client.wire.auth.rsa import encrypt_password

REQUEST_PUBLIC_KEY = b"\x01"


class Sha256Client(ClientPlugin):
    """Client side of sha256_password."""

    name = "sha256_password"

    def __init__(self, credentials: Credentials) -> None:
        super().__init__(credentials)
        self._scramble = b""
        self._key_asked = False

    def begin(self, scramble: bytes) -> bytes:
        """Return the password, in clear or encrypted, or the request for the key."""
        credentials = self._credentials
        self._scramble = scramble[:20]
        if not credentials.password:
            return b"\0"
        if credentials.secure and not credentials.unix_socket:
            return self._clear_password()
        if credentials.server_public_key is not None:
            return encrypt_password(
                credentials.password, self._scramble, credentials.server_public_key
            )
        if not (credentials.allow_public_key_retrieval or credentials.unix_socket):
            raise UnexpectedPacketError(
                "sha256_password wants the password itself, which is refused without TLS: use "
                "tls=required, or give server_public_key, or set allow_public_key_retrieval=true"
            )
        self._key_asked = True
        return REQUEST_PUBLIC_KEY

    def more(self, data: bytes) -> bytes | None:
        """Return the password encrypted for the key that just arrived."""
        if not self._key_asked:
            return super().more(data)
        self._key_asked = False
        self.exposed = not self._credentials.unix_socket
        return encrypt_password(self._credentials.password, self._scramble, data)
