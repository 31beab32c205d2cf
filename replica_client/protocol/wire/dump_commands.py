"""Commands that a replica sends, and the conversation after a dump command.

Spec: MySQL "COM_BINLOG_DUMP", "COM_BINLOG_DUMP_GTID", "COM_REGISTER_SLAVE"; MariaDB KB
"COM_BINLOG_DUMP", "COM_REGISTER_SLAVE".
"""

from __future__ import annotations

from dataclasses import field

from replica_client.errors import (
    EncodeError,
    MalformedPacketError,
    ProtocolError,
    ReplicaClientError,
    UnexpectedPacketError,
)
from replica_client.protocol.codec.byte_fields import ByteReader, ByteWriter
from replica_client.protocol.codec.event_queue import EventQueue
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.client_server import Command
from replica_client.protocol.wire.framing import (
    DEFAULT_MAX_PACKET_SIZE,
    SEMI_SYNC_MAGIC,
    PacketFramer,
    encode_packets,
)
from replica_client.protocol.wire.packets import (
    EOF_HEADER,
    ERR_HEADER,
    Compression,
    EofPacket,
    FrameDecoder,
    decoding,
    encode_frames,
    text,
)
from replica_client.protocol.wire.server_errors import server_error_of

MAX_POSITION = 0xFFFFFFFF
"""The largest file position that COM_BINLOG_DUMP can ask for."""


def _body(payload: bytes, command: Command) -> ByteReader:
    if not payload or payload[0] != command:
        found = f"0x{payload[0]:02x}" if payload else "nothing"
        raise MalformedPacketError(f"{command.name} packet starts with {found}")
    return ByteReader(payload, 1)


@dataclass(frozen=True, slots=True)
class ComQuery:
    """An SQL statement: 0x03 and its text."""

    sql: bytes

    @classmethod
    def decode(cls, payload: bytes) -> ComQuery:
        """Read a payload; raises ``MalformedPacketError``."""
        return cls(_body(payload, Command.COM_QUERY).rest())

    def encode(self) -> bytes:
        """Return the payload."""
        return bytes([Command.COM_QUERY]) + self.sql


@dataclass(frozen=True, slots=True)
class ComRegisterSlave:
    """The announcement of a replica, so that ``SHOW REPLICAS`` lists it.

    Bytes::

        size  field              meaning
        1     command            0x15
        4     server_id
        1+n   host               what the replica calls itself (report_host)
        1+n   user
        1+n   password           always sent empty by us
        2     port
        4     replication_rank   ignored
        4     master_id          0: filled in by the source
    """

    server_id: int
    host: str = ""
    user: str = ""
    port: int = 0
    password: str = field(default="", repr=False)
    replication_rank: int = 0
    master_id: int = 0

    @classmethod
    def decode(cls, payload: bytes) -> ComRegisterSlave:
        """Read a payload; raises ``MalformedPacketError``."""
        reader = _body(payload, Command.COM_REGISTER_SLAVE)
        with decoding("COM_REGISTER_SLAVE"):
            server_id = reader.uint(4)
            host = text(reader.take(reader.uint(1)))
            user = text(reader.take(reader.uint(1)))
            password = text(reader.take(reader.uint(1)))
            port, rank, master = reader.uint(2), reader.uint(4), reader.uint(4)
            return cls(server_id, host, user, port, password, rank, master)

    def encode(self) -> bytes:
        """Return the payload."""
        out = ByteWriter().uint(Command.COM_REGISTER_SLAVE, 1).uint(self.server_id, 4)
        for name in (self.host, self.user, self.password):
            encoded = name.encode()
            out.uint(len(encoded), 1).raw(encoded)
        out.uint(self.port, 2).uint(self.replication_rank, 4).uint(self.master_id, 4)
        return out.done()


@dataclass(frozen=True, slots=True)
class ComBinlogDump:
    """A request for events from a file position; MariaDB's GTID start uses it too.

    Bytes::

        offset  size  field      meaning
        0       1     command    0x12
        1       4     position   at least 4
        5       2     flags      :class:`~replica_client.protocol.constants.client_server.DumpFlag`
        7       4     server_id
        11      rest  file       empty: the first file that the source has
    """

    file: str
    position: int
    server_id: int
    flags: int = 0

    @classmethod
    def decode(cls, payload: bytes) -> ComBinlogDump:
        """Read a payload; raises ``MalformedPacketError``."""
        reader = _body(payload, Command.COM_BINLOG_DUMP)
        with decoding("COM_BINLOG_DUMP"):
            position, flags, server_id = reader.uint(4), reader.uint(2), reader.uint(4)
            return cls(text(reader.rest().split(b"\0", 1)[0]), position, server_id, flags)

    def encode(self) -> bytes:
        """Return the payload.

        Raises:
            EncodeError: the position is beyond 4 GiB.
        """
        if self.position > MAX_POSITION:
            raise EncodeError(
                f"position {self.position} in {self.file or 'the first binlog file'} is beyond "
                f"{MAX_POSITION}, the largest that COM_BINLOG_DUMP can ask for: start by GTID set, or "
                "at the start of the file"
            )
        out = ByteWriter().uint(Command.COM_BINLOG_DUMP, 1).uint(self.position, 4)
        return out.uint(self.flags, 2).uint(self.server_id, 4).raw(self.file.encode()).done()


@dataclass(frozen=True, slots=True)
class ComBinlogDumpGtid:
    """A request for the transactions that a GTID set does not hold (MySQL >= 5.6.5).

    Bytes::

        size  field      meaning
        1     command    0x1E
        2     flags      :class:`~replica_client.protocol.constants.client_server.DumpFlag`
        4     server_id
        4+n   file       normally empty: the source finds it
        8     position   4
        4+n   gtid_set   what the replica has, in the set's wire form (tagged or not)
    """

    gtid_set: bytes
    server_id: int
    file: str = ""
    position: int = 4
    flags: int = 0

    @classmethod
    def decode(cls, payload: bytes) -> ComBinlogDumpGtid:
        """Read a payload; raises ``MalformedPacketError``."""
        reader = _body(payload, Command.COM_BINLOG_DUMP_GTID)
        with decoding("COM_BINLOG_DUMP_GTID"):
            flags, server_id = reader.uint(2), reader.uint(4)
            file = text(reader.take(reader.uint(4)).split(b"\0", 1)[0])
            position = reader.uint(8)
            gtid_set = reader.take(reader.uint(4)) if reader.remaining else b""
            return cls(gtid_set, server_id, file, position, flags)

    def encode(self) -> bytes:
        """Return the payload."""
        file = self.file.encode()
        out = ByteWriter().uint(Command.COM_BINLOG_DUMP_GTID, 1).uint(self.flags, 2)
        out.uint(self.server_id, 4).uint(len(file), 4).raw(file).uint(self.position, 8)
        return out.uint(len(self.gtid_set), 4).raw(self.gtid_set).done()


@dataclass(frozen=True, slots=True)
class SemiSyncAck:
    """An acknowledgement to a semi-synchronous source of what is stored: 0xEF, position (8), file."""

    file: str
    position: int

    @classmethod
    def decode(cls, payload: bytes) -> SemiSyncAck:
        """Read a payload; raises ``MalformedPacketError``."""
        reader = ByteReader(payload)
        with decoding("semi-synchronous acknowledgement"):
            if reader.uint(1) != SEMI_SYNC_MAGIC:
                raise MalformedPacketError("not a semi-synchronous acknowledgement")
            position = reader.uint(8)
            return cls(text(reader.rest().split(b"\0", 1)[0]), position)

    def encode(self) -> bytes:
        """Return the payload."""
        out = ByteWriter().uint(SEMI_SYNC_MAGIC, 1).uint(self.position, 8)
        return out.raw(self.file.encode()).done()


class DumpSession:
    """The receiver of the answer to COM_BINLOG_DUMP or COM_BINLOG_DUMP_GTID.

    Bytes are written, split anywhere, into the memory of :meth:`room`; :meth:`received` cuts them, and
    complete events (common header to checksum) are in :attr:`events`. Once the stream has ended,
    :attr:`ended` is true; :attr:`error` then says why, or is None after an EOF packet (a dump that does
    not block reached the end of the last file).

    Args:
        max_packet_size: bytes that one event may have.
        semi_sync: semi-synchronous replication was asked for.
        compression: the connection's compression, or None.

    Attributes:
        events: the events that were received and not taken.
        ended: no more events will come.
        error: the ``ServerError`` or ``ProtocolError`` that ended the stream, or None.
    """

    __slots__ = ("_buffer", "_compression", "_framer", "_frames", "ended", "error", "events")

    def __init__(
        self,
        *,
        max_packet_size: int = DEFAULT_MAX_PACKET_SIZE,
        semi_sync: bool = False,
        compression: Compression | None = None,
    ) -> None:
        self._compression = compression
        self._frames: FrameDecoder | None = None
        sequence = 1
        if compression is not None:
            # Servers number the frames; only the first packet of a frame has the frame's number.
            self._frames = FrameDecoder(compression, None if semi_sync else 1)
            sequence = -1
        self._framer = PacketFramer(
            max_packet_size, sequence=sequence, events=True, semi_sync=semi_sync
        )
        self.events: EventQueue = self._framer.queue
        self._buffer = bytearray()
        self.ended = False
        self.error: ReplicaClientError | None = None

    @property
    def mid_packet(self) -> bool:
        """Whether the bytes so far end inside a packet."""
        return self._framer.mid_packet or (self._frames is not None and self._frames.mid_frame)

    @property
    def semi_sync_active(self) -> bool:
        """Whether the source sends the semi-synchronous header."""
        return self._framer.semi_sync

    def room(self, size: int) -> memoryview:
        """Return memory for the next bytes of the stream, at most ``size``."""
        if self._frames is None:
            return self.events.room(size)
        if len(self._buffer) < size:
            self._buffer = bytearray(size)
        return memoryview(self._buffer)[:size]

    def received(self, size: int) -> int:
        """Cut the bytes written into :meth:`room`; return how many events became complete.

        The events before a fault are delivered, and the fault is in :attr:`error`.
        """
        if self.ended:
            return 0
        before = len(self.events)
        try:
            if self._frames is None:
                self.events.received(size)
            else:
                with memoryview(self._buffer) as view:
                    self.events.put(self._frames.feed(view, size))
        except ProtocolError as error:
            self._end(error)
            return 0
        self._framer.cut()
        if self._framer.fault is not None:
            self._end(self._framer.fault)
        elif self._framer.last is not None:
            self._finish(self._framer.last)
        return len(self.events) - before

    def receive_data(self, buffer: bytes | bytearray | memoryview, size: int = -1) -> list[bytes]:
        """Take ``size`` bytes (all when negative) of the stream and return the events.

        Returns:
            The events that became complete, in order. Those before a fault are delivered, and the
            fault is in :attr:`error`.
        """
        size = len(buffer) if size < 0 else size
        with self.room(size) as room:
            room[:] = buffer[:size]
        self.received(size)
        return self.events.take_all()

    def _finish(self, payload: bytes) -> None:
        try:
            if payload[0] == ERR_HEADER:
                self._end(server_error_of(payload))
            elif payload[0] == EOF_HEADER:
                EofPacket.decode(payload)
                self._end(None)
            else:
                raise UnexpectedPacketError(
                    f"packet starting with 0x{payload[0]:02x} in an event stream"
                )
        except ProtocolError as error:
            self._end(error)

    def _end(self, error: ReplicaClientError | None) -> None:
        self.ended = True
        self.error = error

    def receive_eof(self) -> None:
        """Handle the end of the connection.

        A connection that ends inside a packet is a ``MalformedPacketError`` in :attr:`error`.
        """
        if not self.ended and self.mid_packet:
            self._end(MalformedPacketError("the connection ended inside a packet"))

    def semi_sync_ack(self, file: str, position: int) -> bytes:
        """Return the bytes that tell the source that everything up to a position is stored."""
        return self.packets(SemiSyncAck(file, position).encode())

    def packets(self, payload: bytes) -> bytes:
        """Return the bytes of the packets that carry one of our payloads."""
        data = encode_packets(payload)
        return data if self._compression is None else encode_frames(data, self._compression)[0]
