"""Output of a connection: packets, collected and written in pieces."""

from __future__ import annotations

import asyncio

from replica_client.server.direct_socket import WHOLE, DirectSocket
from replica_client.server.framed_chunks import CHUNK_SIZE
from replica_client.wire.compressed_packets import Compression, encode_frames
from replica_client.wire.framing import MAX_PIECE_SIZE, encode_packets, packet_count


class Output:
    """A buffer of packets, and how they are sent.

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
        self._direct: DirectSocket | None = None
        self._rest = WHOLE

    @property
    def pending_size(self) -> int:
        """Bytes that wait for :meth:`flush`."""
        return len(self._rest) + len(self._pending)

    def packet(self, payload: bytes) -> None:
        """Queue a payload."""
        self._pending += encode_packets(payload, self.sequence)
        self.sequence = (self.sequence + packet_count(len(payload))) & 0xFF

    def start_packet(self, size: int) -> None:
        """Queue the header of a packet whose payload follows in calls of :meth:`raw`."""
        self._pending += min(size, MAX_PIECE_SIZE).to_bytes(3, "little")
        self._pending.append(self.sequence)
        self.sequence = (self.sequence + 1) & 0xFF

    def raw(self, data: bytes) -> None:
        """Queue payload bytes of the packet begun last."""
        self._pending += data

    # Sending directly to the socket, for connections without TLS and compression.

    @property
    def is_direct(self) -> bool:
        """Whether :meth:`send_now` may be used."""
        return self._direct is not None

    def begin_direct(self) -> None:
        """Send without copies from now on, if the connection has neither TLS nor compression."""
        sock = self.writer.get_extra_info("socket")
        tls = self.writer.get_extra_info("ssl_object") is not None
        waiting = self.writer.transport.get_write_buffer_size()
        if sock is not None and not tls and self.compression is None and not waiting:
            self._direct = DirectSocket(sock, self._write_timeout)

    def end_direct(self) -> None:
        """Return to sending through asyncio, beginning with the bytes that are not sent yet."""
        if self._direct is None:
            return
        self._direct.close()
        self._direct = None
        if self._rest:
            self.writer.write(bytes(self._rest))
            self._rest = WHOLE

    def send_now(self, packets: bytearray) -> bool:
        """Send packets that already have numbers; the rest waits for :meth:`flush`.

        Call this only while :attr:`is_direct` is true and nothing is pending.

        Returns:
            Whether the socket took all of them.

        Raises:
            ConnectionError: the client is gone.
        """
        assert self._direct is not None
        self._rest = self._direct.send_some(memoryview(packets))
        return not self._rest

    async def send(self, packets: bytearray) -> None:
        """Send packets that already have numbers, after the pending ones.

        Raises:
            ConnectionError: as for :meth:`flush`.
        """
        if self.pending_size:
            await self.flush()
        if self._direct is None:
            self._pending += packets
        elif self.send_now(packets):
            return
        await self.flush()

    async def flush(self) -> None:
        """Send all pending packets.

        Raises:
            ConnectionError: the client is gone, or took nothing for too long.
        """
        if self._direct is not None:
            await self._flush_direct(self._direct)
            return
        self.writer.write(self._take())
        try:
            async with asyncio.timeout(self._write_timeout):
                await self.writer.drain()
        except TimeoutError:
            raise ConnectionAbortedError("the client takes nothing") from None

    async def _flush_direct(self, direct: DirectSocket) -> None:
        while self.pending_size:
            if not self._rest:
                self._rest = memoryview(self._take())
            self._rest = direct.send_some(self._rest)
            if self._rest:
                await direct.writable()

    def _take(self) -> bytearray | bytes:
        """Return and clear the pending packets, compressed if the connection is."""
        data, self._pending = self._pending, bytearray()
        if self.compression is None or not data:
            return data
        frames, self.frame_number = encode_frames(bytes(data), self.compression, self.frame_number)
        return frames
