"""Row images of 5.1.5 to 5.1.17: read where they leave no doubt, else refused."""

from __future__ import annotations

import pytest

from replica_client.errors import TruncatedEventError, UnsupportedEventError
from replica_client.protocol.binlog.events import RowsEvent
from replica_client.protocol.binlog.events.rows import modern_images
from replica_client.protocol.constants.column_types import ColumnType

C = ColumnType
INT_AND_CHAR = bytes((C.MYSQL_TYPE_LONG, C.MYSQL_TYPE_STRING))


def rows(data: bytes, count: int = 2, columns: bytes = b"\xff") -> RowsEvent:
    return RowsEvent("insert", 20, 16, 1, b"", count, columns, None, data)


def test_rows_of_5_1_17() -> None:
    """As ver_5_1_17.001 has them: (0, 'one'), (1, 'two')."""
    event = rows(b"\xf9\0\0\0\0\3one\xf9\1\0\0\0\3two")
    assert modern_images(event, INT_AND_CHAR) == b"\0\0\0\0\0\3one\0\1\0\0\0\3two"


def test_many_columns() -> None:
    """The mark and 15 columns fill two null bytes; a 16th takes a third."""
    for count, null_bytes in ((7, b"\x01"), (8, b"\x01\xfe"), (15, b"\1\0"), (16, b"\1\0\xfe")):
        types = bytes((C.MYSQL_TYPE_TINY,)) * count
        values = bytes(range(count))
        event = rows((null_bytes + values) * 2, count, b"\xff\xff")
        assert modern_images(event, types) == (bytes((count + 7) // 8) + values) * 2


@pytest.mark.parametrize("first", [0xFB, 0xFD, 0xF8, 0x01, 0xF1, 0xFF])
def test_nulls_are_refused(first: int) -> None:
    """A bit may be a NULL or left over: which, only the table's definition would tell."""
    with pytest.raises(UnsupportedEventError, match="NULL"):
        modern_images(rows(bytes((first,)) + b"\0\0\0\0\3one"), INT_AND_CHAR)


@pytest.mark.parametrize(
    "code", [C.MYSQL_TYPE_VARCHAR, C.MYSQL_TYPE_BLOB, C.MYSQL_TYPE_NEWDECIMAL, C.MYSQL_TYPE_ENUM]
)
def test_sizes_that_are_not_known(code: int) -> None:
    with pytest.raises(UnsupportedEventError, match=f"type {int(code)}"):
        modern_images(rows(b"\xfd" + bytes(20), 1), bytes((code,)))


def test_part_of_the_columns() -> None:
    with pytest.raises(UnsupportedEventError, match="not all columns"):
        modern_images(rows(b"\xf9\0\0\0\0", columns=b"\x01"), INT_AND_CHAR)
    with pytest.raises(UnsupportedEventError, match="not all columns"):
        modern_images(rows(b"\xf9\0\0\0\0"), INT_AND_CHAR[:1])


def test_cut_at_every_byte() -> None:
    data = b"\xf9\0\0\0\0\3one"
    for size in range(1, len(data)):
        with pytest.raises(TruncatedEventError):
            modern_images(rows(data[:size]), INT_AND_CHAR)
    assert modern_images(rows(b""), INT_AND_CHAR) == b""
