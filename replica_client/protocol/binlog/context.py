"""The format and options that an event needs for decoding and encoding.

The ``a_drop`` alphas (5.1.1 to 5.1.5, 5.2.0 to 5.2.2) numbered TABLE_MAP and the rows events before
XID. Later servers translate the numbers when they read such a file, and so does the decoder: its
headers have today's numbers.

Spec: MySQL ``Format_description_event::event_type_permutation`` (control_events.cpp, up to 5.7).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from functools import lru_cache
from typing import Final, Literal

from replica_client.options import check_argument
from replica_client.protocol.binlog.layout import HEADER_SIZE
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.protocol.constants.event_types import ChecksumAlgorithm, EventType

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
