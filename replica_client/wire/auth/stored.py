"""Passwords as a server stores them, to check a client's proof, if possible without the password.

| plugin | kept | shown by MySQL as |
|---|---|---|
| mysql_native_password | SHA1(SHA1(password)) | ``*`` and 40 hexadecimal digits |
| caching_sha2_password | SHA-256 crypt, 5000 rounds or more | ``$A$005$``, 20 bytes of salt, 43 characters |

From: MySQL's ``sql/auth/sha2_password.cc``, ``sql/auth/password.c``; "Unix crypt using SHA-256" (Drepper).
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from typing import Final

from replica_client.wire.auth.caching_sha2 import verify_sha2
from replica_client.wire.auth.native_password import verify_native
from replica_client.wire.auth.sha256_crypt import sha256_crypt

_NATIVE: Final = re.compile(r"\*([0-9A-Fa-f]{40})")
_CACHING_SHA2: Final = re.compile(rb"\$A\$([0-9A-F]{3})\$(.{20})([./0-9A-Za-z]{43})", re.DOTALL)
_ROUNDS_STEP: Final = 1000
_SALT_SIZE: Final = 20
_DECOY_SIZE: Final = 32
_CRYPT_SIZE: Final = 43


class StoredPassword:
    """A server's knowledge of an account's password."""

    __slots__ = ()

    is_cached = True
    """caching_sha2_password: whether the fast path can be taken."""

    @property
    def is_empty(self) -> bool:
        """Whether the account has no password."""
        return False

    def proves_native(self, response: bytes, scramble: bytes) -> bool:
        """Return whether a response of mysql_native_password is right."""
        return False

    def proves_sha2(self, response: bytes, scramble: bytes) -> bool:
        """Return whether a response of caching_sha2_password's fast path is right."""
        return False

    def is_password(self, clear: bytes) -> bool:
        """Return whether ``clear`` is the password."""
        return False

    def is_same(self, other: StoredPassword) -> bool:
        """Return whether another object was made from the same password or hash."""
        return self is other

    def decoy(self) -> StoredPassword:
        """Return an unknown password of the same form and cost."""
        return ClearPassword(secrets.token_bytes(_DECOY_SIZE))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"  # never the secret


class ClearPassword(StoredPassword):
    """The password itself; works with every plugin."""

    __slots__ = ("password",)

    def __init__(self, password: bytes) -> None:
        self.password = password

    @property
    def is_empty(self) -> bool:
        """Whether the account has no password."""
        return not self.password

    def proves_native(self, response: bytes, scramble: bytes) -> bool:
        """Return whether a response of mysql_native_password is right."""
        return verify_native(response, scramble, self.password)

    def proves_sha2(self, response: bytes, scramble: bytes) -> bool:
        """Return whether a response of caching_sha2_password's fast path is right."""
        return verify_sha2(response, scramble, self.password)

    def is_password(self, clear: bytes) -> bool:
        """Return whether ``clear`` is the password."""
        return hmac.compare_digest(clear, self.password)

    def is_same(self, other: StoredPassword) -> bool:
        """Return whether another object holds the same clear password."""
        return isinstance(other, ClearPassword) and other.password == self.password


class NativeVerifier(StoredPassword):
    """SHA1(SHA1(password)), for mysql_native_password."""

    __slots__ = ("_stage2",)

    def __init__(self, stage2: bytes) -> None:
        self._stage2 = stage2

    @classmethod
    def of(cls, password: bytes) -> NativeVerifier:
        """Create the verifier of a password that is not empty."""
        return cls(_sha1(_sha1(password)))

    @classmethod
    def parse(cls, text: str) -> NativeVerifier:
        """Parse ``*94BDCEBE…``, the form in ``mysql.user``.

        Raises:
            ValueError: it is not of that form.
        """
        match = _NATIVE.fullmatch(text)
        if match is None:
            raise ValueError("a mysql_native_password hash is * and 40 hexadecimal digits")
        return cls(bytes.fromhex(match[1]))

    def proves_native(self, response: bytes, scramble: bytes) -> bool:
        """Return whether SHA1(response XOR SHA1(scramble + stage2)) is stage2."""
        if len(response) != len(self._stage2):
            return False
        mask = _sha1(scramble[:_SALT_SIZE] + self._stage2)
        stage1 = bytes(a ^ b for a, b in zip(response, mask, strict=True))
        return hmac.compare_digest(_sha1(stage1), self._stage2)

    def is_password(self, clear: bytes) -> bool:
        """Return whether ``clear`` is the password."""
        return hmac.compare_digest(_sha1(_sha1(clear)), self._stage2)

    def is_same(self, other: StoredPassword) -> bool:
        """Return whether another verifier has the same hash."""
        return isinstance(other, NativeVerifier) and other._stage2 == self._stage2

    def decoy(self) -> StoredPassword:
        """Return a random hash, which no known password has."""
        return NativeVerifier(secrets.token_bytes(_SALT_SIZE))


class Sha2Verifier(StoredPassword):
    """SHA256(SHA256(password)), or the crypt text until a client has shown the password once.

    As on a server, the fast path opens with the first full login.
    """

    __slots__ = ("_crypt", "_stage2")

    def __init__(self, stage2: bytes = b"", crypt: tuple[int, bytes, bytes] | None = None) -> None:
        self._stage2 = stage2
        self._crypt = crypt

    @classmethod
    def of(cls, password: bytes) -> Sha2Verifier:
        """Create the verifier of a password that is not empty."""
        return cls(_sha256(_sha256(password)))

    @classmethod
    def parse(cls, data: bytes) -> Sha2Verifier:
        """Parse ``$A$005$…``, the form in ``mysql.user``; the salt may hold any bytes.

        Raises:
            ValueError: it is not of that form.
        """
        match = _CACHING_SHA2.fullmatch(data)
        if match is None:
            raise ValueError(
                "a caching_sha2_password hash is $A$, 3 hexadecimal digits, $, 20 bytes of salt and 43 "
                "characters"
            )
        return cls(crypt=(int(match[1], 16) * _ROUNDS_STEP, match[2], match[3]))

    @property
    def is_cached(self) -> bool:  # type: ignore[override]
        """Whether SHA256(SHA256(password)) is known."""
        return bool(self._stage2)

    def proves_sha2(self, response: bytes, scramble: bytes) -> bool:
        """Return whether SHA256(response XOR SHA256(stage2 + scramble)) is stage2."""
        if len(response) != hashlib.sha256().digest_size or not self._stage2:
            return False
        mask = _sha256(self._stage2 + scramble[:_SALT_SIZE])
        stage1 = bytes(a ^ b for a, b in zip(response, mask, strict=True))
        return hmac.compare_digest(_sha256(stage1), self._stage2)

    def is_password(self, clear: bytes) -> bool:
        """Return whether ``clear`` is the password; takes some milliseconds the first time."""
        stage2 = _sha256(_sha256(clear))
        if self._stage2:
            return hmac.compare_digest(stage2, self._stage2)
        if self._crypt is None:
            return False
        rounds, salt, expected = self._crypt
        if not hmac.compare_digest(sha256_crypt(clear, salt, rounds), expected):
            return False
        self._stage2 = stage2
        return True

    def is_same(self, other: StoredPassword) -> bool:
        """Return whether another verifier is certainly of the same password.

        A password and its crypt text can be compared once a client has shown the password.
        """
        if not isinstance(other, Sha2Verifier):
            return False
        if self._stage2 and other._stage2:
            return hmac.compare_digest(self._stage2, other._stage2)
        return self._crypt is not None and self._crypt == other._crypt

    def decoy(self) -> StoredPassword:
        """Return a random hash that is as costly to check as this one is now."""
        if self._stage2 or self._crypt is None:
            return Sha2Verifier(secrets.token_bytes(_DECOY_SIZE))
        rounds, _, _ = self._crypt
        return Sha2Verifier(
            crypt=(rounds, secrets.token_bytes(_SALT_SIZE), secrets.token_bytes(_CRYPT_SIZE))
        )


def stored_password(plugin: str, password: bytes) -> StoredPassword:
    """Return the stored form of a password for an account's plugin.

    That is the password itself for plugins that need it.
    """
    if password and plugin == "mysql_native_password":
        return NativeVerifier.of(password)
    if password and plugin == "caching_sha2_password":
        return Sha2Verifier.of(password)
    return ClearPassword(password)


def _sha1(data: bytes) -> bytes:
    return hashlib.sha1(data, usedforsecurity=False).digest()


def _sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
