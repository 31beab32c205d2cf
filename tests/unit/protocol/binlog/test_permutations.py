"""Files of the 5.1 and 5.2 development trees, which number types differently."""

from __future__ import annotations

import pytest

from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.encoder import encode_event
from replica_client.protocol.binlog.event import (
    current_post_header_sizes,
    current_type_code,
    is_permuted,
    permuted_type_code,
)
from replica_client.protocol.binlog.events import FormatDescriptionEvent, TableMapEvent, XidEvent
from replica_client.protocol.constants.event_types import ChecksumAlgorithm, EventType
from tests.unit.protocol.binlog.events.seed import NO_CHECKSUM, whole_event

VERSION = "5.2.2-a_drop6p13-debug-log"
SIZES = bytes((56, 13, 0, 8, 0, 18, 0, 4, 4, 4, 4, 18, 0, 0, 84, 6, 7, 8, 9, 0, 4, 26))


@pytest.mark.parametrize(
    ("version", "permuted"),
    [
        ("5.1.1-a_drop5p3", True),
        ("5.1.5-a_drop5p20", True),
        ("5.2.0-a_drop6p3", True),
        (VERSION, True),
        ("5.1.6-a_drop", False),
        ("5.1.15-a_drop", False),
        ("5.2.3-a_drop", False),
        ("5.1.5-alpha", False),
        ("9.7.4", False),
    ],
)
def test_which_versions(version: str, permuted: bool) -> None:
    assert is_permuted(version) is permuted


def test_numbers() -> None:
    assert [current_type_code(code) for code in range(16, 24)] == [19, 20, 21, 22, 16, 17, 18, 23]
    for code in range(256):
        assert permuted_type_code(current_type_code(code)) == code
        assert code > 15 or current_type_code(code) == code


def test_post_header_sizes_follow() -> None:
    sizes = current_post_header_sizes(VERSION, SIZES)
    assert sizes[15:] == bytes((0, 4, 26, 6, 7, 8, 9))
    assert sizes[:15] == SIZES[:15]
    assert current_post_header_sizes("5.1.23", SIZES) == SIZES
    assert current_post_header_sizes(VERSION, SIZES[:20]) == SIZES[:20]
    assert current_post_header_sizes(VERSION, SIZES + b"\7") == sizes + b"\7"


def test_decoded_and_encoded() -> None:
    description = FormatDescriptionEvent(
        4, VERSION.encode().ljust(50, b"\0"), 0, 19, SIZES, ChecksumAlgorithm.UNDEFINED
    )
    decoder = BinlogDecoder()
    data = whole_event(EventType.FORMAT_DESCRIPTION_EVENT, description.encode())
    event = decoder.decode(data, 4)
    assert event.body.post_header_sizes == SIZES
    assert encode_event(event, decoder.format) == data
    xid = whole_event(20, XidEvent(7).encode())
    event = decoder.decode(xid, 200)
    assert (event.header.type_code, event.body) == (EventType.XID_EVENT, XidEvent(7))
    assert decoder.peek_header(xid).type_code == EventType.XID_EVENT
    assert encode_event(event, decoder.format) == xid
    # A post-header of 6 bytes: the table id has 4.
    table = TableMapEvent(90, 1, "d", "t", b"\x03", (0,), b"\0")
    text = "5a000000 0100 01 64 00 01 74 00 01 03 00 00"
    raw = whole_event(16, bytes.fromhex(text), NO_CHECKSUM)
    event = decoder.decode(raw, 300)
    assert (event.body.table_id, event.body.table) == (table.table_id, table.table)
    assert encode_event(event, decoder.format) == raw
