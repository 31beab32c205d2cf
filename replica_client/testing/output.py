"""What a testing source's connection sends, with its faults applied."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Sequence

from replica_client.testing.faults import CutAt, CutInFile, Drip, Fault, SendBytes, Stall
from replica_client.wire.compressed import Compression, encode_frames
from replica_client.wire.framing import encode_packets, packet_count

CHUNK_SIZE = 256 * 1024
SMALL_CHUNK_SIZE = 4096


class ScriptedEndError(Exception):
    """A fault ended the connection."""


class Output:
    """Collects packets and sends them.

    Args:
        writer: to the client.
        faults: those of this connection.

    Attributes:
        sequence: number of the next packet.
        dumping: the dump has begun: faults that count bytes of the dump count from here.
        compression: of the connection, once it is logged in; faults count compressed bytes then.
        frame_number: of the next compressed frame.
        chunk_size: bytes to collect before :meth:`flush`; few where a fault is near.
    """

    def __init__(self, writer: asyncio.StreamWriter, faults: Sequence[Fault]) -> None:
        self.writer = writer
        self.sequence = 0
        self.dumping = False
        self.compression: Compression | None = None
        self.frame_number = 0
        self._pending = bytearray()
        self._sent = {True: 0, False: 0}
        self._cuts = [fault for fault in faults if isinstance(fault, CutAt)]
        self._stalls = [fault for fault in faults if isinstance(fault, Stall)]
        self._garbage = [fault for fault in faults if isinstance(fault, SendBytes)]
        self._drips = [fault for fault in faults if isinstance(fault, Drip)]
        self._scripted = bool(self._cuts or self._stalls or self._garbage or self._drips)
        near = any(isinstance(fault, CutAt | CutInFile | SendBytes) for fault in faults)
        self.chunk_size = SMALL_CHUNK_SIZE if near else CHUNK_SIZE

    @property
    def pending_size(self) -> int:
        """Bytes that wait for :meth:`flush`."""
        return len(self._pending)

    def packet(self, payload: bytes, *, wrong_sequence: bool = False) -> None:
        """Queue a payload."""
        self._pending += encode_packets(payload, self.sequence + wrong_sequence)
        self.sequence = (self.sequence + packet_count(len(payload))) & 0xFF

    def cut_after(self, size: int, reset: bool) -> None:
        """Close the connection when ``size`` bytes more than those that are queued were sent."""
        self._cuts.append(CutAt(self._sent[False] + len(self._pending) + size, reset))
        self._scripted = True

    async def flush(self) -> None:
        """Send what is queued.

        Raises:
            ScriptedEndError: a fault ended the connection.
        """
        data = bytes(self._pending)
        self._pending.clear()
        if self.compression is not None and data:
            data, self.frame_number = encode_frames(data, self.compression, self.frame_number)
        if not self._scripted:
            self.writer.write(data)
            await self.writer.drain()
            return
        offset = 0
        while offset < len(data):
            size = await self._next_size(len(data) - offset)
            self.writer.write(data[offset : offset + size])
            await self.writer.drain()
            offset += size
            self._count(size)
            if self.dumping and self._drips:
                await asyncio.sleep(self._drips[0].pause)
        await self._next_size(0)

    def _count(self, size: int) -> None:
        self._sent[True] += size
        if self.dumping:
            self._sent[False] += size

    async def _next_size(self, wanted: int) -> int:
        """How many bytes may go now; stalls, and ends the connection, where that is scripted."""
        for cut in self._cuts:
            if self.dumping or cut.whole_connection:
                left = cut.after - self._sent[cut.whole_connection]
                if left <= 0:
                    await self._end(cut.reset)
                wanted = min(wanted, left)
        if not self.dumping:
            return wanted
        for garbage in self._garbage:
            left = garbage.after - self._sent[False]
            if left <= 0:
                self.writer.write(garbage.data)
                await self.writer.drain()
                await self._end(False)
            wanted = min(wanted, left)
        for stall in list(self._stalls):
            left = stall.after - self._sent[False]
            if left <= 0:
                self._stalls.remove(stall)
                await asyncio.sleep(stall.seconds)
            else:
                wanted = min(wanted, left)
        if self._drips:
            wanted = min(wanted, max(1, self._drips[0].piece_size))
        return wanted

    async def _end(self, reset: bool) -> None:
        if reset:
            sock: socket.socket | None = self.writer.get_extra_info("socket")
            if sock is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.writer.transport.abort()
        raise ScriptedEndError
