"""How to decode: one frozen object that travels with every decoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from replica_client.argument_types import check_argument
from replica_client.codec.quick_dataclass import dataclass

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class DecodeOptions:
    """Options of decoding, the same for files and streams.

    Attributes:
        verify_checksum: check the CRC-32 of every event that has one.
        max_event_size: bytes that one event may have.
        max_uncompressed_size: bytes that one compressed event or transaction payload may
            decompress to (guards against decompression bombs).
        invalid_text: what to do with bytes that are not text of their character set: ``strict``
            raises ``ColumnDecodeError``, ``replace`` puts U+FFFD, ``bytes`` delivers bytes.
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
