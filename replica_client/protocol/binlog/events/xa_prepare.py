"""XA_PREPARE: the end of the first phase of a distributed transaction."""

from __future__ import annotations

from typing import Self

from replica_client.errors import BinlogDecodeError
from replica_client.protocol.binlog.context import DEFAULT_CONTEXT, EventContext
from replica_client.protocol.codec.byte_fields import ByteReader, ByteWriter
from replica_client.protocol.codec.quick_dataclass import dataclass

_MAX_PART = 64


@dataclass(frozen=True, slots=True)
class XaPrepareEvent:
    """The end of a transaction's changes: prepared, or committed in one phase.

    Bytes (little-endian)::

        offset  size  field
        0       p     extra_post_header  p = post-header length of the type; 0 in known versions
        p       1     one_phase          not 0: XA COMMIT ... ONE PHASE; 0: XA PREPARE
        p+1     4     format_id          signed
        p+5     4     gtrid length       at most 64
        p+9     4     bqual length       at most 64
        p+13    ...   gtrid, bqual       bytes, not text
        ...     rest  extra              empty in known versions

    Raises:
        ShortBufferError: the body is shorter (the decoder makes it ``TruncatedEventError``).
        BinlogDecodeError: a part of the xid is longer than XA allows.

    Spec: MySQL ``XA_prepare_event`` (control_events.h); MariaDB ``XA_prepare_log_event``.
    """

    one_phase: int
    format_id: int
    gtrid: bytes
    bqual: bytes
    extra_post_header: bytes = b""
    extra: bytes = b""

    @property
    def xid_text(self) -> str:
        """The xid as the server writes it in XA statements: ``X'6774',X'6271',1``."""
        return f"X'{self.gtrid.hex()}',X'{self.bqual.hex()}',{self.format_id}"

    @classmethod
    def decode(cls, body: ByteReader, ctx: EventContext) -> Self:
        """Decode post-header and body."""
        extra_post_header = body.take(ctx.post_header_size(0))
        one_phase, format_id = body.uint(1), body.sint(4)
        gtrid_size, bqual_size = body.uint(4), body.uint(4)
        if gtrid_size > _MAX_PART or bqual_size > _MAX_PART:
            raise BinlogDecodeError(
                f"xid has parts of {gtrid_size} and {bqual_size} bytes, more than {_MAX_PART}",
                offset=body.offset - 8,
            )
        gtrid, bqual = body.take(gtrid_size, "gtrid"), body.take(bqual_size, "bqual")
        return cls(one_phase, format_id, gtrid, bqual, extra_post_header, body.rest())

    def encode(self, ctx: EventContext = DEFAULT_CONTEXT) -> bytes:
        """Return the encoded body."""
        out = ByteWriter().raw(self.extra_post_header).uint(self.one_phase, 1)
        out.sint(self.format_id, 4).uint(len(self.gtrid), 4).uint(len(self.bqual), 4)
        return out.raw(self.gtrid).raw(self.bqual).raw(self.extra).done()
