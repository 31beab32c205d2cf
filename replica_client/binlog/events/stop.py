"""STOP: the server closed its binlog in an orderly shutdown."""

from __future__ import annotations

from typing import Self

from replica_client.binlog.context import DEFAULT_CONTEXT, EventContext
from replica_client.codec.quick_dataclass import dataclass
from replica_client.codec.reader import ByteReader


@dataclass(frozen=True, slots=True)
class StopEvent:
    """The source was shut down (or, in a relay log, the replica); nothing follows in the file.

    The event has no fields. Bytes beyond its header are kept in ``extra``.

    Spec: MySQL ``Stop_event`` (control_events.h).
    """

    extra: bytes = b""

    @classmethod
    def decode(cls, body: ByteReader, ctx: EventContext) -> Self:
        """Decode a body, which is empty in every known version."""
        return cls(body.rest())

    def encode(self, ctx: EventContext = DEFAULT_CONTEXT) -> bytes:
        """The body's bytes."""
        return self.extra
