"""ANNOTATE_ROWS: the statement of the rows events that follow (MariaDB)."""

from __future__ import annotations

from typing import Self

from replica_client.protocol.binlog.context import DEFAULT_CONTEXT, EventContext
from replica_client.protocol.codec.byte_fields import ByteReader
from replica_client.protocol.codec.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class AnnotateRowsEvent:
    """The text of the statement that made the following row changes (informational).

    Bytes::

        offset  size  field
        0       p     extra_post_header  p = post-header length of the type; 0 in known versions
        p       rest  query              in the client's character set

    Raises:
        ShortBufferError: the body is shorter (the decoder makes it ``TruncatedEventError``).

    Spec: MariaDB ``Annotate_rows_log_event`` (log_event.h).
    """

    query: bytes
    extra_post_header: bytes = b""

    @classmethod
    def decode(cls, body: ByteReader, ctx: EventContext) -> Self:
        """Decode post-header and body."""
        extra_post_header = body.take(ctx.post_header_size(0))
        return cls(body.rest(), extra_post_header)

    def encode(self, ctx: EventContext = DEFAULT_CONTEXT) -> bytes:
        """Return the encoded body."""
        return self.extra_post_header + self.query
