"""CHAR, VARCHAR, TEXT, the binary string types, and MariaDB's COMPRESSED columns.

=====================  ======================================================================
CHAR(n), BINARY(n)     length (1 byte, 2 if the column can have more than 255 bytes), bytes
                       without trailing spaces (BINARY: without trailing zero bytes)
VARCHAR, VARBINARY     length (1 or 2 bytes, likewise), bytes
TEXT, BLOB             length (1 to 4 bytes), bytes
=====================  ======================================================================

As in ``SELECT``, CHAR has no trailing spaces and BINARY has all its zero bytes. Bytes of the
``binary`` character set stay bytes, and so do bytes whose character set is not known.

An empty value has no bytes. Otherwise::

    size  field
    1     head    bits 4-7: 0 not compressed, 8 zlib; bit 3: no zlib header and checksum;
                  bits 0-2: bytes of the length that follows
    0..4  length  of the value, big-endian (only if compressed)
    rest  data

Spec: MariaDB KB "Storage-Engine Independent Column Compression"; ``compress_zlib`` (field_comp.cc).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Literal

from replica_client.errors import EncodeError, LimitExceededError
from replica_client.protocol.codec.charsets import charset_of, encode_text, text_decoder

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


_PLAIN = 0
_ZLIB = 8
_RAW_FLAG = 8
_MAX_LENGTH_SIZE = 4


def decode_compressed(data: bytes, max_size: int = 4096 << 20) -> bytes:
    """Return the value of a COMPRESSED column.

    Args:
        data: the stored bytes.
        max_size: the largest value that is decompressed (``max_uncompressed_size``).

    Raises:
        ValueError: the bytes are not a compressed value.
        LimitExceededError: the announced size is larger than ``max_size``.
    """
    if not data:
        return b""
    method, length_size = data[0] >> 4, data[0] & 7
    if method == _PLAIN:
        if data[0]:
            raise ValueError(f"compressed column begins with 0x{data[0]:02x}")
        return data[1:]
    if method != _ZLIB or not 0 < length_size <= _MAX_LENGTH_SIZE or len(data) <= length_size:
        raise ValueError(f"compressed column begins with 0x{data[0]:02x}")
    length = int.from_bytes(data[1 : 1 + length_size], "big")
    if length > max_size:
        raise LimitExceededError(
            f"compressed column of {length} bytes is larger than max_uncompressed_size ({max_size})"
        )
    inflater = zlib.decompressobj(-zlib.MAX_WBITS if data[0] & _RAW_FLAG else zlib.MAX_WBITS)
    try:
        # One byte more than announced detects a value that is longer than announced.
        value = inflater.decompress(data[1 + length_size :], length + 1)
    except zlib.error as error:
        raise ValueError(f"compressed column: {error}") from None
    if len(value) != length or not inflater.eof:
        raise ValueError(f"compressed column has {len(value)} bytes, says {length}")
    if inflater.unused_data:
        raise ValueError("bytes follow the compressed column's data")
    return value


def encode_compressed(value: bytes, level: int = 6, raw: bool = True) -> bytes:
    """Return the stored bytes; uncompressed if compression would make them longer."""
    if not value:
        return b""
    deflater = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS if raw else zlib.MAX_WBITS)
    length = len(value).to_bytes((len(value).bit_length() + 7) // 8, "big")
    head = bytes((_ZLIB << 4 | len(length) | (_RAW_FLAG if raw else 0),)) + length
    packed = head + deflater.compress(value) + deflater.flush()
    return packed if len(packed) <= len(value) else b"\0" + value
