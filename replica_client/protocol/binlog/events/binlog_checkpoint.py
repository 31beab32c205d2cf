"""BINLOG_CHECKPOINT: the files that MariaDB's crash recovery needs."""

from __future__ import annotations

from typing import Self

from replica_client.protocol.binlog.context import DEFAULT_CONTEXT, EventContext
from replica_client.protocol.codec.byte_fields import ByteReader, ByteWriter
from replica_client.protocol.codec.quick_dataclass import dataclass

_POST_HEADER_SIZE = 4


@dataclass(frozen=True, slots=True)
class BinlogCheckpointEvent:
    """A checkpoint: all transactions in files before ``file`` are durable in their engines.

    Bytes (little-endian)::

        offset  size  field
        0       4     file length
        4       p-4   extra_post_header  p = post-header length of the type; empty if p = 4
        p       n     file               bytes that are not UTF-8 are surrogate escapes
        p+n     rest  extra              empty in known versions

    Raises:
        ShortBufferError: the body is shorter (the decoder makes it ``TruncatedEventError``).

    Spec: MariaDB ``Binlog_checkpoint_log_event`` (log_event.h).
    """

    file: str
    extra_post_header: bytes = b""
    extra: bytes = b""

    @classmethod
    def decode(cls, body: ByteReader, ctx: EventContext) -> Self:
        """Decode post-header and body."""
        size = ctx.post_header_size(_POST_HEADER_SIZE)
        name_size = body.uint(_POST_HEADER_SIZE)
        extra_post_header = body.take(size - _POST_HEADER_SIZE, "post-header")
        name = body.take(name_size, "file name").decode("utf-8", "surrogateescape")
        return cls(name, extra_post_header, body.rest())

    def encode(self, ctx: EventContext = DEFAULT_CONTEXT) -> bytes:
        """Return the encoded body."""
        name = self.file.encode("utf-8", "surrogateescape")
        out = ByteWriter().uint(len(name), 4).raw(self.extra_post_header)
        return out.raw(name).raw(self.extra).done()
