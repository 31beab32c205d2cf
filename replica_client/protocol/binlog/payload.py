"""TRANSACTION_PAYLOAD events, and the serialisation of ``mysql::serialization``.

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

import io
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final, Self

from replica_client.errors import (
    BinlogDecodeError,
    ConfigError,
    EncodeError,
    LimitExceededError,
    ShortBufferError,
    TruncatedEventError,
    UnsupportedEventError,
)
from replica_client.protocol.binlog.event import DEFAULT_CONTEXT, DecodeOptions
from replica_client.protocol.binlog.events.transaction_payload import (
    PayloadCompression,
    TransactionPayloadEvent,
)
from replica_client.protocol.binlog.layout import HEADER_SIZE
from replica_client.protocol.codec.byte_fields import ByteReader, ByteWriter
from replica_client.protocol.codec.compression import BoundedReader, zstd_compress, zstd_reader
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.event_types import EventType, event_type_name

_TYPE_OFFSET = 4
_SIZE_OFFSET = 9
NOT_INSIDE: Final = frozenset(
    (
        EventType.START_EVENT_V3,
        EventType.ROTATE_EVENT,
        EventType.FORMAT_DESCRIPTION_EVENT,
        EventType.TRANSACTION_PAYLOAD_EVENT,
        EventType.START_ENCRYPTION_EVENT,
        EventType.PARTIAL_ROW_DATA_EVENT,
    )
)
"""Types of events that cannot be inside a payload."""


def open_payload(event: TransactionPayloadEvent, limit: int) -> BoundedReader:
    """Return a reader that decompresses the payload while it is read.

    Args:
        event: the event that holds the payload.
        limit: the most bytes to read.

    Raises:
        UnsupportedEventError: an unknown compression.
        ConfigError: the package that decompresses it is not installed.
    """
    if event.compression_type == PayloadCompression.NONE:
        return BoundedReader(io.BytesIO(event.payload), limit)
    if event.compression_type == PayloadCompression.ZSTD:
        return zstd_reader(event.payload, limit)
    raise UnsupportedEventError(f"payload compression {event.compression_type} is not known")


def split_payload(event: TransactionPayloadEvent, options: DecodeOptions) -> Iterator[bytes]:
    """Yield the bytes of each event inside, in order, holding one at a time in memory.

    Raises:
        BinlogDecodeError: broken compression, wrong sizes, or an event that cannot be inside a
            payload.
        LimitExceededError: more than the option max_uncompressed_size, or an event of more than
            max_event_size.
    """
    stream = open_payload(event, options.max_uncompressed_size)
    announced = event.uncompressed_size
    while head := stream.read(HEADER_SIZE):
        at = stream.offset - len(head)
        if len(head) < HEADER_SIZE:
            raise TruncatedEventError(f"payload ends inside a header, {at} bytes from its begin")
        size = int.from_bytes(head[_SIZE_OFFSET : _SIZE_OFFSET + 4], "little")
        if size < HEADER_SIZE:
            raise BinlogDecodeError(f"event {at} bytes inside the payload has a size of {size}")
        if size > options.max_event_size:
            raise LimitExceededError(
                f"event of {size} bytes is larger than max_event_size ({options.max_event_size})"
            )
        if announced is not None and at + size > announced:
            raise TruncatedEventError(
                f"event of {size} bytes, {at} bytes inside a payload of {announced}"
            )
        if head[_TYPE_OFFSET] in NOT_INSIDE:
            raise BinlogDecodeError(
                f"{event_type_name(head[_TYPE_OFFSET])} cannot be inside a payload"
            )
        rest = stream.read(size - HEADER_SIZE)
        if len(rest) < size - HEADER_SIZE:
            raise TruncatedEventError(f"payload ends inside an event of {size} bytes")
        yield head + rest
    if announced is not None and stream.offset != announced:
        raise BinlogDecodeError(
            f"payload gives {stream.offset} bytes, {announced} bytes were announced"
        )


def payload_bytes(body: bytes, options: DecodeOptions, most: int) -> bytes | None:
    """Return the bytes of all events inside.

    Args:
        body: of a TRANSACTION_PAYLOAD event.
        options: limits.
        most: the most bytes to return.

    Returns:
        the bytes; None if there are more, if their number is not announced, or for any error, which
        :func:`split_payload` reports.
    """
    try:
        event = TransactionPayloadEvent.decode(
            ByteReader(body), replace(DEFAULT_CONTEXT, options=options)
        )
        size = event.uncompressed_size
        if size is None or size > most or event.extra:
            return None
        stream = open_payload(event, options.max_uncompressed_size)
        plain = stream.read(size)
        return plain if len(plain) == size and not stream.read(1) else None
    except (BinlogDecodeError, ConfigError, ShortBufferError):
        return None


def make_payload(
    events: Iterable[bytes], compression: PayloadCompression = PayloadCompression.ZSTD
) -> TransactionPayloadEvent:
    """Put events (without checksums) into a payload.

    Raises:
        EncodeError: an event is smaller than a header.
    """
    parts = list(events)
    if any(len(part) < HEADER_SIZE for part in parts):
        raise EncodeError(f"an event has at least {HEADER_SIZE} bytes")
    plain = b"".join(parts)
    payload = plain if compression == PayloadCompression.NONE else zstd_compress(plain)
    return TransactionPayloadEvent.of(payload, compression, len(plain))


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
        raise EncodeError(f"{value} is not an unsigned 64-bit number")
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
