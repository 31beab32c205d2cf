"""client_ed25519 (MariaDB): the server's random bytes signed with a key made of the password.

The signature is Ed25519's (RFC 8032), but the secret scalar and the prefix come from SHA-512 of the
password itself instead of a 32-byte seed, so a ready-made signer cannot be used: the curve's
arithmetic is here. It is not constant-time; the password is used once per login.
"""

from __future__ import annotations

import hashlib

from replica_client.errors import MalformedPacketError
from replica_client.protocol.wire.auth.plugin import ClientPlugin

_P = 2**255 - 19
_L = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, -1, _P) % _P

_Point = tuple[int, int, int, int]
_IDENTITY: _Point = (0, 1, 1, 0)


def _add(left: _Point, right: _Point) -> _Point:
    # RFC 8032 section 5.1.4, extended homogeneous coordinates (X, Y, Z, T).
    a = (left[1] - left[0]) * (right[1] - right[0]) % _P
    b = (left[1] + left[0]) * (right[1] + right[0]) % _P
    c = 2 * left[3] * right[3] * _D % _P
    d = 2 * left[2] * right[2] % _P
    e, f, g, h = b - a, d - c, d + c, b + a
    return (e * f % _P, g * h % _P, f * g % _P, e * h % _P)


def _multiply(scalar: int, point: _Point) -> _Point:
    result = _IDENTITY
    while scalar:
        if scalar & 1:
            result = _add(result, point)
        point = _add(point, point)
        scalar >>= 1
    return result


def _base_point() -> _Point:
    y = 4 * pow(5, -1, _P) % _P
    square = (y * y - 1) * pow(_D * y * y + 1, -1, _P) % _P
    x = pow(
        square, (_P + 3) // 8, _P
    )  # a root of this square; of others it may be one of its negative
    if x & 1:
        x = _P - x
    return (x, y, 1, x * y % _P)


_BASE = _base_point()


def _encode(point: _Point) -> bytes:
    inverse = pow(point[2], -1, _P)
    x, y = point[0] * inverse % _P, point[1] * inverse % _P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def _hash_int(*parts: bytes) -> int:
    return int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little") % _L


def _secret(password: bytes) -> tuple[int, bytes]:
    digest = hashlib.sha512(password).digest()
    scalar = int.from_bytes(digest[:32], "little")
    return scalar & ((1 << 254) - 8) | 1 << 254, digest[32:]


def public_key(password: bytes) -> bytes:
    """Return the 32-byte public key, which the server keeps (in Base64) for the account."""
    return _encode(_multiply(_secret(password)[0], _BASE))


def sign(password: bytes, message: bytes) -> bytes:
    """Return the 64-byte signature of the server's 32 random bytes."""
    scalar, prefix = _secret(password)
    nonce = _hash_int(prefix, message)
    commitment = _encode(_multiply(nonce, _BASE))
    challenge = _hash_int(commitment, _encode(_multiply(scalar, _BASE)), message)
    return commitment + ((nonce + challenge * scalar) % _L).to_bytes(32, "little")


def verify(response: bytes, message: bytes, password: bytes) -> bool:
    """Return whether a signature proves the password (server's side)."""
    return response == sign(password, message)


class Ed25519Client(ClientPlugin):
    """Client side of client_ed25519."""

    name = "client_ed25519"

    def begin(self, scramble: bytes) -> bytes:
        """Sign the server's random bytes and return the signature."""
        if len(scramble) < 32:
            raise MalformedPacketError(
                f"client_ed25519: the server sent {len(scramble)} random bytes, not 32"
            )
        return sign(self._credentials.password, scramble[:32])

    def password_hash(self) -> bytes:
        """Return the 32-byte public key; empty without a password."""
        password = self._credentials.password
        return public_key(password) if password else b""
