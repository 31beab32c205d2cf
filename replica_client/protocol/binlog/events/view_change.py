"""VIEW_CHANGE: the members of a replication group changed."""

from __future__ import annotations

from typing import Self

from replica_client.protocol.binlog.context import DEFAULT_CONTEXT, EventContext
from replica_client.protocol.codec.byte_fields import ByteReader, ByteWriter
from replica_client.protocol.codec.quick_dataclass import dataclass

_POST_HEADER_SIZE = 52
_VIEW_ID_SIZE = 40


@dataclass(frozen=True, slots=True)
class ViewChangeEvent:
    """A mark in a group member's binlog: a server joined or left the group here.

    Bytes (little-endian)::

        offset  size  field
        0       40    view_id             text, padded with NUL
        40      8     sequence_number     position in the group's certification
        48      4     certification count
        52      p-52  extra_post_header   p = post-header length of the type; empty if p = 52
        p       ...   certification_info  each: 2-byte length, key; 4-byte length, value
        ...     rest  extra               empty in known versions

    Attributes:
        view_id: all 40 bytes.
        certification_info: pairs of write set hash and encoded GTID set.

    Raises:
        ShortBufferError: the body is shorter (the decoder makes it ``TruncatedEventError``).

    Spec: MySQL ``View_change_event`` (control_events.h).
    """

    view_id: bytes
    sequence_number: int
    certification_info: tuple[tuple[bytes, bytes], ...] = ()
    extra_post_header: bytes = b""
    extra: bytes = b""

    @property
    def view_id_text(self) -> str:
        """The view id without padding."""
        return self.view_id.split(b"\0", 1)[0].decode("utf-8", "backslashreplace")

    @classmethod
    def decode(cls, body: ByteReader, ctx: EventContext) -> Self:
        """Decode post-header and body."""
        size = ctx.post_header_size(_POST_HEADER_SIZE)
        view_id, number, count = body.take(_VIEW_ID_SIZE, "view id"), body.uint(8), body.uint(4)
        extra_post_header = body.take(size - _POST_HEADER_SIZE, "post-header")
        pairs = [
            (body.take(body.uint(2), "certification key"), body.take(body.uint(4), "value"))
            for _ in range(count)
        ]
        return cls(view_id, number, tuple(pairs), extra_post_header, body.rest())

    def encode(self, ctx: EventContext = DEFAULT_CONTEXT) -> bytes:
        """Return the encoded body."""
        out = ByteWriter().raw(self.view_id[:_VIEW_ID_SIZE].ljust(_VIEW_ID_SIZE, b"\0"))
        out.uint(self.sequence_number, 8).uint(len(self.certification_info), 4)
        out.raw(self.extra_post_header)
        for key, value in self.certification_info:
            out.uint(len(key), 2).raw(key).uint(len(value), 4).raw(value)
        return out.raw(self.extra).done()
