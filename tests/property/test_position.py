"""The tracker over generated binlogs, cut and resumed anywhere: nothing lost, nothing twice.

The model knows which events form a transaction because it made them; the tracker must find out.
"""

from dataclasses import dataclass

from hypothesis import example, given, settings, strategies as st

from replica_client.protocol.constants.event_types import EventType as T
from replica_client.protocol.gtid import Gtid, GtidSet, MariadbGtid, MariadbGtidSet
from replica_client.stream.position import Position, PositionTracker
from tests.unit.stream.position import events as e

names = st.text(st.characters(exclude_categories=()), max_size=12)
gtid_sets = st.one_of(
    st.none(),
    st.just(GtidSet()),
    st.just(MariadbGtidSet()),
    st.lists(st.builds(Gtid, st.just(e.SID), st.integers(1, 99), st.sampled_from(["", "t"]))).map(
        GtidSet
    ),
    st.lists(
        st.builds(MariadbGtid, st.integers(0, 9), st.integers(0, 9), st.integers(0, 2**64 - 1))
    ).map(MariadbGtidSet),
)
indexes = st.integers(0, 3) | st.integers(0, 10**10 - 1)
positions = st.builds(
    Position,
    names | st.sampled_from(["binlog.000001", "binlog.999999", "binlog.1000000"]),
    st.integers(0, 2**64 - 1),
    gtid_sets,
    indexes,
    indexes,
)


@given(positions)
@example(Position("\x85", 0))
def test_position_text_and_json_read_back(position):
    assert Position.from_json(position.to_json()) == position
    assert Position.parse(str(position)) == position


@given(positions, positions, positions)
def test_order_is_total_and_that_of_the_sort_key(a, b, c):
    for left, right in ((a, b), (b, c), (a, c)):
        assert (left < right) + (right < left) + (left <= right and right <= left) == 1
        if left < right:
            assert left.sort_key() <= right.sort_key()
    if a < b < c:
        assert a < c


@dataclass
class Transaction:
    events: list
    gtid: Gtid | MariadbGtid | None


def bodies(rows, statements):
    change = [e.table_map(), *(e.rows(end=at == rows - 1) for at in range(rows))]
    return st.sampled_from(
        [
            [e.query("BEGIN"), *change * statements, e.xid()],
            [e.query("BEGIN"), *change, e.query("COMMIT")],
            [e.query("BEGIN"), *change, e.query("ROLLBACK TO `s`"), *change, e.xid()],
            [e.query("BEGIN"), *change, e.query("ROLLBACK")],
            [e.query("CREATE TABLE t (a INT)")],
            [e.query("XA START X'01',X'',1"), *change, e.query("XA END X'01'"), e.xa_prepare()],
            [e.query("XA COMMIT X'01',X'',1")],
            e.payload(e.query("BEGIN"), *change * statements, e.xid()),
        ]
    )


def mariadb_bodies(rows):
    change = [e.table_map(), *(e.rows(end=at == rows - 1) for at in range(rows))]
    return st.sampled_from(
        [
            (0, [*change, e.xid()]),
            (0, [*change, *change, e.query("COMMIT")]),
            (0, [e.query("INSERT INTO t VALUES (1)"), e.query("ROLLBACK")]),
            (1, [e.query("CREATE TABLE t (a INT)")]),
            (1, [e.intvar(), e.query("INSERT INTO t VALUES (NULL)")]),
        ]
    )


@st.composite
def sources(draw):
    """A source's files and its transactions, in order."""
    flavor = draw(st.sampled_from(["gtid", "anonymous", "before 5.6", "mariadb"]))
    source = e.Source(offset=4)
    transactions: list[Transaction] = []

    def open_file():
        source.write(e.format_description(int(source.number == 1)))
        if flavor == "mariadb":
            known = MariadbGtidSet(t.gtid for t in transactions if t.gtid)
            source.write(e.gtid_list(*((g.domain_id, g.server_id, g.sequence) for g in known)))
        elif flavor != "before 5.6":
            known = GtidSet(t.gtid for t in transactions if t.gtid)
            source.write(e.previous_gtids(str(known)))

    open_file()
    for number in range(1, draw(st.integers(1, 7)) + 1):
        if draw(st.integers(0, 3)) == 0:
            source.rotate()
            open_file()
        rows = draw(st.integers(1, 3))
        at = len(source.located)
        value: Gtid | MariadbGtid | None = None
        zero = False
        if flavor == "mariadb":
            value = MariadbGtid(draw(st.integers(0, 1)), draw(st.integers(1, 2)), number)
            flags, body = draw(mariadb_bodies(rows))
            zero = draw(st.booleans())
            first = [e.mariadb_gtid(value.domain_id, value.server_id, value.sequence, flags)]
        else:
            body = draw(bodies(rows, draw(st.integers(1, 2))))
            if flavor == "gtid":
                value = Gtid(e.SID, number, draw(st.sampled_from(["", "", "t"])))
                first = [e.gtid(number, value.tag)]
            else:
                first = [e.anonymous()] if flavor == "anonymous" else []
        source.write(*first, *body, positions=not zero)
        transactions.append(Transaction(source.located[at:], value))
    return source, transactions


def done_by(position, transactions):
    """How many transactions lie before a position, which must be at the start of one or between."""
    count = 0
    for transaction in transactions:
        first = transaction.events[0]
        if Position(first.file, first.position) < position:
            count += 1
    return count


@settings(max_examples=300, deadline=None)
@given(sources(), st.data())
def test_position_never_passes_unfinished_work_and_loses_none(made, data):
    source, transactions = made
    sent = source.stream()
    tracker = PositionTracker()
    ends = {id(t.events[-1].body): at for at, t in enumerate(transactions)}
    finished = 0
    for one in sent:
        artificial = one.header.is_artificial
        boundary = tracker.feed(one)
        if boundary is not None:
            transaction = transactions[finished]
            finished += 1
            first = transaction.events[0]
            assert (boundary.file, boundary.offset) == (first.file, first.position)
            assert boundary.gtid == transaction.gtid
            assert boundary.event_count == len(transaction.events)
            assert boundary.outcome != "abandoned"
            assert id(one.body) in ends
        assert done_by(tracker.position, transactions) == finished
        known = [t.gtid for t in transactions[:finished] if t.gtid]
        if tracker.gtid_set is not None:
            kind = MariadbGtidSet if isinstance(tracker.gtid_set, MariadbGtidSet) else GtidSet
            assert tracker.gtid_set == kind(known)
        elif not artificial:
            assert not known
    assert finished == len(transactions)


@settings(max_examples=300, deadline=None)
@given(sources(), st.data())
def test_cut_anywhere_and_resumed_delivers_each_transaction_once(made, data):
    source, transactions = made
    delivered = []
    position: Position | None = None
    for _ in range(data.draw(st.integers(1, 4))):
        if position is None or not position.file:
            sent, tracker = source.stream(), PositionTracker(position)
        else:
            sent = source.stream(position.file, position.offset)
            tracker = PositionTracker(position)
        for one in sent[: data.draw(st.integers(0, len(sent)))]:
            boundary = tracker.feed(one)
            if boundary is not None:
                delivered.append((boundary.file, boundary.offset))
        position = Position.from_json(tracker.position.to_json())
    tracker = PositionTracker(position)
    for one in source.stream(position.file or None, position.offset or 4):
        boundary = tracker.feed(one)
        if boundary is not None:
            delivered.append((boundary.file, boundary.offset))
    assert delivered == [(t.events[0].file, t.events[0].position) for t in transactions]


STARTS = (None, Position("", 0, GtidSet([Gtid(e.SID, 7)])), Position("binlog.000001", 900))


@settings(max_examples=100, deadline=None)
@given(sources(), st.sampled_from(STARTS), st.data())
def test_a_fork_goes_on_as_its_tracker_does(made, start, data):
    source, _ = made
    sent = source.stream()
    cut = data.draw(st.integers(0, len(sent)))
    tracker = PositionTracker(start)
    for one in sent[:cut]:
        tracker.feed(one)
    if tracker.in_transaction:
        return
    fork = tracker.fork()
    assert fork.position == tracker.position
    for one in sent[cut:]:
        assert fork.feed(one) == tracker.feed(one)
        assert fork.position == tracker.position


@settings(max_examples=200, deadline=None)
@given(sources())
def test_file_and_stream_agree(made):
    source, _ = made
    stream, file = PositionTracker(), PositionTracker(Position("", 4), mode="file")
    in_stream = [b for one in source.stream() if (b := stream.feed(one)) is not None]
    in_file = [b for one in source.located if (b := file.feed(one)) is not None]
    assert in_stream == in_file
    assert stream.gtid_set == file.gtid_set


@settings(max_examples=200, deadline=None)
@given(sources(), st.data())
def test_skipping_by_index_after_a_cut_inside_a_transaction(made, data):
    """The rows before `inside()` and those after it are all rows, each once."""
    source, _ = made
    sent = source.stream()
    cut = data.draw(st.integers(0, len(sent)))
    tracker = PositionTracker()
    for one in sent[:cut]:
        tracker.feed(one)
    point = tracker.inside()
    if not tracker.in_transaction or not point.file:
        return
    again = PositionTracker(point)
    rest, ended = [], False
    for one in source.stream(point.file, point.offset):
        ended = again.feed(one) is not None or ended
        artificial = (
            one.header.next_position == 0 and one.header.type_code == T.FORMAT_DESCRIPTION_EVENT
        )
        if one.header.is_artificial or artificial:
            continue
        if ended or again.event_index > point.event_index:
            rest.append(one.body)
    left = [one.body for one in sent[cut:] if not one.header.is_artificial]
    assert list(map(id, rest)) == list(map(id, left))
