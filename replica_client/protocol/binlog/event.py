"""An event: its header, position and bytes; the format and options that it needs; a scan of a file's headers.

The ``a_drop`` alphas (5.1.1 to 5.1.5, 5.2.0 to 5.2.2) numbered TABLE_MAP and the rows events before
XID. Later servers translate the numbers when they read such a file, and so does the decoder: its
headers have today's numbers.

Spec: MySQL ``Format_description_event::event_type_permutation`` (control_events.cpp, up to 5.7).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field
from enum import Enum
from functools import lru_cache
from typing import Any, Final, Literal, Protocol, Self

from replica_client.errors import BinlogFormatError, TruncatedEventError
from replica_client.options import check_argument
from replica_client.protocol.binlog.layout import HEADER_SIZE
from replica_client.protocol.codec.byte_fields import ByteReader, ByteWriter
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.protocol.constants.event_types import (
    ChecksumAlgorithm,
    EventFlag,
    EventType,
    event_type_name,
)

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class DecodeOptions:
    """Options for decoding, the same for files and streams.

    Attributes:
        verify_checksum: check the CRC-32 of every event that has one.
        max_event_size: the most bytes of one event.
        max_uncompressed_size: the most bytes that one compressed event or transaction payload may
            decompress to (against decompression bombs).
        invalid_text: handling of bytes that are not text in their character set: ``strict`` raises
            ``ColumnDecodeError``, ``replace`` writes U+FFFD, ``bytes`` delivers the bytes.
        temporals: ``lossless`` delivers :mod:`replica_client.protocol.binlog.values.temporal` types;
            ``python`` delivers :mod:`datetime` types and raises ``ColumnDecodeError`` for a value
            that they cannot hold (zero and partial dates).
        keys: binlog encryption keys by key id (MariaDB: the number as text; MySQL: the keyring id).

    Examples:
        >>> options = rc.DecodeOptions(invalid_text="replace")
        >>> next(rc.open_binlog("shop-bin.000001", options=options).changes()).after["id"]
        1
    """

    verify_checksum: bool = True
    max_event_size: int = 1024 * MIB
    max_uncompressed_size: int = 4096 * MIB
    invalid_text: Literal["strict", "replace", "bytes"] = "strict"
    temporals: Literal["lossless", "python"] = "lossless"
    keys: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for name in ("verify_checksum", "max_event_size", "max_uncompressed_size"):
            check_argument(name, getattr(self, name))
        for name in ("invalid_text", "temporals", "keys"):
            check_argument(name, getattr(self, name))


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


_VERSION = re.compile(r"(?:5\.5\.5-)?([0-9]{1,3})\.([0-9]{1,3})(?:\.([0-9]{1,3}))?")


@lru_cache(maxsize=64)
def parse_server_version(text: str) -> tuple[int, int, int]:
    """Return (10, 11, 6) for ``10.11.6-MariaDB-log``; (0, 0, 0) for a text without a version."""
    match = _VERSION.match(text)
    if match is None:
        return (0, 0, 0)
    return int(match[1]), int(match[2]), int(match[3] or 0)


_TREES = re.compile(r"5\.(?:1\.[1-5]|2\.[0-2])-a_drop")

# Index: number in the file; value: today's number. The first 16 are the same.
_PERMUTATION: Final = (*range(16), 19, 20, 21, 22, 16, 17, 18)
_INVERSE: Final = tuple(_PERMUTATION.index(code) for code in range(len(_PERMUTATION)))


@lru_cache(maxsize=64)
def is_permuted(server_version: str) -> bool:
    """Return whether files of this version have other type numbers."""
    return _TREES.match(server_version) is not None


def current_type_code(code: int) -> int:
    """Return today's number for a number in a permuted file."""
    return _PERMUTATION[code] if code < len(_PERMUTATION) else code


def permuted_type_code(code: int) -> int:
    """Return the number in a permuted file for one of today's numbers."""
    return _INVERSE[code] if code < len(_INVERSE) else code


def current_post_header_sizes(server_version: str, sizes: bytes) -> bytes:
    """Return the post-header lengths of a format description, in today's order of types."""
    if len(sizes) < len(_PERMUTATION) - 1 or not is_permuted(server_version):
        return sizes
    known = bytes(sizes[_INVERSE[code] - 1] for code in range(1, len(_PERMUTATION)))
    return known + sizes[len(_PERMUTATION) - 1 :]


_ARTIFICIAL: Final = int(EventFlag.LOG_EVENT_ARTIFICIAL_F)

_FIELDS: Final = struct.Struct("<IBIIIH")

HEADER_SIZE_V1 = 13
"""Bytes of the common header of binlog v1 (MySQL 3.23): no next_position, no flags."""


@dataclass(frozen=True, slots=True)
class EventHeader:
    """The common header of an event.

    Bytes (little-endian)::

        offset  size  field          meaning
        0       4     timestamp      seconds since 1970 when the statement began; 0: artificial
        4       1     type_code      :class:`~replica_client.protocol.constants.event_types.EventType`
        5       4     server_id      of the server that first logged it
        9       4     event_size     header, post-header, body and checksum
        13      4     next_position  low 32 bits of the end's position in the file; may be 0
        17      2     flags          :class:`~replica_client.protocol.constants.event_types.EventFlag`

    Binlog v1 ends after ``event_size``; ``next_position`` and ``flags`` are 0 then. ``extra`` has
    the bytes after the 19th, in forks whose format description announces a longer header.

    Spec: MySQL ``Log_event_header`` (binlog_event.h); MariaDB KB "2-Binlog Event Header".
    """

    timestamp: int
    type_code: int
    server_id: int
    event_size: int
    next_position: int
    flags: int
    extra: bytes = b""

    @property
    def event_type(self) -> EventType | int:
        """The type as an enum member; the number for an unknown type."""
        try:
            return EventType(self.type_code)
        except ValueError:
            return self.type_code

    @property
    def type_name(self) -> str:
        """The upstream name; ``UNKNOWN_<code>`` for an unknown type."""
        return event_type_name(self.type_code)

    @property
    def is_artificial(self) -> bool:
        """Whether the source made the event for the stream, so that it is in no file."""
        return bool(self.flags & _ARTIFICIAL)

    @classmethod
    def decode(cls, reader: ByteReader, header_size: int = HEADER_SIZE) -> EventHeader:
        """Decode a header of ``header_size`` bytes; keep the bytes after the 19th.

        Raises:
            ShortBufferError: fewer bytes are left.
        """
        timestamp, type_code = reader.uint(4), reader.uint(1)
        server_id, event_size = reader.uint(4), reader.uint(4)
        if header_size < HEADER_SIZE:
            return cls(timestamp, type_code, server_id, event_size, 0, 0)
        next_position, flags = reader.uint(4), reader.uint(2)
        extra = reader.take(header_size - HEADER_SIZE)
        return cls(timestamp, type_code, server_id, event_size, next_position, flags, extra)

    def encode(self, header_size: int = HEADER_SIZE) -> bytes:
        """Encode the header as ``header_size`` bytes; cut ``extra`` or pad it with zeros."""
        if header_size == HEADER_SIZE:
            # A value that does not fit raises a named error below.
            with suppress(struct.error):
                return _FIELDS.pack(
                    self.timestamp,
                    self.type_code,
                    self.server_id,
                    self.event_size,
                    self.next_position,
                    self.flags,
                )
        out = ByteWriter().uint(self.timestamp, 4).uint(self.type_code, 1)
        out.uint(self.server_id, 4).uint(self.event_size, 4)
        if header_size >= HEADER_SIZE:
            out.uint(self.next_position, 4).uint(self.flags, 2)
            extra_size = header_size - HEADER_SIZE
            out.raw(self.extra[:extra_size].ljust(extra_size, b"\0"))
        return out.done()


class EventBody(Protocol):
    """The interface of every event class in :mod:`replica_client.protocol.binlog.events`."""

    @classmethod
    def decode(cls, body: ByteReader, ctx: EventContext) -> Self:
        """Decode post-header and body (no common header, no checksum)."""
        ...

    def encode(self, ctx: EventContext = ...) -> bytes:
        """Encode post-header and body."""
        ...


@dataclass(frozen=True, slots=True)
class BinlogEvent:
    """One event of a binlog.

    Attributes:
        header: the common header.
        body: an instance of one of the classes of :mod:`replica_client.protocol.binlog.events`.
        file: binlog file name, ``""`` when not known.
        position: 64-bit offset of the event's first byte in its file; an event inside a
            transaction payload has the payload's.
        checksum: the CRC-32 that the event carries, None without one.
        inner_index: index inside a TRANSACTION_PAYLOAD event, None outside.

    Examples:
        >>> event = next(rc.open_binlog("shop-bin.000001").events())
        >>> event.position, event.header.event_size, event.body.binlog_version
        (4, 123, 4)
    """

    header: EventHeader
    body: Any
    file: str = ""
    position: int = 0
    checksum: int | None = None
    inner_index: int | None = None

    @property
    def end_position(self) -> int:
        """64-bit offset of the byte after the event (after the payload for inner events)."""
        return self.position + self.header.event_size


MAGIC: Final = b"\xfebin"
"""The first bytes of a binlog and of a relay log."""

ENCRYPTED_MAGIC: Final = b"\xfdbin"
"""The first bytes of a file that MySQL 8 encrypted."""

MAGIC_SIZE: Final = len(MAGIC)
FIRST_EVENT: Final = MAGIC_SIZE
"""Position of a file's first event."""

_COMPRESSED = {
    b"\x1f\x8b": "unpack it with gunzip first",
    b"\x28\xb5\x2f\xfd": "unpack it with unzstd first",
    b"\xfd7zX": "unpack it with unxz first",
    b"BZh": "unpack it with bunzip2 first",
    b"PK\x03\x04": "unpack it with unzip first",
}


INNODB_MAGIC: Final = b"\xfe\xfe\x0d\x01"
"""The first bytes of a file of MariaDB's InnoDB-based binlog."""


class FileKind(Enum):
    """The kind of a file, by its first four bytes."""

    PLAIN = MAGIC
    ENCRYPTED = ENCRYPTED_MAGIC
    INNODB = INNODB_MAGIC


def file_kind(data: bytes | memoryview) -> FileKind:
    """Return the kind of the binlog that begins with ``data``.

    Raises:
        TruncatedEventError: fewer than four bytes.
        BinlogFormatError: not a binlog.
    """
    magic = bytes(data[:MAGIC_SIZE])
    if len(magic) < MAGIC_SIZE:
        raise TruncatedEventError(f"a file of {len(magic)} bytes is not a binlog", position=0)
    try:
        return FileKind(magic)
    except ValueError:
        packed = next((one for one in _COMPRESSED if magic.startswith(one)), None)
        advice = f": it is compressed, {_COMPRESSED[packed]}" if packed else ""
        raise BinlogFormatError(
            f"not a binlog: the file begins with {magic.hex(' ')}, not {MAGIC.hex(' ')}{advice}",
            position=0,
        ) from None
