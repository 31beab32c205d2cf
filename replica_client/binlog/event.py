"""A decoded event with its position, as readers deliver it."""

from __future__ import annotations

from typing import Any, Protocol, Self

from replica_client.binlog.context import EventContext
from replica_client.binlog.header import EventHeader
from replica_client.codec.quick_dataclass import dataclass
from replica_client.codec.reader import ByteReader


class EventBody(Protocol):
    """The interface of every event class in :mod:`replica_client.binlog.events`."""

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
        body: an instance of one of the classes of :mod:`replica_client.binlog.events`.
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
