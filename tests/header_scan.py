"""A scan of the events of a file by their headers alone."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from replica_client.errors import BinlogFormatError, TruncatedEventError
from replica_client.protocol.binlog.event import HEADER_SIZE_V1, MAGIC_SIZE, EventHeader
from replica_client.protocol.binlog.layout import HEADER_SIZE
from replica_client.protocol.codec.byte_fields import ByteReader
from replica_client.protocol.constants.event_types import EventType, event_type_name

_HEADER = Struct("<IBIIIH")
_TYPE_AND_SIZE = Struct("<4xB4xI")
_START_V3_SIZE_V1 = HEADER_SIZE_V1 + 56


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
