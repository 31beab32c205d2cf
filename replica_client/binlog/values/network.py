"""MariaDB's UUID, INET4 and INET6 as text.

In a table map they are fixed binary strings of 16, 4 and 16 bytes, and no metadata tells them from
BINARY columns; only the table's definition does. In row images trailing zero bytes are stripped, as
of any BINARY column.

Spec: MariaDB ``sql_type_uuid``, ``sql_type_inet`` (text forms as their ``to_string``).
"""

from __future__ import annotations

import ipaddress
import uuid

UUID_SIZE = 16
INET4_SIZE = 4
INET6_SIZE = 16


def decode_uuid(data: bytes) -> str:
    """A UUID's text, lower case with dashes."""
    return str(uuid.UUID(bytes=_padded(data, UUID_SIZE)))


def decode_inet4(data: bytes) -> str:
    """An INET4's dotted text."""
    return str(ipaddress.IPv4Address(_padded(data, INET4_SIZE)))


def decode_inet6(data: bytes) -> str:
    """An INET6's text, in MariaDB's spelling (``::ffff:1.2.3.4`` and ``::1.2.3.4`` with dots)."""
    data = _padded(data, INET6_SIZE)
    if data[:10] == bytes(10) and data[10:12] in (b"\0\0", b"\xff\xff") and any(data[12:14]):
        prefix = "::ffff:" if data[10] else "::"
        return prefix + decode_inet4(data[12:])
    return str(ipaddress.IPv6Address(data))


def encode_uuid(value: str) -> bytes:
    """The 16 bytes of a UUID."""
    return uuid.UUID(value).bytes


def encode_inet4(value: str) -> bytes:
    """The 4 bytes of an INET4."""
    return ipaddress.IPv4Address(value).packed


def encode_inet6(value: str) -> bytes:
    """The 16 bytes of an INET6."""
    return ipaddress.IPv6Address(value).packed


def _padded(data: bytes, size: int) -> bytes:
    if len(data) > size:
        raise ValueError(f"{len(data)} bytes, must be at most {size}")
    return data.ljust(size, b"\0")
