"""SHA-256 crypt, the hash in which MySQL stores passwords of caching_sha2_password.

From: "Unix crypt using SHA-256 and SHA-512" (Ulrich Drepper). MySQL's form differs only in the
salt: 20 bytes of any value instead of 16 characters.

From: "Unix crypt using SHA-256 and SHA-512" (Ulrich Drepper). MySQL's form differs in the salt alone: 20 bytes of
any value instead of 16 characters.
"""

from __future__ import annotations

import hashlib
from typing import Final

_ALPHABET: Final = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SIZE: Final = 32
MAX_PASSWORD_SIZE: Final = 256
"""In bytes; MySQL accepts no longer passwords, and the work grows with the square of the size."""

# The order in which the digest's bytes are written: three bytes as four characters, and the last
# two.
_TRIPLES: Final = tuple(
    tuple(group)
    for group in (
        (0, 10, 20), (21, 1, 11), (12, 22, 2), (3, 13, 23), (24, 4, 14),
        (15, 25, 5), (6, 16, 26), (27, 7, 17), (18, 28, 8), (9, 19, 29),
    )
)  # fmt: skip


def sha256_crypt(password: bytes, salt: bytes, rounds: int) -> bytes:
    """Return the hash of a password, 43 characters; empty when the password is too long."""
    if len(password) > MAX_PASSWORD_SIZE:
        return b""
    size = len(password)
    other = hashlib.sha256(password + salt + password).digest()
    first = hashlib.sha256(password + salt + _repeated(other, size))
    bits = size
    while bits:
        first.update(other if bits & 1 else password)
        bits >>= 1
    digest = first.digest()
    password_part = _repeated(hashlib.sha256(password * size).digest(), size)
    salt_part = _repeated(hashlib.sha256(salt * (16 + digest[0])).digest(), len(salt))
    for number in range(rounds):
        odd = number & 1
        step = hashlib.sha256(password_part if odd else digest)
        if number % 3:
            step.update(salt_part)
        if number % 7:
            step.update(password_part)
        step.update(digest if odd else password_part)
        digest = step.digest()
    return _text(digest)


def _repeated(data: bytes, size: int) -> bytes:
    return (data * (size // _SIZE + 1))[:size]


def _text(digest: bytes) -> bytes:
    out = bytearray()
    for a, b, c in _TRIPLES:
        out += _characters(digest[a] << 16 | digest[b] << 8 | digest[c], 4)
    out += _characters(digest[31] << 8 | digest[30], 3)
    return bytes(out)


def _characters(value: int, count: int) -> bytes:
    return bytes(_ALPHABET[value >> 6 * at & 0x3F] for at in range(count))
