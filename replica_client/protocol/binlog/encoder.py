"""The encoder of whole events: header, body, checksum."""

from __future__ import annotations

from dataclasses import replace

from replica_client.protocol.binlog.context import (
    BinlogFormat,
    EventContext,
    is_permuted,
    permuted_type_code,
)
from replica_client.protocol.binlog.event import BinlogEvent
from replica_client.protocol.binlog.events.control import (
    FormatDescriptionEvent,
    has_checksum_fields,
)
from replica_client.protocol.binlog.layout import HEADER_SIZE
from replica_client.protocol.codec.crc import crc32
from replica_client.protocol.constants.event_types import ChecksumAlgorithm, EventFlag

_CHECKSUM_SIZE = 4
_FLAGS_OFFSET = 17


def event_checksum(data: bytes | memoryview, is_format_description: bool = False) -> int:
    """Return the CRC-32 of an event's bytes without its checksum.

    For a format description, ``LOG_EVENT_BINLOG_IN_USE_F`` is cleared first, as the server does:
    closing the file clears the flag, and the checksum does not change.
    """
    if is_format_description and len(data) > _FLAGS_OFFSET:
        low = data[_FLAGS_OFFSET]
        if low & EventFlag.LOG_EVENT_BINLOG_IN_USE_F:
            cleared = bytes((low & ~EventFlag.LOG_EVENT_BINLOG_IN_USE_F,))
            view = memoryview(data)
            head = crc32(cleared, crc32(view[:_FLAGS_OFFSET]))
            return crc32(view[_FLAGS_OFFSET + 1 :], head)
    return crc32(data)


def ends_in_checksum(data: bytes) -> bool:
    """Return whether the last bytes of an event are the CRC-32 of those before them."""
    end = len(data) - _CHECKSUM_SIZE
    if end < HEADER_SIZE:
        return False
    return event_checksum(memoryview(data)[:end]) == int.from_bytes(data[end:], "little")


def encode_event(event: BinlogEvent, format: BinlogFormat) -> bytes:
    """Encode a whole event.

    Args:
        event: the event; ``event_size`` of its header is computed, not used.
        format: layout of the target file; a format description has its own.

    Raises:
        EncodeError: a field does not fit.
    """
    body = event.body
    header_size, checksum_size = format.header_size, format.checksum_size
    is_format_description = isinstance(body, FormatDescriptionEvent)
    if isinstance(body, FormatDescriptionEvent):
        header_size = HEADER_SIZE
        checksum_size = _CHECKSUM_SIZE if has_checksum_fields(body.server_version) else 0
    header = event.header
    data: bytes = body.encode(EventContext(format, header.type_code, header.flags))
    size = header_size + len(data) + checksum_size
    if size != header.event_size:
        header = replace(header, event_size=size)
    if is_permuted(format.server_version):
        header = replace(header, type_code=permuted_type_code(header.type_code))
    whole = header.encode(header_size) + data
    if not checksum_size:
        return whole
    checksum = event_checksum(whole, is_format_description)
    if is_format_description and body.checksum_algorithm == ChecksumAlgorithm.OFF:
        # This checksum is never verified; keep the value from the file.
        checksum = checksum if event.checksum is None else event.checksum
    return whole + checksum.to_bytes(_CHECKSUM_SIZE, "little")
