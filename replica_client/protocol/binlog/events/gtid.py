"""GTID and ANONYMOUS_GTID: the start of a transaction in MySQL."""

from __future__ import annotations

from struct import Struct
from typing import Self

from replica_client.protocol.binlog.context import DEFAULT_CONTEXT, EventContext
from replica_client.protocol.codec.byte_fields import ByteReader, ByteWriter
from replica_client.protocol.codec.quick_dataclass import dataclass

LOGICAL_CLOCK = 2
"""``clock_type`` of 5.7.5 and later: two 8-byte logical timestamps follow."""

_FIXED = Struct("<B16sq")
_CLOCK = Struct("<qq")
_SECOND_TIMESTAMP = 1 << 55
_SECOND_VERSION = 1 << 31


@dataclass(frozen=True, slots=True)
class GtidEvent:
    """The start of a transaction ``sid:gno`` (ANONYMOUS_GTID has no identifier).

    Bytes (little-endian); each optional part needs the ones before it::

        size   field                       since
        1      flags                       5.6; bit 0: may hold non-transactional changes
        16     sid                         5.6; uuid of the server that committed it first
        8      gno                         5.6; 0 in ANONYMOUS_GTID
        1      clock_type                  5.7.1; 2 since 5.7.5, other values: the rest is ``extra``
        8+8    last_committed, sequence_number   5.7.5
        7      immediate_commit_timestamp  8.0.1; microseconds; bit 55: the next field follows
        7      original_commit_timestamp   8.0.1; absent when equal to the one before
        1..9   transaction_length          8.0.2; length-encoded; whole transaction, this event too
        4      immediate_server_version    8.0.14; e.g. 80014; bit 31: the next field follows
        4      original_server_version     8.0.14; absent when equal to the one before
        8      commit_group_ticket         8.0.28; group replication
        rest   extra                       unknown to this version

    Post-header and body are decoded as one sequence of fields, as upstream does.

    Raises:
        ShortBufferError: a part is cut (the decoder makes it ``TruncatedEventError``).

    Spec: MySQL ``Gtid_event`` (control_events.h, control_events.cpp).
    """

    flags: int
    sid: bytes
    gno: int
    clock_type: int | None = None
    last_committed: int | None = None
    sequence_number: int | None = None
    immediate_commit_timestamp: int | None = None
    original_commit_timestamp: int | None = None
    transaction_length: int | None = None
    immediate_server_version: int | None = None
    original_server_version: int | None = None
    commit_group_ticket: int | None = None
    extra: bytes = b""

    @property
    def tag(self) -> str:
        """Always ``""``: GTIDs with a tag have GTID_TAGGED events."""
        return ""

    @classmethod
    def decode(cls, body: ByteReader, ctx: EventContext) -> Self:
        """Decode post-header and body."""
        flags, sid, gno = _FIXED.unpack(body.take(25, "GTID"))
        if not body.remaining:
            return cls(flags, sid, gno)
        clock_type = body.uint(1)
        if clock_type != LOGICAL_CLOCK:
            return cls(flags, sid, gno, clock_type, extra=body.rest())
        last_committed, sequence_number = _CLOCK.unpack(body.take(16, "logical clock"))
        immediate = original = length = version = original_version = ticket = None
        if body.remaining >= 7:
            immediate = original = body.uint(7)
            if immediate & _SECOND_TIMESTAMP:
                immediate &= ~_SECOND_TIMESTAMP
                original = body.uint(7)
            if body.remaining:
                length = body.lenenc()
            if body.remaining >= 4:
                version = original_version = body.uint(4)
                if version & _SECOND_VERSION:
                    version &= ~_SECOND_VERSION
                    original_version = body.uint(4)
                if body.remaining >= 8:
                    ticket = body.uint(8)
        return cls(
            flags,
            sid,
            gno,
            clock_type,
            last_committed,
            sequence_number,
            immediate,
            original,
            length,
            version,
            original_version,
            ticket,
            body.rest(),
        )

    def encode(self, ctx: EventContext = DEFAULT_CONTEXT) -> bytes:
        """Return the encoded body."""
        out = ByteWriter().uint(self.flags, 1).raw(self.sid).sint(self.gno, 8)
        if self.clock_type is not None:
            out.uint(self.clock_type, 1)
        if self.last_committed is not None and self.sequence_number is not None:
            out.sint(self.last_committed, 8).sint(self.sequence_number, 8)
        _pair(
            out,
            7,
            self.immediate_commit_timestamp,
            self.original_commit_timestamp,
            _SECOND_TIMESTAMP,
        )
        if self.transaction_length is not None:
            out.lenenc(self.transaction_length)
        _pair(out, 4, self.immediate_server_version, self.original_server_version, _SECOND_VERSION)
        if self.commit_group_ticket is not None:
            out.uint(self.commit_group_ticket, 8)
        return out.raw(self.extra).done()


def _pair(
    out: ByteWriter, size: int, immediate: int | None, original: int | None, bit: int
) -> None:
    """Write a value, and a second one if it differs; a bit of the first announces the second."""
    if immediate is None:
        return
    if original is None or original == immediate:
        out.uint(immediate, size)
    else:
        out.uint(immediate | bit, size).uint(original, size)
