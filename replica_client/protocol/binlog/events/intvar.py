"""INTVAR: an integer that the next statement needs."""

from __future__ import annotations

from enum import IntEnum
from typing import Self

from replica_client.protocol.binlog.context import DEFAULT_CONTEXT, EventContext
from replica_client.protocol.codec.byte_fields import ByteReader, ByteWriter
from replica_client.protocol.codec.quick_dataclass import dataclass


class IntvarKind(IntEnum):
    """The variable that an INTVAR event sets."""

    INVALID_INT_EVENT = 0
    LAST_INSERT_ID_EVENT = 1
    INSERT_ID_EVENT = 2


@dataclass(frozen=True, slots=True)
class IntvarEvent:
    """A value for a statement that uses LAST_INSERT_ID() or fills an AUTO_INCREMENT column.

    Bytes (little-endian)::

        offset  size  field
        0       p     extra_post_header  p = post-header length of the type; 0 in known versions
        p       1     kind               1: value of LAST_INSERT_ID(); 2: next AUTO_INCREMENT value
        p+1     8     value
        p+9     rest  extra              empty in known versions

    Raises:
        ShortBufferError: the body is shorter (the decoder makes it ``TruncatedEventError``).

    Spec: MySQL ``Intvar_event`` (statement_events.h).
    """

    kind: int
    value: int
    extra_post_header: bytes = b""
    extra: bytes = b""

    @property
    def name(self) -> str:
        """``LAST_INSERT_ID``, ``INSERT_ID``, or ``INVALID_INT`` for any other kind."""
        try:
            return IntvarKind(self.kind).name.removesuffix("_EVENT")
        except ValueError:
            return "INVALID_INT"

    @classmethod
    def decode(cls, body: ByteReader, ctx: EventContext) -> Self:
        """Decode post-header and body."""
        extra_post_header = body.take(ctx.post_header_size(0))
        return cls(body.uint(1), body.uint(8), extra_post_header, body.rest())

    def encode(self, ctx: EventContext = DEFAULT_CONTEXT) -> bytes:
        """Return the encoded body."""
        out = ByteWriter().raw(self.extra_post_header).uint(self.kind, 1)
        return out.uint(self.value, 8).raw(self.extra).done()
