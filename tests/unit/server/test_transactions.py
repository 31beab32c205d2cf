"""Which transactions stand where: compared with reading every event."""

import random

import pytest

from replica_client.protocol.binlog.event_search import find_events, type_table
from replica_client.protocol.gtid import Gtid, GtidSet, MariadbGtid, MariadbGtidSet
from replica_client.server import transactions
from replica_client.server.served_files import ServedFile
from replica_client.server.transactions import GTID_TYPES, GtidUntil, Transactions
from tests.source.binlogs import SERVER_ID, SOURCE_UUID, BinlogMaker

COUNT = 60


def made(mariadb: bool) -> ServedFile:
    maker = BinlogMaker(mariadb=mariadb, first=3)
    for _ in range(COUNT):
        maker.transaction()
    return ServedFile("binlog.000001", data=maker.data)


def every_event(file: ServedFile) -> list[tuple[int, Gtid | MariadbGtid]]:
    """Position and GTID of each transaction, one event after the other."""
    found = []
    for position, header in file.headers():
        gtid = file.begins_transaction(position, header)
        if gtid is not None:
            found.append((position, gtid))
    return found


def set_of(mariadb: bool, last: int) -> GtidSet | MariadbGtidSet:
    if mariadb:
        return MariadbGtidSet.parse(f"0-{SERVER_ID}-{last}" if last else "")
    return GtidSet.parse(f"{SOURCE_UUID}:1-{last}" if last else "")


@pytest.fixture(params=[False, True], ids=["mysql", "mariadb"])
def mariadb(request, monkeypatch) -> bool:
    monkeypatch.setattr(transactions, "_PIECE_SIZE", 700)
    monkeypatch.setattr(transactions, "_STEP", 1500)
    return bool(request.param)


async def test_what_was_executed_at_a_position(mariadb) -> None:
    file = made(mariadb)
    there = every_event(file)
    assert len(there) == COUNT
    order = list(enumerate(there))
    random.Random(1).shuffle(order)
    for number, (position, _) in order:
        assert await file.transactions.executed_at(position) == set_of(mariadb, number + 2)
    assert file.executed() == set_of(mariadb, COUNT + 2)
    assert file.transactions.position == file.size


async def test_where_a_client_begins(mariadb) -> None:
    file = made(mariadb)
    there = dict(every_event(file))
    later = 0
    for last in range(COUNT + 3):
        have = set_of(mariadb, last)
        position, before = await file.transactions.first_for(have)
        if before is None:
            assert position == 4
            continue
        later += 1
        assert before <= have
        assert before == await Transactions(file).executed_at(position)
        # No more than a step is read again.
        wanted = [at for at, gtid in there.items() if gtid not in have]
        assert position <= min(wanted, default=file.size) < position + 1500 + 2 * 700
    assert later > COUNT / 2


async def test_a_file_that_grows_is_counted_on(mariadb) -> None:
    file = made(mariadb)
    have = set_of(mariadb, COUNT + 2)
    assert not file.transactions.all_counted_are_before(file.size, have)
    await file.transactions.count()
    assert file.transactions.all_counted_are_before(file.size, have)
    assert not file.transactions.all_counted_are_before(file.size - 1, have)
    assert not file.transactions.all_counted_are_before(file.size, set_of(mariadb, COUNT + 3))
    maker = BinlogMaker(mariadb=mariadb, first=COUNT + 3)
    begun = len(maker.data)
    maker.transaction()
    file.append(maker.data[begun:])
    assert file.executed() == set_of(mariadb, COUNT + 3)


def test_events_of_some_types_are_found() -> None:
    file = made(False)
    data = file.read(4, file.size)
    offsets, end = find_events(data, type_table(GTID_TYPES))
    assert [offset + 4 for offset in offsets] == [position for position, _ in every_event(file)]
    assert end == len(data)
    for cut in (0, 1, 18, 19, len(data) - 1):
        found, end = find_events(data[:cut], type_table(GTID_TYPES))
        assert end <= cut
        assert found == [offset for offset in offsets if offset < end]
    assert find_events(b"\0" * 100, type_table(GTID_TYPES)) == ([], 0)
    assert find_events(b"\xff" * 100, type_table(GTID_TYPES)) == ([], 0)
    with pytest.raises(ValueError, match="256"):
        find_events(data, b"")


@pytest.mark.parametrize(
    ("until", "have", "before", "reached", "passed"),
    [
        # Until, have, SQL_BEFORE_GTIDS; whether it ends at once, and which next GTIDs are passed over.
        ("0-1-5", "0-1-5", False, True, "0-1-6"),
        ("0-1-5", "0-1-4", False, False, ""),
        ("0-1-5", "", False, False, ""),
        ("0-1-5,1-1-3", "0-1-5,1-1-3", False, True, "0-1-6,1-1-4"),
        # A domain at its end is not waited for.
        ("0-1-5,1-1-3", "0-1-5", False, False, "0-1-6"),
        ("0-1-5", "0-1-5,7-1-9", False, True, "7-1-10"),
        ("0-1-5", "0-1-4", True, True, "0-1-5"),
        ("0-1-5", "0-1-3", True, False, ""),
        ("0-1-5,1-1-3", "0-1-4,1-1-1", True, False, "0-1-5"),
    ],
)
def test_domains_that_are_at_their_end_need_nothing(until, have, before, reached, passed):
    ends, known = MariadbGtidSet.parse(until), MariadbGtidSet.parse(have)
    until_them = GtidUntil(ends, known, before=before)
    assert until_them.reached == reached
    for gtid in MariadbGtidSet.parse(passed).positions():
        assert until_them.passes_over(gtid)
    # The next of the others is sent.
    for gtid in ends.positions():
        sequence = known.reached(gtid.domain_id) + 1
        if sequence < gtid.sequence - int(before):
            assert not until_them.passes_over(MariadbGtid(gtid.domain_id, 1, sequence))
