"""IGNORABLE: an event that whoever does not know it may pass over."""

from __future__ import annotations

from typing import Self

from replica_client.binlog.context import DEFAULT_CONTEXT, EventContext
from replica_client.codec.quick_dataclass import dataclass
from replica_client.codec.reader import ByteReader


@dataclass(frozen=True, slots=True)
class IgnorableEvent:
    """Has no content that is defined; no server writes it by itself.

    MariaDB's regression tests make it by hand.

    Bytes::

        offset  size  field
        0       rest  body   post-header and body, undivided

    Spec: MySQL ``Ignorable_event`` (control_events.h).
    """

    body: bytes

    @classmethod
    def decode(cls, body: ByteReader, ctx: EventContext) -> Self:
        """Keep all bytes."""
        return cls(body.rest())

    def encode(self, ctx: EventContext = DEFAULT_CONTEXT) -> bytes:
        """The same bytes."""
        return self.body
