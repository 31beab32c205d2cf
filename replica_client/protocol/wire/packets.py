"""Packets: OK, ERR, EOF, authentication, and text result sets.

Each has ``decode(payload)`` and ``encode()``; the testing source speaks with the same classes.

Spec: MySQL "Generic Response Packets", "Protocol::AuthSwitchRequest", "Protocol::AuthMoreData".
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from replica_client.errors import MalformedPacketError, ShortBufferError
from replica_client.protocol.codec.byte_fields import ByteReader, ByteWriter
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.client_server import ServerStatus


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
