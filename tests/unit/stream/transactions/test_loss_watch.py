"""Gaps in GTIDs: what a file says of those before it, against what came."""

from __future__ import annotations

import pytest

from replica_client.errors import DataLossError
from replica_client.protocol.binlog.event import BinlogEvent, EventHeader
from replica_client.protocol.binlog.events.gtids import (
    FLAG_IGN_GTIDS,
    MariadbGtidListEvent,
    PreviousGtidsEvent,
)
from replica_client.protocol.constants.event_types import EventType
from replica_client.protocol.gtid import GtidSet, MariadbGtidSet
from replica_client.protocol.position import Position
from replica_client.stream.transactions.loss_watch import LossWatch

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
OTHER = "4e11fa47-71ca-11e1-9e33-c80aa9429562"


def _event(stated: str, flags: int = 0) -> BinlogEvent:
    body: object
    if "-" in stated and ":" not in stated:
        code = EventType.GTID_LIST_EVENT
        gtids = tuple(tuple(map(int, gtid.split("-"))) for gtid in stated.split(","))
        body = MariadbGtidListEvent(gtids, flags)
    else:
        code = EventType.PREVIOUS_GTIDS_LOG_EVENT
        body = PreviousGtidsEvent(GtidSet.parse(stated).encode())
    return BinlogEvent(EventHeader(1000, int(code), 1, 50, 200, 0), body, "b.000002", 150)


@pytest.mark.parametrize(
    ("known", "stated", "missing", "count"),
    [
        (f"{UUID}:1-5", f"{UUID}:1-5", "", 0),
        (f"{UUID}:1-9", f"{UUID}:1-5", "", 0),
        (f"{UUID}:1-5:9", f"{UUID}:1-5", "", 0),
        (f"{UUID}:1-5", f"{UUID}:1-8", f"{UUID}:6-8", 3),
        (f"{UUID}:1-5", f"{UUID}:1-5,{OTHER}:1-2", f"{OTHER}:1-2", 2),
        ("0-1-100", "0-1-100", "", 0),
        ("0-1-100", "0-1-104", "domain 0: 101-104", 4),
        ("0-1-100", "0-1-100,3-1-2", "domain 3: 1-2", 2),
        # Without strict mode another server may go on with a smaller number.
        ("0-2-50", "0-1-100,0-2-50", "", 0),
    ],
)
def test_gaps(known: str, stated: str, missing: str, count: int) -> None:
    kind = MariadbGtidSet if "-1-" in known or "-2-" in known else GtidSet
    have = kind.parse(known)
    event = _event(stated)
    watch = LossWatch(frozenset(), None)
    if not missing:
        assert watch.check_gtids(event, have) is None
        return
    with pytest.raises(DataLossError, match=f"were not read: {missing};"):
        watch.check_gtids(event, have)
    recording = LossWatch(frozenset({"gtid_gap"}), None)
    learned = recording.check_gtids(event, have)
    [loss] = recording.take()
    assert (loss.kind, loss.gtid, loss.count) == ("gtid_gap", missing, count)
    assert (loss.position, loss.event_index) == (150, 0)
    # What was recorded is known from then on.
    assert recording.check_gtids(event, learned) is None
    assert recording.take() == ()


def test_nothing_is_known_at_a_start_without_gtids() -> None:
    assert LossWatch(frozenset(), None).check_gtids(_event(f"{UUID}:1-8"), None) is None


def test_gtids_that_were_passed_over_for_us_are_no_gap() -> None:
    event = _event("0-1-200", FLAG_IGN_GTIDS)
    assert LossWatch(frozenset(), None).check_gtids(event, MariadbGtidSet.parse("0-1-1")) is None


@pytest.mark.parametrize(("index", "found"), [(2, 0), (3, 0), (4, 1)])
def test_what_lies_before_a_resume_was_recorded_then(index: int, found: int) -> None:
    resume = Position("b.000002", 100, None, 3, 1)
    watch = LossWatch(frozenset({"statement"}), resume)
    watch.lose("statement", DataLossError("x"), _event("0-1-1"), index, "")
    assert len(watch.take()) == found
    watch.end_transaction()
    watch.lose("statement", DataLossError("x"), _event("0-1-1"), 1, "")
    assert len(watch.take()) == 1
