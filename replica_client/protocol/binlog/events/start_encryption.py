"""START_ENCRYPTION: all later events of this MariaDB file are encrypted."""

from __future__ import annotations

from typing import Self

from replica_client.protocol.binlog.context import DEFAULT_CONTEXT, EventContext
from replica_client.protocol.codec.byte_fields import ByteReader, ByteWriter
from replica_client.protocol.codec.quick_dataclass import dataclass

NONCE_SIZE = 12


@dataclass(frozen=True, slots=True)
class StartEncryptionEvent:
    """The encryption of the events after this one.

    :mod:`replica_client.protocol.binlog.encryption` decrypts them.

    Bytes (little-endian)::

        offset  size  field
        0       p     extra_post_header  p = post-header length of the type; 0 in known versions
        p       1     scheme             1: the key of id 1, of the next field's version
        p+1     4     key_version
        p+5     12    nonce
        p+17    rest  extra              empty in known versions

    Raises:
        ShortBufferError: the body is shorter (the decoder makes it ``TruncatedEventError``).

    Spec: MariaDB ``Start_encryption_log_event`` (log_event.h).
    """

    scheme: int
    key_version: int
    nonce: bytes
    extra_post_header: bytes = b""
    extra: bytes = b""

    @classmethod
    def decode(cls, body: ByteReader, ctx: EventContext) -> Self:
        """Decode post-header and body."""
        extra_post_header = body.take(ctx.post_header_size(0))
        scheme, version = body.uint(1), body.uint(4)
        return cls(scheme, version, body.take(NONCE_SIZE, "nonce"), extra_post_header, body.rest())

    def encode(self, ctx: EventContext = DEFAULT_CONTEXT) -> bytes:
        """Return the encoded body."""
        out = ByteWriter().raw(self.extra_post_header).uint(self.scheme, 1)
        return out.uint(self.key_version, 4).raw(self.nonce).raw(self.extra).done()
