"""Whether a source is the one that was read before."""

from __future__ import annotations

import pytest

from replica_client.errors import (
    BinlogPurgedError,
    PositionStoreError,
    SourceBehindError,
    SourceResetError,
)
from replica_client.protocol.gtid import GtidSet, MariadbGtidSet
from replica_client.protocol.position import Position
from replica_client.stream.live.source_identity import (
    FileMark,
    SourceIdentity,
    check_executed,
    check_file,
    foreign_gtids,
)

A = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
B = "3e11fa47-71ca-11e1-9e33-c80aa9429563"
LOGS = [("binlog.000004", 500), ("binlog.000005", 900)]


def test_missing_intervals_are_named() -> None:
    with pytest.raises(SourceBehindError) as caught:
        check_executed(GtidSet.parse(f"{A}:1-9"), GtidSet.parse(f"{A}:1-4:7"), "h:1")
    assert caught.value.missing == f"{A}:5-6:8-9"
    check_executed(GtidSet.parse(f"{A}:1-4"), GtidSet.parse(f"{A}:1-9"), "h:1")


def test_missing_numbers_of_mariadb_are_named() -> None:
    have, there = MariadbGtidSet.parse("0-1-150,1-1-7"), MariadbGtidSet.parse("0-1-100,1-2-9")
    with pytest.raises(SourceBehindError) as caught:
        check_executed(have, there, "h:1")
    assert caught.value.missing == "domain 0: 101-150"


def test_file_positions() -> None:
    check_file(Position("binlog.000005", 900), LOGS, "h:1", False)
    check_file(Position("binlog.000006", 4), LOGS, "h:1", False)  # named by a ROTATE
    check_file(Position("binlog.000003", 80), LOGS, "h:1", True)
    check_file(Position("other.000009", 80), LOGS, "h:1", False)
    for file, offset in (("binlog.000005", 901), ("binlog.000006", 5), ("binlog.000007", 4)):
        with pytest.raises(SourceResetError):
            check_file(Position(file, offset), LOGS, "h:1", True)
    with pytest.raises(BinlogPurgedError, match="binlog.000003"):
        check_file(Position("binlog.000003", 80), LOGS, "h:1", False)


def test_file_begun_anew_is_seen() -> None:
    identity = SourceIdentity(A, 1)
    identity.see_file("binlog.000001", FileMark(10, 1), "h:1")
    identity.see_file("binlog.000001", FileMark(10, 1), "h:1")
    with pytest.raises(SourceResetError, match=r"binlog\.000001"):
        identity.see_file("binlog.000001", FileMark(11, 1), "h:1")


def test_foreign_gtids_of_a_start() -> None:
    executed = GtidSet.parse(f"{A}:1-9")
    start = GtidSet.parse(f"{A}:1-12,{B}:1-3")
    assert foreign_gtids(start, executed, A) == GtidSet.parse(f"{B}:1-3")
    assert not foreign_gtids(GtidSet.parse(f"{B}:1-3"), executed, A)


def test_state_round_trip() -> None:
    identity = SourceIdentity(A, 7, {"binlog.000001": FileMark(10, 1)}, GtidSet.parse(f"{B}:1"))
    assert SourceIdentity.from_state(identity.to_state()) == identity
    for damaged in (None, {}, {"server_uuid": A, "server_id": "x", "files": {}, "foreign": ""}):
        with pytest.raises(PositionStoreError):
            SourceIdentity.from_state(damaged)
