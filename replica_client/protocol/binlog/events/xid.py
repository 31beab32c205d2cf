"""XID: the commit of a transaction of transactional engines."""

from __future__ import annotations

from typing import Self

from replica_client.protocol.binlog.context import DEFAULT_CONTEXT, EventContext
from replica_client.protocol.codec.byte_fields import ByteReader, ByteWriter
from replica_client.protocol.codec.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class XidEvent:
    """The commit of a transaction; ``xid`` is its number in the server's two-phase commit.

    Bytes (little-endian)::

        offset  size  field
        0       p     extra_post_header  p = post-header length of the type; 0 in known versions
        p       8     xid                comparable for equality only: written in host byte order
        p+8     rest  extra              empty in known versions

    Raises:
        ShortBufferError: the body is shorter (the decoder makes it ``TruncatedEventError``).

    Spec: MySQL ``Xid_event`` (control_events.h).
    """

    xid: int
    extra_post_header: bytes = b""
    extra: bytes = b""

    @classmethod
    def decode(cls, body: ByteReader, ctx: EventContext) -> Self:
        """Decode post-header and body."""
        extra_post_header = body.take(ctx.post_header_size(0))
        return cls(body.uint(8), extra_post_header, body.rest())

    def encode(self, ctx: EventContext = DEFAULT_CONTEXT) -> bytes:
        """Return the encoded body."""
        out = ByteWriter().raw(self.extra_post_header).uint(self.xid, 8)
        return out.raw(self.extra).done()
