"""APPEND_BLOCK and BEGIN_LOAD_QUERY: pieces of a file that LOAD DATA reads."""

from __future__ import annotations

from typing import Self

from replica_client.protocol.binlog.context import DEFAULT_CONTEXT, EventContext
from replica_client.protocol.codec.byte_fields import ByteReader, ByteWriter
from replica_client.protocol.codec.quick_dataclass import dataclass

_POST_HEADER_SIZE = 4


@dataclass(frozen=True, slots=True)
class AppendBlockEvent:
    """A further piece of the file ``file_id``.

    Bytes (little-endian)::

        offset  size  field
        0       4     file_id            unique per server while the file is being sent
        4       p-4   extra_post_header  p = post-header length of the type; empty if p = 4
        p       rest  block              bytes of the file

    Raises:
        ShortBufferError: the body is shorter (the decoder makes it ``TruncatedEventError``).

    Spec: MySQL ``Append_block_event`` (load_data_events.h).
    """

    file_id: int
    block: bytes
    extra_post_header: bytes = b""

    @classmethod
    def decode(cls, body: ByteReader, ctx: EventContext) -> Self:
        """Decode post-header and body."""
        size = ctx.post_header_size(_POST_HEADER_SIZE)
        file_id = body.uint(_POST_HEADER_SIZE)
        extra_post_header = body.take(size - _POST_HEADER_SIZE, "post-header")
        return cls(file_id, body.rest(), extra_post_header)

    def encode(self, ctx: EventContext = DEFAULT_CONTEXT) -> bytes:
        """Return the encoded body."""
        out = ByteWriter().uint(self.file_id, 4).raw(self.extra_post_header)
        return out.raw(self.block).done()


@dataclass(frozen=True, slots=True)
class BeginLoadQueryEvent(AppendBlockEvent):
    """The first piece of the file ``file_id``; its bytes are those of APPEND_BLOCK.

    Spec: MySQL ``Begin_load_query_event`` (load_data_events.h).
    """
