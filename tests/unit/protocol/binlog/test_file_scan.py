"""Header scan: positions by sizes, tails, magic."""

from __future__ import annotations

import pytest

from replica_client.errors import BinlogFormatError, TruncatedEventError
from replica_client.protocol.binlog.event import EventHeader, FileKind, file_kind
from replica_client.protocol.constants.event_types import EventType
from tests.header_scan import HeaderScan
from tests.unit.protocol.binlog.events.seed import BEGIN, FORMAT_5_5_2, ROTATE, whole_event

FILE = b"\xfebin" + FORMAT_5_5_2 + BEGIN + ROTATE


def test_magic() -> None:
    assert file_kind(FILE) is FileKind.PLAIN
    assert file_kind(b"\xfdbin\x01") is FileKind.ENCRYPTED
    with pytest.raises(BinlogFormatError, match="89 50 4e 47"):
        file_kind(b"\x89PNG\r\n")
    with pytest.raises(TruncatedEventError, match="3 bytes"):
        file_kind(b"\xfebi")


@pytest.mark.parametrize("view", [bytes, memoryview])
def test_positions(view: type) -> None:
    scan = HeaderScan(view(FILE))
    found = [(position, header.type_code) for position, header in scan]
    assert found == [(4, 15), (107, 2), (190, 4)]
    assert scan.end == len(FILE)
    assert (scan.missing, scan.tail_size, scan.truncated) == (0, 0, False)
    scan.raise_if_truncated()


def test_positions_beyond_4_gib() -> None:
    scan = HeaderScan(BEGIN + ROTATE, start=0, base=(1 << 32) - 10)
    assert [position for position, _ in scan] == [(1 << 32) - 10, (1 << 32) + 73]
    assert scan.end == (1 << 32) + 117


@pytest.mark.parametrize("cut", range(1, len(ROTATE) + len(BEGIN)))
def test_every_cut(cut: int) -> None:
    scan = HeaderScan(FILE[:-cut])
    positions = [position for position, _ in scan]
    assert positions == ([4, 107] if cut <= len(ROTATE) else [4])
    assert scan.end == (190 if cut <= len(ROTATE) else 107)
    assert scan.truncated == (cut != len(ROTATE))
    assert scan.tail_size == len(FILE) - cut - scan.end
    if scan.truncated:
        with pytest.raises(TruncatedEventError) as caught:
            scan.raise_if_truncated()
        assert caught.value.position == scan.end


def test_missing_counts_what_the_event_needs() -> None:
    scan = HeaderScan(FILE[:-5])
    assert len(list(scan)) == 2
    assert scan.missing == 5


@pytest.mark.parametrize("size", [0, 1, 18])
def test_size_smaller_than_a_header(size: int) -> None:
    bad = EventHeader(0, EventType.QUERY_EVENT, 1, size, 0, 0).encode()
    scan = HeaderScan(FILE + bad)
    iterator = iter(scan)
    assert [next(iterator)[0] for _ in range(3)] == [4, 107, 190]
    with pytest.raises(BinlogFormatError, match=f"event size {size}") as caught:
        next(iterator)
    assert caught.value.position == len(FILE)


def test_binlog_v1_headers() -> None:
    start = EventHeader(1, EventType.START_EVENT_V3, 1, 13 + 56, 0, 0).encode(13) + bytes(56)
    query = EventHeader(1, EventType.QUERY_EVENT, 1, 13 + 12, 0, 0).encode(13) + bytes(12)
    scan = HeaderScan(b"\xfebin" + start + query)
    assert [(at, h.type_code, h.flags) for at, h in scan] == [(4, 1, 0), (73, 2, 0)]


def test_binlog_v3_headers() -> None:
    start = whole_event(EventType.START_EVENT_V3, bytes(56))
    scan = HeaderScan(b"\xfebin" + start + BEGIN)
    assert [(at, h.flags) for at, h in scan] == [(4, 0), (79, 8)]
