"""IGNORABLE: an event that readers may ignore."""

from __future__ import annotations

from typing import Self

from replica_client.protocol.binlog.context import DEFAULT_CONTEXT, EventContext
from replica_client.protocol.codec.byte_fields import ByteReader
from replica_client.protocol.codec.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class IgnorableEvent:
    """An event without defined content, which no server writes on its own.

    Only MariaDB's regression tests write it.

    Bytes::

        offset  size  field
        0       rest  body   post-header and body, undivided

    Spec: MySQL ``Ignorable_event`` (control_events.h).
    """

    body: bytes

    @classmethod
    def decode(cls, body: ByteReader, ctx: EventContext) -> Self:
        """Keep all bytes undecoded."""
        return cls(body.rest())

    def encode(self, ctx: EventContext = DEFAULT_CONTEXT) -> bytes:
        """Return the bytes unchanged."""
        return self.body
