"""Events that are delivered as the bytes they are."""

from __future__ import annotations

from typing import Self

from replica_client.binlog.context import DEFAULT_CONTEXT, EventContext
from replica_client.codec.quick_dataclass import dataclass
from replica_client.codec.reader import ByteReader


@dataclass(frozen=True, slots=True)
class UnknownEvent:
    """An event of a type that has no class: forks (Aurora's padding, type 100), future versions.

    Bytes::

        offset  size  field
        0       rest  body   post-header and body, undivided

    Whether such an event may be passed over is the consumer's decision
    (``LOG_EVENT_IGNORABLE_F`` in the header says that it may).
    """

    body: bytes

    @classmethod
    def decode(cls, body: ByteReader, ctx: EventContext) -> Self:
        """Keep all bytes."""
        return cls(body.rest())

    def encode(self, ctx: EventContext = DEFAULT_CONTEXT) -> bytes:
        """The same bytes."""
        return self.body
