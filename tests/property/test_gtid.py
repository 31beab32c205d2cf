"""Laws of GTID sets, against Python's own sets as a model."""

from hypothesis import given, settings, strategies as st

from replica_client.errors import GtidFormatError
from replica_client.protocol.gtid import (
    Gtid,
    GtidSet,
    GtidSetBuilder,
    Intervals,
    MariadbGtid,
    MariadbGtidSet,
)

SIDS = [bytes([n]) * 16 for n in (1, 2, 255)]
tsids = st.tuples(st.sampled_from(SIDS), st.sampled_from(["", "a", "a1", "_"]))
ranges = st.tuples(st.integers(1, 40), st.integers(0, 12)).map(lambda s: (s[0], s[0] + s[1]))
models = st.dictionaries(tsids, st.lists(ranges, max_size=6), max_size=5)
gtids = st.builds(lambda t, n: Gtid(t[0], n, t[1]), tsids, st.integers(1, 60))


def value_of(model) -> GtidSet:
    return GtidSet.of_intervals({tsid: Intervals(pairs) for tsid, pairs in model.items()})


def numbers_of(model) -> set[Gtid]:
    return {
        Gtid(sid, n, tag)
        for (sid, tag), pairs in model.items()
        for first, last in pairs
        for n in range(first, last + 1)
    }


@given(models, models)
def test_algebra_is_that_of_sets(left_model, right_model):
    left, right = value_of(left_model), value_of(right_model)
    a, b = numbers_of(left_model), numbers_of(right_model)
    assert set(left) == a and left.count == len(a)
    assert set(left | right) == a | b
    assert set(left & right) == a & b
    assert set(left - right) == a - b
    assert (left <= right) == (a <= b)
    assert (left < right) == (a < b)
    assert (left >= right) == (a >= b)
    assert (left == right) == (a == b)
    assert left.isdisjoint(right) == a.isdisjoint(b)
    assert left | right == right | left
    assert left & right == right & left
    assert left - (left - right) == left & right
    assert hash(left | right) == hash(right | left)


@given(models, models, models)
def test_union_and_intersection_associate_and_distribute(x, y, z):
    a, b, c = value_of(x), value_of(y), value_of(z)
    assert (a | b) | c == a | (b | c)
    assert (a & b) & c == a & (b & c)
    assert a & (b | c) == (a & b) | (a & c)
    assert a - (b | c) == (a - b) - c


@given(models)
def test_every_form_reads_back(model):
    value = value_of(model)
    assert GtidSet.parse(str(value)) == value
    assert GtidSet.decode(value.encode()) == value
    assert GtidSet.decode(value.encode(tags=True)) == value
    assert GtidSet.from_json(value.to_json()) == value
    assert str(GtidSet.parse(str(value))) == str(value)
    assert GtidSet(value) == value


@given(models, st.lists(gtids, max_size=40), st.integers(0, 40))
def test_builder_equals_adding_one_by_one(model, more, cut):
    value = value_of(model)
    builder = GtidSetBuilder(value)
    for at, gtid in enumerate(more):
        if at == cut:
            kept, kept_model = builder.snapshot(), value
        assert builder.add(gtid) == (gtid not in value)
        value = value.add(gtid)
    assert builder.snapshot() == value
    if cut < len(more):
        assert kept == kept_model


@given(st.binary(max_size=80))
def test_decode_of_any_bytes_gives_a_set_or_its_error(data):
    for tagged in (data, b"\x01\x01\0\0\0\0\0\x01" + data, b"\x01\0\0\0\0\0\0\0" + data):
        try:
            value = GtidSet.decode(tagged)
        except GtidFormatError:
            continue
        assert GtidSet.decode(value.encode()) == value
    try:
        position = MariadbGtidSet.decode(data)
    except GtidFormatError:
        return
    assert MariadbGtidSet.parse(str(position)) == position


@given(st.text(alphabet="0123456789abcdef-: ,{}_\nzg", max_size=90))
def test_parse_of_any_text_gives_a_set_or_its_error(text):
    for kind in (GtidSet, MariadbGtidSet):
        for full in (text, "de278ad0-2106-11e4-9f8e-6edd0ca20947:" + text):
            try:
                value = kind.parse(full)
            except GtidFormatError:
                continue
            assert kind.parse(str(value)) == value


mariadb_gtids = st.builds(
    MariadbGtid, st.integers(0, 3), st.integers(1, 3), st.integers(0, 2**64 - 1) | st.integers(0, 9)
)


@settings(max_examples=200)
@given(st.lists(mariadb_gtids, max_size=20), st.lists(mariadb_gtids, max_size=20))
def test_mariadb_positions(left, right):
    a, b = MariadbGtidSet(left), MariadbGtidSet(right)
    step = MariadbGtidSet()
    for gtid in left:
        step = step.add(gtid)
        assert step.last_of(gtid.domain_id) == gtid
        assert gtid in step
    assert step == a
    assert MariadbGtidSet.parse(str(a)) == a
    assert MariadbGtidSet.decode(a.encode()) == a
    union = a | b
    assert a <= union and b <= union
    assert all(gtid in union for gtid in (*a, *b))
    assert a | a == MariadbGtidSet(a | a)
    assert len(a.positions()) == len({gtid.domain_id for gtid in left})
