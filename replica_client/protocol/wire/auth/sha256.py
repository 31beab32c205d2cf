"""sha256_password: the clear password inside TLS, otherwise encrypted for the server's RSA key.

Servers require the RSA key also over a Unix socket, which caching_sha2_password considers safe;
nobody can insert another key there.
"""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING

from replica_client.errors import MalformedPacketError, UnexpectedPacketError
from replica_client.protocol.wire.auth.plugin import ClientPlugin, Credentials

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey


def _masked(data: bytes, scramble: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(data, cycle(scramble), strict=False))


def encrypt_password(password: bytes, scramble: bytes, public_key: bytes) -> bytes:
    """Encrypt the NUL-terminated password, masked with the scramble, by RSA-OAEP (SHA-1).

    Args:
        password: in clear text.
        scramble: the server's 20 random bytes.
        public_key: PEM.

    Raises:
        MalformedPacketError: the key is not an RSA public key that can carry the password.
        UnexpectedPacketError: the server sent no random bytes.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import padding, rsa

    if not scramble:
        raise UnexpectedPacketError("the server sent no random bytes to mask the password with")
    try:
        key = serialization.load_pem_public_key(public_key)
        if not isinstance(key, rsa.RSAPublicKey):
            raise MalformedPacketError("the server's public key is not an RSA key")
        oaep = padding.OAEP(padding.MGF1(hashes.SHA1()), hashes.SHA1(), None)
        return key.encrypt(_masked(password + b"\0", scramble), oaep)
    except (ValueError, UnsupportedAlgorithm):
        raise MalformedPacketError(
            "the server's RSA public key cannot be read, or is too short for the password"
        ) from None


def decrypt_password(data: bytes, scramble: bytes, private_key: RSAPrivateKey) -> bytes | None:
    """Decrypt a password without its NUL (server's side); return None if that fails."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding

    oaep = padding.OAEP(padding.MGF1(hashes.SHA1()), hashes.SHA1(), None)
    try:
        clear = _masked(private_key.decrypt(data, oaep), scramble)
    except ValueError:
        return None
    return clear.removesuffix(b"\0")


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
                "sha256_password asks for the password itself, which is refused without TLS: use "
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
