"""The field-tagged serialisation of ``mysql::serialization`` (MySQL 8.3+).

A message is a version, its own size, the id of the last field that a reader must know, and then
fields: id, value. All numbers have variable length::

    bytes  layout of the first byte (low bit right)  value
    1      xxxxxxx0                                  7 bits
    2      xxxxxx01                                  14 bits
    n      as many ones as bytes follow, then a 0    7 * n bits, n <= 8
    9      11111111                                  64 bits in the 8 bytes that follow

The value's low bits are in the first byte. Signed numbers are written as ``value * 2``, negative
ones as ``-value * 2 - 1``. A text has its length before it; a fixed array is its elements, each a
number.

Spec: MySQL ``mysql/serialization/README.md`` (libs/mysql/serialization).
"""

from __future__ import annotations

from typing import Self

from replica_client.errors import BinlogDecodeError, EncodeError, UnsupportedEventError
from replica_client.protocol.codec.byte_fields import ByteReader, ByteWriter
from replica_client.protocol.codec.quick_dataclass import dataclass

VERSION = 1
"""The only version of the format."""

_LONGEST = 9


def read_unsigned(body: ByteReader) -> int:
    """Read an unsigned number of variable length.

    Raises:
        ShortBufferError: the number is cut.
    """
    first = body.peek()
    if not first & 1:
        body.skip(1)
        return first >> 1
    size = (first ^ (first + 1)).bit_length()  # trailing ones, and one
    return body.uint(size) >> (8 if size == _LONGEST else size)


def read_signed(body: ByteReader) -> int:
    """Read a signed number of variable length.

    Raises:
        ShortBufferError: the number is cut.
    """
    word = read_unsigned(body)
    return ~(word >> 1) if word & 1 else word >> 1


def read_text(body: ByteReader) -> bytes:
    """Read bytes that follow their length.

    Raises:
        ShortBufferError: the bytes are cut.
    """
    return body.take(read_unsigned(body), "text")


def read_array(body: ByteReader, count: int) -> bytes:
    """Read ``count`` numbers below 256, as bytes.

    Raises:
        ShortBufferError: the numbers are cut.
        BinlogDecodeError: a number is larger.
    """
    items = [read_unsigned(body) for _ in range(count)]
    if max(items) > 0xFF:
        raise BinlogDecodeError(f"array of bytes holds {max(items)}", offset=body.offset)
    return bytes(items)


def write_unsigned(out: ByteWriter, value: int) -> ByteWriter:
    """Append a number in its shortest form.

    Raises:
        EncodeError: it is negative or has more than 64 bits.
    """
    if not 0 <= value < 1 << 64:
        raise EncodeError(f"{value} is no unsigned 64-bit number")
    size = max(1, (value.bit_length() + 6) // 7)
    if size >= _LONGEST:
        return out.uint(0xFF, 1).uint(value, 8)
    return out.uint(value << size | (1 << (size - 1)) - 1, size)


def write_signed(out: ByteWriter, value: int) -> ByteWriter:
    """Append a signed number in its shortest form.

    Raises:
        EncodeError: it has more than 64 bits.
    """
    return write_unsigned(out, ~value << 1 | 1 if value < 0 else value << 1)


def write_text(out: ByteWriter, value: bytes) -> ByteWriter:
    """Append bytes after their length."""
    return write_unsigned(out, len(value)).raw(value)


def write_array(out: ByteWriter, value: bytes) -> ByteWriter:
    """Append each byte as a number."""
    for item in value:
        write_unsigned(out, item)
    return out


@dataclass(frozen=True, slots=True)
class MessageHead:
    """A message with its fields as bytes.

    Attributes:
        fields: the message's fields, not parsed.
        last_required_id: id of the last field that a reader must know.
    """

    version: int
    last_required_id: int
    fields: bytes

    @classmethod
    def decode(cls, body: ByteReader) -> Self:
        """Read a whole message.

        Raises:
            ShortBufferError: the message is cut.
            UnsupportedEventError: another version of the format.
            BinlogDecodeError: the size is smaller than the message's head.
        """
        start = body.offset
        version = read_unsigned(body)
        if version != VERSION:
            raise UnsupportedEventError(f"serialisation format version {version} is not known")
        size = read_unsigned(body)
        last_required_id = read_unsigned(body)
        rest = size - (body.offset - start)
        if rest < 0:
            raise BinlogDecodeError(f"message has a size of {size}, smaller than its own head")
        return cls(version, last_required_id, body.take(rest, "message"))

    def encode(self) -> bytes:
        """Encode the whole message; its size includes itself."""
        version = write_unsigned(ByteWriter(), self.version).done()
        tail = write_unsigned(ByteWriter(), self.last_required_id).raw(self.fields).done()
        size_width = 1
        while True:
            total = len(version) + size_width + len(tail)
            size = write_unsigned(ByteWriter(), total).done()
            if len(size) == size_width:
                return version + size + tail
            size_width = len(size)
