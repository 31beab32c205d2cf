"""FORMAT_DESCRIPTION: the layout of the file; from binlog v4 on always its first event."""

from __future__ import annotations

import re
from functools import lru_cache
from struct import Struct
from typing import Self

from replica_client.errors import BinlogFormatError, EncodeError
from replica_client.protocol.binlog.context import (
    DEFAULT_CONTEXT,
    MYSQL_POST_HEADER_SIZES,
    BinlogFormat,
    EventContext,
    current_post_header_sizes,
)
from replica_client.protocol.binlog.layout import HEADER_SIZE
from replica_client.protocol.codec.byte_fields import ByteReader, ByteWriter
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.protocol.constants.event_types import ChecksumAlgorithm

SERVER_VERSION_SIZE = 50
_FIXED = Struct("<H50sIB")
_VERSION = re.compile(rb"(\d+)\.(\d+)\.(\d+)")
_REPLICATION_HACK = b"5.5.5-"


@lru_cache(maxsize=32)
def split_version(server_version: bytes | str) -> tuple[int, int, int]:
    """Return the three numbers at the start of a version text; zeros if there are none.

    The prefix ``5.5.5-`` that MariaDB puts before its own version is skipped.
    """
    text = server_version.encode() if isinstance(server_version, str) else server_version
    match = _VERSION.match(text.removeprefix(_REPLICATION_HACK))
    if match is None or any(len(number) > 3 for number in match.groups()):
        return (0, 0, 0)
    return (int(match[1]), int(match[2]), int(match[3]))


@lru_cache(maxsize=32)
def has_checksum_fields(server_version: bytes) -> bool:
    """Return whether this version's format description ends in algorithm byte and CRC.

    Upstream's rule: MySQL from 5.6.1, MariaDB from 5.3.0.
    """
    numbers = split_version(server_version)
    is_mariadb = ServerFlavor.of_version(server_version.decode("latin1")) is ServerFlavor.MARIADB
    return numbers >= ((5, 3, 0) if is_mariadb else (5, 6, 1))


@dataclass(frozen=True, slots=True)
class FormatDescriptionEvent:
    """The layout of all events of the file, and the server that wrote it.

    Bytes (little-endian)::

        offset  size  field
        0       2     binlog_version      4 (3 in some 5.0 alphas)
        2       50    server_version      NUL-padded text
        52      4     create_timestamp    seconds since 1970; 0 unless the server was just started
        56      1     header_size         of every event but this one, which always has 19
        57      n     post_header_sizes   byte i is that of event type i + 1
        57+n    1     checksum_algorithm  only from MySQL 5.6.1 and MariaDB 5.3.0 on

    From the same versions on a CRC-32 follows, even when ``checksum_algorithm`` says OFF; it is
    computed with ``LOG_EVENT_BINLOG_IN_USE_F`` cleared. The decoder takes it off.

    ``server_version`` keeps all 50 bytes; :attr:`version` is its text.

    Raises:
        ShortBufferError: the body is shorter (the decoder makes it ``TruncatedEventError``).
        BinlogFormatError: binlog version, header size or checksum algorithm is not known.

    Spec: MySQL ``Format_description_event`` (control_events.h); MariaDB KB
    "FORMAT_DESCRIPTION_EVENT".
    """

    binlog_version: int = 4
    server_version: bytes = b"9.7.4".ljust(SERVER_VERSION_SIZE, b"\0")
    create_timestamp: int = 0
    header_size: int = HEADER_SIZE
    post_header_sizes: bytes = MYSQL_POST_HEADER_SIZES
    checksum_algorithm: ChecksumAlgorithm = ChecksumAlgorithm.CRC32

    @property
    def version(self) -> str:
        """The server version as text."""
        return self.server_version.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")

    @property
    def format(self) -> BinlogFormat:
        """The format for decoding the other events of the file."""
        return BinlogFormat(
            self.binlog_version,
            self.version,
            self.header_size,
            current_post_header_sizes(self.version, self.post_header_sizes),
            self.checksum_algorithm,
        )

    @classmethod
    def decode(cls, body: ByteReader, ctx: EventContext) -> Self:
        """Decode the body; ``UNDEFINED`` is the algorithm of servers that know no checksums."""
        binlog_version, version, created, header_size = _FIXED.unpack(body.take(_FIXED.size))
        if not 1 <= binlog_version <= 4:
            raise BinlogFormatError(f"binlog version {binlog_version} is not known")
        if header_size < HEADER_SIZE:
            raise BinlogFormatError(f"event headers of {header_size} bytes are not known")
        algorithm = ChecksumAlgorithm.UNDEFINED
        sizes_size = body.remaining
        if has_checksum_fields(version):
            sizes_size -= 1
        sizes = body.take(sizes_size)
        if body.remaining:
            code = body.uint(1)
            if code not in (ChecksumAlgorithm.OFF, ChecksumAlgorithm.CRC32):
                raise BinlogFormatError(f"checksum algorithm {code} is not known")
            algorithm = ChecksumAlgorithm(code)
        return cls(binlog_version, version, created, header_size, sizes, algorithm)

    def encode(self, ctx: EventContext = DEFAULT_CONTEXT) -> bytes:
        """Return the encoded body, without the CRC."""
        if len(self.server_version) > SERVER_VERSION_SIZE:
            raise EncodeError(f"a server version has at most {SERVER_VERSION_SIZE} bytes")
        out = ByteWriter().uint(self.binlog_version, 2)
        out.raw(self.server_version.ljust(SERVER_VERSION_SIZE, b"\0"))
        out.uint(self.create_timestamp, 4).uint(self.header_size, 1).raw(self.post_header_sizes)
        if has_checksum_fields(self.server_version):
            out.uint(self.checksum_algorithm, 1)
        return out.done()
