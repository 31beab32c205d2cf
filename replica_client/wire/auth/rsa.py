"""Passwords encrypted for the server's RSA key, for caching_sha2_password and sha256_password."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING

from replica_client.errors import MalformedPacketError, UnexpectedPacketError

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
