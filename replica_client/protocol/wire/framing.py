# cython: boundscheck=False, wraparound=False
"""Packets from a byte stream: the first step of the hot path.

A packet on the wire is a 3-byte little-endian payload length, a sequence number, and the payload. A
payload of 16 MiB - 1 bytes or more is cut into pieces of exactly 0xFFFFFF bytes and a last shorter
(possibly empty) one.

Packets are cut in place; only the pieces of a payload that has several are moved together.

This module is compiled where that is possible, and runs as plain Python everywhere else.

Spec: MySQL "Protocol::Packet", "Sending More Than 16Mb"; MariaDB KB "0-packet".
"""

from __future__ import annotations

import cython

from replica_client.errors import (
    MalformedPacketError,
    PacketSequenceError,
    PacketTooLargeError,
    ProtocolError,
)

if not cython.compiled:
    from replica_client.protocol.codec.event_queue import EventQueue
    from replica_client.protocol.codec.memory import copy_bytes, load_le, move_bytes

MAX_PIECE_SIZE = 0xFFFFFF
"""Payload bytes that one packet can carry; a piece of this size has a successor."""

DEFAULT_MAX_PACKET_SIZE = 1 << 30
"""Bytes that one joined payload may have unless the option ``max_packet_size`` says otherwise."""

SEMI_SYNC_MAGIC = 0xEF
"""Second byte of an event packet of a semi-synchronous dump, and first byte of the acknowledgement."""


_MAX_PIECE = cython.declare(cython.Py_ssize_t, MAX_PIECE_SIZE)
_SEMI_SYNC = cython.declare(cython.int, SEMI_SYNC_MAGIC)
_SMALLEST_EVENT = cython.declare(cython.Py_ssize_t, 19)  # a header
_SIZE_OFFSET = cython.declare(cython.Py_ssize_t, 9)


@cython.final
@cython.cclass
class PacketFramer:
    """A cutter of a byte stream, split anywhere, into payloads.

    In event mode (``events=True``, for dumps) a payload that starts with 0x00 is an event
    and is delivered without that byte; the first payload that starts otherwise (EOF, ERR) ends the
    stream and is kept in :attr:`last`.

    Args:
        max_packet_size: bytes that one joined payload may have.
        sequence: number that the first packet must have; -1: any, and not checked.
        events: event mode.
        semi_sync: event mode with the two-byte semi-synchronous header after the status byte; the
            first packet shows whether the source really sends it.

    Attributes:
        sequence: number that the next packet must have.
        last: event mode: the payload that ended the stream, or None.
        semi_sync: whether events carry the semi-synchronous header.
        ack_wanted: event mode: how many events delivered so far asked for an acknowledgement.
        fault: the error that ended the stream, or None; every later :meth:`feed` raises it.
        queue: takes the bytes, and has the payloads that are complete.
    """

    def __init__(
        self,
        max_packet_size: int = DEFAULT_MAX_PACKET_SIZE,
        *,
        sequence: int = 0,
        events: bool = False,
        semi_sync: bool = False,
    ) -> None:
        self.sequence = sequence
        self.last: bytes | None = None
        self.semi_sync = semi_sync
        self.ack_wanted = 0
        self.fault: ProtocolError | None = None
        self.queue = EventQueue()
        self._max = max_packet_size
        self._events = events
        self._probing = semi_sync
        # State of an incomplete packet: bytes of its payload (-1: header unknown), bytes of the
        # pieces before it, which lie before its header, and whether there were any.
        self._length = -1
        self._joined = 0
        self._joining = False

    @property
    def mid_packet(self) -> bool:
        """Whether the bytes so far end inside a packet."""
        return self.last is None and bool(self._joining or self.queue.uncut)

    def feed(self, buffer: bytes | bytearray | memoryview, size: int = -1) -> list[bytes]:
        """Take the next bytes of the stream and return the complete payloads.

        Args:
            buffer: holds them at its start; it may be reused after the call.
            size: how many of its bytes count; all of them when negative.

        Returns:
            The payloads that became complete, in order.

        Raises:
            PacketSequenceError: a packet has not the next sequence number.
            PacketTooLargeError: a payload is larger than ``max_packet_size``.
            MalformedPacketError: event mode: a payload is too short to be an event.

        A fault after payloads of the same buffer is not raised but kept in :attr:`fault`, so that
        nothing before it is lost.
        """
        if self.fault is not None:
            raise self.fault
        self.queue.put(bytes(buffer) if size < 0 else bytes(buffer[:size]))
        self.cut()
        found: list[bytes] = self.queue.take_all()
        if self.fault is not None and not found:
            raise self.fault
        return found

    def cut(self) -> None:
        """Cut the bytes that the queue received; a fault is kept in :attr:`fault`."""
        if self.fault is not None:
            return
        try:
            self._scan()
        except ProtocolError as error:
            self.fault = error

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _scan(self) -> cython.int:
        queue: EventQueue = self.queue
        data: cython.p_uchar = queue.data
        at: cython.Py_ssize_t
        length: cython.Py_ssize_t
        start: cython.Py_ssize_t
        skipped: cython.Py_ssize_t
        while self.last is None:
            at = queue.tail + self._joined
            if self._length < 0:
                if queue.filled - at < 4:
                    return 0
                self._length = self._header(data, at, queue.filled - at)
                if self._length < 0:
                    return 0
            length = self._length
            if length > queue.filled - at - 4:
                return 0
            self._length = -1
            if length == _MAX_PIECE or self._joining:
                move_bytes(data, at, at + 4, queue.filled - at - 4)
                queue.filled -= 4
                self._joined += length
                self._joining = length == _MAX_PIECE
                if self._joining:
                    continue
                start = queue.tail
                length = self._joined
                self._joined = 0
            else:
                start = at + 4
            # The packet's bytes are cut even if its payload is faulty.
            queue.tail = start + length
            if not self._events:
                queue._mark(start, start + length)
                continue
            if not length:
                raise MalformedPacketError("an empty packet in an event stream")
            if data[start]:
                self.last = bytes(data[start : start + length])
                queue.tail = queue.filled
                return 0
            if self._probing:
                self._probing = False
                self.semi_sync = length > 2 and data[start + 1] == _SEMI_SYNC
            skipped = 1
            if self.semi_sync:
                skipped = 3
                if length < 3 or data[start + 1] != _SEMI_SYNC:
                    raise MalformedPacketError("an event packet lacks the semi-synchronous header")
                if data[start + 2] & 1:
                    self.ack_wanted += 1
                    if self.sequence >= 0:
                        self.sequence = 1  # both sides restart the numbering at a reply
            queue._mark(start + skipped, start + length)
        queue.tail = queue.filled
        return 0

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def _header(
        self, data: cython.p_uchar, at: cython.Py_ssize_t, ready: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Check a packet's header; return its payload's size, or -1 when the header is incomplete."""
        length: cython.Py_ssize_t = data[at] | (data[at + 1] << 8) | (data[at + 2] << 16)
        number: cython.int = data[at + 3]
        if self.sequence >= 0:
            if number == 0 != self.sequence and length > 0 and not self._joining:
                # A server that shuts down or kills us sends an ERR packet numbered 0.
                if ready < 5:
                    return -1
                if data[at + 4] == 0xFF:
                    self.sequence = 0
            if number != self.sequence:
                raise PacketSequenceError(
                    f"packet has sequence number {number}, expected {self.sequence}"
                )
            self.sequence = (self.sequence + 1) & 0xFF
        if self._joined + length > self._max:
            raise PacketTooLargeError(
                f"a packet of at least {self._joined + length} bytes is larger than "
                f"max_packet_size ({self._max}); raise that option if it is legitimate"
            )
        return length


def encode_packets(payload: bytes, sequence: int = 0) -> bytes:
    """Encode a payload as one or more packets, the first numbered ``sequence``."""
    out = bytearray()
    offset = 0
    while True:
        piece = payload[offset : offset + MAX_PIECE_SIZE]
        out += len(piece).to_bytes(3, "little")
        out.append(sequence & 0xFF)
        out += piece
        sequence += 1
        offset += len(piece)
        if len(piece) < MAX_PIECE_SIZE:
            return bytes(out)


def event_packets(data: bytes, sequence: int) -> tuple[bytearray, int, int]:
    """Encode whole events, one after the other as in a binlog file, as the packets of a dump.

    Args:
        data: begins with an event's header; its last event may be cut off.
        sequence: number of the first packet.

    Returns:
        The packets, how many bytes of ``data`` they carry, and the number of the next packet. It ends before an
        event that is not whole, has an impossible size, or needs more than one packet.
    """
    end: cython.Py_ssize_t = len(data)
    events: cython.p_const_uchar = data
    number: cython.int = sequence & 0xFF
    at: cython.Py_ssize_t = 0
    to: cython.Py_ssize_t = 0
    count: cython.Py_ssize_t = 0
    length: cython.Py_ssize_t
    while end - at >= _SMALLEST_EVENT:
        length = load_le(events, at + _SIZE_OFFSET, 4)
        if length < _SMALLEST_EVENT or length + 1 >= _MAX_PIECE or length > end - at:
            break
        at += length
        count += 1
    packets = bytearray(at + count * 5)
    out: cython.p_uchar = packets
    at = 0
    while count:
        length = load_le(events, at + _SIZE_OFFSET, 4)
        out[to] = (length + 1) & 0xFF
        out[to + 1] = (length + 1) >> 8 & 0xFF
        out[to + 2] = (length + 1) >> 16
        out[to + 3] = number
        copy_bytes(out, to + 5, events, at, length)
        at += length
        to += 5 + length
        number = (number + 1) & 0xFF
        count -= 1
    return packets, at, number


def packet_count(payload_size: int) -> int:
    """Return how many packets carry a payload of that size."""
    return payload_size // MAX_PIECE_SIZE + 1
