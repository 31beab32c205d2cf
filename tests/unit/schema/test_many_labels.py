"""Tables of many ENUM labels: read once, with work that grows with their bytes, and no more than a table can have."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import FrameType

import pytest

from replica_client.errors import BinlogDecodeError, ShortBufferError
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.event import DecodeOptions
from replica_client.protocol.binlog.events.table_map import TableMapEvent
from replica_client.protocol.codec.byte_fields import ByteReader, ByteWriter
from replica_client.protocol.codec.compression import SizedCache
from replica_client.protocol.constants.column_types import MetadataFieldType
from replica_client.rows.column_ops import column_op
from replica_client.schema.model import ColumnModel
from replica_client.schema.resolve import misfit
from replica_client.schema.shape import ColumnShape, TableShape

ENUM, SET = 0xF7, 0xF8
UTF8MB4 = 45


def table_map(*lists: list[bytes], kind: int = ENUM, table_id: int = 7) -> TableMapEvent:
    field = MetadataFieldType.ENUM_STR_VALUE if kind == ENUM else MetadataFieldType.SET_STR_VALUE
    labels = ByteWriter()
    for one in lists:
        labels.lenenc(len(one))
        for label in one:
            labels.lenenc_bytes(label)
    metadata = ByteWriter().uint(MetadataFieldType.ENUM_AND_SET_DEFAULT_CHARSET, 1)
    metadata.lenenc_bytes(bytes((UTF8MB4,))).uint(field, 1).lenenc_bytes(labels.done())
    count = len(lists)
    return TableMapEvent(
        table_id,
        1,
        "d",
        "t",
        bytes((0xFE,)) * count,
        (kind | 2 << 8,) * count,
        b"\xff" * ((count + 7) // 8),
        metadata.done(),
    )


def steps(event: TableMapEvent) -> int:
    count = 0

    def local(frame: FrameType, what: str, argument: object) -> object:
        nonlocal count
        count += 1
        return local

    def called(frame: FrameType, what: str, argument: object) -> object:
        return local if "replica_client" in frame.f_code.co_filename else None

    old = sys.gettrace()
    sys.settrace(called)  # type: ignore[arg-type]
    try:
        shape = TableShape.from_table_map(event)
        for column in shape.columns:
            column_op(column, DecodeOptions())
    finally:
        sys.settrace(old)
    return count


@pytest.mark.parametrize("label", [b"", b"x", "é".encode(), b"x" * 250, b"x" * 251, b"x" * 300])
def test_the_work_for_labels_grows_with_their_number(label: bytes) -> None:
    one, two = (
        steps(table_map([label + b"%05d" % at for at in range(count)])) for count in (2000, 4000)
    )
    assert two <= 2.2 * one


@pytest.mark.parametrize("sizes", [(0, 1, 250), (251, 3), (70_000, 250, 251, 0)])
def test_labels_of_all_lengths_are_read(sizes: tuple[int, ...]) -> None:
    labels = [b"%c" % (97 + at) * size for at, size in enumerate(sizes)]
    (column,) = TableShape.from_table_map(table_map(labels)).columns
    assert column.labels == tuple(label.decode() for label in labels)


@pytest.mark.parametrize("size", [0, 1, 2, 100, 250, 251, 252, 260])
def test_cut_labels_leave_the_reader_where_it_was(size: int) -> None:
    whole = ByteWriter().lenenc_bytes(b"a").lenenc_bytes(b"b" * size).done()
    assert ByteReader(whole).lenenc_strings(2) == (b"a", b"b" * size)
    reader = ByteReader(whole[:-1])
    with pytest.raises(ShortBufferError):
        reader.lenenc_strings(2)
    assert reader.offset == 0


@pytest.mark.parametrize(
    ("kind", "count", "refused"),
    [(ENUM, 65_535, False), (ENUM, 65_536, True), (SET, 64, False), (SET, 65, True)],
)
def test_more_labels_than_a_column_can_have_are_refused(
    kind: int, count: int, refused: bool
) -> None:
    event = table_map([b"x"] * count, kind=kind)
    if refused:
        with pytest.raises(BinlogDecodeError, match=f"{count} labels of .* are possible"):
            TableShape.from_table_map(event)
    else:
        (column,) = TableShape.from_table_map(event).columns
        assert len(column.labels or ()) == count


def test_lists_of_labels_of_no_column_are_refused() -> None:
    event = table_map([b"x"])
    more = table_map(*[[b"x"]] * 1000)
    with pytest.raises(BinlogDecodeError, match="labels of more columns than the 1"):
        TableShape.from_table_map(replace(event, optional_metadata=more.optional_metadata))


@pytest.mark.parametrize("count", [10, 60_000])
def test_a_table_map_that_comes_again_is_not_read_again(count: int) -> None:
    event = table_map([b"x%06d" % at for at in range(count)])
    other = replace(event, table_id=8)
    first = TableShape.from_table_map(event)
    assert TableShape.from_table_map(other).columns is first.columns
    decoder = BinlogDecoder()
    content = event.encode()
    assert decoder.table_map_of(content) is decoder.table_map_of(bytes(bytearray(content)))


def test_large_entries_of_a_cache_are_bounded_by_their_bytes() -> None:
    cache: SizedCache[int, str] = SizedCache(100, most_bytes=100_000)
    for at in range(50):
        cache.put(at, "small", 1000)
    assert len(cache) == 50
    for at in range(100, 200):
        cache.put(at, "large", 30_000)
        cache.put(at, "again", 30_000)
        assert sum(key >= 100 for key in cache) <= 3
        assert cache[at] == "again"
    cache.put(1000, "larger than all", 1 << 20)
    assert dict(cache) == {1000: "larger than all"}
    for at in range(500):
        cache.put(at, "small", 0)
        assert len(cache) <= 100


def test_doubtful_labels_are_compared_in_one_pass() -> None:
    labels = tuple(f"l{at}" for at in range(20_000))
    shape = ColumnShape("c", ENUM, length=2, labels=tuple(reversed(labels)))
    model = ColumnModel("c", "enum", labels=labels, unknown_labels=_Counted(range(1, 20_001)))
    assert misfit(shape, model) == ""
    assert _Counted.searched == 0


class _Counted(tuple[int, ...]):
    searched = 0

    def __contains__(self, key: object) -> bool:
        _Counted.searched += 1
        return super().__contains__(key)


def test_values_of_doubtful_labels_are_made_once() -> None:
    labels = tuple(f"l{at}" for at in range(1000))
    column = ColumnShape("c", ENUM, length=2, labels=labels, unknown_labels=(1,))
    reader = column_op(column, DecodeOptions())
    assert callable(reader.convert)
    assert reader.convert(b"\x02\0") is reader.convert(b"\x02\0")
