"""START_EVENT_V3: the first event of files of MySQL 3.23 to 4.1."""

from __future__ import annotations

from typing import Self

from replica_client.protocol.binlog.context import DEFAULT_CONTEXT, BinlogFormat, EventContext
from replica_client.protocol.binlog.event import HEADER_SIZE_V1
from replica_client.protocol.binlog.layout import HEADER_SIZE
from replica_client.protocol.codec.byte_fields import ByteReader, ByteWriter
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.event_types import ChecksumAlgorithm

_VERSION_SIZE = 50
_BODY_SIZE = 56

# Post-header lengths of types 1 to 14 in files without a format description.
_SIZES_V1 = bytes((56, 11, 0, 0, 0, 18, 0, 4, 4, 4, 4, 18, 0, 0))
_SIZES_V3 = bytes((56, 11, 0, 8, 0, 18, 0, 4, 4, 4, 4, 18, 0, 0))

FORMAT_V1 = BinlogFormat(1, "3.23", HEADER_SIZE_V1, _SIZES_V1, ChecksumAlgorithm.OFF)
"""Layout of binlog v1, which begins with a START_EVENT_V3 of 69 bytes."""

FORMAT_V3 = BinlogFormat(3, "4.0", HEADER_SIZE, _SIZES_V3, ChecksumAlgorithm.OFF)
"""Layout of binlog v2 and v3, which begin with a START_EVENT_V3 of 75 bytes."""


def start_format(event_size: int) -> BinlogFormat:
    """Return the format of a file whose START_EVENT_V3 has ``event_size`` bytes.

    Only the event's size distinguishes headers of 13 and 19 bytes.
    """
    return FORMAT_V1 if event_size <= HEADER_SIZE_V1 + _BODY_SIZE else FORMAT_V3


@dataclass(frozen=True, slots=True)
class StartEventV3:
    """The versions of server and format; later servers write a format description.

    Bytes (little-endian)::

        offset  size  field             meaning
        0       2     binlog_version    1 (3.23), 2 (4.0.0) or 3 (4.0, 4.1)
        2       50    server_version    padded with NUL
        52      4     create_timestamp  when the server started; 0 when this file is not its first

    Attributes:
        server_version: all 50 bytes.
        extra: what follows the fields above.

    Raises:
        ShortBufferError: a field does not fit (the decoder makes it ``TruncatedEventError``).

    Spec: MySQL ``Start_event_v3`` (control_events.h, up to 8.4).
    """

    binlog_version: int
    server_version: bytes
    create_timestamp: int
    extra: bytes = b""

    @property
    def version_text(self) -> str:
        """The server's version without padding."""
        return self.server_version.split(b"\0", 1)[0].decode("latin-1")

    @property
    def format(self) -> BinlogFormat:
        """The layout of the events that follow."""
        base = FORMAT_V1 if self.binlog_version <= 1 else FORMAT_V3
        return BinlogFormat(
            self.binlog_version,
            self.version_text,
            base.header_size,
            base.post_header_sizes,
            base.checksum_algorithm,
        )

    @classmethod
    def decode(cls, body: ByteReader, ctx: EventContext) -> Self:
        """Decode the body."""
        return cls(body.uint(2), body.take(_VERSION_SIZE), body.uint(4), body.rest())

    def encode(self, ctx: EventContext = DEFAULT_CONTEXT) -> bytes:
        """Return the encoded body."""
        out = ByteWriter().uint(self.binlog_version, 2)
        out.raw(self.server_version[:_VERSION_SIZE].ljust(_VERSION_SIZE, b"\0"))
        return out.uint(self.create_timestamp, 4).raw(self.extra).done()
