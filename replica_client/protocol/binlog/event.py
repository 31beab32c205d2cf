"""An event: its common header, its position, its bytes, and a scan of a file's headers."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from enum import Enum
from struct import Struct
from typing import Any, Final, Protocol, Self

from replica_client.errors import BinlogFormatError, TruncatedEventError
from replica_client.protocol.binlog.context import EventContext
from replica_client.protocol.binlog.layout import HEADER_SIZE
from replica_client.protocol.codec.byte_fields import ByteReader, ByteWriter
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.event_types import EventFlag, EventType, event_type_name

_ARTIFICIAL: Final = int(EventFlag.LOG_EVENT_ARTIFICIAL_F)

_FIELDS: Final = struct.Struct("<IBIIIH")

HEADER_SIZE_V1 = 13
"""Bytes of the common header of binlog v1 (MySQL 3.23): no next_position, no flags."""


@dataclass(frozen=True, slots=True)
class EventHeader:
    """The common header of an event.

    Bytes (little-endian)::

        offset  size  field          meaning
        0       4     timestamp      seconds since 1970 when the statement began; 0: artificial
        4       1     type_code      :class:`~replica_client.protocol.constants.event_types.EventType`
        5       4     server_id      of the server that first logged it
        9       4     event_size     header, post-header, body and checksum
        13      4     next_position  low 32 bits of the end's position in the file; may be 0
        17      2     flags          :class:`~replica_client.protocol.constants.event_types.EventFlag`

    Binlog v1 ends after ``event_size``; ``next_position`` and ``flags`` are 0 then. ``extra`` has
    the bytes after the 19th, in forks whose format description announces a longer header.

    Spec: MySQL ``Log_event_header`` (binlog_event.h); MariaDB KB "2-Binlog Event Header".
    """

    timestamp: int
    type_code: int
    server_id: int
    event_size: int
    next_position: int
    flags: int
    extra: bytes = b""

    @property
    def event_type(self) -> EventType | int:
        """The type as an enum member; the number for an unknown type."""
        try:
            return EventType(self.type_code)
        except ValueError:
            return self.type_code

    @property
    def type_name(self) -> str:
        """The upstream name; ``UNKNOWN_<code>`` for an unknown type."""
        return event_type_name(self.type_code)

    @property
    def is_artificial(self) -> bool:
        """Whether the source made the event for the stream, so that it is in no file."""
        return bool(self.flags & _ARTIFICIAL)

    @classmethod
    def decode(cls, reader: ByteReader, header_size: int = HEADER_SIZE) -> EventHeader:
        """Decode a header of ``header_size`` bytes; keep the bytes after the 19th.

        Raises:
            ShortBufferError: fewer bytes are left.
        """
        timestamp, type_code = reader.uint(4), reader.uint(1)
        server_id, event_size = reader.uint(4), reader.uint(4)
        if header_size < HEADER_SIZE:
            return cls(timestamp, type_code, server_id, event_size, 0, 0)
        next_position, flags = reader.uint(4), reader.uint(2)
        extra = reader.take(header_size - HEADER_SIZE)
        return cls(timestamp, type_code, server_id, event_size, next_position, flags, extra)

    def encode(self, header_size: int = HEADER_SIZE) -> bytes:
        """Encode the header as ``header_size`` bytes; cut ``extra`` or pad it with zeros."""
        if header_size == HEADER_SIZE:
            # A value that does not fit raises a named error below.
            with suppress(struct.error):
                return _FIELDS.pack(
                    self.timestamp,
                    self.type_code,
                    self.server_id,
                    self.event_size,
                    self.next_position,
                    self.flags,
                )
        out = ByteWriter().uint(self.timestamp, 4).uint(self.type_code, 1)
        out.uint(self.server_id, 4).uint(self.event_size, 4)
        if header_size >= HEADER_SIZE:
            out.uint(self.next_position, 4).uint(self.flags, 2)
            extra_size = header_size - HEADER_SIZE
            out.raw(self.extra[:extra_size].ljust(extra_size, b"\0"))
        return out.done()


class EventBody(Protocol):
    """The interface of every event class in :mod:`replica_client.protocol.binlog.events`."""

    @classmethod
    def decode(cls, body: ByteReader, ctx: EventContext) -> Self:
        """Decode post-header and body (no common header, no checksum)."""
        ...

    def encode(self, ctx: EventContext = ...) -> bytes:
        """Encode post-header and body."""
        ...


@dataclass(frozen=True, slots=True)
class BinlogEvent:
    """One event of a binlog.

    Attributes:
        header: the common header.
        body: an instance of one of the classes of :mod:`replica_client.protocol.binlog.events`.
        file: binlog file name, ``""`` when not known.
        position: 64-bit offset of the event's first byte in its file; an event inside a
            transaction payload has the payload's.
        checksum: the CRC-32 that the event carries, None without one.
        inner_index: index inside a TRANSACTION_PAYLOAD event, None outside.

    Examples:
        >>> event = next(rc.open_binlog("shop-bin.000001").events())
        >>> event.position, event.header.event_size, event.body.binlog_version
        (4, 123, 4)
    """

    header: EventHeader
    body: Any
    file: str = ""
    position: int = 0
    checksum: int | None = None
    inner_index: int | None = None

    @property
    def end_position(self) -> int:
        """64-bit offset of the byte after the event (after the payload for inner events)."""
        return self.position + self.header.event_size


MAGIC: Final = b"\xfebin"
"""The first bytes of a binlog and of a relay log."""

ENCRYPTED_MAGIC: Final = b"\xfdbin"
"""The first bytes of a file that MySQL 8 encrypted."""

MAGIC_SIZE: Final = len(MAGIC)
FIRST_EVENT: Final = MAGIC_SIZE
"""Position of a file's first event."""

_HEADER = Struct("<IBIIIH")
_TYPE_AND_SIZE = Struct("<4xB4xI")
_START_V3_SIZE_V1 = HEADER_SIZE_V1 + 56


_COMPRESSED = {
    b"\x1f\x8b": "unpack it with gunzip first",
    b"\x28\xb5\x2f\xfd": "unpack it with unzstd first",
    b"\xfd7zX": "unpack it with unxz first",
    b"BZh": "unpack it with bunzip2 first",
    b"PK\x03\x04": "unpack it with unzip first",
}


class FileKind(Enum):
    """The kind of a file, by its first four bytes."""

    PLAIN = MAGIC
    ENCRYPTED = ENCRYPTED_MAGIC


def file_kind(data: bytes | memoryview) -> FileKind:
    """Return the kind of the binlog that begins with ``data``.

    Raises:
        TruncatedEventError: fewer than four bytes.
        BinlogFormatError: not a binlog.
    """
    magic = bytes(data[:MAGIC_SIZE])
    if len(magic) < MAGIC_SIZE:
        raise TruncatedEventError(f"a file of {len(magic)} bytes is no binlog", position=0)
    try:
        return FileKind(magic)
    except ValueError:
        packed = next((one for one in _COMPRESSED if magic.startswith(one)), None)
        advice = f": it is compressed, {_COMPRESSED[packed]}" if packed else ""
        raise BinlogFormatError(
            f"not a binlog: the file begins with {magic.hex(' ')}, not {MAGIC.hex(' ')}{advice}",
            position=0,
        ) from None


class HeaderScan:
    """An iterator over (position, header) of the events in a buffer.

    Positions are 64-bit: each event begins where the previous one ended, by its size.
    ``next_position`` of the headers is ignored: it wraps at 4 GiB and may be 0.

    The iteration ends at an event that is only partly in the buffer, as in a file that is being
    written. Then :attr:`end` is that event's position, and :attr:`missing` the number of its
    missing bytes.

    Args:
        data: part of a file; it is not copied.
        start: offset in ``data`` of the first event (4 skips the magic).
        base: position in the file of ``data[0]``.
        header_size: size of the events' common headers, if ``data`` does not begin with the event
            that defines it.
    """

    __slots__ = ("_base", "_data", "_encrypted", "_header_size", "end", "missing", "tail_size")

    def __init__(
        self,
        data: bytes | memoryview,
        start: int = MAGIC_SIZE,
        base: int = 0,
        header_size: int = HEADER_SIZE,
    ) -> None:
        self._data = data
        self._base = base
        self._header_size = header_size
        self._encrypted = False
        self.end = base + start
        self.tail_size = max(0, len(data) - start)
        self.missing = 0

    @property
    def truncated(self) -> bool:
        """Whether the buffer ends inside an event; valid after the iteration."""
        return self.missing > 0

    def __iter__(self) -> Iterator[tuple[int, EventHeader]]:
        """Yield the events from :attr:`end` on.

        Raises:
            BinlogFormatError: an event's size is smaller than its header.
        """
        data = self._data
        size = len(data)
        while (at := self.end - self._base) < size:
            self.tail_size = size - at
            header_size = self._header_size
            if self.tail_size < HEADER_SIZE_V1:
                self.missing = header_size - self.tail_size
                return
            type_code, event_size = _TYPE_AND_SIZE.unpack_from(data, at)
            if self._encrypted:
                pass  # only the size is in clear
            elif type_code == EventType.START_EVENT_V3:
                header_size = HEADER_SIZE_V1 if event_size <= _START_V3_SIZE_V1 else HEADER_SIZE
                self._header_size = header_size
            elif type_code == EventType.FORMAT_DESCRIPTION_EVENT:
                header_size = HEADER_SIZE
            if event_size < header_size:
                raise BinlogFormatError(
                    f"event size {event_size} is smaller than a header of {header_size} bytes",
                    position=self.end,
                    event_type=type_code,
                    event_name=event_type_name(type_code),
                )
            if event_size > self.tail_size:
                self.missing = event_size - self.tail_size
                return
            if header_size == HEADER_SIZE:
                header = EventHeader(*_HEADER.unpack_from(data, at))
            else:
                header = EventHeader.decode(
                    ByteReader(bytes(data[at : at + header_size])), header_size
                )
            position = self.end
            self.end = position + event_size
            self.tail_size -= event_size
            if self._encrypted:
                pass
            elif type_code == EventType.START_ENCRYPTION_EVENT:
                self._encrypted = True
            elif type_code == EventType.FORMAT_DESCRIPTION_EVENT:
                self._header_size = _announced_header_size(data, at, event_size)
            yield position, header

    def raise_if_truncated(self) -> None:
        """Raise an error if the buffer ends inside an event, for a file that is complete.

        Raises:
            TruncatedEventError: the buffer ends inside an event.
        """
        if self.missing:
            raise TruncatedEventError(
                f"the file ends inside an event: {self.tail_size} bytes of it are there, "
                f"{self.missing} are missing",
                position=self.end,
            )


_HEADER_SIZE_OFFSET = HEADER_SIZE + 2 + 50 + 4


def _announced_header_size(data: bytes | memoryview, at: int, event_size: int) -> int:
    """Return the header size in a format description; 19 if it is too short."""
    if event_size <= _HEADER_SIZE_OFFSET:
        return HEADER_SIZE
    return max(HEADER_SIZE, int(data[at + _HEADER_SIZE_OFFSET]))
