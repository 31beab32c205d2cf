"""SLAVE: a record of the replica's source, planned in 4.0 and never written by a release."""

from __future__ import annotations

from typing import Self

from replica_client.protocol.binlog.context import DEFAULT_CONTEXT, EventContext
from replica_client.protocol.codec.byte_fields import ByteReader, ByteWriter
from replica_client.protocol.codec.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class SlaveEvent:
    """The position of the replica that wrote this binlog in its source's binlog.

    Bytes (little-endian)::

        offset  size  field
        0       p     extra_post_header  p = post-header length of the type; 0 in known versions
        p       8     master_position
        p+8     2     master_port
        p+10    ...   master_host        ends with NUL
        ...     rest  master_log         file name; may end with NUL

    Raises:
        ShortBufferError: the body is shorter (the decoder makes it ``TruncatedEventError``).

    Spec: MySQL ``Slave_log_event`` (log_event.h, up to 5.5).
    """

    master_position: int
    master_port: int
    master_host: bytes
    master_log: bytes
    extra_post_header: bytes = b""

    @classmethod
    def decode(cls, body: ByteReader, ctx: EventContext) -> Self:
        """Decode post-header and body."""
        extra_post_header = body.take(ctx.post_header_size(0))
        position, port = body.uint(8), body.uint(2)
        return cls(position, port, body.nul_string(), body.rest(), extra_post_header)

    def encode(self, ctx: EventContext = DEFAULT_CONTEXT) -> bytes:
        """Return the encoded body."""
        out = ByteWriter().raw(self.extra_post_header).uint(self.master_position, 8)
        out.uint(self.master_port, 2).nul_string(self.master_host)
        return out.raw(self.master_log).done()
