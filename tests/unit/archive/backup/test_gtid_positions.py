"""A GTID is in the set of a file when its transaction ended, by the grammar of groups."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest

from replica_client import open_binlog
from replica_client.archive.backup.local_copy import GtidPositions
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.constants.event_types import EventType

GOLDEN = Path(__file__).parents[3] / "golden"
FILES = [
    *("mysql-9.7.4/rows.binlog", "mysql-9.7.4/xa.binlog"),
    *("mariadb-11.8.6/rows.binlog", "mariadb-11.8.6/xa.binlog"),
]
GTIDS = (EventType.GTID_LOG_EVENT, EventType.GTID_TAGGED_LOG_EVENT, EventType.GTID_EVENT)


def events_of(path: Path) -> list[bytes]:
    """The golden events, after the set of GTIDs that a file begins with."""
    content, events, at = path.read_bytes(), [], 4
    while at < len(content):
        size = int.from_bytes(content[at + 9 : at + 13], "little")
        events.append(content[at : at + size])
        at += size
    return [events[0], NO_GTIDS[path.parent.name], *events[1:]]


def empty_set(code: EventType, body: bytes) -> bytes:
    event = struct.pack("<IBIIIH", 0, code, 1, 19 + len(body) + 4, 0, 0) + body
    return event + struct.pack("<I", zlib.crc32(event))


NO_GTIDS = {
    "mysql-9.7.4": empty_set(EventType.PREVIOUS_GTIDS_LOG_EVENT, bytes(8)),
    "mariadb-11.8.6": empty_set(EventType.GTID_LIST_EVENT, bytes(4)),
}


def fed(events: list[bytes]) -> GtidPositions:
    decoder = BinlogDecoder()
    positions = GtidPositions(decoder)
    for event in events:
        if event[4] == EventType.FORMAT_DESCRIPTION_EVENT:
            decoder.decode(event, 4)
        positions.feed(event, 4)
    return positions


@pytest.mark.parametrize("file", FILES)
def test_the_set_has_the_transactions_of_the_file(file: str) -> None:
    gtids = [one.gtid for one in open_binlog(GOLDEN / file).transactions() if one.gtid]
    found = fed(events_of(GOLDEN / file)).after
    assert found is not None
    assert gtids and all(found >= type(found).parse(gtid) for gtid in gtids)


@pytest.mark.parametrize("file", FILES)
def test_a_transaction_without_its_end_is_not_in_the_set(file: str) -> None:
    events = events_of(GOLDEN / file)
    (*_, last) = (at for at, event in enumerate(events) if event[4] in GTIDS)
    before = fed(events[:last]).after
    assert fed([*events[: last + 1], events[last]]).after == before
    assert fed(events).after != before
