"""mysql_native_password, and the clear-text methods."""

from __future__ import annotations

import hashlib

from replica_client.errors import UnexpectedPacketError
from replica_client.protocol.wire.auth.plugin import ClientPlugin


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
