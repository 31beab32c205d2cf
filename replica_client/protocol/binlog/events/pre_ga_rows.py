"""Row images of the types 20 to 22, which 5.1.5 to 5.1.17 and the development trees wrote.

An image is the null bytes of the server's own record, and then every column, NULL or not::

    size  field
    n     null bytes   the record's: bit 0 is the record's own mark if its format is fixed; then one
                       bit per column that can be NULL; bits that are left over are 1
    ...   columns      each packed, also where it is NULL

The binlog does not say how many columns can be NULL, or whether there is a mark. The table maps of
these versions do not have the maximal length of a CHAR or VARCHAR. Therefore only unambiguous rows
are read: all columns can be NULL and are not, and the type codes imply the sizes. Other rows are
refused.

Spec: MySQL ``unpack_row_old`` (rpl_record_old.cc, 5.1 to 5.7).
"""

from __future__ import annotations

from typing import Final

from replica_client.errors import ShortBufferError, TruncatedEventError, UnsupportedEventError
from replica_client.protocol.binlog.events.rows import RowsEvent
from replica_client.protocol.codec.byte_fields import ByteReader
from replica_client.protocol.constants.column_types import TYPE_FACTS, ColumnType, types_of

_WITH_SIZE: Final = types_of("integer", "real", "year", "date", "old_time")


def modern_images(event: RowsEvent, column_types: bytes) -> bytes:
    """Return the event's rows in the form of later versions.

    Args:
        event: a rows event of version 0.
        column_types: of its table map.

    Raises:
        UnsupportedEventError: the rows are ambiguous.
        TruncatedEventError: a row is cut.
    """
    try:
        return b"".join(_images(event, column_types))
    except ShortBufferError as error:
        raise TruncatedEventError(str(error)) from error


def _images(event: RowsEvent, column_types: bytes) -> list[bytes]:
    count = event.column_count
    every = ((1 << count) - 1).to_bytes((count + 7) >> 3, "little")
    present = int.from_bytes(event.columns_before, "little") & ((1 << count) - 1)
    if present.to_bytes(len(every), "little") != every or len(column_types) != count:
        raise _refused("not all columns are in the images")
    null_size = (count + 8) >> 3
    not_null = 1 | ((1 << (8 * null_size)) - 1) >> (count + 1) << (count + 1)
    no_nulls = bytes(len(every))
    rows = ByteReader(event.rows)
    images: list[bytes] = []
    while rows.remaining:
        if rows.uint(null_size) != not_null:
            raise _refused("a column is NULL or cannot be, which the event does not distinguish")
        parts = [no_nulls]
        for code in column_types:
            if code == ColumnType.MYSQL_TYPE_STRING:
                size = rows.uint(1)
                parts.append(bytes((size,)) + rows.take(size, "CHAR"))
            elif code in _WITH_SIZE:
                parts.append(rows.take(TYPE_FACTS[code].size, "column"))
            else:
                raise _refused(f"the size of a column of type {code} is not known")
        images += parts
    return images


def _refused(reason: str) -> UnsupportedEventError:
    return UnsupportedEventError(f"rows of a version before 5.1.18: {reason}")
