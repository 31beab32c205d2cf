"""The tracker: what moves a position, and what does not."""

import time

import pytest

from replica_client.errors import BinlogDecodeError
from replica_client.protocol.constants.event_types import EventType as T
from replica_client.protocol.gtid import Gtid, GtidSet, Intervals, MariadbGtid, MariadbGtidSet
from replica_client.stream.position import (
    Position,
    PositionTracker,
    TransactionBoundary,
    tracker as tracker_module,
)
from tests.unit.stream.position import events as e
from tests.unit.stream.position.events import SID

F1, F2 = "binlog.000001", "binlog.000002"
KNOWN = str(Gtid(SID, 1)).partition(":")[0]


def feed(tracker, *events):
    return [boundary for one in events if (boundary := tracker.feed(one)) is not None]


def position(tracker):
    return tracker.position.file, tracker.position.offset


def started(known=""):
    """A tracker behind the first events of a file."""
    tracker = PositionTracker()
    feed(
        tracker,
        e.rotate(F1, artificial=True),
        e.format_description(1, 126),
        e.previous_gtids(known),
    )
    assert position(tracker) == (F1, 4 + 122 + 71)
    return tracker


def test_artificial_rotate_names_the_file_and_moves_nothing():
    tracker = PositionTracker(Position(F1, 1472))
    assert not feed(tracker, e.rotate(F1, 1472, artificial=True))
    assert position(tracker) == (F1, 1472)
    feed(tracker, e.rotate(F1, 4, artificial=True))
    assert position(tracker) == (F1, 1472)
    feed(tracker, e.format_description(next_position=0))
    assert position(tracker) == (F1, 1472)


@pytest.mark.parametrize("artificial_by", ["flag", "timestamp"])
def test_artificial_by_flag_or_by_timestamp(artificial_by):
    tracker = PositionTracker(Position(F1, 500))
    flags, timestamp = (0x20, 9) if artificial_by == "flag" else (0, 0)
    body = e.RotateEvent(4, F1)
    tracker.feed(e.event(T.ROTATE_EVENT, body, flags=flags, timestamp=timestamp))
    assert position(tracker) == (F1, 500)
    assert position(tracker) == (F1, 500)
    tracker.feed(e.event(T.ROTATE_EVENT, e.RotateEvent(4, F2), flags=0, timestamp=9))
    assert position(tracker) == (F2, 4)


def test_real_rotate_closes_the_file():
    tracker = started()
    feed(tracker, e.rotate(F2))
    assert position(tracker) == (F2, 4)
    feed(tracker, e.rotate(F2, artificial=True), e.format_description(0, 126))
    assert position(tracker) == (F2, 126)


def test_position_moves_at_the_commit_and_the_gtid_joins_there():
    tracker = started(f"{e.GtidSet.parse('')}")
    before = tracker.position
    for one in (e.gtid(1), e.query("BEGIN"), e.table_map(), e.rows(end=True)):
        assert tracker.feed(one) is None
        assert tracker.position == before
        assert tracker.in_transaction
    boundary = tracker.feed(e.xid())
    assert boundary == TransactionBoundary(
        F1, 197, F1, 197 + 79 + 60 + 48 + 100 + 31, Gtid(SID, 1), "commit", 5
    )
    assert tracker.position == Position(F1, boundary.end_offset, GtidSet([Gtid(SID, 1)]))
    assert not tracker.in_transaction


def test_positions_inside_a_transaction():
    tracker = started()
    feed(tracker, e.gtid(1), e.query("BEGIN"), e.table_map(), e.rows())
    assert tracker.event_index == 3
    assert tracker.inside(7) == Position(F1, 197, None, 3, 7)
    tracker.skip(2, 300)
    feed(tracker, e.rows(end=True))
    assert tracker.inside() == Position(F1, 197, None, 6, 0)
    (boundary,) = feed(tracker, e.xid())
    assert boundary.event_count == 8
    assert boundary.end_offset == 197 + 79 + 60 + 48 + 100 + 300 + 100 + 31
    assert tracker.inside() == tracker.position


@pytest.mark.parametrize(
    ("events", "outcome"),
    [
        ([e.query("CREATE TABLE t (a INT)")], "commit"),
        ([e.query("BEGIN"), e.rows(True), e.query("COMMIT")], "commit"),
        ([e.query("BEGIN"), e.query("insert into t values (1)"), e.xid()], "commit"),
        ([e.query("BEGIN"), e.rows(True), e.query("ROLLBACK")], "rollback"),
        (
            [e.query("BEGIN"), e.query("SAVEPOINT `a`"), e.query("ROLLBACK TO `a`"), e.xid()],
            "commit",
        ),
        (
            [e.query("XA START X'01',X'',1"), e.rows(True), e.query("XA END X'01',X'',1"),
             e.xa_prepare()],
            "prepare",
        ),
        (
            [e.query("XA START X'01',X'',1"), e.rows(True), e.query("XA END X'01',X'',1"),
             e.xa_prepare(1)],
            "commit",
        ),
        ([e.query("XA COMMIT X'01',X'',1")], "commit"),
        ([e.query("XA ROLLBACK X'01',X'',1")], "rollback"),
        ([e.intvar(), e.query("INSERT INTO t VALUES (NULL)")], "commit"),
        ([e.table_map(), e.rows(), e.rows(end=True)], "commit"),
        ([e.event(T.INCIDENT_EVENT)], "commit"),
        ([e.query("BEGIN"), e.query("CREATE TABLE t"), e.rows(True), e.xid()], "commit"),
        ([e.event(T.TRANSACTION_CONTEXT_EVENT), e.query("BEGIN"), e.rows(True), e.xid()], "commit"),
        ([e.event(99), e.query("BEGIN"), e.rows(True), e.xid()], "commit"),
        (
            e.payload(e.query("BEGIN"), e.table_map(), e.rows(True), e.xid()),
            "commit",
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("with_gtid", [True, False])
def test_ends(events, outcome, with_gtid):
    tracker = started(f"{Gtid(SID, 1)}-5")
    before = tracker.position
    if with_gtid:
        tracker.feed(e.gtid(6))
    for one in events[:-1]:
        assert tracker.feed(one) is None
        assert tracker.position == before
    boundary = tracker.feed(events[-1])
    assert boundary is not None and boundary.outcome == outcome
    assert boundary.gtid == (Gtid(SID, 6) if with_gtid else None)
    assert tracker.position.gtid_set.compact() == f"{Gtid(SID, 1)}-{6 if with_gtid else 5}"
    assert tracker.position > before
    assert boundary.event_count == len(events) + with_gtid
    size = sum(one.header.event_size for one in events if one.inner_index is None)
    assert boundary.end_offset == boundary.offset + size + (79 if with_gtid else 0)


@pytest.mark.parametrize(
    ("flags", "events", "outcome"),
    [
        (0, [e.event(T.ANNOTATE_ROWS_EVENT), e.table_map(), e.rows(True), e.xid()], "commit"),
        (0, [e.query("INSERT INTO t VALUES (1)"), e.query("COMMIT")], "commit"),
        (0, [e.query("INSERT INTO t VALUES (1)"), e.query("ROLLBACK")], "rollback"),
        (1, [e.query("CREATE TABLE t (a INT)")], "commit"),
        (1, [e.intvar(), e.query("INSERT INTO t VALUES (NULL)")], "commit"),
        (0x40, [e.query("XA START X'01',X'',1"), e.rows(True), e.query("XA END X'01'"),
                e.xa_prepare()], "prepare"),
        (0x80, [e.query("XA COMMIT X'01',X'',1")], "commit"),
        (0x81, [e.query("XA COMMIT X'01',X'',1")], "commit"),
    ],
)  # fmt: skip
def test_ends_in_mariadb(flags, events, outcome):
    tracker = PositionTracker(Position("m.1", 300, MariadbGtidSet.parse("0-1-5,4-1-1")))
    assert not feed(tracker, e.mariadb_gtid(0, 2, 6, flags), *events[:-1])
    assert str(tracker.position) == "m.1:300@0-1-5,4-1-1"
    boundary = tracker.feed(events[-1])
    assert boundary.outcome == outcome
    assert boundary.gtid == MariadbGtid(0, 2, 6)
    assert str(tracker.position.gtid_set) == "0-1-5,0-2-6,4-1-1"
    assert tracker.position.gtid_set.slave_connect_state() == "0-2-6,4-1-1"


def test_payload_without_its_events():
    tracker = PositionTracker(Position(F1, 197, GtidSet()), payload_ends=True)
    outer, *inner = e.payload(e.query("BEGIN"), e.rows(True), e.xid())
    (boundary,) = feed(tracker, e.gtid(1), outer)
    assert boundary.end_offset == 197 + 79 + 90
    assert not feed(tracker, *inner)
    assert position(tracker) == (F1, 197 + 79 + 90)


def test_payload_that_nobody_opened_counts_when_the_next_transaction_begins():
    tracker = PositionTracker(Position(F1, 197, GtidSet()))
    outer = e.payload()[0]
    assert not feed(tracker, e.gtid(1), outer)
    (boundary,) = feed(tracker, e.gtid(2))
    assert (boundary.gtid, boundary.outcome) == (Gtid(SID, 1), "commit")
    assert boundary.end_offset == 197 + 79 + 90
    assert position(tracker) == (F1, 197 + 79 + 90)
    assert tracker.position.gtid_set == GtidSet([Gtid(SID, 1)])


def test_transaction_that_the_source_never_finished():
    tracker = started(f"{Gtid(SID, 1)}-5")
    before = tracker.position
    feed(tracker, e.gtid(6), e.query("BEGIN"), e.rows())
    feed(tracker, e.rotate(F2, artificial=True))
    assert tracker.position == before
    (boundary,) = feed(tracker, e.format_description(created=77, next_position=126))
    assert (boundary.outcome, boundary.gtid, boundary.event_count) == ("abandoned", Gtid(SID, 6), 3)
    assert position(tracker) == (F2, 126)
    assert tracker.position.gtid_set == before.gtid_set
    (boundary,) = feed(tracker, e.gtid(6), e.query("DROP TABLE t"))
    assert boundary.outcome == "commit"
    assert Gtid(SID, 6) in tracker.position.gtid_set


def test_begin_without_end_before_gtids_existed():
    tracker = PositionTracker(Position(F1, 100))
    (boundary,) = feed(tracker, e.query("BEGIN"), e.rows(True), e.query("BEGIN"))
    assert boundary.outcome == "abandoned"
    assert position(tracker) == (F1, 260)
    (boundary,) = feed(tracker, e.xid())
    assert (boundary.offset, boundary.end_offset, boundary.outcome) == (260, 351, "commit")


def test_set_is_unknown_until_a_file_begins():
    tracker = PositionTracker(Position(F1, 500))
    feed(tracker, e.gtid(9), e.query("BEGIN"), e.xid())
    assert tracker.position.gtid_set is None
    text = f"{Gtid(SID, 1)}-9"
    feed(tracker, e.rotate(F2), e.format_description(0, 126), e.previous_gtids(text))
    assert tracker.position == Position(F2, 197, GtidSet.parse(text))
    feed(tracker, e.gtid(10, "tag"), e.query("DROP TABLE x"))
    assert tracker.position.gtid_set.compact() == f"{text}:tag:10"


def test_empty_previous_gtids_of_a_server_without_gtids_is_not_a_known_set():
    tracker = started()
    feed(tracker, e.anonymous(), e.query("BEGIN"), e.xid())
    assert tracker.position.gtid_set is None
    feed(tracker, e.gtid(1), e.query("BEGIN"), e.xid())
    assert tracker.position.gtid_set == GtidSet([Gtid(SID, 1)])


def test_mariadb_list_gives_the_set():
    tracker = PositionTracker()
    feed(tracker, e.rotate("m.1", artificial=True), e.format_description(1, 126),
         e.gtid_list((0, 1, 5), (0, 2, 6)))  # fmt: skip
    assert str(tracker.position.gtid_set) == "0-1-5,0-2-6"
    feed(tracker, e.mariadb_gtid(0, 1, 7, 1), e.query("DROP TABLE t"))
    assert str(tracker.position.gtid_set) == "0-2-6,0-1-7"


def test_offset_beyond_4_gib():
    tracker = PositionTracker(Position(F1, 4, GtidSet()))
    source = e.Source()
    source.write(e.format_description(1), e.gtid(1), e.query("BEGIN"))
    for _ in range(50):
        source.write(e.rows(size=200_000_000))
    source.write(e.xid(), e.gtid(2), e.query("DROP TABLE t"))
    (first, second) = feed(tracker, *source.stream())
    assert first.end_offset > 1 << 33
    assert second.end_offset == source.offset
    assert tracker.position.offset == source.offset


def test_zero_next_position_everywhere():
    tracker = PositionTracker(Position("m.000001", 300, MariadbGtidSet()))
    source = e.Source("m", 1, 300)
    source.write(e.mariadb_gtid(0, 1, 1), e.rows(True), e.xid(), positions=False)
    (boundary,) = feed(tracker, *(e.replace(one, position=0) for one in source.located))
    assert boundary.end_offset == source.offset


def test_gap_that_the_source_left():
    source = e.Source(offset=197)
    source.write(e.gtid(1), e.query("BEGIN"), e.xid(), e.gtid(2), e.query("BEGIN"), e.xid())
    tracker = PositionTracker(Position(F1, 197, GtidSet([Gtid(SID, 1)])))
    (boundary,) = feed(tracker, *source.located[3:])
    assert boundary.offset == source.located[3].position
    assert boundary.end_offset == source.offset


@pytest.mark.parametrize("change", [4, -4])
def test_source_that_adds_checksums_or_takes_them_off(change):
    source = e.Source(offset=197)
    source.write(e.gtid(1), e.query("BEGIN"), e.xid())
    longer = [
        e.replace(one, header=e.replace(one.header, event_size=one.header.event_size + change))
        for one in source.located
    ]
    tracker = PositionTracker(Position(F1, 197, GtidSet()))
    for one, located in zip(longer, source.located, strict=True):
        assert tracker.locate(one.header) == located.position
        boundary = tracker.feed(one)
    assert (boundary.offset, boundary.end_offset) == (197, source.offset)


def test_gtid_start_in_the_file_that_the_position_names():
    """COM_BINLOG_DUMP_GTID begins the file anew; what is done already is not undone."""
    known = GtidSet.parse(f"{Gtid(SID, 1)}-5")
    tracker = PositionTracker(Position(F1, 1472, known))
    feed(
        tracker, e.rotate(F1, 4, artificial=True), e.format_description(1, 126), e.previous_gtids()
    )
    assert tracker.offset == 197
    assert tracker.position == Position(F1, 1472, known)
    feed(tracker, e.heartbeat(F1, 1472))
    assert tracker.position == Position(F1, 1472, known)
    end = 1472 + 79 + 60
    ddl = e.query("DROP TABLE t")
    feed(tracker, e.gtid(6), e.replace(ddl, header=e.replace(ddl.header, next_position=end)))
    assert position(tracker) == (F1, end)


def test_start_inside_a_transaction_stays_until_its_end():
    start = Position(F1, 197, GtidSet(), 3, 20)
    tracker = PositionTracker(start)
    for one in (e.gtid(1), e.query("BEGIN"), e.table_map(), e.rows(True)):
        assert tracker.position == start
        tracker.feed(one)
    assert tracker.position == start
    assert tracker.inside(25) == Position(F1, 197, GtidSet(), 3, 25)
    tracker.feed(e.xid())
    assert tracker.position.offset == tracker.offset
    assert not tracker.position.inside_transaction


def test_heartbeats():
    tracker = PositionTracker(Position(F1, 500))
    feed(tracker, e.heartbeat(F1, 900))
    assert position(tracker) == (F1, 900)
    feed(tracker, e.heartbeat(F1, 800))
    assert position(tracker) == (F1, 900)
    feed(tracker, e.heartbeat_v2(F1, 6 << 32))
    assert position(tracker) == (F1, 6 << 32)
    feed(tracker, e.gtid(1), e.heartbeat(F1, 50_000))
    assert position(tracker) == (F1, 6 << 32)
    with pytest.raises(BinlogDecodeError):
        PositionTracker(Position(F1, 500)).feed(e.heartbeat_v2(F1, 1 << 63))


def test_load_data_ends_with_its_statement():
    @e.dataclass
    class Load:
        file_id: int
        query: bytes = b""

    tracker = PositionTracker(Position(F1, 500))
    assert not feed(
        tracker, e.event(T.CREATE_FILE_EVENT, Load(1)), e.query("INSERT INTO x VALUES (1)")
    )
    assert position(tracker) == (F1, 500)
    (boundary,) = feed(
        tracker, e.event(T.APPEND_BLOCK_EVENT, Load(1)), e.event(T.EXEC_LOAD_EVENT, Load(1))
    )
    assert boundary.offset == 500
    (boundary,) = feed(
        tracker,
        e.event(T.BEGIN_LOAD_QUERY_EVENT, Load(2)),
        e.event(T.EXECUTE_LOAD_QUERY_EVENT, Load(2)),
    )
    assert boundary.event_count == 2


def test_file_mode_takes_every_position_from_the_event():
    source = e.Source("relay", 3, 4)
    source.write(
        e.format_description(1),
        e.rotate("binlog.000077", artificial=True),  # a relay log holds it
        e.format_description(0),
        e.gtid(1), e.query("BEGIN"), e.xid(),
    )  # fmt: skip
    tracker = PositionTracker(Position("", 0, GtidSet()), mode="file")
    ended = feed(tracker, *source.located)
    assert [one.end_offset for one in ended] == [source.offset]
    assert position(tracker) == ("relay.000003", source.offset)
    source.rotate().write(e.format_description(0))
    feed(tracker, *source.located[-2:])
    assert position(tracker) == ("relay.000004", 126)


def test_locate_tells_the_position_before_decoding():
    source = e.Source().write(e.format_description(1), e.previous_gtids(), e.gtid(1), e.query("X"))
    source.rotate().write(e.format_description(0), e.gtid(2), e.query("Y"))
    tracker = PositionTracker()
    seen = []
    for one in source.stream():
        if not one.header.is_artificial:
            seen.append((tracker.file, tracker.locate(one.header)))
        tracker.feed(one)
    assert seen == [(one.file, one.position) for one in source.located]


def test_hostile_numbers_are_refused():
    with pytest.raises(BinlogDecodeError):
        PositionTracker(Position(F1, 4)).feed(e.rotate(F2, 2**64 - 1))
    for gno in (0, -5, 2**63 - 1):
        with pytest.raises(BinlogDecodeError, match="not a GTID"):
            PositionTracker(Position(F1, 4)).feed(e.gtid(gno))


@pytest.mark.slow
def test_million_intervals_cost_nothing_per_event():
    numbers = Intervals((n, n) for n in range(2, 2_000_002, 2))
    tracker = PositionTracker(Position(F1, 4, GtidSet.of_intervals({(SID, ""): numbers})))
    started_at = time.perf_counter()
    for gno in range(3_000_000, 3_005_000):
        tracker.feed(e.gtid(gno))
        tracker.feed(e.query("BEGIN"))
        tracker.feed(e.rows(True))
        tracker.feed(e.xid())
        _ = tracker.position
    assert time.perf_counter() - started_at < 5  # 5,000 copies of the set take minutes
    assert tracker.position.gtid_set.count == 1_005_000


def test_a_transaction_that_is_abandoned():
    tracker = started()
    assert tracker.abandon() is None
    start = position(tracker)
    feed(tracker, e.gtid(5), e.query("BEGIN"))
    assert position(tracker) == start
    found = tracker.abandon()
    assert found is not None
    assert (found.outcome, found.event_count) == ("abandoned", 2)
    assert (found.file, found.offset) == start
    assert found.gtid == Gtid(SID, 5)
    assert tracker.abandon() is None
    assert not tracker.position.gtid_set


def test_events_outside_of_transactions_count_inside_of_one():
    tracker = started()
    (found,) = feed(tracker, e.gtid(5), e.query("BEGIN"), e.previous_gtids(""), e.xid())
    assert found.event_count == 4


def test_the_gtids_before_the_transaction_that_ended_last():
    tracker = started(f"{KNOWN}:1-4")
    (ended,) = feed(tracker, e.gtid(5), e.query("BEGIN"), e.xid())
    assert tracker.gtids_before(ended) == GtidSet.parse(f"{KNOWN}:1-4")
    assert tracker.position.gtid_set == GtidSet.parse(f"{KNOWN}:1-5")


def test_gtids_that_were_learned_join_the_position():
    tracker = started(f"{KNOWN}:1-4")
    tracker.learn_gtids(None)
    assert tracker.position.gtid_set == GtidSet.parse(f"{KNOWN}:1-4")
    tracker.learn_gtids(GtidSet.parse(f"{KNOWN}:1-9"))
    assert tracker.position.gtid_set == GtidSet.parse(f"{KNOWN}:1-9")
    feed(tracker, e.gtid(12), e.query("BEGIN"), e.xid())
    assert tracker.position.gtid_set == GtidSet.parse(f"{KNOWN}:1-9:12")


def test_offsets_end_at_a_limit():
    """A position that is out of range is refused wherever it comes from; the largest one is taken."""
    limit = tracker_module._OFFSET_LIMIT
    tracker = PositionTracker(Position(F1, 500))
    feed(tracker, e.heartbeat_v2(F1, limit - 1))
    assert tracker.offset == limit - 1
    for event in (e.heartbeat_v2(F1, limit), e.heartbeat_v2(F1, limit + 1)):
        with pytest.raises(BinlogDecodeError, match="out of range"):
            PositionTracker(Position(F1, 500)).feed(event)


def test_the_first_event_of_a_file_may_lack_its_end() -> None:
    """A FORMAT_DESCRIPTION without next_position is sent again inside a file, but at its beginning it is there."""
    at_begin, inside = PositionTracker(Position(F1, 4)), PositionTracker(Position(F1, 126))
    for tracker in (at_begin, inside):
        feed(tracker, e.format_description(0, next_position=0))
    assert position(at_begin) == (F1, 126)
    assert position(inside) == (F1, 126)
