"""GTID of MariaDB: the start of a transaction."""

from __future__ import annotations

from enum import IntFlag
from struct import Struct
from typing import Self

from replica_client.protocol.binlog.context import DEFAULT_CONTEXT, EventContext
from replica_client.protocol.codec.byte_fields import ByteReader, ByteWriter
from replica_client.protocol.codec.quick_dataclass import dataclass

_FIXED = Struct("<QIB")


class MariadbGtidFlag(IntFlag):
    """Flags of a MariaDB GTID event."""

    FL_STANDALONE = 0x01
    FL_GROUP_COMMIT_ID = 0x02
    FL_TRANSACTIONAL = 0x04
    FL_ALLOW_PARALLEL = 0x08
    FL_WAITED = 0x10
    FL_DDL = 0x20
    FL_PREPARED_XA = 0x40
    FL_COMPLETED_XA = 0x80


class MariadbGtidExtraFlag(IntFlag):
    """Flags of the second flags byte, since 10.8."""

    FL_EXTRA_MULTI_ENGINE_E1 = 0x01
    FL_START_ALTER_E1 = 0x02
    FL_COMMIT_ALTER_E1 = 0x04
    FL_ROLLBACK_ALTER_E1 = 0x08
    FL_EXTRA_THREAD_ID = 0x10


@dataclass(frozen=True, slots=True)
class MariadbXid:
    """The xid of an XA transaction.

    Bytes: format_id (4, signed), gtrid length (1), bqual length (1), gtrid, bqual.
    """

    format_id: int
    gtrid: bytes
    bqual: bytes


@dataclass(frozen=True, slots=True)
class MariadbGtidEvent:
    """The start of a transaction or of a single statement.

    Its GTID is the domain, the header's server id, and the sequence.

    Bytes (little-endian)::

        size  field          when
        8     sequence
        4     domain_id
        1     flags          :class:`MariadbGtidFlag`
        8     commit_id      FL_GROUP_COMMIT_ID: transactions that committed together share it
        6+n   xid            FL_PREPARED_XA or FL_COMPLETED_XA: :class:`MariadbXid`
        1     flags_extra    something follows: :class:`MariadbGtidExtraFlag`
        1     extra_engines  FL_EXTRA_MULTI_ENGINE_E1: number of further engines
        8     alter_sequence FL_COMMIT_ALTER_E1 or FL_ROLLBACK_ALTER_E1: of the START ALTER
        4     thread_id      FL_EXTRA_THREAD_ID
        rest  extra          zero bytes that fill the event up to 19

    The post-header length (19) is a minimum that the zero bytes ensure; the fields ignore it, as
    upstream does.

    Raises:
        ShortBufferError: the body is shorter (the decoder makes it ``TruncatedEventError``).

    Spec: MariaDB ``Gtid_log_event`` (log_event.h, log_event.cc).
    """

    sequence: int
    domain_id: int
    flags: int
    commit_id: int | None = None
    xid: MariadbXid | None = None
    flags_extra: int | None = None
    extra_engines: int | None = None
    alter_sequence: int | None = None
    thread_id: int | None = None
    extra: bytes = b""

    @property
    def is_standalone(self) -> bool:
        """Whether this is one statement, without a COMMIT or XID after it."""
        return bool(self.flags & _STANDALONE)

    @property
    def is_ddl(self) -> bool:
        """Whether the statement is DDL."""
        return bool(self.flags & _DDL)

    @classmethod
    def decode(cls, body: ByteReader, ctx: EventContext) -> Self:
        """Decode post-header and body."""
        sequence, domain_id, flags = _FIXED.unpack(body.take(_FIXED.size, "GTID"))
        commit_id = xid = flags_extra = engines = alter_sequence = thread_id = None
        if flags & _GROUP_COMMIT:
            commit_id = body.uint(8)
        if flags & _XA:
            format_id, gtrid_size, bqual_size = body.sint(4), body.uint(1), body.uint(1)
            gtrid, bqual = body.take(gtrid_size, "gtrid"), body.take(bqual_size, "bqual")
            xid = MariadbXid(format_id, gtrid, bqual)
        if body.remaining and body.peek():
            flags_extra = body.uint(1)
            if flags_extra & _ENGINES:
                engines = body.uint(1)
            if flags_extra & _ALTER_END:
                alter_sequence = body.uint(8)
            if flags_extra & _THREAD_ID:
                thread_id = body.uint(4)
        return cls(
            sequence,
            domain_id,
            flags,
            commit_id,
            xid,
            flags_extra,
            engines,
            alter_sequence,
            thread_id,
            body.rest(),
        )

    def encode(self, ctx: EventContext = DEFAULT_CONTEXT) -> bytes:
        """Return the encoded body."""
        out = ByteWriter().uint(self.sequence, 8).uint(self.domain_id, 4).uint(self.flags, 1)
        if self.commit_id is not None:
            out.uint(self.commit_id, 8)
        if self.xid is not None:
            out.sint(self.xid.format_id, 4)
            out.uint(len(self.xid.gtrid), 1).uint(len(self.xid.bqual), 1)
            out.raw(self.xid.gtrid).raw(self.xid.bqual)
        if self.flags_extra is not None:
            out.uint(self.flags_extra, 1)
        if self.extra_engines is not None:
            out.uint(self.extra_engines, 1)
        if self.alter_sequence is not None:
            out.uint(self.alter_sequence, 8)
        if self.thread_id is not None:
            out.uint(self.thread_id, 4)
        return out.raw(self.extra).done()


# Plain integers: `&` of an IntFlag runs Python code.
_STANDALONE = int(MariadbGtidFlag.FL_STANDALONE)
_DDL = int(MariadbGtidFlag.FL_DDL)
_GROUP_COMMIT = int(MariadbGtidFlag.FL_GROUP_COMMIT_ID)
_XA = int(MariadbGtidFlag.FL_PREPARED_XA | MariadbGtidFlag.FL_COMPLETED_XA)
_ENGINES = int(MariadbGtidExtraFlag.FL_EXTRA_MULTI_ENGINE_E1)
_ALTER_END = int(
    MariadbGtidExtraFlag.FL_COMMIT_ALTER_E1 | MariadbGtidExtraFlag.FL_ROLLBACK_ALTER_E1
)
_THREAD_ID = int(MariadbGtidExtraFlag.FL_EXTRA_THREAD_ID)
