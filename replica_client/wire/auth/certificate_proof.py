"""Certificate fingerprints, and MariaDB's proof of a self-signed certificate by the password.

MariaDB >= 11.4 sends in the OK packet of a login, as its text, 0x01 and 64 hexadecimal digits:
SHA-256 of what the server stores of the password
(:meth:`~replica_client.wire.auth.plugin.ClientPlugin.password_hash`), the 20 random bytes of its
greeting, and the SHA-256 fingerprint of its certificate. Somebody between client and server with
another certificate cannot make this proof.

Spec: MariaDB KB "Zero-Configuration SSL"; MDEV-31855.
"""

from __future__ import annotations

import hashlib
import hmac

SCRAMBLE_SIZE = 20

_PREFIX = b"\x41\x01"  # 65 bytes of text; what they are
_DIGITS = 64


def fingerprint_of(certificate: bytes) -> str:
    """Return ``sha256:`` and the hex digits of a DER certificate's fingerprint; empty for none."""
    return f"sha256:{hashlib.sha256(certificate).hexdigest()}" if certificate else ""


def certificate_proof(password_hash: bytes, scramble: bytes, fingerprint: bytes) -> bytes:
    """Build the text of the OK packet that proves a certificate.

    Args:
        password_hash: the password as the server stores it.
        scramble: of the greeting, also when a plugin has random bytes of its own.
        fingerprint: SHA-256 of the server's certificate (DER), 32 bytes.
    """
    digest = hashlib.sha256(password_hash + scramble[:SCRAMBLE_SIZE] + fingerprint)
    return _PREFIX + digest.hexdigest().upper().encode()


def has_proof(info: bytes) -> bool:
    """Return whether the text of an OK packet is a proof, right or wrong."""
    return info.startswith(_PREFIX) and len(info) >= len(_PREFIX) + _DIGITS


def is_proved(info: bytes, password_hash: bytes, scramble: bytes, certificate: bytes) -> bool:
    """Return whether the text of an OK packet proves a certificate (DER)."""
    expected = certificate_proof(password_hash, scramble, hashlib.sha256(certificate).digest())
    return hmac.compare_digest(info[: len(expected)].upper(), expected)
