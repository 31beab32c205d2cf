"""What a connection sends: packets, collected and written in pieces."""

from __future__ import annotations

import asyncio

from replica_client.wire.compressed_packets import Compression, encode_frames
from replica_client.wire.framing import encode_packets, event_packets, packet_count

CHUNK_SIZE = 256 * 1024


class Output:
    """Collects packets and sends them.

    Args:
        writer: to the client.
        write_timeout: seconds that a client may take nothing before its connection ends; None: for ever.

    Attributes:
        sequence: number of the next packet.
        dumping: the dump has begun.
        compression: of the connection, once it is logged in.
        frame_number: of the next compressed frame.
        chunk_size: bytes to collect before :meth:`flush`.
    """

    def __init__(self, writer: asyncio.StreamWriter, write_timeout: float | None = None) -> None:
        self.writer = writer
        self.sequence = 0
        self.dumping = False
        self.compression: Compression | None = None
        self.frame_number = 0
        self.chunk_size = CHUNK_SIZE
        self._write_timeout = write_timeout
        self._pending = bytearray()

    @property
    def pending_size(self) -> int:
        """Bytes that wait for :meth:`flush`."""
        return len(self._pending)

    def packet(self, payload: bytes) -> None:
        """Queue a payload."""
        self._pending += encode_packets(payload, self.sequence)
        self.sequence = (self.sequence + packet_count(len(payload))) & 0xFF

    def events(self, data: bytes) -> int:
        """Queue the events with which a piece of a binlog file begins; returns how many bytes they have."""
        packets, size, self.sequence = event_packets(data, self.sequence)
        self._pending += packets
        return size

    async def flush(self) -> None:
        """Send what is queued.

        Raises:
            ConnectionError: the client is gone, or took nothing for too long.
        """
        data = self._take()
        self.writer.write(data)
        try:
            async with asyncio.timeout(self._write_timeout):
                await self.writer.drain()
        except TimeoutError:
            raise ConnectionAbortedError("the client takes nothing") from None

    def _take(self) -> bytes:
        """The queued packets as they go over the connection."""
        data = bytes(self._pending)
        self._pending.clear()
        if self.compression is not None and data:
            data, self.frame_number = encode_frames(data, self.compression, self.frame_number)
        return data
