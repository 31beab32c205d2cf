"""A MariaDB dump that ends at a GTID, as START SLAVE UNTIL master_gtid_pos asks for it."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from replica_client.errors import StreamEndedError
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.events.gtids import FLAG_UNTIL_REACHED
from replica_client.protocol.constants.event_types import EventType
from replica_client.protocol.gtid import MariadbGtid, MariadbGtidSet
from replica_client.server.transactions import GtidUntil
from replica_client.stream.transport.connect_options import parse_url
from replica_client.stream.transport.connection import SourceConnection
from replica_client.stream.transport.dump import DumpRequest
from replica_client.testing import BinlogSource
from tests.source.binlogs import two_files, type_of
from tests.source.conftest import REPLICA_UUID

CASES = [
    # have, until, before, sequences that come
    ("", "0-11-3", 0, [1, 2, 3]),
    ("", "0-11-5", 0, [1, 2, 3, 4, 5]),
    ("", "0-11-6", 0, [1, 2, 3, 4, 5, 6]),
    ("0-11-2", "0-11-8", 0, [3, 4, 5, 6, 7, 8]),
    ("", "0-11-10", 0, [*range(1, 11)]),
    ("0-11-4", "0-11-4", 0, []),
    ("0-11-7", "0-11-4", 0, []),
    ("", "", 0, []),
    ("", "7-11-4", 1, []),
    ("", "0-11-3", 1, [1, 2]),
    ("0-11-5", "0-11-6", 1, []),
    ("0-11-4", "0-11-6", 1, [5]),
]


@pytest.mark.parametrize(("have", "until", "before", "wanted"), CASES)
async def test_it_ends_with_its_last_transaction(
    tmp_path: Path, have: str, until: str, before: int, wanted: list[int]
) -> None:
    async with BinlogSource(two_files(tmp_path, mariadb=True)) as source:
        connection = await SourceConnection.open(parse_url(source.url))
        await connection.query(f"SET @slave_until_gtid='{until}'", columns=0)
        await connection.query(f"SET @slave_gtid_until_before_gtids={before}", columns=0)
        request = DumpRequest(gtid_set=MariadbGtidSet.parse(have))
        dump = await connection.start_dump(
            request, server_id=4242, replica_uuid=REPLICA_UUID, heartbeat_period=0.1
        )
        found, ends, decoder, last = [], 0, BinlogDecoder(), None
        # 7-11-4 never comes: that dump stays, and only heartbeats do.
        async with dump, asyncio.timeout(30):
            with contextlib.suppress(StreamEndedError):
                while events := await dump.read():
                    if (
                        until.startswith("7")
                        and type_of(events[-1]) == EventType.HEARTBEAT_LOG_EVENT
                    ):
                        assert not wanted
                        assert not found
                        return
                    for data in events:
                        last = decoder.decode(data, 0)
                        if last.header.type_code == EventType.GTID_EVENT:
                            found.append(last.body.sequence)
                        ends += last.header.type_code == EventType.XID_EVENT
    assert found == wanted
    assert ends == len(wanted)
    assert last is not None
    assert last.header.type_code == EventType.GTID_LIST_EVENT
    assert last.body.flags == FLAG_UNTIL_REACHED


def gtid(text: str) -> MariadbGtid:
    return MariadbGtid(*(int(number) for number in text.split("-")))


def test_every_domain_comes_to_its_own_end() -> None:
    until = GtidUntil(MariadbGtidSet.parse("0-1-3,1-1-2"), MariadbGtidSet(), before=False)
    passed = {}
    for text in ("0-1-2", "1-1-1", "0-1-3", "0-1-4", "2-1-1", "1-2-9", "1-1-2"):
        assert not until.reached
        passed[text] = until.passes_over(gtid(text))
    assert passed == {
        "0-1-2": False,
        "1-1-1": False,
        "0-1-3": False,
        "0-1-4": True,
        "2-1-1": True,  # nobody asked for that domain
        "1-2-9": False,  # another server's number
        "1-1-2": False,
    }


def test_a_gtid_that_is_not_there_ends_it_before_the_next() -> None:
    until = GtidUntil(MariadbGtidSet.parse("0-1-3"), MariadbGtidSet(), before=False)
    assert not until.passes_over(gtid("0-1-2"))
    assert until.passes_over(gtid("0-1-4"))
    assert until.reached
