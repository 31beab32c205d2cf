"""Read and write TRANSACTION_PAYLOAD events, decompressing piece by piece."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from replica_client.errors import (
    BinlogDecodeError,
    ConfigError,
    EncodeError,
    LimitExceededError,
    ShortBufferError,
    TruncatedEventError,
    UnsupportedEventError,
)
from replica_client.protocol.binlog.context import DEFAULT_CONTEXT, DecodeOptions
from replica_client.protocol.binlog.events.transaction_payload import (
    PayloadCompression,
    TransactionPayloadEvent,
)
from replica_client.protocol.binlog.layout import HEADER_SIZE
from replica_client.protocol.codec.byte_fields import ByteReader
from replica_client.protocol.codec.compression import BoundedReader, zstd_compress, zstd_reader
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
