"""INCIDENT: the source lost changes, or may have."""

from __future__ import annotations

from typing import Self

from replica_client.protocol.binlog.context import DEFAULT_CONTEXT, EventContext
from replica_client.protocol.codec.byte_fields import ByteReader, ByteWriter
from replica_client.protocol.codec.quick_dataclass import dataclass

_POST_HEADER_SIZE = 2

LOST_EVENTS = 1
"""The one incident that servers write: events are missing from the binlog."""


@dataclass(frozen=True, slots=True)
class IncidentEvent:
    """An incident on the source; replicas must not simply continue.

    Bytes (little-endian)::

        offset  size  field
        0       2     incident           1: LOST_EVENTS
        2       p-2   extra_post_header  p = post-header length of the type; empty if p = 2
        p       1     message length
        p+1     n     message            text for people
        ...     rest  extra              empty in known versions

    Raises:
        ShortBufferError: the body is shorter (the decoder makes it ``TruncatedEventError``).

    Spec: MySQL ``Incident_event`` (control_events.h).
    """

    incident: int
    message: bytes
    extra_post_header: bytes = b""
    extra: bytes = b""

    @property
    def name(self) -> str:
        """``LOST_EVENTS``, or ``INCIDENT_<number>``."""
        return "LOST_EVENTS" if self.incident == LOST_EVENTS else f"INCIDENT_{self.incident}"

    @classmethod
    def decode(cls, body: ByteReader, ctx: EventContext) -> Self:
        """Decode post-header and body."""
        size = ctx.post_header_size(_POST_HEADER_SIZE)
        incident = body.uint(_POST_HEADER_SIZE)
        extra_post_header = body.take(size - _POST_HEADER_SIZE, "post-header")
        return cls(incident, body.take(body.uint(1), "message"), extra_post_header, body.rest())

    def encode(self, ctx: EventContext = DEFAULT_CONTEXT) -> bytes:
        """Return the encoded body."""
        out = ByteWriter().uint(self.incident, 2).raw(self.extra_post_header)
        return out.uint(len(self.message), 1).raw(self.message).raw(self.extra).done()
