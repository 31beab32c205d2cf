"""Binlog v1 (MySQL 3.23) and v3 (4.0, 4.1): headers and post-headers of other sizes."""

from __future__ import annotations

from typing import Any

from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.encoder import encode_event
from replica_client.protocol.binlog.event import MAGIC, BinlogEvent, EventBody, EventHeader
from replica_client.protocol.binlog.events import (
    CreateFileEvent,
    ExecLoadEvent,
    FormatDescriptionEvent,
    IntvarEvent,
    LoadEvent,
    QueryEvent,
    RotateEvent,
    StartEventV3,
    StopEvent,
)
from replica_client.protocol.binlog.events.control import FORMAT_V1, FORMAT_V3
from replica_client.protocol.binlog.events.load import LoadSyntax
from replica_client.protocol.constants.event_types import ChecksumAlgorithm, EventType
from tests.header_scan import HeaderScan

T = EventType
OLD_SYNTAX = LoadSyntax(b"\t", b"\0", b"\n", b"\0", b"\\", 0, 0b01010)


def start(version: int, server: bytes) -> StartEventV3:
    return StartEventV3(version, server.ljust(50, b"\0"), 99)


def check(layout: Any, bodies: list[tuple[int, EventBody]]) -> list[BinlogEvent]:
    """Encode a file, read it, compare."""
    data = MAGIC
    for code, body in bodies:
        data += encode_event(BinlogEvent(EventHeader(1, code, 1, 0, 0, 0), body), layout)
    decoder = BinlogDecoder()
    events = []
    for position, header in HeaderScan(data):
        raw = data[position : position + header.event_size]
        event = decoder.decode(raw, position)
        assert encode_event(event, decoder.format) == raw
        events.append(event)
    assert [event.body for event in events] == [body for _, body in bodies]
    assert events[-1].end_position == len(data)
    return events


BODIES: list[tuple[int, EventBody]] = [
    (T.QUERY_EVENT, QueryEvent(1, 2, 3, b"", b"db", b"INSERT INTO t VALUES (1)")),
    (T.INTVAR_EVENT, IntvarEvent(2, 1)),
    (T.LOAD_EVENT, LoadEvent(1, 0, 0, b"db", b"t", (b"a",), b"/f", OLD_SYNTAX)),
    (T.CREATE_FILE_EVENT, CreateFileEvent(1, 0, 0, b"db", b"t", (), b"/f", 7, b"1\n2\n")),
    (T.EXEC_LOAD_EVENT, ExecLoadEvent(7)),
]


def test_v1() -> None:
    """Headers of 13 bytes; QUERY has 11 bytes of post-header, ROTATE none."""
    first = start(1, b"3.23.58-log")
    events = check(
        FORMAT_V1,
        [(T.START_EVENT_V3, first), *BODIES, (T.ROTATE_EVENT, RotateEvent(4, "bin.002"))],
    )
    assert [event.header.event_size for event in events[:2]] == [69, 13 + 11 + 3 + 24]
    assert {(event.header.next_position, event.header.flags) for event in events} == {(0, 0)}
    layout = first.format
    assert (layout.binlog_version, layout.server_version) == (1, "3.23.58-log")
    assert (layout.header_size, layout.checksum_algorithm) == (13, ChecksumAlgorithm.OFF)


def test_v3() -> None:
    for version, server in ((2, b"4.0.0-debug-log"), (3, b"4.1.24-debug-log")):
        first = start(version, server)
        rotate = RotateEvent(4, "bin.002")
        events = check(FORMAT_V3, [(T.START_EVENT_V3, first), *BODIES, (T.ROTATE_EVENT, rotate)])
        assert [event.header.event_size for event in events[:2]] == [75, 19 + 11 + 3 + 24]
        assert first.format.binlog_version == version


def test_a_new_file_after_an_old_one() -> None:
    """The same decoder goes on with a format description, whose header is always 19 bytes."""
    decoder = BinlogDecoder()
    header = EventHeader(1, T.START_EVENT_V3, 1, 0, 0, 0)
    decoder.decode(encode_event(BinlogEvent(header, start(1, b"3.23.58")), FORMAT_V1), 4)
    stop = encode_event(
        BinlogEvent(EventHeader(1, T.STOP_EVENT, 1, 0, 0, 0), StopEvent()), FORMAT_V1
    )
    assert len(stop) == 13
    assert decoder.decode(stop, 73).body == StopEvent()
    description = FormatDescriptionEvent()
    header = EventHeader(1, T.FORMAT_DESCRIPTION_EVENT, 1, 0, 120, 1)
    data = encode_event(BinlogEvent(header, description), description.format)
    event = decoder.decode(data, 4)
    assert (event.header.next_position, event.header.flags) == (120, 1)
    assert decoder.format.header_size == 19
