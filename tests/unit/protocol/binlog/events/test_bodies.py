"""Each event class: golden bytes, identity, cuts, and a longer post-header than known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from replica_client.errors import BinlogDecodeError, TruncatedEventError
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.encoder import encode_event
from replica_client.protocol.binlog.event import BinlogFormat, EventContext
from replica_client.protocol.binlog.events import (
    FormatDescriptionEvent,
    GtidEvent,
    HeartbeatEvent,
    HeartbeatV2Event,
    PreviousGtidsEvent,
    QueryEvent,
    RotateEvent,
    RowsEvent,
    RowsQueryEvent,
    StopEvent,
    TableMapEvent,
    UnknownEvent,
    XidEvent,
)
from replica_client.protocol.binlog.events.rows import RowsExtra
from replica_client.protocol.codec.byte_fields import ByteReader
from replica_client.protocol.constants.event_types import EventType
from tests.unit.protocol.binlog.events.seed import NO_CHECKSUM, whole_event, with_post_header

SID = bytes.fromhex("5ccc103344a811eabd590242ac190003")
T = EventType


@dataclass(frozen=True)
class Case:
    """A body's bytes, what it is, and how long its post-header is."""

    name: str
    type_code: int
    data: bytes
    body: Any
    post_header: int | None = None
    """Size of the known post-header; None when the class takes none."""
    layout: BinlogFormat = NO_CHECKSUM

    def event(self) -> bytes:
        return whole_event(self.type_code, self.data, self.layout)


def case(
    name: str,
    type_code: int,
    text: str,
    body: Any,
    post_header: int | None = None,
    layout: BinlogFormat = NO_CHECKSUM,
) -> Case:
    return Case(name, type_code, bytes.fromhex(text), body, post_header, layout)


ROWS_V1 = with_post_header(NO_CHECKSUM, T.WRITE_ROWS_EVENT_V1, 8)
CASES = [
    case("xid", T.XID_EVENT, "3600000000000000", XidEvent(54), 0),
    case("stop", T.STOP_EVENT, "", StopEvent()),
    case("unknown", 99, "0102", UnknownEvent(b"\1\2")),
    case(
        "rotate",
        T.ROTATE_EVENT,
        "0400000001000000" + b"bin.2".hex(),
        RotateEvent((1 << 32) + 4, "bin.2"),
        8,
    ),
    case(
        "query",
        T.QUERY_EVENT,
        "0a000000 02000000 02 5804 0200 1301 6462 00" + b"DROP".hex(),
        QueryEvent(10, 2, 1112, b"\x13\x01", b"db", b"DROP"),
        13,
    ),
    case(
        "query v3",
        T.QUERY_EVENT,
        "0a000000 02000000 02 0000 6462 00" + b"DROP".hex(),
        QueryEvent(10, 2, 0, b"", b"db", b"DROP"),
        None,
        with_post_header(NO_CHECKSUM, T.QUERY_EVENT, 11),
    ),
    case(
        "rows query",
        T.ROWS_QUERY_LOG_EVENT,
        "04" + b"DROP".hex(),
        RowsQueryEvent(b"DROP", 4),
        0,
    ),
    case(
        "previous gtids",
        T.PREVIOUS_GTIDS_LOG_EVENT,
        "0000000000000000",
        PreviousGtidsEvent(bytes(8)),
        0,
    ),
    case("heartbeat", T.HEARTBEAT_LOG_EVENT, b"bin.000001".hex(), HeartbeatEvent("bin.000001")),
    case(
        "heartbeat beyond 4 GiB of MariaDB",
        T.HEARTBEAT_LOG_EVENT,
        "0500000002000000" + b"bin.000001".hex(),
        HeartbeatEvent("bin.000001", (2 << 32) + 5),
    ),
    case(
        "heartbeat v2",
        T.HEARTBEAT_LOG_EVENT_V2,
        "010d62696e6c6f672e303030303031 02019e 00",
        HeartbeatV2Event("binlog.000001", 158),
    ),
    case(
        "heartbeat v2 beyond 4 GiB",
        T.HEARTBEAT_LOG_EVENT_V2,
        "010161 0209fe 0500000002000000 00",
        HeartbeatV2Event("a", (2 << 32) + 5),
    ),
    case(
        "heartbeat v2 with another field",
        T.HEARTBEAT_LOG_EVENT_V2,
        "010161 020104 030178 00",
        HeartbeatV2Event("a", 4, ((3, b"x"),), (1, 2, 3)),
    ),
    case(
        "gtid 5.6", T.GTID_LOG_EVENT, "01" + SID.hex() + "7700000000000000", GtidEvent(1, SID, 119)
    ),
    case(
        "gtid 5.7",
        T.GTID_LOG_EVENT,
        "00" + SID.hex() + "0301000000000000 02 3500000000000000 3600000000000000",
        GtidEvent(0, SID, 259, 2, 53, 54),
    ),
    case(
        "gtid with the clock of 5.7.1",
        T.GTID_LOG_EVENT,
        "00" + SID.hex() + "0301000000000000 01 3500000000000000",
        GtidEvent(0, SID, 259, 1, extra=(53).to_bytes(8, "little")),
    ),
    case(
        "gtid 8.0.1",
        T.GTID_LOG_EVENT,
        "00" + SID.hex() + "7700000000000000 02 7800000000000000 7900000000000000 6a30b13e78a005",
        GtidEvent(0, SID, 119, 2, 120, 121, 1583813191872618, 1583813191872618),
    ),
    case(
        "gtid 8.0.19",
        T.GTID_LOG_EVENT,
        "00" + SID.hex() + "7700000000000000 02 7800000000000000 7900000000000000"
        "6a30b13e78a005 fcc303 93380100",
        GtidEvent(0, SID, 119, 2, 120, 121, 1583813191872618, 1583813191872618, 963, 80019, 80019),
    ),
    case(
        "gtid of a replica",
        T.ANONYMOUS_GTID_LOG_EVENT,
        "00" + SID.hex() + "0201000000000000 02 7600000000000000 7700000000000000"
        "c147811678a085 00000000000000 fcc503 93380180 00000000",
        GtidEvent(0, SID, 258, 2, 118, 119, 1583812517644225, 0, 965, 80019, 0),
    ),
    case(
        "gtid with a commit group ticket",
        T.GTID_LOG_EVENT,
        "00"
        + SID.hex()
        + "7700000000000000 02 7800000000000000 7900000000000000"
        "6a30b13e78a005 fb0100 93380100 0800000000000000 ff".replace("fb0100", "fcfb00"),
        GtidEvent(
            0,
            SID,
            119,
            2,
            120,
            121,
            1583813191872618,
            1583813191872618,
            251,
            80019,
            80019,
            8,
            b"\xff",
        ),
    ),
    case(
        "table map",
        T.TABLE_MAP_EVENT,
        "5a0000000000 0100 01 64 00 02 7474 00 03 03 0f f6 04 1e00 0c03 05 010100",
        TableMapEvent(90, 1, "d", "tt", b"\x03\x0f\xf6", (0, 30, 0x30C), b"\5", b"\1\1\0"),
        8,
    ),
    case(
        "table map with a short table id",
        T.TABLE_MAP_EVENT,
        "5a000000 0100 01 64 00 01 74 00 01 03 00 00",
        TableMapEvent(90, 1, "d", "t", b"\x03", (0,), b"\0"),
        None,
        with_post_header(NO_CHECKSUM, T.TABLE_MAP_EVENT, 6),
    ),
    case(
        "table map without metadata",
        T.TABLE_MAP_EVENT,
        "5a0000000000 0000 01 64 00 01 74 00 02 03 0f",
        TableMapEvent(90, 0, "d", "t", b"\x03\x0f", (0, 0), b"", has_metadata=False),
        8,
    ),
    case(
        "table map with a typed array",
        T.TABLE_MAP_EVENT,
        "5a0000000000 0000 01 64 00 01 74 00 04 14 14 14 03 08 0f 0a0000 f6 0c03 08 0f",
        TableMapEvent(90, 0, "d", "t", b"\x14\x14\x14\x03", (0xA0F, 0x30CF6, 8, 0), b"\x0f"),
        8,
    ),
    case(
        "insert v1",
        T.WRITE_ROWS_EVENT_V1,
        "5a0000000000 0100 02 ff fe 01000000",
        RowsEvent("insert", 23, 90, 1, b"", 2, b"\xff", None, b"\xfe\1\0\0\0"),
        8,
        ROWS_V1,
    ),
    case(
        "delete v1 with a short table id",
        T.DELETE_ROWS_EVENT_V1,
        "5a000000 0100 02 ff fe",
        RowsEvent("delete", 25, 90, 1, b"", 2, b"\xff", None, b"\xfe"),
        None,
        with_post_header(NO_CHECKSUM, T.DELETE_ROWS_EVENT_V1, 6),
    ),
    case(
        "update v1",
        T.UPDATE_ROWS_EVENT_V1,
        "5a0000000000 0000 09 ffff 0100 fefe",
        RowsEvent("update", 24, 90, 0, b"", 9, b"\xff\xff", b"\1\0", b"\xfe\xfe"),
        8,
        with_post_header(NO_CHECKSUM, T.UPDATE_ROWS_EVENT_V1, 8),
    ),
    case(
        "update before GA",
        T.PRE_GA_UPDATE_ROWS_EVENT,
        "5a0000000000 0000 02 ff fefe",
        RowsEvent("update", 21, 90, 0, b"", 2, b"\xff", None, b"\xfe\xfe"),
        8,
        with_post_header(NO_CHECKSUM, T.PRE_GA_UPDATE_ROWS_EVENT, 8),
    ),
    case(
        "insert v2 with a partition",
        T.WRITE_ROWS_EVENT,
        "5a0000000000 0100 0500 010200 02 ff fe",
        RowsEvent("insert", 30, 90, 1, b"\1\2\0", 2, b"\xff", None, b"\xfe"),
        10,
    ),
    case(
        "update v2 with NDB info",
        T.UPDATE_ROWS_EVENT,
        "5a0000000000 0100 0600 00030163 02 ff 01 fefe",
        RowsEvent("update", 31, 90, 1, b"\0\3\1c", 2, b"\xff", b"\1", b"\xfe\xfe"),
        10,
    ),
    case(
        "delete v2 of many columns",
        T.DELETE_ROWS_EVENT,
        "5a0000000000 0100 0200 fc2c01" + "ff" * 38 + "00",
        RowsEvent("delete", 32, 90, 1, b"", 300, b"\xff" * 38, None, b"\0"),
        10,
    ),
    case(
        "rows that only end the statement",
        T.WRITE_ROWS_EVENT,
        "ffffff000000 0100 0200 00",
        RowsEvent("insert", 30, 0xFFFFFF, 1, b"", 0, b"", None, b""),
        10,
    ),
    case(
        "format description without checksums",
        T.FORMAT_DESCRIPTION_EVENT,
        "0400" + b"5.5.27-log".ljust(50, b"\0").hex() + "01000000 13 380d0008",
        FormatDescriptionEvent(
            4,
            b"5.5.27-log".ljust(50, b"\0"),
            1,
            19,
            bytes.fromhex("380d0008"),
            255,  # type: ignore[arg-type]
        ),
    ),
]
IDS = [one.name for one in CASES]
WITH_POST_HEADER = [one for one in CASES if one.post_header is not None]
EXTRA_INFO_CUT = 3


@pytest.mark.parametrize("one", CASES, ids=IDS)
def test_golden(one: Case) -> None:
    event = BinlogDecoder(format=one.layout).decode(one.event(), 4)
    assert event.body == one.body
    assert type(event.body) is type(one.body)


@pytest.mark.parametrize("one", CASES, ids=IDS)
def test_identity(one: Case) -> None:
    decoder = BinlogDecoder(format=one.layout)
    event = decoder.decode(one.event(), 4)
    assert encode_event(event, one.layout) == one.event()
    context = EventContext(one.layout, one.type_code)
    assert one.body.encode(context) == one.data
    assert type(one.body).decode(ByteReader(one.data), context) == one.body


@pytest.mark.parametrize("one", CASES, ids=IDS)
def test_cut_at_every_byte(one: Case) -> None:
    for size in range(len(one.data)):
        data = whole_event(one.type_code, one.data[:size], one.layout)
        decoder = BinlogDecoder(format=one.layout, file="f")
        try:
            event = decoder.decode(data, 4)
        except BinlogDecodeError as error:
            assert (error.file, error.position, error.event_type) == ("f", 4, one.type_code)
        else:
            assert encode_event(event, one.layout) == data


@pytest.mark.parametrize("one", WITH_POST_HEADER, ids=[one.name for one in WITH_POST_HEADER])
def test_longer_post_header_than_known(one: Case) -> None:
    at = one.post_header
    assert at is not None
    layout = with_post_header(one.layout, one.type_code, at + 3)
    data = whole_event(one.type_code, one.data[:at] + b"xyz" + one.data[at:], layout)
    event = BinlogDecoder(format=layout).decode(data, 4)
    assert event.body.extra_post_header == b"xyz"
    assert replace(event.body, extra_post_header=b"") == one.body
    assert encode_event(event, layout) == data


def decode(type_code: int, text: str, layout: BinlogFormat = NO_CHECKSUM) -> Any:
    data = whole_event(type_code, bytes.fromhex(text), layout)
    return BinlogDecoder(format=layout).decode(data, 4).body


def test_rotate_of_binlog_v1_has_no_position() -> None:
    layout = with_post_header(NO_CHECKSUM, T.ROTATE_EVENT, 0)
    body = decode(T.ROTATE_EVENT, b"log.2".hex(), layout)
    assert body == RotateEvent(4, "log.2")
    assert body.encode(EventContext(layout, T.ROTATE_EVENT)) == b"log.2"


def test_file_names_that_are_not_utf_8_survive() -> None:
    body = decode(T.ROTATE_EVENT, "0400000000000000 62ff")
    assert body.next_file == "b\udcff"
    assert body.encode() == bytes.fromhex("040000000000000062ff")


def test_schema_without_nul() -> None:
    with pytest.raises(BinlogDecodeError, match="no NUL follows the schema") as caught:
        decode(T.QUERY_EVENT, "00" * 8 + "01 0000 0000 64 01 41")
    assert caught.value.offset == 14


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("5a0000000000 0000 01 64 00 01 74 00 02 030f 03 1e0000 00", "need 2"),
        ("5a0000000000 0000 01 64 00 01 74 00 02 030f 01 1e 00", "ends before"),
        ("5a0000000000 0000 01 64 00 01 74 00 01 14 00 00", "ends before"),
        ("5a0000000000 0000 01 ff 00 01 74 00 01 03 00 00", "not UTF-8"),
        ("5a0000000000 0000 01 64 01 01 74 00 01 03 00 00", "no NUL follows the schema"),
        ("5a0000000000 0000 01 64 00 01 74 01 01 03 00 00", "no NUL follows the table"),
        ("5a0000000000 0000 01 64 00 01 74 00 feffffffffffffffff 03 00 00", "column types"),
        ("5a0000000000 0000 01 64 00 01 74 00 fb 03 00 00", "length byte 0xfb"),
    ],
)
def test_table_maps_that_do_not_add_up(text: str, message: str) -> None:
    with pytest.raises(BinlogDecodeError, match=message):
        decode(T.TABLE_MAP_EVENT, text)


def test_nullable_columns() -> None:
    table = TableMapEvent(1, 0, "d", "t", b"\3" * 10, (0,) * 10, b"\x02\x02")
    assert [i for i in range(10) if table.is_nullable(i)] == [1, 9]
    assert table.column_count == 10


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        ("", RowsExtra()),
        ("010200", RowsExtra(partition_id=2)),
        ("00040163ff", RowsExtra(ndb_format=1, ndb_data=b"c\xff")),
        ("000200", RowsExtra(ndb_format=0, ndb_data=b"")),
        ("010200 0003 0163", RowsExtra(ndb_format=1, ndb_data=b"c", partition_id=2)),
        ("07aabb", RowsExtra(unparsed=b"\x07\xaa\xbb")),
    ],
)
def test_extra_info_of_inserts(info: str, expected: RowsExtra) -> None:
    data = bytes.fromhex(info)
    size = (2 + len(data)).to_bytes(2, "little").hex()
    text = f"5a0000000000 0100 {size} {info} 02 ff fe"
    body = decode(T.WRITE_ROWS_EVENT, text)
    assert body.extra == expected
    assert body.extra_info == data


def test_extra_info_of_updates_has_two_partitions() -> None:
    body = decode(T.UPDATE_ROWS_EVENT, "5a0000000000 0100 0700 0100000200 02 ff ff fe")
    assert body.extra == RowsExtra(partition_id=0, source_partition_id=2)


@pytest.mark.parametrize(
    "text",
    [
        "0300 00",  # a tag and nothing
        "0400 0001",  # a length that does not count itself
        "0500 000501",  # a length beyond the info
        "0400 0102",  # half a partition
        "0100",  # a length smaller than its own size
        "ff00 00",  # an info beyond the event
    ],
)
def test_broken_extra_info(text: str) -> None:
    with pytest.raises(BinlogDecodeError):
        decode(T.WRITE_ROWS_EVENT, f"5a0000000000 0100 {text} 02 ff fe")


@pytest.mark.parametrize(
    ("type_code", "kind", "version", "compressed"),
    [
        (T.PRE_GA_WRITE_ROWS_EVENT, "insert", 0, False),
        (T.DELETE_ROWS_EVENT_V1, "delete", 1, False),
        (T.UPDATE_ROWS_EVENT, "update", 2, False),
        (T.WRITE_ROWS_COMPRESSED_EVENT_V1, "insert", 1, True),
        (T.DELETE_ROWS_COMPRESSED_EVENT, "delete", 2, True),
    ],
)
def test_kinds_and_versions(type_code: int, kind: str, version: int, compressed: bool) -> None:
    layout = BinlogFormat(post_header_sizes=b"", checksum_algorithm=NO_CHECKSUM.checksum_algorithm)
    extra = "0200" if version == 2 else ""
    after = "ff" if kind == "update" else ""
    body = decode(type_code, f"5a0000000000 0100 {extra} 02 ff {after} 80", layout)
    assert (body.kind, body.version, body.compressed) == (kind, version, compressed)
    assert body.rows == b"\x80"
    assert body.ends_statement


def test_column_count_beyond_the_event() -> None:
    with pytest.raises(TruncatedEventError):
        decode(T.WRITE_ROWS_EVENT, "5a0000000000 0100 0200 feffffffffffffffff ff")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("010161 010162 00", "is repeated"),
        ("0202fc01 00", "needs"),
        ("02020101 00", "position has 2 bytes"),
        ("0105616263", "needs"),
        ("ff", "0xff"),
    ],
)
def test_broken_heartbeats(text: str, message: str) -> None:
    with pytest.raises(BinlogDecodeError, match=message):
        decode(T.HEARTBEAT_LOG_EVENT_V2, text)


def test_heartbeat_without_fields() -> None:
    assert decode(T.HEARTBEAT_LOG_EVENT_V2, "00") == HeartbeatV2Event("", 0, field_order=())


def test_rows_query_length_byte() -> None:
    assert RowsQueryEvent.of(b"x" * 300).encode() == bytes((44,)) + b"x" * 300


def test_previous_gtids_as_a_set() -> None:
    text = (
        "0100000000000000 896e788218fe11efab8822222d34d411"
        "0100000000000000 0100000000000000 0400000000000000"
    )
    body = decode(T.PREVIOUS_GTIDS_LOG_EVENT, text)
    assert str(body.gtid_set) == "896e7882-18fe-11ef-ab88-22222d34d411:1-3"
    with pytest.raises(BinlogDecodeError):
        _ = PreviousGtidsEvent(b"\1").gtid_set


@pytest.mark.parametrize(
    ("offset", "value", "message"),
    [(0, 5, "binlog version 5"), (0, 0, "binlog version 0"), (56, 12, "headers of 12 bytes")],
)
def test_format_descriptions_that_are_not_known(offset: int, value: int, message: str) -> None:
    data = bytearray(CASES[-1].data)
    data[offset] = value
    with pytest.raises(BinlogDecodeError, match=message):
        decode(T.FORMAT_DESCRIPTION_EVENT, data.hex())
