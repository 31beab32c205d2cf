"""ROWS_QUERY: the statement of the rows events that follow."""

from __future__ import annotations

from typing import Self

from replica_client.protocol.binlog.context import DEFAULT_CONTEXT, EventContext
from replica_client.protocol.codec.byte_fields import ByteReader, ByteWriter
from replica_client.protocol.codec.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class RowsQueryEvent:
    """The text of the statement that made the following row changes (informational).

    Bytes::

        offset  size  field
        0       p     extra_post_header  p = post-header length of the type; 0 in known versions
        p       1     length             the query's, modulo 256 or cut at 255; readers ignore it
        p+1     rest  query              in the client's character set

    Raises:
        ShortBufferError: the body is shorter (the decoder makes it ``TruncatedEventError``).

    Spec: MySQL ``Rows_query_event`` (rows_event.h).
    """

    query: bytes
    length_byte: int
    extra_post_header: bytes = b""

    @classmethod
    def decode(cls, body: ByteReader, ctx: EventContext) -> Self:
        """Decode post-header and body."""
        extra_post_header = body.take(ctx.post_header_size(0))
        length_byte = body.uint(1)
        return cls(body.rest(), length_byte, extra_post_header)

    @classmethod
    def of(cls, query: bytes) -> Self:
        """Return the event that a server writes for ``query``."""
        return cls(query, len(query) & 0xFF)

    def encode(self, ctx: EventContext = DEFAULT_CONTEXT) -> bytes:
        """Return the encoded body."""
        out = ByteWriter().raw(self.extra_post_header).uint(self.length_byte, 1)
        return out.raw(self.query).done()
