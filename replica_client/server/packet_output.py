"""Output of packets: framing, chunks, the socket."""

from __future__ import annotations

import asyncio
import os
import socket
from collections import OrderedDict
from typing import Final

from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.wire.framing import (
    MAX_PIECE_SIZE,
    encode_packets,
    event_packets,
    packet_count,
)
from replica_client.protocol.wire.packets import Compression, encode_frames
from replica_client.server.served_files import ServedFile

CHUNK_SIZE: Final = 256 * 1024
"""Bytes of a file between two places where chunks end."""

KEPT_SIZE: Final = 8 << 20
"""Bytes of chunks that are kept for the next client."""


COMPRESSED_SIZE: Final = 64 << 10
"""Bytes of a chunk that are compressed at once: what one connection holds, and its account's turn."""

_SMALL: Final = 16 << 10
"""Bytes up to which packets are compressed on the event loop."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Whole events of a file, as packets.

    Attributes:
        packets: the events, each after the header of its packet.
        size: bytes of the file that they cover; 0 when no event there fits into a chunk.
        sequence: number of the packet that follows.
    """

    packets: bytearray
    size: int
    sequence: int


class FramedChunks:
    """A cache of the most recently used chunks.

    Chunks end near multiples of :data:`CHUNK_SIZE`, so that clients which began at different positions meet, and
    one buffer serves all of them. Packet numbers differ if clients have received different
    counts of packets; then the piece is read once and framed for each number.

    Args:
        chunk_size: see :data:`CHUNK_SIZE`.
        kept_size: see :data:`KEPT_SIZE`.
    """

    def __init__(self, chunk_size: int = CHUNK_SIZE, kept_size: int = KEPT_SIZE) -> None:
        self._chunk_size = chunk_size
        self._kept_size = kept_size
        self._size = 0
        self._chunks: OrderedDict[tuple[ServedFile, int, int, int], Chunk] = OrderedDict()
        self._piece: tuple[ServedFile, int, int] | None = None
        self._data = b""

    def get(self, file: ServedFile, position: int, sequence: int) -> Chunk:
        """Return the chunk that begins at a position, its first packet numbered ``sequence``."""
        whole = self._chunk_size
        end = min(file.size, ((position + whole // 2) // whole + 1) * whole)
        key = (file, position, end, sequence)
        chunk = self._chunks.get(key)
        if chunk is not None:
            self._chunks.move_to_end(key)
            return chunk
        if self._piece != key[:3]:
            self._data = file.read(position, max(0, end - position))
            self._piece = key[:3]
        chunk = Chunk(*event_packets(self._data, sequence))
        if chunk.size:
            self._keep(key, chunk)
        return chunk

    def _keep(self, key: tuple[ServedFile, int, int, int], chunk: Chunk) -> None:
        self._chunks[key] = chunk
        self._size += len(chunk.packets)
        while self._size > self._kept_size:
            _, oldest = self._chunks.popitem(last=False)
            self._size -= len(oldest.packets)


WHOLE = memoryview(b"")


class DirectSocket:
    """The sending half of a connection whose transport still reads.

    This is a second descriptor of the same socket: asyncio forbids writing to a transport's own.

    Args:
        sock: the transport's socket; the transport must have nothing left to send.
        write_timeout: seconds that the other side may take nothing; None: for ever.
    """

    def __init__(self, sock: socket.socket, write_timeout: float | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = socket.socket(fileno=os.dup(sock.fileno()))
        self._socket.setblocking(False)
        self._write_timeout = write_timeout

    def send_some(self, data: memoryview) -> memoryview:
        """Send what the socket takes at once; return the rest.

        Raises:
            ConnectionError: the connection is gone.
        """
        while data:
            try:
                data = data[self._socket.send(data) :]
            except (BlockingIOError, InterruptedError):
                return data
            except ConnectionError:
                raise
            except OSError as error:  # such as ETIMEDOUT of TCP_USER_TIMEOUT
                raise ConnectionAbortedError(str(error)) from error
        return WHOLE

    async def writable(self) -> None:
        """Wait until the socket takes more.

        Raises:
            ConnectionError: the client took nothing for too long.
        """
        ready: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_writer(self._socket, _set, ready)
        try:
            async with asyncio.timeout(self._write_timeout):
                await ready
        except TimeoutError:
            raise ConnectionAbortedError("the client takes nothing") from None
        finally:
            self._loop.remove_writer(self._socket)

    def close(self) -> None:
        """Close this descriptor; the connection stays open."""
        self._socket.close()


def _set(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


class Output:
    """A buffer of packets, and how they are sent.

    Args:
        writer: to the client.
        write_timeout: seconds that a client may take nothing before its connection ends; None: for ever.

    Attributes:
        sequence: number of the next packet.
        dumping: the dump has begun.
        compression: of the connection; :meth:`compress` sets it.
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
        self._turn = asyncio.Lock()
        self._pending = bytearray()
        self._direct: DirectSocket | None = None
        self._rest = WHOLE

    def compress(self, algorithm: Compression, turn: asyncio.Lock) -> None:
        """Send compressed packets from now on.

        Args:
            algorithm: of the connection.
            turn: of the account: one piece is compressed at a time, whatever its connections are.
        """
        self.compression, self._turn = algorithm, turn

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
        if self._direct is not None:
            if not self.send_now(packets):
                await self.flush()
            return
        step = len(packets) if self.compression is None else COMPRESSED_SIZE
        for at in range(0, len(packets), step):
            self._pending += packets[at : at + step]
            await self.flush()

    async def flush(self) -> None:
        """Send all pending packets.

        Raises:
            ConnectionError: the client is gone, or took nothing for too long.
        """
        if self._direct is not None:
            await self._flush_direct(self._direct)
            return
        if self.compression is None or len(self._pending) <= _SMALL:
            self.writer.write(self._take())
        else:
            async with self._turn:
                data, self._pending = self._pending, bytearray()
                self.writer.write(await asyncio.to_thread(self._compressed, bytes(data)))
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
        return self._compressed(bytes(data)) if self.compression is not None and data else data

    def _compressed(self, data: bytes) -> bytes:
        assert self.compression is not None
        frames, self.frame_number = encode_frames(data, self.compression, self.frame_number)
        return frames
