"""The event bytes that the project's golden facts are about, and what makes events from bodies."""

from __future__ import annotations

from replica_client.protocol.binlog.encoder import event_checksum
from replica_client.protocol.binlog.event import BinlogFormat, EventHeader
from replica_client.protocol.constants.event_types import ChecksumAlgorithm

CREATE_TABLE = bytes.fromhex(
    "2d1035680201000000b6000000ca01000000000a000000000000000c000037000000000000012000a0450000"
    "0000060373746404ff00ff00ff000c0170726573656e746174696f6e0011360000000000000012ff00130070"
    "726573656e746174696f6e00435245415445205441424c4520706572736f6e20280a2020494420494e542050"
    "52494d415259204b45592c0a20206e616d65205641524348415228313530292044454641554c54204e554c4c"
    "0a290536a92b"
)
BEGIN = bytes.fromhex(
    "321035680201000000530000006c02000008000a000000000000000c00001d000000000000012000a0450000"
    "0000060373746404ff00ff00ff0012ff0070726573656e746174696f6e00424547494e95c51dcf"
)
ROTATE = bytes.fromhex(
    "3910356804010000002c000000c00500000000040000000000000062696e6c6f672e303030303235de7e7110"
)
FORMAT_5_5_2 = bytes.fromhex(
    "822dc24b0f02000000670000006b00000000000400352e352e322d6d32" + "00" * 42 + "822dc24b13"
    "380d0008001200040404041200005400041a080000000808080200"
)

CRC32 = BinlogFormat()
"""Current MySQL with checksums."""

NO_CHECKSUM = BinlogFormat(checksum_algorithm=ChecksumAlgorithm.OFF)
"""Current MySQL without checksums."""


def whole_event(
    type_code: int,
    body: bytes,
    layout: BinlogFormat = NO_CHECKSUM,
    *,
    timestamp: int = 1,
    flags: int = 0,
) -> bytes:
    """Header, body and, if the format has it, checksum."""
    size = layout.header_size + len(body) + layout.checksum_size
    header = EventHeader(timestamp, type_code, 1, size, 0, flags)
    data = header.encode(layout.header_size) + body
    if layout.checksum_size:
        data += event_checksum(data).to_bytes(4, "little")
    return data


def with_post_header(layout: BinlogFormat, type_code: int, size: int) -> BinlogFormat:
    """The format with another post-header length for a type."""
    sizes = bytearray(layout.post_header_sizes)
    sizes[type_code - 1] = size
    return BinlogFormat(
        layout.binlog_version,
        layout.server_version,
        layout.header_size,
        bytes(sizes),
        layout.checksum_algorithm,
    )
