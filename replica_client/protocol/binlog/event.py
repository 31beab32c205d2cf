"""An event: its common header, its position, its bytes, and a scan of a file's headers."""

from __future__ import annotations

import struct
from contextlib import suppress
from enum import Enum
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

_COMPRESSED = {
    b"\x1f\x8b": "unpack it with gunzip first",
    b"\x28\xb5\x2f\xfd": "unpack it with unzstd first",
    b"\xfd7zX": "unpack it with unxz first",
    b"BZh": "unpack it with bunzip2 first",
    b"PK\x03\x04": "unpack it with unzip first",
}


INNODB_MAGIC: Final = b"\xfe\xfe\x0d\x01"
"""The first bytes of a file of MariaDB's InnoDB-based binlog."""


class FileKind(Enum):
    """The kind of a file, by its first four bytes."""

    PLAIN = MAGIC
    ENCRYPTED = ENCRYPTED_MAGIC
    INNODB = INNODB_MAGIC


def file_kind(data: bytes | memoryview) -> FileKind:
    """Return the kind of the binlog that begins with ``data``.

    Raises:
        TruncatedEventError: fewer than four bytes.
        BinlogFormatError: not a binlog.
    """
    magic = bytes(data[:MAGIC_SIZE])
    if len(magic) < MAGIC_SIZE:
        raise TruncatedEventError(f"a file of {len(magic)} bytes is not a binlog", position=0)
    try:
        return FileKind(magic)
    except ValueError:
        packed = next((one for one in _COMPRESSED if magic.startswith(one)), None)
        advice = f": it is compressed, {_COMPRESSED[packed]}" if packed else ""
        raise BinlogFormatError(
            f"not a binlog: the file begins with {magic.hex(' ')}, not {MAGIC.hex(' ')}{advice}",
            position=0,
        ) from None
