"""STOP: the server closed its binlog in an orderly shutdown."""

from __future__ import annotations

from typing import Self

from replica_client.protocol.binlog.context import DEFAULT_CONTEXT, EventContext
from replica_client.protocol.codec.byte_fields import ByteReader
from replica_client.protocol.codec.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class StopEvent:
    """The shutdown of the source (in a relay log, of the replica); the last event of a file.

    The event has no fields. Bytes after its header are kept in ``extra``.

    Spec: MySQL ``Stop_event`` (control_events.h).
    """

    extra: bytes = b""

    @classmethod
    def decode(cls, body: ByteReader, ctx: EventContext) -> Self:
        """Decode a body, which is empty in every known version."""
        return cls(body.rest())

    def encode(self, ctx: EventContext = DEFAULT_CONTEXT) -> bytes:
        """Return the encoded body."""
        return self.extra
