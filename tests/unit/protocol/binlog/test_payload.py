"""TRANSACTION_PAYLOAD: its events, its limits, and what is broken in it."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
import zstandard

from replica_client.errors import (
    BinlogDecodeError,
    EncodeError,
    LimitExceededError,
    TruncatedEventError,
    UnsupportedEventError,
)
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.event import BinlogEvent, DecodeOptions
from replica_client.protocol.binlog.events import (
    QueryEvent,
    TableMapEvent,
    TransactionPayloadEvent,
    XidEvent,
)
from replica_client.protocol.binlog.events.transaction_payload import PayloadCompression
from replica_client.protocol.binlog.payload import make_payload, split_payload
from replica_client.protocol.constants.event_types import EventType
from tests.unit.protocol.binlog.events.seed import CRC32, whole_event

T = EventType
MIB = 1 << 20
BEGIN = whole_event(T.QUERY_EVENT, QueryEvent(1, 0, 0, b"", b"db", b"BEGIN").encode())
TABLE = whole_event(
    T.TABLE_MAP_EVENT, TableMapEvent(90, 1, "d", "t", b"\x03", (0,), b"\0").encode()
)
XID = whole_event(T.XID_EVENT, XidEvent(7).encode())
PARTS = [BEGIN, TABLE, XID]


def outer(body: TransactionPayloadEvent, decoder: BinlogDecoder | None = None) -> BinlogEvent:
    data = whole_event(T.TRANSACTION_PAYLOAD_EVENT, body.encode(), CRC32)
    return (decoder or BinlogDecoder(format=CRC32)).decode(data, 1000, "bin.1")


def parts(body: TransactionPayloadEvent, **options: Any) -> list[bytes]:
    return list(split_payload(body, DecodeOptions(**options)))


@pytest.mark.parametrize("compression", PayloadCompression)
def test_inner_events(compression: PayloadCompression) -> None:
    decoder = BinlogDecoder(format=CRC32)
    event = outer(make_payload(PARTS, compression), decoder)
    assert event.body.compression_type == compression
    assert event.body.uncompressed_size == sum(map(len, PARTS))
    inner = list(decoder.inner_events(event))
    assert [type(one.body) for one in inner] == [QueryEvent, TableMapEvent, XidEvent]
    assert [one.inner_index for one in inner] == [0, 1, 2]
    assert {(one.file, one.position, one.checksum) for one in inner} == {("bin.1", 1000, None)}
    assert {one.header.next_position for one in inner} == {0}
    assert decoder.table_map(90).table == "t"


def test_inner_events_of_another_event() -> None:
    decoder = BinlogDecoder(format=CRC32)
    event = decoder.decode(whole_event(T.XID_EVENT, XidEvent(7).encode(), CRC32), 4)
    assert list(decoder.inner_events(event)) == []


def test_error_inside_says_where() -> None:
    decoder = BinlogDecoder(format=CRC32)
    event = outer(make_payload([BEGIN, whole_event(T.XID_EVENT, b"short")]), decoder)
    with pytest.raises(TruncatedEventError) as caught:
        list(decoder.inner_events(event))
    error = caught.value
    assert (error.file, error.position, error.event_type) == ("bin.1", 1000, T.XID_EVENT)


def test_unknown_fields_and_extra_bytes_are_kept() -> None:
    made = make_payload(PARTS)
    body = TransactionPayloadEvent((*made.header_fields, (99, b"\1\2")), made.payload, b"extra")
    event = outer(body)
    assert event.body == body
    assert event.body.unknown_fields == ((99, b"\1\2"),)
    assert event.body.payload_size == len(made.payload)
    assert parts(event.body) == PARTS


def test_limit_by_what_the_event_says() -> None:
    body = make_payload(PARTS)
    data = whole_event(T.TRANSACTION_PAYLOAD_EVENT, body.encode(), CRC32)
    size = sum(map(len, PARTS))
    BinlogDecoder(DecodeOptions(max_uncompressed_size=size), format=CRC32).decode(data, 4)
    with pytest.raises(LimitExceededError, match="max_uncompressed_size"):
        BinlogDecoder(DecodeOptions(max_uncompressed_size=size - 1), format=CRC32).decode(data, 4)


def test_limit_by_what_comes_out() -> None:
    made = make_payload(PARTS)
    fields = tuple(field for field in made.header_fields if field[0] != 3)
    body = TransactionPayloadEvent(fields, made.payload)
    assert body.uncompressed_size is None
    size = sum(map(len, PARTS))
    assert parts(body, max_uncompressed_size=size) == PARTS
    with pytest.raises(LimitExceededError, match="max_uncompressed_size"):
        parts(body, max_uncompressed_size=size - 1)


def test_event_inside_beyond_the_limit() -> None:
    with pytest.raises(LimitExceededError, match="max_event_size"):
        parts(make_payload(PARTS), max_event_size=len(BEGIN) - 1)


def test_memory_is_that_of_one_event() -> None:
    """256 MiB of events, 1 MiB each, in a payload of some kilobytes."""
    one = whole_event(T.QUERY_EVENT, bytes(MIB))
    compressor = zstandard.ZstdCompressor(level=1).compressobj()
    payload = b"".join(compressor.compress(one) for _ in range(256)) + compressor.flush()
    body = TransactionPayloadEvent.of(payload, PayloadCompression.ZSTD, 256 * len(one))
    tracemalloc.start()
    try:
        count = sum(1 for _ in split_payload(body, DecodeOptions()))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 256
    assert peak < 16 * MIB


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (BEGIN + XID[:10], TruncatedEventError),
        (BEGIN + XID[:-1], TruncatedEventError),
        (XID[:9] + bytes(4) + XID[13:], BinlogDecodeError),
        (XID[:9] + b"\xff\xff\xff\x3f" + XID[13:], TruncatedEventError),
        (XID[:9] + b"\xff\xff\xff\xff" + XID[13:], LimitExceededError),
        *((XID[:4] + bytes((code,)) + XID[5:], BinlogDecodeError) for code in (1, 4, 15, 40, 164)),
    ],
)
def test_contents_that_do_not_add_up(content: bytes, error: type[BinlogDecodeError]) -> None:
    for body in (
        TransactionPayloadEvent.of(content, PayloadCompression.NONE, len(content)),
        TransactionPayloadEvent.of(
            zstandard.ZstdCompressor().compress(content), PayloadCompression.ZSTD, len(content)
        ),
    ):
        with pytest.raises(error):
            parts(body)


@pytest.mark.parametrize("difference", [-1, 1])
def test_another_size_than_announced(difference: int) -> None:
    made = make_payload(PARTS)
    size = sum(map(len, PARTS)) + difference
    body = TransactionPayloadEvent.of(made.payload, PayloadCompression.ZSTD, size)
    with pytest.raises(BinlogDecodeError):
        parts(body)


def test_cut_and_broken_compression() -> None:
    made = make_payload(PARTS)
    for size in range(len(made.payload)):
        body = TransactionPayloadEvent.of(made.payload[:size], 0, sum(map(len, PARTS)))
        with pytest.raises(BinlogDecodeError):
            parts(body)
    with pytest.raises(UnsupportedEventError, match="compression 7"):
        parts(TransactionPayloadEvent.of(b"", 7, 0))


@pytest.mark.parametrize(
    "text", ["00", "0102fcff00", "0101", "01020102 00 ffff", "0101ff00", "0101fb00", "0100 00"]
)
def test_broken_header_fields(text: str) -> None:
    data = whole_event(T.TRANSACTION_PAYLOAD_EVENT, bytes.fromhex(text), CRC32)
    with pytest.raises(BinlogDecodeError):
        BinlogDecoder(format=CRC32).decode(data, 4)


def test_made_of_whole_events() -> None:
    with pytest.raises(EncodeError):
        make_payload([b"short"])
