"""MariaDB's UUID, INET4 and INET6 as text.

In a table map they look like BINARY columns of 16, 4 and 16 bytes; only the table's definition
shows the type. As for any BINARY column, row images omit trailing zero bytes.

Spec: MariaDB ``sql_type_uuid``, ``sql_type_inet`` (text forms as their ``to_string``).
"""

from __future__ import annotations

import ipaddress

UUID_SIZE = 16
INET4_SIZE = 4
INET6_SIZE = 16


def decode_uuid(data: bytes) -> str:
    """Return a UUID's text, in lower case with dashes."""
    text = _padded(data, UUID_SIZE).hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def decode_inet4(data: bytes) -> str:
    """Return an INET4's dotted text."""
    return str(ipaddress.IPv4Address(_padded(data, INET4_SIZE)))


def decode_inet6(data: bytes) -> str:
    """Return an INET6's text, as MariaDB writes it.

    The first longest run of zero groups becomes ``::``, even a run of one group; mapped and
    compatible IPv4 addresses (``::ffff:1.2.3.4``, ``::1.2.3.4``) have dots.
    """
    data = _padded(data, INET6_SIZE)
    groups = [int.from_bytes(data[at : at + 2], "big") for at in range(0, INET6_SIZE, 2)]
    start, size = _longest_zero_run(groups)
    if start == 0 and (size == 6 or (size == 5 and groups[5] == 0xFFFF)):
        return ("::" if size == 6 else "::ffff:") + decode_inet4(data[12:])
    if not size:
        return ":".join(f"{group:x}" for group in groups)
    head = ":".join(f"{group:x}" for group in groups[:start])
    tail = ":".join(f"{group:x}" for group in groups[start + size :])
    return f"{head}::{tail}"


def _longest_zero_run(groups: list[int]) -> tuple[int, int]:
    """Return start and length of the first longest run of zeros."""
    best, start = (0, 0), None
    for at, group in enumerate([*groups, 1]):
        if group == 0:
            start = at if start is None else start
        elif start is not None:
            if at - start > best[1]:
                best = (start, at - start)
            start = None
    return best


def encode_uuid(value: str) -> bytes:
    """Encode a UUID as 16 bytes."""
    import uuid  # no reader needs it

    return uuid.UUID(value).bytes


def encode_inet4(value: str) -> bytes:
    """Encode an INET4 as 4 bytes."""
    return ipaddress.IPv4Address(value).packed


def encode_inet6(value: str) -> bytes:
    """Encode an INET6 as 16 bytes."""
    return ipaddress.IPv6Address(value).packed


def _padded(data: bytes, size: int) -> bytes:
    if len(data) > size:
        raise ValueError(f"{len(data)} bytes, must be at most {size}")
    return data.ljust(size, b"\0")
