"""QUERY_COMPRESSED: a statement whose text is compressed (MariaDB ``log_bin_compress``)."""

from __future__ import annotations

from typing import Self

from replica_client.protocol.binlog.context import DEFAULT_CONTEXT, EventContext
from replica_client.protocol.binlog.events.query import QueryEvent
from replica_client.protocol.codec.byte_fields import ByteReader
from replica_client.protocol.codec.compression import deflate_record, inflate_record
from replica_client.protocol.codec.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class QueryCompressedEvent(QueryEvent):
    """A statement with compressed text; otherwise as QUERY.

    Bytes: as :class:`~replica_client.protocol.binlog.events.query.QueryEvent`, with ``compressed_query`` in
    the place of ``query`` (see :func:`replica_client.protocol.codec.compression.inflate_record`).

    Attributes:
        query: the decompressed text.
        compressed_query: the bytes in the event; empty in an event made by the caller.

    Raises:
        ShortBufferError: the body is shorter (the decoder makes it ``TruncatedEventError``).
        BinlogDecodeError: broken compression.
        LimitExceededError: the text is larger than the option max_uncompressed_size.

    Spec: MariaDB ``Query_compressed_log_event`` (log_event.h, log_event.cc).
    """

    compressed_query: bytes = b""

    @classmethod
    def decode(cls, body: ByteReader, ctx: EventContext) -> Self:
        """Decode post-header and body, and decompress the text."""
        plain = QueryEvent.decode(body, ctx)
        return cls(
            plain.thread_id,
            plain.exec_time,
            plain.error_code,
            plain.status_vars,
            plain.schema,
            inflate_record(plain.query, ctx.options.max_uncompressed_size),
            plain.extra_post_header,
            plain.query,
        )

    def encode(self, ctx: EventContext = DEFAULT_CONTEXT) -> bytes:
        """Return the encoded body."""
        return QueryEvent(
            self.thread_id,
            self.exec_time,
            self.error_code,
            self.status_vars,
            self.schema,
            self.compressed_query or deflate_record(self.query),
            self.extra_post_header,
        ).encode(ctx)
