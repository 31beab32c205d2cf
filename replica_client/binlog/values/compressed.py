"""MariaDB's COMPRESSED columns (VARCHAR and BLOB types 141 and 140).

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

from replica_client.errors import LimitExceededError

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
