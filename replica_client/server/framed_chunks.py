"""Pieces of binlog files as packets, built once for all clients at the same position."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from replica_client.codec.quick_dataclass import dataclass
from replica_client.server.served_files import ServedFile
from replica_client.wire.framing import event_packets

CHUNK_SIZE: Final = 256 * 1024
"""Bytes of a file between two places where chunks end."""

KEPT_SIZE: Final = 8 << 20
"""Bytes of chunks that are kept for the next client."""


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
