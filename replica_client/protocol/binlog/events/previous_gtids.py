"""PREVIOUS_GTIDS: the GTIDs of all files before this one."""

from __future__ import annotations

from typing import Self

from replica_client.errors import BinlogDecodeError, GtidFormatError
from replica_client.protocol.binlog.context import DEFAULT_CONTEXT, EventContext
from replica_client.protocol.codec.byte_fields import ByteReader
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.gtid import GtidSet


@dataclass(frozen=True, slots=True)
class PreviousGtidsEvent:
    """The second event of a file: every GTID in earlier files of this server.

    Bytes::

        offset  size  field
        0       p     extra_post_header  p = post-header length of the type; 0 in known versions
        p       rest  data               a GTID set: plain or (from 8.3, when a tag is in it) tagged

    ``data`` is kept as bytes; :attr:`gtid_set` parses it.

    Spec: MySQL ``Previous_gtids_event`` (control_events.h), ``Gtid_set::encode`` (rpl_gtid_set.cc).
    """

    data: bytes
    extra_post_header: bytes = b""

    @property
    def gtid_set(self) -> GtidSet:
        """The GTID set, parsed again at each access.

        Raises:
            BinlogDecodeError: ``data`` is not a GTID set.
        """
        try:
            return GtidSet.decode(self.data)
        except GtidFormatError as error:
            raise BinlogDecodeError(str(error)) from error

    @classmethod
    def decode(cls, body: ByteReader, ctx: EventContext) -> Self:
        """Decode post-header and body, without parsing the set."""
        extra_post_header = body.take(ctx.post_header_size(0))
        return cls(body.rest(), extra_post_header)

    def encode(self, ctx: EventContext = DEFAULT_CONTEXT) -> bytes:
        """Return the encoded body."""
        return self.extra_post_header + self.data
