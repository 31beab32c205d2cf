"""ROTATE: the name of the file that follows."""

from __future__ import annotations

from typing import Self

from replica_client.protocol.binlog.context import DEFAULT_CONTEXT, EventContext
from replica_client.protocol.codec.byte_fields import ByteReader, ByteWriter
from replica_client.protocol.codec.quick_dataclass import dataclass

_POSITION_SIZE = 8


@dataclass(frozen=True, slots=True)
class RotateEvent:
    """The end of a binlog file, with the name of the next one.

    It is the last event of a file. In a stream, the source also sends an artificial one
    (``LOG_EVENT_ARTIFICIAL_F``, timestamp 0) before the first event of each file. That event is in
    no file and does not change the position.

    Bytes (little-endian)::

        offset  size  field
        0       8     next_position      in the next file; absent in binlog v1 (4 then)
        8       p-8   extra_post_header  p = post-header length of the type; empty if p = 8
        p       rest  next_file          base name; bytes that are not UTF-8 are surrogate escapes

    Raises:
        ShortBufferError: the body is shorter (the decoder makes it ``TruncatedEventError``).

    Spec: MySQL ``Rotate_event`` (control_events.h).
    """

    next_position: int
    next_file: str
    extra_post_header: bytes = b""

    @classmethod
    def decode(cls, body: ByteReader, ctx: EventContext) -> Self:
        """Decode post-header and body."""
        size = ctx.post_header_size(_POSITION_SIZE)
        if size < _POSITION_SIZE:
            position, extra = 4, body.take(size)
        else:
            position, extra = body.uint(_POSITION_SIZE), body.take(size - _POSITION_SIZE)
        return cls(position, body.rest().decode("utf-8", "surrogateescape"), extra)

    def encode(self, ctx: EventContext = DEFAULT_CONTEXT) -> bytes:
        """Return the encoded body."""
        out = ByteWriter()
        if ctx.post_header_size(_POSITION_SIZE) >= _POSITION_SIZE:
            out.uint(self.next_position, _POSITION_SIZE)
        out.raw(self.extra_post_header)
        return out.raw(self.next_file.encode("utf-8", "surrogateescape")).done()
