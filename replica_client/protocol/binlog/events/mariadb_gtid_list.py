"""GTID_LIST: MariaDB's replication state at the start of a file."""

from __future__ import annotations

from typing import Self

from replica_client.protocol.binlog.context import DEFAULT_CONTEXT, EventContext
from replica_client.protocol.codec.byte_fields import ByteReader, ByteWriter
from replica_client.protocol.codec.quick_dataclass import dataclass

_POST_HEADER_SIZE = 4
_COUNT_BITS = 28

FLAG_UNTIL_REACHED = 1
"""Artificial, for a replica: it has reached the position up to which it asked for events."""

FLAG_IGN_GTIDS = 2
"""Artificial, for a replica: these GTIDs were skipped."""


@dataclass(frozen=True, slots=True)
class MariadbGtidListEvent:
    """The last GTID per (domain, server) in all files before this one.

    Bytes (little-endian)::

        offset  size  field
        0       4     count in the low 28 bits, flags in the high 4
        4       p-4   extra_post_header  p = post-header length of the type; empty if p = 4
        p       16*n  gtids              each: domain (4), server id (4), sequence (8)
        ...     rest  extra              up to 10 zero bytes: the event has 35 or more

    Attributes:
        gtids: (domain, server id, sequence), in the order written.

    Raises:
        ShortBufferError: the body is shorter (the decoder makes it ``TruncatedEventError``).

    Spec: MariaDB ``Gtid_list_log_event`` (log_event.h).
    """

    gtids: tuple[tuple[int, int, int], ...]
    flags: int = 0
    extra_post_header: bytes = b""
    extra: bytes = b""

    @classmethod
    def decode(cls, body: ByteReader, ctx: EventContext) -> Self:
        """Decode post-header and body."""
        size = ctx.post_header_size(_POST_HEADER_SIZE)
        word = body.uint(_POST_HEADER_SIZE)
        extra_post_header = body.take(size - _POST_HEADER_SIZE, "post-header")
        count = word & ((1 << _COUNT_BITS) - 1)
        gtids = tuple([(body.uint(4), body.uint(4), body.uint(8)) for _ in range(count)])
        return cls(gtids, word >> _COUNT_BITS, extra_post_header, body.rest())

    def encode(self, ctx: EventContext = DEFAULT_CONTEXT) -> bytes:
        """Return the encoded body."""
        out = ByteWriter().uint(len(self.gtids) | self.flags << _COUNT_BITS, 4)
        out.raw(self.extra_post_header)
        for domain_id, server_id, sequence in self.gtids:
            out.uint(domain_id, 4).uint(server_id, 4).uint(sequence, 8)
        return out.raw(self.extra).done()
