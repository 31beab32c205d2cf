"""The decoder: order of events, checksums, sizes, errors that say where."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replica_client.errors import (
    BinlogDecodeError,
    BinlogFormatError,
    ChecksumMismatchError,
    LimitExceededError,
    MissingTableMapError,
    TruncatedEventError,
)
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.encoder import encode_event, event_checksum
from replica_client.protocol.binlog.event import (
    BinlogEvent,
    BinlogFormat,
    DecodeOptions,
    EventHeader,
)
from replica_client.protocol.binlog.events import (
    FormatDescriptionEvent,
    RotateEvent,
    TableMapEvent,
    UnknownEvent,
    XidEvent,
)
from replica_client.protocol.constants.event_types import ChecksumAlgorithm, EventFlag, EventType
from tests.unit.protocol.binlog.events.seed import (
    BEGIN,
    CRC32,
    FORMAT_5_5_2,
    NO_CHECKSUM,
    ROTATE,
    whole_event,
)

XID_BODY = (77).to_bytes(8, "little")


def format_event(
    version: bytes = b"9.7.4",
    algorithm: ChecksumAlgorithm = ChecksumAlgorithm.CRC32,
    flags: int = 0,
) -> bytes:
    body = FormatDescriptionEvent(
        server_version=version.ljust(50, b"\0"), checksum_algorithm=algorithm
    )
    header = EventHeader(1, EventType.FORMAT_DESCRIPTION_EVENT, 1, 0, 0, flags)
    return encode_event(BinlogEvent(header, body), CRC32)


def table_map(table_id: int) -> bytes:
    return whole_event(
        EventType.TABLE_MAP_EVENT,
        TableMapEvent(table_id, 1, "d", "t", b"\x03", (0,), b"\0").encode(),
    )


def test_format_description_sets_the_format() -> None:
    decoder = BinlogDecoder()
    event = decoder.decode(format_event(), 4)
    assert decoder.format == replace(event.body.format, server_id=event.header.server_id)
    assert decoder.format.checksum_algorithm is ChecksumAlgorithm.CRC32
    xid = decoder.decode(whole_event(EventType.XID_EVENT, XID_BODY, CRC32), 130)
    assert xid.body == XidEvent(77)
    assert xid.checksum is not None


def test_no_event_before_the_format_description() -> None:
    decoder = BinlogDecoder(file="binlog.000001")
    with pytest.raises(BinlogFormatError, match="no FORMAT_DESCRIPTION") as caught:
        decoder.decode(whole_event(EventType.XID_EVENT, XID_BODY), 4)
    assert caught.value.file == "binlog.000001"
    assert caught.value.position == 4
    assert caught.value.event_name == "XID_EVENT"


@pytest.mark.parametrize("layout", [CRC32, NO_CHECKSUM])
def test_artificial_rotate_before_the_format_description(layout: BinlogFormat) -> None:
    body = RotateEvent(4, "binlog.000007")
    data = whole_event(
        EventType.ROTATE_EVENT,
        body.encode(),
        layout,
        timestamp=0,
        flags=EventFlag.LOG_EVENT_ARTIFICIAL_F,
    )
    event = BinlogDecoder().decode(data, 0)
    assert event.body == body
    assert (event.checksum is None) == (layout is NO_CHECKSUM)
    assert event.header.is_artificial
    assert BinlogDecoder(format=layout).decode(data, 0).body == body


def test_checksum_mismatch() -> None:
    broken = ROTATE[:30] + bytes((ROTATE[30] ^ 1,)) + ROTATE[31:]
    with pytest.raises(ChecksumMismatchError, match="10717ede") as caught:
        BinlogDecoder(format=CRC32, file="binlog.000024").decode(broken, 1428)
    assert str(caught.value).startswith(
        "file binlog.000024, position 1428, event ROTATE_EVENT (4): CRC-32"
    )


def test_checksum_is_not_verified_when_reported_so() -> None:
    broken = ROTATE[:-1] + b"\0"
    decoder = BinlogDecoder(DecodeOptions(verify_checksum=False), format=CRC32)
    event = decoder.decode(broken, 4)
    assert event.body.next_file == "binlog.000025"
    assert event.checksum == int.from_bytes(broken[-4:], "little")


def test_in_use_flag_is_not_part_of_the_checksum() -> None:
    closed = format_event()
    active = format_event(flags=EventFlag.LOG_EVENT_BINLOG_IN_USE_F)
    assert closed[-4:] == active[-4:]
    assert BinlogDecoder().decode(active, 4).header.flags == 1
    # Only of the format description: elsewhere the bit is a flag like the others.
    plain = whole_event(EventType.XID_EVENT, XID_BODY, CRC32)
    flagged = plain[:17] + b"\1" + plain[18:]
    with pytest.raises(ChecksumMismatchError):
        BinlogDecoder(format=CRC32).decode(flagged, 4)


@pytest.mark.parametrize(
    ("version", "size"),
    [
        (b"5.6.0-m4", 0),
        (b"5.6.1-m5-log", 5),
        (b"5.5.62-log", 0),
        (b"5.2.14-MariaDB", 0),
        (b"5.3.0-MariaDB-alpha", 5),
        (b"5.5.36-MariaDB-debug-log", 5),
        (b"10.11.6-MariaDB-log", 5),
        (b"5.5.5-10.11.6-MariaDB-log", 5),
        (b"5.5.5-m3", 0),
        (b"3.23.58", 0),
        (b"nonsense", 0),
        (b"5.61.0", 5),
    ],
)
def test_which_versions_have_checksum_fields(version: bytes, size: int) -> None:
    data = format_event(version)
    assert len(data) == 19 + 57 + len(CRC32.post_header_sizes) + size
    decoder = BinlogDecoder()
    event = decoder.decode(data, 4)
    expected = ChecksumAlgorithm.CRC32 if size else ChecksumAlgorithm.UNDEFINED
    assert event.body.checksum_algorithm is expected
    assert (event.checksum is None) == (size == 0)
    assert encode_event(event, decoder.format) == data


def test_format_description_without_event_checksums() -> None:
    data = format_event(algorithm=ChecksumAlgorithm.OFF)
    decoder = BinlogDecoder()
    assert decoder.decode(data, 4).checksum == event_checksum(data[:-4])
    assert decoder.decode(whole_event(EventType.XID_EVENT, XID_BODY), 130).body == XidEvent(77)
    # As upstream, its own checksum is not verified then; it is kept.
    zeroed = data[:-4] + bytes(4)
    event = BinlogDecoder().decode(zeroed, 4)
    assert encode_event(event, CRC32) == zeroed


def test_unknown_checksum_algorithm() -> None:
    data = bytearray(format_event())
    data[-5] = 7
    data[-4:] = event_checksum(bytes(data[:-4])).to_bytes(4, "little")
    with pytest.raises(BinlogFormatError, match="checksum algorithm 7"):
        BinlogDecoder().decode(bytes(data), 4)


def test_unknown_type_keeps_its_bytes() -> None:
    data = whole_event(100, b"padding", CRC32)
    event = BinlogDecoder(format=CRC32).decode(data, 281)
    assert event.body == UnknownEvent(b"padding")
    assert event.header.type_name == "UNKNOWN_100"
    assert encode_event(event, CRC32) == data


@pytest.mark.parametrize("size", range(len(BEGIN)))
def test_part_of_an_event(size: int) -> None:
    with pytest.raises(TruncatedEventError) as caught:
        BinlogDecoder(format=CRC32).decode(BEGIN[:size], 537)
    assert caught.value.position == 537


def test_more_than_an_event() -> None:
    with pytest.raises(BinlogDecodeError, match="event size 83, but 84 bytes"):
        BinlogDecoder(format=CRC32).decode(BEGIN + b"\0", 537)


@pytest.mark.parametrize("size", [19, 20, 22])
def test_no_room_for_the_checksum(size: int) -> None:
    data = EventHeader(1, EventType.STOP_EVENT, 1, size, 0, 0).encode() + bytes(size - 19)
    with pytest.raises(TruncatedEventError, match="no room for its checksum"):
        BinlogDecoder(format=CRC32).decode(data, 4)


def test_event_size_limit() -> None:
    decoder = BinlogDecoder(DecodeOptions(max_event_size=50), format=CRC32)
    assert decoder.decode(ROTATE, 4).body.next_position == 4
    with pytest.raises(LimitExceededError, match="max_event_size"):
        decoder.decode(BEGIN, 48)


def test_table_maps_live_until_the_file_ends() -> None:
    decoder = BinlogDecoder(format=NO_CHECKSUM)
    decoder.decode(table_map(5), 4)
    decoder.decode(table_map(6), 50)
    assert decoder.table_map(5).table == "t"
    assert decoder.table_map(6).table_id == 6
    decoder.decode(whole_event(EventType.ROTATE_EVENT, RotateEvent(4, "b.2").encode()), 90)
    with pytest.raises(MissingTableMapError, match="table id 5"):
        decoder.table_map(5)


def test_the_same_table_map_is_the_same_object() -> None:
    decoder = BinlogDecoder(format=NO_CHECKSUM)
    first = decoder.decode(table_map(5), 4).body
    assert decoder.decode(table_map(5), 50).body is first
    # Under another id it is another, which has everything but the id of the first one.
    assert decoder.decode(table_map(6), 96).body == first.with_id(6)
    assert decoder.decode(table_map(5), 142).body == first
    first = decoder.table_map(5)
    decoder.decode(whole_event(EventType.ROTATE_EVENT, RotateEvent(4, "b.2").encode()), 142)
    assert decoder.decode(table_map(5), 4).body is first
    assert decoder.table_map(5) is first


def test_a_new_table_map_of_an_id_counts() -> None:
    decoder = BinlogDecoder(format=NO_CHECKSUM)
    decoder.decode(table_map(5), 4)
    other = TableMapEvent(5, 1, "d", "other", b"\x03", (0,), b"\0")
    decoder.decode(whole_event(EventType.TABLE_MAP_EVENT, other.encode()), 50)
    assert decoder.table_map(5).table == "other"
    decoder.decode(table_map(5), 96)
    assert decoder.table_map(5).table == "t"


def test_format_description_forgets_table_maps() -> None:
    decoder = BinlogDecoder(format=NO_CHECKSUM)
    decoder.decode(table_map(5), 4)
    decoder.decode(FORMAT_5_5_2, 4)
    with pytest.raises(MissingTableMapError):
        decoder.table_map(5)


def test_decoder_stays_usable_after_an_error() -> None:
    decoder = BinlogDecoder(format=CRC32)
    with pytest.raises(BinlogDecodeError):
        decoder.decode(BEGIN[:-1], 4)
    assert decoder.decode(BEGIN, 4).body.query == b"BEGIN"


def test_file_name_changes() -> None:
    decoder = BinlogDecoder(file="a.1", format=CRC32)
    assert decoder.decode(BEGIN, 4).file == "a.1"
    assert decoder.decode(BEGIN, 4, "a.2").file == "a.2"
    assert decoder.decode(BEGIN, 5 << 32).position == 5 << 32


def test_longer_common_headers() -> None:
    body = FormatDescriptionEvent(header_size=27, server_version=b"5.1.63-google".ljust(50, b"\0"))
    header = EventHeader(1, EventType.FORMAT_DESCRIPTION_EVENT, 1, 0, 0, 0)
    decoder = BinlogDecoder()
    decoder.decode(encode_event(BinlogEvent(header, body), CRC32), 4)
    assert decoder.format.header_size == 27
    data = EventHeader(1, EventType.XID_EVENT, 1, 35, 0, 0, b"groupid!").encode(27) + XID_BODY
    event = decoder.decode(data, 200)
    assert event.header.extra == b"groupid!"
    assert event.body == XidEvent(77)
    assert encode_event(event, decoder.format) == data


def test_start_v3_is_a_format_too() -> None:
    text = b"4.1.26".ljust(50, b"\0")
    body = (3).to_bytes(2, "little") + text + bytes(4)
    decoder = BinlogDecoder()
    decoder.decode(whole_event(EventType.START_EVENT_V3, body), 4)
    assert decoder.format.binlog_version == 3
    assert decoder.format.checksum_size == 0
    query = bytes(8) + b"\1" + bytes(2) + b"d\0BEGIN"
    event = decoder.decode(whole_event(EventType.QUERY_EVENT, query), 79)
    assert (event.body.schema, event.body.query, event.body.status_vars) == (b"d", b"BEGIN", b"")
    assert encode_event(event, decoder.format) == whole_event(EventType.QUERY_EVENT, query)


def test_encoder_computes_size_and_checksum() -> None:
    event = BinlogDecoder(format=CRC32).decode(ROTATE, 4)
    longer = replace(event, body=RotateEvent(4, "binlog.000025.longer"))
    data = encode_event(longer, CRC32)
    assert len(data) == len(ROTATE) + 7
    assert BinlogDecoder(format=CRC32).decode(data, 4).body == longer.body
    assert len(encode_event(longer, NO_CHECKSUM)) == len(data) - 4


def test_peek_header() -> None:
    header = BinlogDecoder().peek_header(ROTATE[:19])
    assert (header.type_code, header.event_size, header.next_position) == (4, 44, 1472)
    with pytest.raises(TruncatedEventError):
        BinlogDecoder().peek_header(ROTATE[:18])
