"""The conversation after a dump command: bytes in, events out."""

from __future__ import annotations

from replica_client.codec.event_queue import EventQueue
from replica_client.errors import (
    MalformedPacketError,
    ProtocolError,
    ReplicaClientError,
    UnexpectedPacketError,
)
from replica_client.wire.command_packets import SemiSyncAck
from replica_client.wire.compressed_packets import Compression, FrameDecoder, encode_frames
from replica_client.wire.framing import DEFAULT_MAX_PACKET_SIZE, PacketFramer, encode_packets
from replica_client.wire.packets import EOF_HEADER, ERR_HEADER, EofPacket
from replica_client.wire.server_errors import server_error_of


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

    @property
    def acknowledgements_wanted(self) -> int:
        """Number of events received so far that asked for an acknowledgement."""
        count: int = self._framer.ack_wanted
        return count

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
