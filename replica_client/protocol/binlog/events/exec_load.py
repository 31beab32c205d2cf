"""EXEC_LOAD and DELETE_FILE: load or forget a file that LOAD DATA sent."""

from __future__ import annotations

from typing import Self

from replica_client.protocol.binlog.context import DEFAULT_CONTEXT, EventContext
from replica_client.protocol.codec.byte_fields import ByteReader, ByteWriter
from replica_client.protocol.codec.quick_dataclass import dataclass

_POST_HEADER_SIZE = 4


@dataclass(frozen=True, slots=True)
class ExecLoadEvent:
    """A command to load the complete file ``file_id`` as CREATE_FILE said (3.23 to 4.1).

    Bytes (little-endian)::

        offset  size  field
        0       4     file_id
        4       p-4   extra_post_header  p = post-header length of the type; empty if p = 4
        p       rest  extra              empty in known versions

    Raises:
        ShortBufferError: the body is shorter (the decoder makes it ``TruncatedEventError``).

    Spec: MySQL ``Execute_load_event`` (load_data_events.h, up to 5.7).
    """

    file_id: int
    extra_post_header: bytes = b""
    extra: bytes = b""

    @classmethod
    def decode(cls, body: ByteReader, ctx: EventContext) -> Self:
        """Decode post-header and body."""
        size = ctx.post_header_size(_POST_HEADER_SIZE)
        file_id = body.uint(_POST_HEADER_SIZE)
        extra_post_header = body.take(size - _POST_HEADER_SIZE, "post-header")
        return cls(file_id, extra_post_header, body.rest())

    def encode(self, ctx: EventContext = DEFAULT_CONTEXT) -> bytes:
        """Return the encoded body."""
        out = ByteWriter().uint(self.file_id, 4)
        return out.raw(self.extra_post_header).raw(self.extra).done()


@dataclass(frozen=True, slots=True)
class DeleteFileEvent(ExecLoadEvent):
    """A command to forget the file ``file_id`` of a failed LOAD DATA; bytes as EXEC_LOAD.

    Spec: MySQL ``Delete_file_event`` (load_data_events.h).
    """
