"""CHAR, VARCHAR, TEXT and the binary string types.

=====================  ======================================================================
CHAR(n), BINARY(n)     length (1 byte, 2 if the column can have more than 255 bytes), bytes
                       without trailing spaces (BINARY: without trailing zero bytes)
VARCHAR, VARBINARY     length (1 or 2 bytes, likewise), bytes
TEXT, BLOB             length (1 to 4 bytes), bytes
=====================  ======================================================================

As in ``SELECT``, CHAR has no trailing spaces and BINARY has all its zero bytes. Bytes of the
``binary`` character set stay bytes, and so do bytes whose character set is not known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from replica_client.codec.charsets import charset_of, encode_text, text_decoder
from replica_client.errors import EncodeError

BINARY_COLLATION = 63
"""Collation id of bytes that are not text."""

TextPolicy = Literal["strict", "replace", "bytes"]
TextFunction = Callable[[bytes], str | bytes]


def is_utf8(collation_id: int) -> bool:
    """Return whether text of this collation is UTF-8 (utf8mb3, utf8mb4)."""
    return charset_of(collation_id).name.startswith("utf8")


def text_function(collation_id: int | None, policy: TextPolicy = "strict") -> TextFunction | None:
    """Return the function that decodes a column's bytes; None where bytes stay bytes.

    Args:
        collation_id: the column's collation; None when it is not known.
        policy: for invalid bytes: ``strict`` raises UnicodeDecodeError, ``replace`` writes U+FFFD,
            ``bytes`` returns the value as bytes.

    Raises:
        UnknownCollationError: no MySQL or MariaDB has such a collation.
    """
    if collation_id is None or collation_id == BINARY_COLLATION:
        return None
    if policy != "bytes":
        return text_decoder(collation_id, policy)
    decode = text_decoder(collation_id, "strict")

    def text_or_bytes(data: bytes) -> str | bytes:
        try:
            return decode(data)
        except UnicodeDecodeError:
            return data

    return text_or_bytes


def char_function(collation_id: int | None, policy: TextPolicy = "strict") -> TextFunction | None:
    """Return a :func:`text_function` for a CHAR, which strips trailing spaces."""
    text = text_function(collation_id, policy)
    if text is None:
        return None
    decode = text

    def without_spaces(data: bytes) -> str | bytes:
        value = decode(data)
        return value.rstrip(" ") if isinstance(value, str) else value

    return without_spaces


def decode_char(
    data: bytes, collation_id: int | None, policy: TextPolicy = "strict"
) -> str | bytes:
    """Decode a CHAR without trailing spaces."""
    decode = char_function(collation_id, policy)
    return data if decode is None else decode(data)


def decode_binary(data: bytes, length: int) -> bytes:
    """Return a BINARY(length) with the zero bytes that its row image omits.

    Raises:
        ValueError: the value is longer than the column.
    """
    if len(data) > length:
        raise ValueError(f"{len(data)} bytes in BINARY({length})")
    return data.ljust(length, b"\0")


def encode_binary(value: bytes) -> bytes:
    """Encode a BINARY as in a row image, without its length."""
    return value.rstrip(b"\0")


def encode_string(value: str | bytes, length_size: int, collation_id: int | None = None) -> bytes:
    """Encode a string as in a row image: its length, then its bytes.

    Raises:
        EncodeError: the string is too long, or not in the character set.
    """
    if isinstance(value, str):
        if collation_id is None:
            raise EncodeError("text needs a collation to be written")
        value = encode_text(value, collation_id)
    if len(value) >> (8 * length_size):
        raise EncodeError(f"{len(value)} bytes need more than {length_size} length bytes")
    return len(value).to_bytes(length_size, "little") + value
