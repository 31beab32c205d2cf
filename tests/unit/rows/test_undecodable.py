"""Text that is none, and collations that do not exist: refused as a fault of the column."""

import pytest

from replica_client.errors import ColumnDecodeError
from replica_client.protocol.binlog.event import DecodeOptions
from replica_client.protocol.binlog.events.table_map import TableMapEvent
from replica_client.protocol.codec.charsets import UnknownCollationError
from replica_client.protocol.constants.column_types import ColumnType as T
from replica_client.rows.image import RowImageDecoder
from replica_client.schema.shape import ColumnShape, TableShape

UTF8MB4, GBK, CP1250, NONE_SUCH = 45, 28, 26, 9999

TEXT_TYPES = [
    (T.MYSQL_TYPE_VARCHAR, 100, b"\x03"),
    (T.MYSQL_TYPE_STRING, 30, b"\x03"),
    (T.MYSQL_TYPE_BLOB, 65535, b"\x03\0"),
]


def decode(code: int, length: int, collation: int, cell: bytes, policy: str = "strict"):
    metadata = {T.MYSQL_TYPE_BLOB: 2, T.MYSQL_TYPE_STRING: 0x1EFE}.get(code, length)
    column = ColumnShape("c", code, metadata=metadata, collation_id=collation, length=length)
    decoder = RowImageDecoder(
        TableShape("d", "t", (column,)),
        DecodeOptions(invalid_text=policy),  # type: ignore[arg-type]
    )
    ((_, row),) = decoder.decode_rows("insert", b"\x01", None, b"\0" + cell)
    return row[0]


@pytest.mark.parametrize(("code", "length", "prefix"), TEXT_TYPES)
@pytest.mark.parametrize("collation", [UTF8MB4, GBK, CP1250])
def test_bytes_that_are_no_text(code, length, prefix, collation):
    cell = prefix + b"\xff\x81\xff"
    with pytest.raises(ColumnDecodeError, match="^d.t column c at offset"):
        decode(code, length, collation, cell)
    assert decode(code, length, collation, cell, "bytes") == b"\xff\x81\xff"
    assert "\N{REPLACEMENT CHARACTER}" in decode(code, length, collation, cell, "replace")


@pytest.mark.parametrize(("code", "length", "prefix"), TEXT_TYPES)
@pytest.mark.parametrize("policy", ["strict", "replace"])
def test_an_unknown_collation(code, length, prefix, policy):
    with pytest.raises(ColumnDecodeError, match="column c .* unknown collation id 9999"):
        decode(code, length, NONE_SUCH, prefix + b"abc", policy)


def field(kind: int, content: bytes) -> bytes:
    return bytes((kind, len(content))) + content


ENUM_LABELS = field(6, b"\x01\x02\xff\x81")
SET_LABELS = field(5, b"\x01\x02\xff\x81")


def table_map(real_type: int, optional: bytes) -> TableMapEvent:
    return TableMapEvent(1, 0, "d", "t", b"\xfe", (0x100 | real_type,), b"\0", optional)


KINDS = pytest.mark.parametrize(
    ("real_type", "labels"), [(T.MYSQL_TYPE_ENUM, ENUM_LABELS), (T.MYSQL_TYPE_SET, SET_LABELS)]
)


@KINDS
@pytest.mark.parametrize("collation", [UTF8MB4, GBK])
def test_labels_that_are_no_text(real_type, labels, collation):
    """They are not known then, and values keep their numbers."""
    event = table_map(real_type, field(10, bytes((collation,))) + labels)
    shape = TableShape.from_table_map(event)
    assert shape.columns[0].labels is None
    ((_, row),) = RowImageDecoder(shape).decode_rows("insert", b"\x01", None, b"\0\x01")
    number = row[0].index if real_type == T.MYSQL_TYPE_ENUM else row[0].bits
    assert number == 1


@KINDS
def test_labels_of_an_unknown_collation(real_type, labels):
    event = table_map(real_type, field(10, b"\xfc\x0f\x27") + labels)
    with pytest.raises(ColumnDecodeError, match="d.t: label: unknown collation id 9999") as caught:
        TableShape.from_table_map(event)
    assert isinstance(caught.value.__cause__, UnknownCollationError)


def test_column_names():
    event = TableMapEvent(1, 0, "d", "t", b"\x03", (0,), b"\0", field(4, b"\x02\xff\x81"))
    with pytest.raises(ColumnDecodeError, match="column name .* is not UTF-8"):
        TableShape.from_table_map(event)
