"""Dumps from the testing source."""

import asyncio
import struct

import pytest

from replica_client.errors import (
    BinlogPurgedError,
    BinlogReadError,
    ConfigError,
    ConnectionLostError,
    EncodeError,
    ServerError,
    ServerIdConflictError,
    TransportTimeoutError,
    UnexpectedPacketError,
    UnknownBinlogError,
)
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.constants.event_types import EventType
from replica_client.protocol.gtid import GtidSet, MariadbGtidSet
from replica_client.stream.transport.connect_options import parse_url
from replica_client.stream.transport.connection import SourceConnection
from replica_client.stream.transport.dump import DumpRequest
from replica_client.testing import BinlogSource, faults
from tests.source.binlogs import (
    SOURCE_UUID,
    BinlogMaker,
    events_in,
    is_artificial,
    next_position_of,
    two_files,
    type_of,
)
from tests.source.conftest import read_all, read_until_error, start_dump


@pytest.mark.parametrize("mariadb", [False, True])
@pytest.mark.parametrize("checksum", [False, True])
async def test_both_files_from_the_start(tmp_path, mariadb, checksum) -> None:
    paths = two_files(tmp_path, mariadb=mariadb, checksum=checksum)
    async with BinlogSource(paths) as source:
        events = await read_all(source.url, DumpRequest(non_block=True))
    artificial = [event for event in events if is_artificial(event)]
    assert [type_of(event) for event in artificial] == [EventType.ROTATE_EVENT] * 2
    assert [event[27:40] for event in artificial] == [b"binlog.000001", b"binlog.000002"]
    assert is_artificial(events[0])
    assert [e for e in events if not is_artificial(e)] == events_in(paths[0]) + events_in(paths[1])
    decoder = BinlogDecoder()
    for event in events:
        decoder.decode(event, 0)


async def test_from_the_middle_the_format_description_is_made_up(tmp_path) -> None:
    paths = two_files(tmp_path)
    expected = events_in(paths[0])
    start = next_position_of(expected[9])
    async with BinlogSource(paths) as source:
        events = await read_all(source.url, DumpRequest("binlog.000001", start, non_block=True))
    rotate, description = events[:2]
    assert struct.unpack_from("<Q", rotate, 19)[0] == start
    assert type_of(description) == EventType.FORMAT_DESCRIPTION_EVENT
    assert next_position_of(description) == 0
    assert events[2 : 2 + len(expected) - 10] == expected[10:]
    body = BinlogDecoder().decode(description, 4).body
    assert body.create_timestamp == 0


async def test_gtid_start_skips_what_we_have(tmp_path) -> None:
    paths = two_files(tmp_path)
    have = GtidSet.parse(f"{SOURCE_UUID}:1-2:4")
    async with BinlogSource(paths) as source:
        events = await read_all(source.url, DumpRequest(gtid_set=have, non_block=True))
    numbers = [
        int.from_bytes(event[36:44], "little")
        for event in events
        if type_of(event) == EventType.GTID_LOG_EVENT
    ]
    assert numbers == [3, 5, 6, 7, 8, 9, 10]
    assert sum(type_of(event) == EventType.XID_EVENT for event in events) == 7
    heartbeats = [e for e in events if type_of(e) == EventType.HEARTBEAT_LOG_EVENT_V2]
    assert len(heartbeats) == 2  # one after each gap tells the position


@pytest.mark.parametrize("last", [2, 7, 10])
async def test_what_is_appended_after_a_gtid_start_comes_once(tmp_path, last) -> None:
    have = GtidSet.parse(f"{SOURCE_UUID}:1-{last}")
    more = BinlogMaker(first=11)
    begun = len(more.events)
    for _ in range(5):
        more.transaction()
    numbers: list[int] = []
    async with BinlogSource(two_files(tmp_path)) as source:
        async with await start_dump(source.url, DumpRequest(gtid_set=have)) as dump:
            async with asyncio.timeout(30):
                for event in more.events[begun:]:
                    source.append(event)
                    while type_of(event) == EventType.XID_EVENT:
                        for got in await dump.read():
                            if type_of(got) == EventType.GTID_LOG_EVENT:
                                numbers.append(struct.unpack_from("<Q", got, 36)[0])
                        if numbers and numbers[-1] == struct.unpack_from("<Q", event, 19)[0]:
                            break
    assert numbers == list(range(last + 1, 16))


async def test_a_heartbeat_never_tells_of_what_was_not_sent_yet(tmp_path) -> None:
    """A MySQL replica that hears of the next file before the ROTATE stops for good (MY-013118)."""
    maker = BinlogMaker(first=11)
    rotate = maker.rotate("binlog.000003")
    heartbeats = (EventType.HEARTBEAT_LOG_EVENT, EventType.HEARTBEAT_LOG_EVENT_V2)
    async with BinlogSource(two_files(tmp_path)) as source:
        request = DumpRequest("binlog.000002", 4)
        async with await start_dump(source.url, request, heartbeat_period=0.05) as dump:
            async with asyncio.timeout(30):
                seen: list[bytes] = []
                while not seen or type_of(seen[-1]) not in heartbeats:
                    seen += await dump.read()
                # The file has grown, and nobody was told of it yet.
                source.library.files[-1].append(rotate)
                later: list[bytes] = []
                while (
                    not later or type_of(later[-1]) not in heartbeats or b"000003" not in later[-1]
                ):
                    later += await dump.read()
    kinds = [type_of(event) for event in later]
    assert EventType.ROTATE_EVENT in kinds
    before = later[: kinds.index(EventType.ROTATE_EVENT)]
    assert all(b"000003" not in event for event in before)


async def test_gtid_start_in_the_second_file(tmp_path) -> None:
    paths = two_files(tmp_path)
    have = GtidSet.parse(f"{SOURCE_UUID}:1-7")
    async with BinlogSource(paths) as source:
        events = await read_all(source.url, DumpRequest(gtid_set=have, non_block=True))
    assert events[0][27:40] == b"binlog.000002"
    assert sum(type_of(event) == EventType.XID_EVENT for event in events) == 3


async def test_mariadb_gtid_start(tmp_path) -> None:
    paths = two_files(tmp_path, mariadb=True)
    async with BinlogSource(paths) as source:
        have = MariadbGtidSet.parse("0-11-7")
        events = await read_all(source.url, DumpRequest(gtid_set=have, non_block=True))
        assert sum(type_of(event) == EventType.XID_EVENT for event in events) == 3
        lists = [e for e in events if type_of(e) == EventType.GTID_LIST_EVENT and is_artificial(e)]
        assert len(lists) == 1
        with pytest.raises(BinlogReadError, match="not in the master's binlog"):
            have = MariadbGtidSet.parse("0-11-99")
            await read_all(source.url, DumpRequest(gtid_set=have, non_block=True))


async def test_the_other_flavors_gtids_are_refused(tmp_path) -> None:
    async with BinlogSource(two_files(tmp_path)) as source:
        with pytest.raises(ConfigError, match="other flavor"):
            await read_all(source.url, DumpRequest(gtid_set=MariadbGtidSet.parse("0-1-1")))


@pytest.mark.parametrize(
    ("request_", "kind", "text"),
    [
        (DumpRequest("binlog.000009"), UnknownBinlogError, "SHOW BINARY LOGS"),
        (DumpRequest("binlog.000001", 10**7), UnknownBinlogError, "no such position"),
        (DumpRequest("binlog.000001", 30), BinlogReadError, "inside an event"),
        (
            DumpRequest(gtid_set=GtidSet.parse(f"{SOURCE_UUID}:1-99")),
            BinlogReadError,
            "right server",
        ),
    ],
)
async def test_starts_that_a_source_refuses(tmp_path, request_, kind, text) -> None:
    async with BinlogSource(two_files(tmp_path)) as source:
        with pytest.raises(kind, match=text):
            await read_all(source.url, request_)


async def test_position_beyond_4_gib_needs_a_server_that_can(tmp_path) -> None:
    async with BinlogSource(two_files(tmp_path, mariadb=True)) as source:
        with pytest.raises(EncodeError, match="COM_BINLOG_DUMP"):
            await start_dump(source.url, DumpRequest("binlog.000001", 1 << 32))
    async with BinlogSource(two_files(tmp_path)) as source:
        with pytest.raises(UnknownBinlogError):
            await read_all(source.url, DumpRequest("binlog.000001", 1 << 32))


async def test_purged_gtids_are_named(tmp_path) -> None:
    paths = two_files(tmp_path)
    async with BinlogSource(paths) as source:
        source.purge_to("binlog.000002")
        with pytest.raises(BinlogPurgedError) as caught:
            have = GtidSet.parse(f"{SOURCE_UUID}:1-2")
            await read_all(source.url, DumpRequest(gtid_set=have))
    assert caught.value.missing == f"{SOURCE_UUID}:3-5"
    assert f"{SOURCE_UUID}:3-5" in str(caught.value)


async def test_purged_mariadb_position(tmp_path) -> None:
    async with BinlogSource(two_files(tmp_path, mariadb=True)) as source:
        source.purge_to("binlog.000002")
        with pytest.raises(BinlogPurgedError):
            have = MariadbGtidSet.parse("0-11-2")
            await read_all(source.url, DumpRequest(gtid_set=have))


async def test_a_growing_source(tmp_path) -> None:
    maker = BinlogMaker()
    path = maker.save(tmp_path / "binlog.000001")
    async with (
        BinlogSource(path) as source,
        await start_dump(source.url, DumpRequest(), heartbeat_period=0.2) as stream,
    ):
        events = await stream.read()
        while len(events) < 3:
            events += await stream.read()
        new = maker.transaction()
        source.append(b"".join(new))
        got = []
        while len(got) < len(new):
            got += [e for e in await stream.read() if type_of(e) != 41]
        assert got == new
        assert source.rotate() == "binlog.000002"
        got = []
        while len(got) < 4:
            got += [e for e in await stream.read() if type_of(e) != 41]
        assert [type_of(e) for e in got] == [4, 4, 15, 35]
        assert is_artificial(got[1])
        assert not is_artificial(got[0])
        heartbeat = await stream.read()
        assert type_of(heartbeat[0]) == EventType.HEARTBEAT_LOG_EVENT_V2


async def test_mariadb_leaves_annotations_out_when_they_are_not_wanted(tmp_path) -> None:
    maker = BinlogMaker(mariadb=True)
    from replica_client.protocol.binlog.events import AnnotateRowsEvent

    maker.add(EventType.ANNOTATE_ROWS_EVENT, AnnotateRowsEvent(b"INSERT"))
    path = maker.save(tmp_path / "binlog.000001")
    async with BinlogSource(path) as source:
        for wanted in (True, False):
            request = DumpRequest(non_block=True, annotate_rows=wanted)
            types = [type_of(event) for event in await read_all(source.url, request)]
            assert (EventType.ANNOTATE_ROWS_EVENT in types) is wanted


async def test_no_bytes_for_three_heartbeats_is_a_dead_connection(tmp_path) -> None:
    stall = faults.Stall(after=300)
    async with BinlogSource(two_files(tmp_path), faults=[stall]) as source:
        loop = asyncio.get_running_loop()
        started = loop.time()
        with pytest.raises(TransportTimeoutError, match="heartbeat_period"):
            await read_all(source.url, DumpRequest(), heartbeat_period=0.1)
        assert 0.25 < loop.time() - started < 10


async def test_the_deadline_does_not_run_while_the_consumer_is_slow(tmp_path) -> None:
    maker = BinlogMaker()
    for _ in range(40):
        maker.transaction(100_000)
    path = maker.save(tmp_path / "binlog.000001")
    async with BinlogSource(path) as source:
        stream = await start_dump(
            source.url, DumpRequest(non_block=True), read_timeout=0.5, queue_size=100_000
        )
        async with stream:
            events = []
            first = True
            while batch := await stream.read():
                assert sum(map(len, batch)) < 1_000_000
                events += batch
                if first:
                    await asyncio.sleep(1.0)
                    first = False
            assert stream.statistics.seconds_paused > 0.3
            assert stream.statistics.events_received == len(events)
    assert [e for e in events if not is_artificial(e)] == maker.events


async def test_the_same_replica_again_ends_the_older_dump(tmp_path) -> None:
    async with BinlogSource(two_files(tmp_path)) as source:
        first = await start_dump(source.url, DumpRequest())
        second = await start_dump(source.url, DumpRequest())
        with pytest.raises(ServerIdConflictError, match="server_id"):
            while True:
                await first.read()
        assert await second.read()
        await first.close()
        await second.close()


async def test_show_replicas_shows_us(tmp_path) -> None:
    async with (
        BinlogSource(two_files(tmp_path)) as source,
        await start_dump(source.url, DumpRequest(), report_host="etl-7"),
        await SourceConnection.open(parse_url(source.url)) as connection,
    ):
        rows = await connection.query("SHOW REPLICAS")
        assert [(row[0], row[1]) for row in rows] == [(4242, "etl-7")]


async def test_semi_sync_acknowledges_when_reported_to(tmp_path) -> None:
    paths = two_files(tmp_path)
    async with BinlogSource(paths, semi_sync=True) as source:
        stream = await start_dump(source.url, DumpRequest(non_block=True), semi_sync=True)
        async with stream:
            events = []
            while batch := await stream.read():
                events += batch
            assert [e for e in events if not is_artificial(e)] == [
                *events_in(paths[0]),
                *events_in(paths[1]),
            ]
        stream = await start_dump(source.url, DumpRequest(), semi_sync=True)
        async with stream:
            await stream.read()
            assert stream.semi_sync_active
            session = source.sessions[-1]
            assert session.acknowledged == []
            await stream.acknowledge_semi_sync("binlog.000001", 777)
            await asyncio.sleep(0.1)
            assert session.acknowledged == [("binlog.000001", 777)]


async def test_semi_sync_without_a_semi_sync_source(tmp_path) -> None:
    async with BinlogSource(two_files(tmp_path)) as source:
        with pytest.raises(ConfigError, match="rpl_semi_sync_source_enabled"):
            await start_dump(source.url, DumpRequest(), semi_sync=True)
        async with await start_dump(source.url, DumpRequest()) as stream:
            with pytest.raises(UnexpectedPacketError, match="not semi-synchronous"):
                await stream.acknowledge_semi_sync("binlog.000001", 4)


async def test_cancelling_a_reader_leaves_the_stream_usable(tmp_path) -> None:
    maker = BinlogMaker()
    path = maker.save(tmp_path / "binlog.000001")
    async with BinlogSource(path) as source, await start_dump(source.url, DumpRequest()) as stream:
        while True:
            try:
                async with asyncio.timeout(0.2):
                    await stream.read()
            except TimeoutError:
                break
        source.append(b"".join(maker.transaction()))
        assert await stream.read()


async def test_closing_ends_a_waiting_reader(tmp_path) -> None:
    path = BinlogMaker().save(tmp_path / "binlog.000001")
    async with BinlogSource(path) as source:
        stream = await start_dump(source.url, DumpRequest())
        await stream.read()
        reader = asyncio.ensure_future(read_to_the_end(stream))
        await asyncio.sleep(0.1)
        await stream.close()
        with pytest.raises(ConnectionLostError, match="closed by us"):
            await reader
        await stream.close()


async def read_to_the_end(stream) -> None:
    while await stream.read():
        pass


async def test_a_killed_source_is_a_lost_connection(tmp_path) -> None:
    async with (
        BinlogSource(two_files(tmp_path)) as source,
        await start_dump(source.url, DumpRequest()) as stream,
    ):
        await stream.read()
        await source.disconnect_all()
        with pytest.raises(ConnectionLostError, match=str(source.port)):
            await read_to_the_end(stream)


async def test_events_of_an_error_stream_come_before_the_error(tmp_path) -> None:
    error = faults.SendError(before_event=5, errno=1053, message="Server shutdown in progress")
    async with BinlogSource(two_files(tmp_path), faults=[error]) as source:
        events, caught = await read_until_error(source.url, DumpRequest())
    assert len(events) == 5
    assert isinstance(caught, ServerError)
    assert caught.errno == 1053
