"""The server's side of the login, and the forms in which it stores passwords.

| plugin | kept | shown by MySQL as |
|---|---|---|
| mysql_native_password | SHA1(SHA1(password)) | ``*`` and 40 hexadecimal digits |
| caching_sha2_password | SHA-256 crypt, 5000 rounds or more | ``$A$005$``, 20 bytes of salt, 43 characters |

From: MySQL's ``sql/auth/sha2_password.cc``, ``sql/auth/password.c``; "Unix crypt using SHA-256 and SHA-512" (Drepper);
MySQL's form differs in the salt alone: 20 bytes of any value instead of 16 characters.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import field
from typing import TYPE_CHECKING, Final

from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.wire.auth import ed25519, parsec, passwords
from replica_client.protocol.wire.auth.passwords import decrypt_password, verify_native, verify_sha2
from replica_client.protocol.wire.packets import AuthMoreData

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey


_ALPHABET: Final = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SIZE: Final = 32
LONG_SCRAMBLE_PLUGINS: Final = ("client_ed25519", "parsec")
"""Plugins with 32 random bytes of their own, which the greeting cannot carry."""
SWITCHED_PLUGINS: Final = (*LONG_SCRAMBLE_PLUGINS, "dialog")
"""Plugins that a greeting does not name: the login begins with another one."""
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
        if data == passwords.REQUEST_SHA256_KEY:
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
            if data == passwords.REQUEST_CACHING_KEY and not self.secure:
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
            return AuthMoreData(passwords.FAST_AUTH_SUCCEEDED).encode()
        self._waiting = "password"
        return AuthMoreData(passwords.FULL_AUTH_NEEDED).encode()

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
    return payload == AuthMoreData(passwords.FAST_AUTH_SUCCEEDED).encode()
