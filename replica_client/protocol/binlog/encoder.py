"""The encoder of whole events, and rows events in fragments (MariaDB 12.3): how they are joined and cut.

By the published format; not yet read from a server.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from replica_client.errors import (
    BinlogDecodeError,
    EncodeError,
    LimitExceededError,
    TruncatedEventError,
)
from replica_client.protocol.binlog.event import (
    BinlogEvent,
    BinlogFormat,
    EventBody,
    EventContext,
    is_permuted,
    permuted_type_code,
)
from replica_client.protocol.binlog.events.control import (
    FormatDescriptionEvent,
    has_checksum_fields,
)
from replica_client.protocol.binlog.events.rows import FIRST_FRAGMENT_SIZE, RowsFragmentEvent
from replica_client.protocol.binlog.layout import (
    EVENT_SIZE_OFFSET,
    HEADER_SIZE,
    ROWS_TYPES,
    TYPE_OFFSET,
)
from replica_client.protocol.codec.crc import crc32
from replica_client.protocol.constants.event_types import (
    ChecksumAlgorithm,
    EventFlag,
    EventType,
    event_type_name,
)

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


_BETWEEN: Final = (EventType.HEARTBEAT_LOG_EVENT, EventType.HEARTBEAT_LOG_EVENT_V2)
_MAX_SIZE: Final = (1 << 32) - 1


class FragmentJoiner:
    """The fragments of one rows event that have come so far.

    Args:
        max_size: the most bytes of a rows event.
    """

    __slots__ = ("_count", "_file", "_max_size", "_parts", "_size", "_stated")

    def __init__(self, max_size: int) -> None:
        self._max_size = max_size
        self._parts: list[bytes] = []
        self._count = self._size = 0
        self._stated: int | None = None
        self._file = ""

    def add(self, body: Any, file: str, layout: BinlogFormat) -> bytes | None:
        """Take the next fragment; return the rows event without checksum if it is the last one.

        Raises:
            BinlogDecodeError: a fragment is missing, comes twice or belongs to another rows event, or the
                sizes do not add up.
            LimitExceededError: the rows event is larger than allowed.
        """
        try:
            whole = self._add(body, file)
        except BinlogDecodeError:
            self._parts = []
            raise
        # The published format does not say whether the joined event has a checksum.
        if whole is None or not layout.checksum_size or not ends_in_checksum(whole):
            return whole
        size = len(whole) - layout.checksum_size
        behind = EVENT_SIZE_OFFSET + 4
        return whole[:EVENT_SIZE_OFFSET] + size.to_bytes(4, "little") + whole[behind:size]

    def check_other(self, type_code: int, body: EventBody) -> None:
        """Check that an event that is no fragment may come.

        Raises:
            BinlogDecodeError: fragments are missing.
        """
        if not self._parts or type_code in _BETWEEN:
            return
        done, self._parts = len(self._parts), []
        if isinstance(body, FormatDescriptionEvent) and body.create_timestamp:
            return  # the server stopped in the midst of the transaction
        raise BinlogDecodeError(
            f"{event_type_name(type_code)} comes after fragment {done} of {self._count} of a rows event: "
            "fragments are missing; get the file from the source again"
        )

    def _add(self, body: RowsFragmentEvent, file: str) -> bytes | None:
        count, number = body.fragment_count, body.fragment_number
        done = len(self._parts)
        if not 1 <= number <= count:
            raise BinlogDecodeError(f"fragment {number} of {count} of a rows event cannot be")
        if number != done + 1 or (done and count != self._count):
            before = (
                f"after fragment {done} of {self._count}" if done else "without those before it"
            )
            raise BinlogDecodeError(
                f"fragment {number} of {count} of a rows event comes {before}: fragments are missing or come "
                "twice; get the file from the source again"
            )
        if done and file != self._file:
            raise BinlogDecodeError(
                f"fragment {number} of {count} of a rows event is in another file than those before it "
                f"({self._file})"
            )
        if (number == 1) != bool(body.flags & FIRST_FRAGMENT_SIZE):
            raise BinlogDecodeError(
                f"fragment {number} of {count} of a rows event has flags {body.flags:#x}: only the first one "
                "states the size of the rows event"
            )
        if number == 1:
            self._stated, self._count, self._size, self._file = body.rows_event_size, count, 0, file
            if (body.rows_event_size or 0) > self._max_size:
                raise LimitExceededError(
                    f"rows event of {body.rows_event_size} bytes in fragments is larger than max_event_size "
                    f"({self._max_size})"
                )
        self._size += len(body.fragment)
        if self._size > (self._stated or 0):
            raise BinlogDecodeError(
                f"fragment {number} of {count} of a rows event makes {self._size} bytes, {self._stated} "
                "were announced"
            )
        self._parts.append(body.fragment)
        if number < count:
            return None
        if self._size != self._stated:
            raise BinlogDecodeError(
                f"{count} fragments have {self._size} bytes of a rows event, {self._stated} were announced"
            )
        whole = b"".join(self._parts)
        self._parts = []
        _check(whole)
        return whole


def _check(event: bytes) -> None:
    """Check that joined fragments are a rows event."""
    if len(event) < HEADER_SIZE:
        raise TruncatedEventError(f"joined fragments of {len(event)} bytes are no rows event")
    code = event[TYPE_OFFSET]
    if code not in ROWS_TYPES:
        raise BinlogDecodeError(f"joined fragments are {event_type_name(code)}, no rows event")
    size = int.from_bytes(event[EVENT_SIZE_OFFSET : EVENT_SIZE_OFFSET + 4], "little")
    if size != len(event):
        raise BinlogDecodeError(
            f"joined fragments have {len(event)} bytes, their header says {size}"
        )


def cut_rows(event: bytes, size: int) -> Iterator[RowsFragmentEvent]:
    """Cut a rows event into fragments.

    Args:
        event: the rows event with its header, without checksum.
        size: bytes of each fragment but the last.

    Raises:
        EncodeError: the event is no rows event, too large, or ``size`` is not positive.
    """
    if (
        size < 1
        or not HEADER_SIZE <= len(event) <= _MAX_SIZE
        or event[TYPE_OFFSET] not in ROWS_TYPES
    ):
        raise EncodeError(f"{len(event)} bytes cannot be cut into fragments of {size} bytes")
    count = -(-len(event) // size)
    for number in range(1, count + 1):
        part = event[(number - 1) * size : number * size]
        first = number == 1
        flags, stated = (FIRST_FRAGMENT_SIZE, len(event)) if first else (0, None)
        yield RowsFragmentEvent(count, number, flags, stated, part)
