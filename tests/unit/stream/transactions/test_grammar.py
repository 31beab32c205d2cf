"""Every type of event, at every place of a transaction: the fast path takes what the grammar says, or leaves it."""

from __future__ import annotations

import zlib

import pytest

from replica_client.errors import ReplicaClientError
from replica_client.protocol.binlog.event import DecodeOptions
from replica_client.protocol.binlog.events.gtid_tagged import GtidTaggedEvent
from replica_client.protocol.binlog.layout import CLASSES, EventClass
from replica_client.protocol.codec.event_queue import EventQueue
from replica_client.protocol.constants.event_types import EventType
from replica_client.stream.fast.statement_scan import StatementScan
from replica_client.stream.fast.transaction_scan import END, MORE, TransactionScan
from replica_client.stream.position.groups import STEPS, Ending, State, step
from replica_client.stream.position.tracker import PositionTracker
from replica_client.stream.transactions.event_feed import EventFeed
from tests.unit.stream.transactions import test_fast_path as columns, test_row_fast_path as rows
from tests.unit.stream.transactions.relocation import relocated
from tests.unit.stream.transactions.test_fast_path import (
    DEMO,
    GOLDEN,
    events_of,
    file_and_transaction,
    sealed,
)

# Some seconds in all: scripts/test quick leaves them out.
pytestmark = [pytest.mark.slow, pytest.mark.both_forms]


def _of_servers() -> dict[int, bytes]:
    """An event of each type that the golden files have, of the newest server that has it."""
    found: dict[int, bytes] = {}
    for path in GOLDEN:
        data = path.read_bytes()
        # With checksums, and not encrypted.
        if path.parent.name.endswith(("9.7.4", "11.8.6", "5.6.24")) and path.stem != "no_checksum":
            for event in events_of(data[4:]):
                if len(event) > 23 and zlib.crc32(event[:-4]) == int.from_bytes(
                    event[-4:], "little"
                ):
                    found.setdefault(event[4], event)
    return found


KNOWN = _of_servers()
# FORMAT_DESCRIPTION and the like change how everything behind them is read.
TYPES = [code for code in EventType if CLASSES[code] != EventClass.OUTSIDE]


def event_of(code: int) -> bytes:
    return KNOWN.get(code, sealed(bytes(4) + bytes((code,)) + bytes(14) + bytes(26) + bytes(4)))


def test_most_types_are_of_servers() -> None:
    assert len(set(TYPES) & set(KNOWN)) > 14


@pytest.mark.parametrize("code", TYPES, ids=lambda code: code.name)
def test_any_event_in_a_transaction(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data, events = file_and_transaction()
    other = event_of(code)
    for at in range(len(events) + 1):
        for end in (at, at + 1):  # between two events, or instead of one
            changed = [*events[:at], other, *events[end:]]
            source = relocated(data + b"".join((*changed, *events)))
            columns.assert_same(monkeypatch, source=source)
            rows.assert_same(monkeypatch, source=source)
            columns.assert_same(monkeypatch, source=source, tables="no.such")


def commit_query(events: list[bytes]) -> bytes:
    """The BEGIN of a transaction, as COMMIT."""
    begin = events[1]
    assert begin[:-4].endswith(b"BEGIN")
    return sealed(begin[:-9] + b"COMMIT" + begin[-4:])


@pytest.mark.parametrize("tables", ["*.*", "no.such"])
def test_transactions_that_a_statement_commits(
    tables: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of MyISAM, Aria and BLACKHOLE."""
    data, events = file_and_transaction()
    one = [*events[:-1], commit_query(events)]
    source = relocated(data + b"".join(one * 7))
    for module in (columns, rows):
        module.Counting.taken = 0
        module.assert_same(monkeypatch, source=source, tables=tables)
        assert module.Counting.taken >= 35


def tagged(event: bytes, tag: str, number: int, **fields: object) -> bytes:
    """A GTID event as one with a tag."""
    body = GtidTaggedEvent(0, event[20:36], number, tag, 7, 8, **fields).encode()
    return sealed(
        event[:4] + bytes((EventType.GTID_TAGGED_LOG_EVENT,)) + event[5:19] + body + bytes(4)
    )


@pytest.mark.parametrize("tables", ["*.*", "no.such"])
def test_tagged_gtids(tables: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data, events = file_and_transaction()
    first = events[0]
    heads = [tagged(first, "a", number, immediate_commit_timestamp=1 << 50) for number in (1, 2, 9)]
    heads += [tagged(first, "b_2", 1), first, tagged(first, "b_2", 3), tagged(first, "a", 10)]
    heads += [tagged(first, "x" * 32, (1 << 62) - 1, original_server_version=80400)]
    source = relocated(data + b"".join(b"".join((head, *events[1:])) for head in heads))
    for module in (columns, rows):
        module.Counting.taken = 0
        module.assert_same(monkeypatch, source=source, tables=tables)
        assert module.Counting.taken >= 5 * len(heads)
    # What no server writes.
    odd = [tagged(first, tag, 1) for tag in ("", "2a", "A", "a-b", "x" * 33)]
    odd += [tagged(first, "a", number) for number in (0, -1, (1 << 63) - 2)]
    good = tagged(first, "abc", 5, immediate_commit_timestamp=9, commit_group_ticket=1)
    odd += [
        sealed(good[:at] + bytes((value,)) + good[at + 1 :])
        for at in range(19, len(good) - 4)
        for value in ((255, good[at] ^ 4) if at < 26 else (good[at] ^ 1,))
    ]
    odd += [sealed(good[:at] + bytes(4)) for at in range(19, len(good) - 4, 4)] + [
        sealed(good + b"\0")
    ]
    for head in odd:
        source = relocated(data + b"".join((head, *events[1:])))
        columns.assert_same(monkeypatch, source=source, tables=tables)
        if tables == "*.*":
            rows.assert_same(monkeypatch, source=source)


def boundaries(data: bytes) -> list[tuple[int, int]]:
    """Where transactions begin and end, by the tracker."""
    feed = EventFeed(DecodeOptions(), mode="file")
    feed.tracker = PositionTracker(mode="file", payload_ends=True)
    at, found = 4, []
    for event in events_of(data[4:]):
        for located in feed.feed(event, at, "f"):
            if located.boundary is not None:
                found.append((located.boundary.offset, located.boundary.end_offset))
        at += len(event)
    return found


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_scans_stop_where_the_tracker_does(path: object) -> None:
    data = path.read_bytes()
    try:
        expected = boundaries(data)
    except ReplicaClientError:
        pytest.skip("encrypted, or damaged on purpose")
    form = EventFeed(DecodeOptions(), mode="file")
    [_] = form.feed(next(iter(events_of(data[4:]))), 4, "f")
    if form.decoder.format.header_size != 19 or len(form.decoder.format.post_header_sizes) < 19:
        pytest.skip("of another layout")
    tail = 4 if form.decoder.format.checksum_algorithm == 1 else 0
    ends = dict(expected)
    taken = 0
    position = 4
    while position < len(data):
        scan = TransactionScan(position, tail)
        for begin, end, _ in scan.run(data[position:], position, len(data)):
            assert ends[begin] == end
            taken += 1
        if scan.reason == END:
            break
        position = scan.position + int.from_bytes(
            data[scan.position + 9 : scan.position + 13], "little"
        )
    passed = StatementScan()
    queue = EventQueue()
    queue.put(data[4:])
    queue.split(1 << 30, b"")
    at = 4
    while queue:
        count = passed.pass_over(queue, at, tail)
        for index in range(count):
            assert CLASSES[queue.event(index)[4]] not in (EventClass.STATEMENT, EventClass.PAYLOAD)
        at += passed.size
        queue.drop(count)
        if queue:
            at += len(queue.event(0))
            queue.drop(1)
    if path.stem == "rows" and not path.parent.name.startswith(("mysql-5.5", "mariadb-5")):
        assert taken


def test_ordinary_states_are_those_between_a_gtid_and_a_commit() -> None:
    state = step(STEPS, State.BETWEEN, EventClass.GTID)
    for event_class in (EventClass.BEGIN, EventClass.TABLE_MAP, EventClass.ROWS):
        state = step(STEPS, state, event_class)
    assert state == step(STEPS, State.BETWEEN, EventClass.GTID_BEGIN) == State.OPEN
    assert step(STEPS, state, EventClass.COMMIT) == Ending.ENDS


@pytest.mark.parametrize("piece", [1 << 20, 700, 19])
def test_scans_give_transactions_together_up_to_a_size(piece: int) -> None:
    """A block ends with the transaction that makes it large enough; bytes may come in any pieces."""
    data = (DEMO / "shop-bin.000002").read_bytes()
    expected = boundaries(data)
    sizes = [end - begin for begin, end in expected]
    for size in (0, sizes[0], sizes[0] + 1, sum(sizes[:3]), sum(sizes)):
        scan = TransactionScan(expected[0][0], 4, size)
        found: list[tuple[int, int, int]] = []
        ready = scan.position
        while True:
            found += scan.run(data[scan.position : ready], scan.position, len(data))
            if scan.reason != MORE:
                break
            ready = max(ready, scan.position) + piece
        blocks, block = [], []
        for one in expected:
            block.append(one)
            if one[1] - block[0][0] >= size:
                blocks.append(block)
                block = []
        blocks += [block] if block else []
        if piece >= len(data):  # what is not whole yet is given when the bytes end, too
            assert [(begin, end) for begin, end, _ in found] == [
                (one[0][0], one[-1][1]) for one in blocks
            ]
        assert [begin for begin, _, _ in found] + [expected[-1][1]] == [expected[0][0]] + [
            end for _, end, _ in found
        ]
        for begin, _, seconds in found:
            assert seconds == int.from_bytes(data[begin : begin + 4], "little")
