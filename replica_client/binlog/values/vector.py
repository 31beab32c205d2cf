"""VECTOR: consecutive 4-byte floats, little-endian.

MySQL 9 has its own type code for VECTOR. MariaDB 11.7 and later write a VECTOR as a binary string,
so that only the table's definition shows the type.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from replica_client.binlog.values.numbers import decode_float
from replica_client.errors import EncodeError

_ITEM_SIZE = 4


def decode_vector(data: bytes) -> tuple[float, ...]:
    """Return the vector's numbers, each the shortest that reads back as its 4-byte float.

    Raises:
        ValueError: the number of bytes is no multiple of four.
    """
    if len(data) % _ITEM_SIZE:
        raise ValueError(f"a vector of {len(data)} bytes is no whole number of floats")
    return tuple(decode_float(data[at : at + 4]) for at in range(0, len(data), _ITEM_SIZE))


def encode_vector(value: Sequence[float]) -> bytes:
    """Encode a vector."""
    try:
        return struct.pack(f"<{len(value)}f", *value)
    except OverflowError as error:
        raise EncodeError("a number is too large for a vector") from error
