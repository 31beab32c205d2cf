"""Events that are delivered as undecoded bytes."""

from __future__ import annotations

from typing import Self

from replica_client.protocol.binlog.context import DEFAULT_CONTEXT, EventContext
from replica_client.protocol.codec.byte_fields import ByteReader
from replica_client.protocol.codec.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class UnknownEvent:
    """An event of a type without a class: forks (Aurora's padding, type 100), later versions.

    Bytes::

        offset  size  field
        0       rest  body   post-header and body, undivided

    The consumer decides whether to ignore such an event
    (``LOG_EVENT_IGNORABLE_F`` in the header allows it).
    """

    body: bytes

    @classmethod
    def decode(cls, body: ByteReader, ctx: EventContext) -> Self:
        """Keep all bytes undecoded."""
        return cls(body.rest())

    def encode(self, ctx: EventContext = DEFAULT_CONTEXT) -> bytes:
        """Return the bytes unchanged."""
        return self.body
