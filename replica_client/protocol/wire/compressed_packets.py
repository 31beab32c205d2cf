"""The protocol's own compression: frames around the packet stream.

A frame is a 3-byte payload length, a sequence number, a 3-byte length before compression (0: the
payload is not compressed), and the payload: a zlib stream or a zstd frame. Packets and frames are
independent: a frame may hold several packets, or a part of one.

Spec: MySQL "Compression", "Protocol::CompressedPacket".
"""

from __future__ import annotations

import zlib
from enum import StrEnum
from typing import TYPE_CHECKING

from replica_client.errors import MalformedPacketError, PacketSequenceError
from replica_client.protocol.constants.client_server import Capability

if TYPE_CHECKING:
    import zstandard

HEADER_SIZE = 7
MIN_COMPRESSED_SIZE = 50
"""Payloads shorter than this are sent as they are."""

MAX_FRAME_SIZE = 0xFFFFFF


class Compression(StrEnum):
    """The compression algorithms; a connection uses one or none."""

    ZLIB = "zlib"
    ZSTD = "zstd"

    @property
    def capability(self) -> Capability:
        """The capability flag that both sides must have."""
        if self is Compression.ZLIB:
            return Capability.CLIENT_COMPRESS
        return Capability.CLIENT_ZSTD_COMPRESSION_ALGORITHM


class FrameDecoder:
    """Decoder from frames, split anywhere, to the packet stream inside.

    Args:
        algorithm: the connection's algorithm.
        sequence: number that the first frame must have; None: any.

    Attributes:
        sequence: number that the next frame must have; None: any.
    """

    __slots__ = ("_algorithm", "_pending", "_zstd", "sequence")

    def __init__(self, algorithm: Compression, sequence: int | None = None) -> None:
        self.sequence = sequence
        self._algorithm = algorithm
        self._pending = bytearray()
        self._zstd = _zstd_decompressor() if algorithm is Compression.ZSTD else None

    @property
    def mid_frame(self) -> bool:
        """Whether the bytes so far end inside a frame."""
        return bool(self._pending)

    def feed(self, data: bytes | bytearray | memoryview, size: int = -1) -> bytes:
        """Take the next ``size`` bytes (all when negative), and return the decompressed bytes.

        Raises:
            PacketSequenceError: a frame has not the next number.
            MalformedPacketError: a payload cannot be decompressed, or not to the size announced.
        """
        pending = self._pending
        pending += data if size < 0 else data[:size]
        out: list[bytes] = []
        at = 0
        while len(pending) - at >= HEADER_SIZE:
            length = int.from_bytes(pending[at : at + 3], "little")
            if len(pending) - at < HEADER_SIZE + length:
                break
            number = pending[at + 3]
            if self.sequence is not None:
                if number not in (self.sequence, 0):  # 0: a session that is killed
                    raise PacketSequenceError(
                        f"compressed packet has number {number}, expected {self.sequence}"
                    )
                self.sequence = (number + 1) & 0xFF
            plain_size = int.from_bytes(pending[at + 4 : at + 7], "little")
            payload = bytes(pending[at + HEADER_SIZE : at + HEADER_SIZE + length])
            out.append(self._decompress(payload, plain_size) if plain_size else payload)
            at += HEADER_SIZE + length
        del pending[:at]
        return out[0] if len(out) == 1 else b"".join(out)

    def _decompress(self, payload: bytes, size: int) -> bytes:
        invalid: type[Exception] = zlib.error
        try:
            if self._zstd is None:
                plain = zlib.decompressobj().decompress(payload, size + 1)
            else:
                from zstandard import ZstdError

                invalid = ZstdError
                with self._zstd.stream_reader(payload) as reader:
                    plain = reader.read(size + 1)
        except invalid:
            raise MalformedPacketError(
                f"a compressed packet is no {self._algorithm} data"
            ) from None
        if len(plain) != size:
            raise MalformedPacketError(
                f"a compressed packet gives {len(plain)} bytes or more, not the {size} announced"
            )
        return plain


def encode_frames(data: bytes, algorithm: Compression, sequence: int = 0) -> tuple[bytes, int]:
    """Encode bytes of the packet stream as frames; return them and the next frame number."""
    out = bytearray()
    for offset in range(0, max(1, len(data)), MAX_FRAME_SIZE):
        plain = data[offset : offset + MAX_FRAME_SIZE]
        payload, plain_size = plain, 0
        if len(plain) >= MIN_COMPRESSED_SIZE:
            packed = (
                zlib.compress(plain) if algorithm is Compression.ZLIB else _zstd_compressed(plain)
            )
            if len(packed) < len(plain):
                payload, plain_size = packed, len(plain)
        out += len(payload).to_bytes(3, "little") + bytes((sequence & 0xFF,))
        out += plain_size.to_bytes(3, "little") + payload
        sequence += 1
    return bytes(out), sequence & 0xFF


# Few connections use zstd: the others do not wait for its import.
def _zstd_decompressor() -> zstandard.ZstdDecompressor:
    import zstandard

    return zstandard.ZstdDecompressor(max_window_size=1 << 27)


def _zstd_compressed(plain: bytes) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(level=3).compress(plain)
