"""The extra info of v2 rows events."""

from __future__ import annotations

from replica_client.errors import BinlogDecodeError
from replica_client.protocol.codec.byte_fields import ByteReader
from replica_client.protocol.codec.quick_dataclass import dataclass

_NDB, PARTITION = 0, 1
_NDB_HEAD_SIZE = 2


@dataclass(frozen=True, slots=True)
class RowsExtra:
    """The tagged fields between post-header and column count of v2 rows events.

    Bytes (little-endian), repeated to the end::

        tag  value
        0    NDB: length (1 byte, counts itself and the format), format (1 byte), data
        1    partition: partition_id (2 bytes); in updates also source_partition_id (2 bytes)

    An unknown tag ends the parsing; the tag and all bytes after it are ``unparsed``.

    Spec: MySQL ``Rows_event::Extra_row_info`` (rows_event.h).
    """

    ndb_format: int | None = None
    ndb_data: bytes | None = None
    partition_id: int | None = None
    source_partition_id: int | None = None
    unparsed: bytes = b""


def parse_rows_extra(data: bytes, is_update: bool) -> RowsExtra:
    """Parse extra row info.

    Raises:
        ShortBufferError: a field is cut.
        BinlogDecodeError: an NDB length that is too small.
    """
    ndb_format = ndb_data = partition = source = None
    unparsed = b""
    block = ByteReader(data)
    while block.remaining:
        start = block.offset
        tag = block.uint(1)
        if tag == _NDB:
            size = block.uint(1)
            if size < _NDB_HEAD_SIZE:
                raise BinlogDecodeError(f"NDB extra row info of length {size}")
            ndb_format = block.uint(1)
            ndb_data = block.take(size - _NDB_HEAD_SIZE, "NDB extra row info")
        elif tag == PARTITION:
            partition = block.uint(2)
            source = block.uint(2) if is_update else None
        else:
            unparsed = data[start:]
            break
    return RowsExtra(ndb_format, ndb_data, partition, source, unparsed)
