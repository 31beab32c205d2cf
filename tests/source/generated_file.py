"""A binlog file that is generated while it is read, for transactions that are too large for a disk."""

from __future__ import annotations

import zlib
from dataclasses import replace

from replica_client.errors import ConfigError
from replica_client.protocol.binlog.encoder import encode_event
from replica_client.protocol.binlog.event import BinlogEvent, EventHeader
from replica_client.protocol.binlog.layout import HEADER_SIZE
from replica_client.server.served_files import ServedFile

CHECKSUM_SIZE = 4


class GeneratedFile(ServedFile):
    """A file whose middle repeats one event; each repetition has its own position and CRC.

    Add it to a running source with ``source.library.add(file)``.

    Args:
        name: of the file, as the source lists it.
        before: the file up to the first repetition, magic number included.
        event: the event that is repeated, with checksum.
        count: how often.
        after: events after the repetitions; their positions are corrected.
    """

    def __init__(
        self, name: str, before: bytes, event: bytes, count: int, after: list[BinlogEvent]
    ) -> None:
        if len(event) <= HEADER_SIZE + CHECKSUM_SIZE or count < 1:
            raise ConfigError("a generated file wants an event with checksum, and a count above 0")
        self._before = before
        self._event = event
        self._count = count
        self._middle_end = len(before) + len(event) * count
        self._tail = b""
        self._cached: tuple[int, bytes] = (-1, b"")
        super().__init__(name, data=before)
        self._extra.clear()
        self._tail = self._written(after)

    def _written(self, events: list[BinlogEvent]) -> bytes:
        out = bytearray()
        for event in events:
            size = len(encode_event(event, self.format))
            end = self._middle_end + len(out) + size
            header: EventHeader = replace(
                event.header, event_size=size, next_position=end & 0xFFFFFFFF
            )
            out += encode_event(replace(event, header=header), self.format)
        return bytes(out)

    @property
    def size(self) -> int:
        """Bytes in it."""
        if not self._tail:  # while the head is read
            return len(self._before)
        return self._middle_end + len(self._tail) + len(self._extra)

    def read(self, position: int, size: int) -> bytes:
        """Up to ``size`` bytes at a position."""
        end = min(position + size, self.size)
        out = bytearray()
        while position < end:
            if position < len(self._before):
                piece = self._before[position:end]
            elif position < self._middle_end:
                number, offset = divmod(position - len(self._before), len(self._event))
                if offset + end - position <= HEADER_SIZE:
                    piece = self._header(number)[offset : offset + end - position]
                else:
                    piece = self._repetition(number)[offset : offset + end - position]
            else:
                rest = self._tail + bytes(self._extra)
                piece = rest[position - self._middle_end : end - self._middle_end]
            out += piece
            position += len(piece)
        return bytes(out)

    def _header(self, number: int) -> bytes:
        end = (len(self._before) + (number + 1) * len(self._event)) & 0xFFFFFFFF
        return self._event[:13] + end.to_bytes(4, "little") + self._event[17:HEADER_SIZE]

    def _repetition(self, number: int) -> bytes:
        if self._cached[0] != number:
            body = self._header(number) + self._event[HEADER_SIZE:-CHECKSUM_SIZE]
            self._cached = (number, body + zlib.crc32(body).to_bytes(4, "little"))
        return self._cached[1]
