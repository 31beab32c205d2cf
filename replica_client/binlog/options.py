"""Options for decoding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from replica_client.argument_types import check_argument
from replica_client.codec.quick_dataclass import dataclass

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
        temporals: ``lossless`` delivers :mod:`replica_client.binlog.values.temporal` types;
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
