"""Packets: OK, ERR, EOF, authentication, and text result sets.

Each has ``decode(payload)`` and ``encode()``; the testing source speaks with the same classes.

Spec: MySQL "Generic Response Packets", "Protocol::AuthSwitchRequest", "Protocol::AuthMoreData".
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING

from replica_client.errors import MalformedPacketError, PacketSequenceError, ShortBufferError
from replica_client.protocol.codec.byte_fields import ByteReader, ByteWriter
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.client_server import Capability, ServerStatus

if TYPE_CHECKING:
    import zstandard


@contextmanager
def decoding(packet: str) -> Iterator[None]:
    """Raise ``MalformedPacketError`` for short buffers and for texts that are not UTF-8.

    Args:
        packet: what is being decoded, for the message.
    """
    try:
        yield
    except ShortBufferError as error:
        raise MalformedPacketError(f"{packet} packet: {error}") from None
    except UnicodeDecodeError as error:
        raise MalformedPacketError(f"{packet} packet: text is not UTF-8 ({error.reason})") from None


def text(value: bytes) -> str:
    """Decode server text for people: UTF-8, with escapes for other bytes."""
    return value.decode("utf-8", "backslashreplace")


OK_HEADER = 0x00
MORE_DATA_HEADER = 0x01
LOCAL_INFILE_HEADER = 0xFB
EOF_HEADER = 0xFE
ERR_HEADER = 0xFF

MAX_EOF_SIZE = 9
"""A payload that starts with 0xFE is an EOF packet only when it is shorter than this."""


def _expect(payload: bytes, header: int, name: str) -> ByteReader:
    if not payload or payload[0] != header:
        found = f"0x{payload[0]:02x}" if payload else "nothing"
        raise MalformedPacketError(f"{name} packet starts with {found}, not 0x{header:02x}")
    return ByteReader(payload, 1)


@dataclass(frozen=True, slots=True)
class OkPacket:
    """The server's report of success.

    Bytes (protocol 4.1)::

        size    field           meaning
        1       header          0x00
        lenenc  affected_rows
        lenenc  last_insert_id
        2       status          :class:`ServerStatus`
        2       warning_count
        rest    info            text for people, session state changes
    """

    affected_rows: int = 0
    last_insert_id: int = 0
    status: int = ServerStatus.SERVER_STATUS_AUTOCOMMIT
    warning_count: int = 0
    info: bytes = b""

    @classmethod
    def decode(cls, payload: bytes) -> OkPacket:
        """Read a payload.

        Raises:
            MalformedPacketError: it is not an OK packet.
        """
        reader = _expect(payload, OK_HEADER, "OK")
        with decoding("OK"):
            affected, insert_id = reader.lenenc(), reader.lenenc()
            return cls(affected, insert_id, reader.uint(2), reader.uint(2), reader.rest())

    def encode(self) -> bytes:
        """Return the payload."""
        out = ByteWriter().uint(OK_HEADER, 1).lenenc(self.affected_rows)
        out.lenenc(self.last_insert_id).uint(self.status, 2).uint(self.warning_count, 2)
        return out.raw(self.info).done()


@dataclass(frozen=True, slots=True)
class ErrPacket:
    """The server's report of failure.

    Bytes (protocol 4.1)::

        size  field     meaning
        1     header    0xFF
        2     errno     ER_… number
        1     marker    '#', absent before the handshake response
        5     sqlstate  absent without the marker
        rest  message
    """

    errno: int
    message: str
    sqlstate: str = "HY000"

    @classmethod
    def decode(cls, payload: bytes) -> ErrPacket:
        """Read a payload.

        Raises:
            MalformedPacketError: it is not an ERR packet.
        """
        reader = _expect(payload, ERR_HEADER, "ERR")
        with decoding("ERR"):
            errno = reader.uint(2)
            sqlstate = ""
            if reader.remaining >= 6 and reader.peek() == ord("#"):
                reader.skip(1)
                sqlstate = text(reader.take(5))
            return cls(errno, text(reader.rest()), sqlstate)

    def encode(self) -> bytes:
        """Return the payload."""
        out = ByteWriter().uint(ERR_HEADER, 1).uint(self.errno, 2)
        if self.sqlstate:
            out.raw(b"#" + self.sqlstate.encode("ascii")[:5].ljust(5))
        return out.raw(self.message.encode()).done()


@dataclass(frozen=True, slots=True)
class EofPacket:
    """The end of column definitions, rows, or of a dump that does not block.

    Bytes: 0xFE, warning_count (2), status (2); both may be missing.
    """

    warning_count: int = 0
    status: int = ServerStatus.SERVER_STATUS_AUTOCOMMIT

    @classmethod
    def decode(cls, payload: bytes) -> EofPacket:
        """Read a payload.

        Raises:
            MalformedPacketError: it is not an EOF packet.
        """
        reader = _expect(payload, EOF_HEADER, "EOF")
        if len(payload) >= MAX_EOF_SIZE:
            raise MalformedPacketError(f"EOF packet of {len(payload)} bytes")
        if reader.remaining < 4:
            return cls(0, 0)
        return cls(reader.uint(2), reader.uint(2))

    def encode(self) -> bytes:
        """Return the payload."""
        return (
            ByteWriter().uint(EOF_HEADER, 1).uint(self.warning_count, 2).uint(self.status, 2).done()
        )


@dataclass(frozen=True, slots=True)
class AuthSwitchRequest:
    """The server's request for another authentication plugin: 0xFE, its name (NUL), its data.

    A bare 0xFE asks for the long obsolete ``mysql_old_password``.
    """

    plugin: str
    data: bytes

    @classmethod
    def decode(cls, payload: bytes) -> AuthSwitchRequest:
        """Read a payload.

        Raises:
            MalformedPacketError: it is not an authentication switch request.
        """
        reader = _expect(payload, EOF_HEADER, "AuthSwitchRequest")
        if not reader.remaining:
            return cls("mysql_old_password", b"")
        with decoding("AuthSwitchRequest"):
            return cls(text(reader.nul_string()), reader.rest())

    def encode(self) -> bytes:
        """Return the payload."""
        out = ByteWriter().uint(EOF_HEADER, 1).nul_string(self.plugin.encode())
        return out.raw(self.data).done()


@dataclass(frozen=True, slots=True)
class AuthMoreData:
    """Data of an authentication plugin, server to client: 0x01 and the data."""

    data: bytes

    @classmethod
    def decode(cls, payload: bytes) -> AuthMoreData:
        """Read a payload.

        Raises:
            MalformedPacketError: it is not an AuthMoreData packet.
        """
        return cls(_expect(payload, MORE_DATA_HEADER, "AuthMoreData").rest())

    def encode(self) -> bytes:
        """Return the payload."""
        return bytes([MORE_DATA_HEADER]) + self.data


# The protocol's own compression: frames around the packet stream.
#
# A frame is a 3-byte payload length, a sequence number, a 3-byte length before compression (0: the
# payload is not compressed), and the payload: a zlib stream or a zstd frame. Packets and frames are
# independent: a frame may hold several packets, or a part of one.
#
# Spec: MySQL "Compression", "Protocol::CompressedPacket".


FRAME_HEADER_SIZE = 7
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
        while len(pending) - at >= FRAME_HEADER_SIZE:
            length = int.from_bytes(pending[at : at + 3], "little")
            if len(pending) - at < FRAME_HEADER_SIZE + length:
                break
            number = pending[at + 3]
            if self.sequence is not None:
                if number not in (self.sequence, 0):  # 0: a session that is killed
                    raise PacketSequenceError(
                        f"compressed packet has number {number}, expected {self.sequence}"
                    )
                self.sequence = (number + 1) & 0xFF
            plain_size = int.from_bytes(pending[at + 4 : at + 7], "little")
            payload = bytes(pending[at + FRAME_HEADER_SIZE : at + FRAME_HEADER_SIZE + length])
            out.append(self._decompress(payload, plain_size) if plain_size else payload)
            at += FRAME_HEADER_SIZE + length
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
