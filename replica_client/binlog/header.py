"""The common header of every event."""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import Final

from replica_client.binlog.layout import HEADER_SIZE
from replica_client.codec.quick_dataclass import dataclass
from replica_client.codec.reader import ByteReader
from replica_client.codec.writer import ByteWriter
from replica_client.constants.event_types import EventFlag, EventType, event_type_name

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
        4       1     type_code      :class:`~replica_client.constants.event_types.EventType`
        5       4     server_id      of the server that first logged it
        9       4     event_size     header, post-header, body and checksum
        13      4     next_position  low 32 bits of the end's position in the file; may be 0
        17      2     flags          :class:`~replica_client.constants.event_types.EventFlag`

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
