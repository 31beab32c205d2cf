"""The format and options that an event needs for decoding and encoding."""

from __future__ import annotations

from dataclasses import field

from replica_client.binlog.layout import HEADER_SIZE
from replica_client.binlog.options import DecodeOptions
from replica_client.codec.quick_dataclass import dataclass
from replica_client.constants.event_types import ChecksumAlgorithm, EventType
from replica_client.constants.flavor import ServerFlavor

# Post-header lengths of MySQL 8.3+ (types 1..42), the layout that encode() writes by default.
MYSQL_POST_HEADER_SIZES = bytes(
    (0, 13, 0, 8, 0, 0, 0, 0, 4, 0, 4, 0, 0, 0, 98, 0, 4, 26, 8, 0, 0, 0, 8, 8, 8, 2, 0, 0, 0)
    + (10, 10, 10, 42, 42, 0, 18, 52, 0, 10, 40, 0, 0)
)


@dataclass(frozen=True, slots=True)
class BinlogFormat:
    """The layout of events in one binlog file, from its format description.

    Attributes:
        binlog_version: 1 (3.23), 2 (4.0.0), 3 (4.0, 4.1) or 4.
        server_version: e.g. ``9.7.4`` or ``10.11.6-MariaDB-log``.
        header_size: bytes of the common header.
        post_header_sizes: byte ``i`` is the post-header length of type ``i + 1``.
        checksum_algorithm: whether events end in a CRC-32.
        server_id: of the server that wrote the file; 0 where that is not known.
    """

    binlog_version: int = 4
    server_version: str = "9.7.4"
    header_size: int = HEADER_SIZE
    post_header_sizes: bytes = MYSQL_POST_HEADER_SIZES
    checksum_algorithm: ChecksumAlgorithm = ChecksumAlgorithm.CRC32
    server_id: int = 0

    @property
    def flavor(self) -> ServerFlavor:
        """MySQL or MariaDB, from the version text."""
        return ServerFlavor.of_version(self.server_version)

    @property
    def checksum_size(self) -> int:
        """Number of checksum bytes at the end of each event."""
        return 4 if self.checksum_algorithm == ChecksumAlgorithm.CRC32 else 0

    def post_header_size(self, type_code: int, default: int) -> int:
        """Return a type's post-header length; ``default`` if the description has none."""
        if 0 < type_code <= len(self.post_header_sizes):
            return self.post_header_sizes[type_code - 1]
        return default


@dataclass(frozen=True, slots=True)
class EventContext:
    """The context for ``decode(body, ctx)`` and ``encode(ctx)`` of an event.

    Attributes:
        format: layout of the file that the event is in.
        type_code: the event's type code (several types share a class).
        flags: the common header's flags.
        options: how to decode.
    """

    format: BinlogFormat = field(default_factory=BinlogFormat)
    type_code: int = EventType.UNKNOWN_EVENT
    flags: int = 0
    options: DecodeOptions = field(default_factory=DecodeOptions)

    def post_header_size(self, default: int) -> int:
        """Return the post-header length of this event's type."""
        return self.format.post_header_size(self.type_code, default)


DEFAULT_CONTEXT = EventContext()
"""Binlog v4 of a current MySQL with CRC-32: the default of ``encode()``."""
