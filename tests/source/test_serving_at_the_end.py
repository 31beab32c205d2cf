"""Clients that wait at the end of a served binlog: each gets what comes, whoever is slow; large events, too."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from replica_client.errors import BinlogReadError
from replica_client.protocol.constants.event_types import EventType
from replica_client.protocol.wire.framing import MAX_PIECE_SIZE
from replica_client.server.packet_output import CHUNK_SIZE
from replica_client.stream.transport.dump import DumpRequest, DumpStream
from replica_client.testing import BinlogSource
from tests.source.binlogs import BinlogMaker, is_artificial, next_position_of, two_files, type_of
from tests.source.conftest import read_all, start_dump

WAYS = pytest.mark.parametrize(
    "query", ["tls=disabled", "tls=required", "tls=disabled&compression=zlib"]
)
HEARTBEATS = (EventType.HEARTBEAT_LOG_EVENT, EventType.HEARTBEAT_LOG_EVENT_V2)


async def events_of(stream: DumpStream, count: int) -> list[bytes]:
    found: list[bytes] = []
    async with asyncio.timeout(30):
        while len(found) < count:
            found += [e for e in await stream.read() or () if type_of(e) not in HEARTBEATS]
    return found


def dumped(events: list[bytes]) -> list[bytes]:
    """Without what tells the place, which stands in no file."""
    return [event for event in events if not is_artificial(event) and next_position_of(event)]


@WAYS
async def test_what_is_appended_comes_to_all_who_wait(tmp_path, query) -> None:
    maker = BinlogMaker()
    for _ in range(8):
        maker.transaction()
    starts = [4, *(next_position_of(event) for event in maker.events)]
    path = maker.save(tmp_path / "binlog.000001")
    async with BinlogSource(path, tls=True) as source:
        streams = []
        for number, start in enumerate(starts[:12]):  # numbers of packets differ
            request = DumpRequest("binlog.000001", start)
            stream = await start_dump(
                f"{source.url}?{query}", request, server_id=100 + number, heartbeat_period=0.05,
                read_timeout=10, replica_uuid=f"6a3f6f56-0000-4000-8000-{number:012d}",
            )  # fmt: skip
            streams.append(stream)
        before = len(maker.events)
        for _ in range(20):
            for event in maker.transaction():
                source.append(event)
                await asyncio.sleep(0)
        for number, stream in enumerate(streams):
            wanted = maker.events[max(0, number) : before] + maker.events[before:]
            head = 1 if number == 0 else 2  # the place, and a format description for the middle
            found = await events_of(stream, head + len(wanted))
            assert found[head:] == wanted
            await stream.close()


async def test_who_takes_nothing_holds_back_nobody_and_little_memory(tmp_path) -> None:
    maker = BinlogMaker()
    path = maker.save(tmp_path / "binlog.000001")
    async with BinlogSource(path) as source:
        slow = await start_dump(source.url + "?tls=disabled", DumpRequest(), queue_size=1 << 16)
        quick = await start_dump(
            source.url + "?tls=disabled",
            DumpRequest(),
            server_id=5,
            replica_uuid="bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb",
        )
        for _ in range(12):
            maker.transaction(2_000_000)
        source.append(b"".join(maker.events[2:]))
        found = dumped(await events_of(quick, 1 + len(maker.events)))
        assert found == maker.events
        waiting = [session._output.pending_size for session in source.sessions]
        assert len(waiting) == 2
        assert max(waiting) <= 1 << 20
        assert dumped(await events_of(slow, 1 + len(maker.events))) == maker.events
        await quick.close()
        await slow.close()


@pytest.mark.parametrize("query", ["tls=disabled", "tls=disabled&compression=zlib"])
async def test_events_larger_than_chunks_and_packets(tmp_path: Path, query: str) -> None:
    maker = BinlogMaker()
    head = len(maker.query(b""))
    # The payload is the event behind a zero: around the size that needs a second, and an empty, packet.
    sizes = [CHUNK_SIZE, *(MAX_PIECE_SIZE - 1 - head + more for more in (-1, 0))]
    for size in sizes:
        maker.query(b"x" * size)
        maker.transaction()
    path = maker.save(tmp_path / "binlog.000001")
    async with BinlogSource(path) as source:
        found = await read_all(f"{source.url}?{query}", DumpRequest(non_block=True))
    assert dumped(found) == maker.events


async def test_a_dump_that_was_overtaken_by_a_purge_ends(tmp_path) -> None:
    paths = two_files(tmp_path)
    maker = BinlogMaker(first=11)
    for _ in range(12):
        maker.transaction(2_000_000)
    maker.rotate("binlog.000004")
    third = maker.save(tmp_path / "binlog.000003")
    paths += [
        third,
        BinlogMaker(first=23).save(tmp_path / "binlog.000004"),
        BinlogMaker(first=23).save(tmp_path / "binlog.000005"),
    ]
    async with BinlogSource(paths) as source:
        request = DumpRequest("binlog.000003", 4)
        url = source.url + "?tls=disabled"
        async with await start_dump(url, request, queue_size=1 << 16) as stream:
            await stream.read()
            source.purge_to("binlog.000005")
            with pytest.raises(BinlogReadError, match="follows binlog.000003 was purged"):
                while await stream.read():
                    pass
