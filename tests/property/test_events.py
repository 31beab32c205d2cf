"""Event bodies: generated events survive encode and decode; random bytes raise only our error."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hypothesis import given, settings, strategies as st

from replica_client.errors import BinlogDecodeError
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.encoder import encode_event
from replica_client.protocol.binlog.event import (
    BinlogEvent,
    BinlogFormat,
    DecodeOptions,
    EventHeader,
)
from replica_client.protocol.binlog.events import (
    EVENT_CLASSES,
    GtidEvent,
    HeartbeatEvent,
    HeartbeatV2Event,
    PreviousGtidsEvent,
    QueryEvent,
    RotateEvent,
    RowsEvent,
    RowsFragmentEvent,
    RowsQueryEvent,
    StopEvent,
    TableMapEvent,
    UnknownEvent,
    XidEvent,
)
from replica_client.protocol.binlog.events.query_status import parse_query_status
from replica_client.protocol.binlog.events.table_map import parse_table_metadata
from replica_client.protocol.constants.event_types import ChecksumAlgorithm, EventType
from tests.header_scan import HeaderScan
from tests.unit.protocol.binlog.events.seed import NO_CHECKSUM, whole_event

T = EventType
CRC32 = BinlogFormat()


def uint(size: int) -> st.SearchStrategy[int]:
    return st.integers(0, (1 << 8 * size) - 1)


def sint8() -> st.SearchStrategy[int]:
    return st.integers(-(1 << 63), (1 << 63) - 1)


names = st.text(st.characters(codec="utf-8"), max_size=40).filter(lambda s: len(s.encode()) < 256)
short_bytes = st.binary(max_size=40)
file_names = st.text(st.characters(codec="ascii", exclude_characters="\0"), min_size=8, max_size=40)


@st.composite
def gtids(draw: st.DrawFn) -> tuple[int, Any]:
    head = (draw(uint(1)), draw(st.binary(min_size=16, max_size=16)), draw(sint8()))
    level = draw(st.integers(0, 6))
    timestamps = (draw(st.integers(0, (1 << 55) - 1)), draw(uint(7)))
    versions = (draw(st.integers(0, (1 << 31) - 1)), draw(uint(4)))
    optional: list[tuple[Any, ...]] = [
        (2, draw(sint8()), draw(sint8())),
        timestamps,
        (draw(uint(8)),),
        versions,
        (draw(uint(8)),),
        (draw(short_bytes),),
    ]
    fields = [value for part in optional[:level] for value in part]
    type_code = draw(st.sampled_from((T.GTID_LOG_EVENT, T.ANONYMOUS_GTID_LOG_EVENT)))
    return type_code, GtidEvent(*head, *fields)


@st.composite
def table_maps(draw: st.DrawFn) -> tuple[int, Any]:
    sizes = {1: 0, 3: 0, 4: 1, 15: 2, 18: 1, 141: 2, 245: 1, 246: 2, 254: 2, 255: 1}
    types = draw(st.lists(st.sampled_from(sorted(sizes)), max_size=40))
    metadata = tuple(draw(uint(sizes[code])) if sizes[code] else 0 for code in types)
    bitmap = draw(st.binary(min_size=(len(types) + 7) // 8, max_size=(len(types) + 7) // 8))
    return T.TABLE_MAP_EVENT, TableMapEvent(
        draw(uint(6)),
        draw(uint(2)),
        draw(names),
        draw(names),
        bytes(types),
        metadata,
        bitmap,
        draw(short_bytes),
    )


@st.composite
def rows(draw: st.DrawFn) -> tuple[int, Any]:
    type_code = draw(st.sampled_from((23, 24, 25, 30, 31, 32)))
    kind = ("insert", "update", "delete")[(type_code - 23) % 7]
    count = draw(st.integers(0, 300))
    bitmaps = st.binary(min_size=(count + 7) // 8, max_size=(count + 7) // 8)
    extra = b"" if type_code < 30 else draw(st.sampled_from((b"", b"\0\3\1x", b"\x63ab")))
    return type_code, RowsEvent(
        kind,  # type: ignore[arg-type]
        type_code,
        draw(uint(6)),
        draw(uint(2)),
        extra,
        count,
        draw(bitmaps),
        draw(bitmaps) if kind == "update" else None,
        draw(short_bytes),
    )


EVENTS: st.SearchStrategy[tuple[int, Any]] = st.one_of(
    st.builds(lambda xid: (T.XID_EVENT, XidEvent(xid)), uint(8)),
    st.builds(lambda extra: (T.STOP_EVENT, StopEvent(extra)), short_bytes),
    st.builds(lambda body: (100, UnknownEvent(body)), short_bytes),
    st.builds(lambda at, file: (T.ROTATE_EVENT, RotateEvent(at, file)), uint(8), names),
    st.builds(lambda q: (T.ROWS_QUERY_LOG_EVENT, RowsQueryEvent.of(q)), short_bytes),
    st.builds(lambda d: (T.PREVIOUS_GTIDS_LOG_EVENT, PreviousGtidsEvent(d)), short_bytes),
    st.builds(
        lambda file, at: (T.HEARTBEAT_LOG_EVENT, HeartbeatEvent(file, at)),
        file_names,
        st.none() | uint(6),
    ),
    st.builds(
        lambda file, at: (T.HEARTBEAT_LOG_EVENT_V2, HeartbeatV2Event(file, at)), names, uint(8)
    ),
    st.builds(
        lambda *fields: (T.QUERY_EVENT, QueryEvent(*fields)),
        uint(4),
        uint(4),
        uint(2),
        short_bytes,
        st.binary(max_size=255),
        short_bytes,
    ),
    st.builds(
        lambda count, size, part: (
            T.PARTIAL_ROW_DATA_EVENT,
            RowsFragmentEvent(count, 1, 1, size, part),
        ),
        st.integers(2, (1 << 32) - 1),
        st.integers(40, 1 << 30),
        short_bytes,
    ),
    gtids(),
    table_maps(),
    rows(),
)


@given(EVENTS, st.sampled_from((CRC32, NO_CHECKSUM)), uint(2))
def test_decode_after_encode(pair: tuple[int, Any], layout: BinlogFormat, flags: int) -> None:
    type_code, body = pair
    event = BinlogEvent(EventHeader(1, type_code, 1, 0, 0, flags), body)
    data = encode_event(event, layout)
    decoded = BinlogDecoder(format=layout).decode(data, 1 << 40)
    assert decoded.body == body
    assert decoded.header.flags == flags
    assert decoded.end_position == (1 << 40) + len(data)
    assert encode_event(decoded, layout) == data


def views(body: Any) -> None:
    """Whatever a body parses on demand."""
    for name in ("status", "metadata", "extra", "gtid_set", "tag"):
        if not hasattr(type(body), name):
            continue
        with suppress(BinlogDecodeError):
            getattr(body, name)
    if isinstance(body, QueryEvent):
        with suppress(BinlogDecodeError):
            body.query_text()


@settings(max_examples=400)
@given(
    st.sampled_from(sorted(EVENT_CLASSES)),
    st.binary(max_size=120),
    st.sampled_from((NO_CHECKSUM, BinlogFormat(3, "4.1", 19, bytes(14), ChecksumAlgorithm.OFF))),
)
def test_random_bodies(type_code: int, data: bytes, layout: BinlogFormat) -> None:
    decoder = BinlogDecoder(DecodeOptions(max_uncompressed_size=1 << 16), format=layout)
    try:
        event = decoder.decode(whole_event(type_code, data, layout), 4)
        views(event.body)
        for inner in decoder.inner_events(event):
            views(inner.body)
    except BinlogDecodeError as error:
        assert error.position == 4 or error.position is None


@given(st.binary(max_size=200))
def test_random_events(data: bytes) -> None:
    decoder = BinlogDecoder(format=CRC32)
    try:
        decoder.decode(data, 4)
    except BinlogDecodeError as error:
        assert error.position == 4


@given(st.binary(max_size=80))
def test_random_status_variables(data: bytes) -> None:
    try:
        status = parse_query_status(data)
    except BinlogDecodeError:
        return
    assert data.endswith(status.unparsed)


@given(st.binary(max_size=20), st.binary(max_size=80))
def test_random_table_metadata(types: bytes, data: bytes) -> None:
    try:
        metadata = parse_table_metadata(data, types, (0,) * len(types))
    except BinlogDecodeError:
        return
    if metadata.signedness is not None:
        assert len(metadata.signedness) <= len(types)


@given(st.binary(max_size=200), st.integers(0, 1 << 40))
def test_random_files(data: bytes, base: int) -> None:
    scan = HeaderScan(data, start=0, base=base)
    end = base
    try:
        for position, header in scan:
            assert position == end
            end = position + header.event_size
    except BinlogDecodeError as error:
        assert error.position == end
    assert scan.end == end <= base + len(data)


@given(st.lists(EVENTS, max_size=6), st.integers(0, 30))
def test_scan_finds_every_whole_event(pairs: list[tuple[int, Any]], cut: int) -> None:
    parts = [
        encode_event(BinlogEvent(EventHeader(1, code, 1, 0, 0, 0), body), CRC32)
        for code, body in pairs
    ]
    data = b"".join(parts)
    kept = data[: max(0, len(data) - cut)]
    scan = HeaderScan(kept, start=0)
    sizes = [header.event_size for _, header in scan]
    assert sizes == [len(part) for part in parts[: len(sizes)]]
    assert scan.end + scan.tail_size == len(kept)
    assert scan.truncated == (scan.tail_size > 0)
