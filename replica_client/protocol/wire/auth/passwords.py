"""Authentication methods that send a password or a digest of it, client and server side.

Servers require the RSA key also over a Unix socket, which caching_sha2_password considers safe;
nobody can insert another key there.
"""

from __future__ import annotations

import hashlib
from itertools import cycle
from typing import TYPE_CHECKING

from replica_client.errors import MalformedPacketError, UnexpectedPacketError
from replica_client.protocol.wire.auth.plugin import ClientPlugin, Credentials

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey


def _sha1(data: bytes) -> bytes:
    return hashlib.sha1(data, usedforsecurity=False).digest()


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


def scramble_native(password: bytes, scramble: bytes) -> bytes:
    """Compute SHA1(password) XOR SHA1(scramble + SHA1(SHA1(password))); empty for no password."""
    if not password:
        return b""
    stage1 = _sha1(password)
    return _xor(stage1, _sha1(scramble[:20] + _sha1(stage1)))


def verify_native(response: bytes, scramble: bytes, password: bytes) -> bool:
    """Return whether a response proves the password (server's side)."""
    return response == scramble_native(password, scramble)


class NativePasswordClient(ClientPlugin):
    """Client side of mysql_native_password."""

    name = "mysql_native_password"

    def begin(self, scramble: bytes) -> bytes:
        """Return the 20-byte response; empty without a password."""
        return scramble_native(self._credentials.password, scramble)

    def password_hash(self) -> bytes:
        """Return SHA1(SHA1(password)), 20 bytes; empty without a password."""
        password = self._credentials.password
        return _sha1(_sha1(password)) if password else b""


class ClearPasswordClient(ClientPlugin):
    """Client side of mysql_clear_password."""

    name = "mysql_clear_password"

    def begin(self, scramble: bytes) -> bytes:
        """Return the NUL-terminated password."""
        return self._clear_password()


class DialogClient(ClientPlugin):
    """Client side of dialog: one question, answered with the password.

    A question starts with a byte: 2 or 4 for a prompt (visible or hidden answer), its lowest bit
    set for the last one. A second question cannot be answered by a program that has one password.
    """

    name = "dialog"

    def begin(self, scramble: bytes) -> bytes:
        """Return the NUL-terminated password, the answer to the first question."""
        return self._clear_password()

    def more(self, data: bytes) -> bytes | None:
        """Raise ``UnexpectedPacketError``: only one question can be answered."""
        raise UnexpectedPacketError(
            "the account's PAM service asks more than one question; only a password can be answered"
        )


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


REQUEST_SHA256_KEY = b"\x01"


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
        return REQUEST_SHA256_KEY

    def more(self, data: bytes) -> bytes | None:
        """Return the password encrypted for the key that just arrived."""
        if not self._key_asked:
            return super().more(data)
        self._key_asked = False
        self.exposed = not self._credentials.unix_socket
        return encrypt_password(self._credentials.password, self._scramble, data)


REQUEST_CACHING_KEY = b"\x02"
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
        return REQUEST_CACHING_KEY
