# cython: annotation_typing=False, boundscheck=False, wraparound=False
"""Packets out of a byte stream: the first step of the hot path.

A packet on the wire is a 3-byte little-endian payload length, a sequence number, and the payload. A
payload of 16 MiB - 1 bytes or more is cut into pieces of exactly 0xFFFFFF bytes and a last shorter
(possibly empty) one.

This module is Cython in pure Python mode: it runs as it is, and faster when compiled with the C
types that ``framing.pxd`` beside it adds.

Spec: MySQL "Protocol::Packet", "Sending More Than 16Mb"; MariaDB KB "0-packet".
"""

from __future__ import annotations

from replica_client.errors import (
    MalformedPacketError,
    PacketSequenceError,
    PacketTooLargeError,
    ProtocolError,
)

MAX_PIECE_SIZE = 0xFFFFFF
"""Payload bytes that one packet can carry; a piece of this size has a successor."""

DEFAULT_MAX_PACKET_SIZE = 1 << 30
"""Bytes that one joined payload may have unless the option ``max_packet_size`` says otherwise."""

SEMI_SYNC_MAGIC = 0xEF
"""Second byte of an event packet of a semi-synchronous dump, and first byte of the acknowledgement."""


class PacketFramer:
    """Cuts a byte stream, split anywhere, into payloads.

    In event mode (``events=True``, what a dump uses) a payload that starts with 0x00 is an event
    and is delivered without that byte; the first payload that starts otherwise (EOF, ERR) ends the
    stream and is kept in :attr:`last`.

    Args:
        max_packet_size: bytes that one joined payload may have.
        sequence: number that the first packet must have; -1: any, and not checked.
        events: event mode.
        semi_sync: event mode with the two-byte semi-synchronous header after the status byte; the
            first packet tells whether the source really sends it.

    Attributes:
        sequence: number that the next packet must have.
        last: event mode: the payload that ended the stream, or None.
        semi_sync: whether events carry the semi-synchronous header.
        ack_wanted: event mode: how many events delivered so far asked for an acknowledgement.
        fault: the error that ended the stream, or None; every later :meth:`feed` raises it.
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
        self._max = max_packet_size
        self._events = events
        self._probing = semi_sync
        self._head = b""
        self._body = bytearray()
        self._missing = 0
        self._joining = False

    @property
    def mid_packet(self) -> bool:
        """Whether the bytes so far end inside a packet."""
        return bool(self._missing or self._head or self._joining)

    def feed(self, buffer: bytes | bytearray | memoryview, size: int = -1) -> list[bytes]:
        """Take the next bytes of the stream.

        Args:
            buffer: holds them at its start; it may be reused after the call.
            size: how many of its bytes count; all of them when negative.

        Returns:
            The payloads that became complete, in order.

        Raises:
            PacketSequenceError: a packet has not the next sequence number.
            PacketTooLargeError: a payload is larger than ``max_packet_size``.
            MalformedPacketError: event mode: a payload is too short to be an event.

        A fault behind payloads of the same buffer is not raised but kept in :attr:`fault`, so that
        nothing before it is lost.
        """
        out: list[bytes] = []
        if self.fault is not None:
            raise self.fault
        data = bytes(buffer) if size < 0 else bytes(buffer[:size])
        at = 0
        try:
            if self._head:
                data = self._head + data
                self._head = b""
            end = len(data)
            while self.last is None:
                if self._missing > 0:
                    length = min(self._missing, end - at)
                    self._body += data[at : at + length]
                    at += length
                    self._missing -= length
                    if self._missing > 0:
                        break
                    if not self._joining:
                        self._deliver_joined(out)
                    continue
                if end - at < 4:
                    self._head = data[at:end]
                    break
                length = data[at] | (data[at + 1] << 8) | (data[at + 2] << 16)
                number = data[at + 3]
                if self.sequence >= 0:
                    if number == 0 != self.sequence and length > 0 and not self._joining:
                        # A server that shuts down or kills us sends an ERR packet numbered 0.
                        if end - at < 5:
                            self._head = data[at:end]
                            break
                        if data[at + 4] == 0xFF:
                            self.sequence = 0
                    if number != self.sequence:
                        raise PacketSequenceError(
                            f"packet has sequence number {number}, expected {self.sequence}"
                        )
                    self.sequence = (self.sequence + 1) & 0xFF
                at += 4
                if len(self._body) + length > self._max:
                    raise PacketTooLargeError(
                        f"a packet of at least {len(self._body) + length} bytes is larger than "
                        f"max_packet_size ({self._max}); raise that option if it is legitimate"
                    )
                if length < MAX_PIECE_SIZE and not self._joining and length <= end - at:
                    if self._events and not self.semi_sync and length > 1 and data[at] == 0:
                        out.append(data[at + 1 : at + length])
                    else:
                        self._deliver(data[at : at + length], out)
                    at += length
                    continue
                self._joining = length == MAX_PIECE_SIZE
                self._missing = length
                if length == 0:
                    self._deliver_joined(out)
        except ProtocolError as error:
            self.fault = error
            if not out:
                raise
        return out

    def _deliver_joined(self, out: list[bytes]) -> None:
        body = self._body
        self._body = bytearray()
        if self._events and not self.semi_sync and len(body) > 1 and body[0] == 0:
            with memoryview(body) as view:
                out.append(bytes(view[1:]))  # one copy: it may have hundreds of megabytes
        else:
            self._deliver(bytes(body), out)

    def _deliver(self, payload: bytes, out: list[bytes]) -> None:
        if not self._events:
            out.append(payload)
            return
        if not payload:
            raise MalformedPacketError("an empty packet in an event stream")
        if payload[0] != 0:
            self.last = payload
            return
        if self._probing:
            self._probing = False
            self.semi_sync = len(payload) > 2 and payload[1] == SEMI_SYNC_MAGIC
        if not self.semi_sync:
            out.append(payload[1:])
            return
        if len(payload) < 3 or payload[1] != SEMI_SYNC_MAGIC:
            raise MalformedPacketError("an event packet lacks the semi-synchronous header")
        if payload[2] & 1:
            self.ack_wanted += 1
            if self.sequence >= 0:
                self.sequence = 1  # both sides restart the numbering where a reply belongs
        out.append(payload[3:])


def encode_packets(payload: bytes, sequence: int = 0) -> bytes:
    """A payload as one or more packets, the first numbered ``sequence``."""
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


def packet_count(payload_size: int) -> int:
    """How many packets carry a payload of that size."""
    return payload_size // MAX_PIECE_SIZE + 1
