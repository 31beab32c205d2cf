"""Intervals and their builder against plain Python sets."""

import random
import time
from itertools import pairwise

import pytest

from replica_client.protocol.gtid.intervals import CHUNK_BOUNDS, Intervals, IntervalsBuilder


def well_formed(value: Intervals) -> bool:
    pairs = list(value)
    return all(a <= b for a, b in pairs) and all(
        left[1] + 1 < right[0] for left, right in pairwise(pairs)
    )


def test_merges_and_orders():
    assert list(Intervals([(5, 7), (1, 2), (3, 3), (9, 8)])) == [(1, 3), (5, 7)]
    assert str(Intervals([(1, 1), (3, 4)])) == "1:3-4"
    assert not Intervals()
    assert Intervals().last == 0 and Intervals([(2, 9)]).last == 9


@pytest.mark.parametrize("seed", range(6))
def test_builder_equals_a_set_over_many_chunks(seed):
    rng = random.Random(seed)
    most = rng.choice([50, 5000, 12000])
    builder, model, kept = IntervalsBuilder(), set(), []
    for step in range(6000):
        if rng.random() < 0.9:
            number = rng.randrange(1, most)
            assert builder.add(number) == (number not in model)
            model.add(number)
        else:
            first = rng.randrange(1, most)
            last = first + rng.randrange(0, 40 if rng.random() < 0.95 else 3000)
            builder.add_interval(first, last)
            model.update(range(first, last + 1))
        if step % 500 == 0:
            kept.append((builder.snapshot(), frozenset(model)))
    kept.append((builder.snapshot(), frozenset(model)))
    for value, numbers in kept:  # values given away before did not change
        assert well_formed(value)
        assert {n for a, b in value for n in range(a, b + 1)} == numbers
        assert value.count == len(numbers)
        assert all((n in value) == (n in numbers) for n in range(1, most, 7))


def test_builder_of_even_numbers_then_odd_ones_becomes_one_interval():
    builder = IntervalsBuilder()
    for number in range(2, 20002, 2):
        builder.add(number)
    assert builder.snapshot().interval_count == 10000
    numbers = list(range(1, 20001, 2))
    random.Random(1).shuffle(numbers)
    for number in numbers:
        builder.add(number)
    assert list(builder.snapshot()) == [(1, 20000)]


def test_an_interval_over_many_chunks_swallows_them():
    builder = IntervalsBuilder(Intervals((n, n) for n in range(2, 8 * CHUNK_BOUNDS, 2)))
    builder.add_interval(3, 8 * CHUNK_BOUNDS)
    assert list(builder.snapshot()) == [(2, 8 * CHUNK_BOUNDS)]


def test_snapshot_is_the_same_object_until_something_new_comes():
    builder = IntervalsBuilder()
    builder.add(5)
    first = builder.snapshot()
    assert builder.snapshot() is first
    assert not builder.add(5)
    assert builder.snapshot() is first
    builder.add(6)
    assert list(first) == [(5, 5)]
    assert list(builder.snapshot()) == [(5, 6)]


def test_pack_is_little_endian_half_open():
    assert Intervals([(1, 9)]).pack().hex() == "0100000000000000" + "0a00000000000000"


def test_unpack_is_the_inverse():
    value = Intervals((4 * n + 1, 4 * n + 2) for n in range(3 * CHUNK_BOUNDS))
    assert Intervals.unpack(value.pack()) == value
    assert well_formed(Intervals.unpack(value.pack()))
    assert not Intervals.unpack(b"")


@pytest.mark.parametrize("bounds", [(0, 3), (3, 3), (5, 3), (1, 3, 3, 5), (1, 3, 2, 5), (-1, 2)])
def test_unpack_refuses_what_does_not_ascend(bounds):
    with pytest.raises(ValueError, match="ascend"):
        Intervals.unpack(b"".join(bound.to_bytes(8, "little", signed=True) for bound in bounds))


@pytest.mark.parametrize("seed", range(8))
def test_difference_of_sets_that_are_nearly_the_same(seed):
    rng = random.Random(seed)
    one = {n for n in range(1, 9000) if n % 3}
    other = one ^ set(rng.sample(range(1, 9000), rng.randint(0, 9)))
    left, right = (Intervals((n, n) for n in sorted(each)) for each in (one, other))
    found = left - right
    assert well_formed(found)
    assert {n for first, last in found for n in range(first, last + 1)} == one - other


@pytest.mark.slow
def test_a_million_intervals_cost_little_per_number():
    builder = IntervalsBuilder(Intervals((n, n) for n in range(2, 2_000_002, 2)))
    assert builder.snapshot().interval_count == 1_000_000
    rng = random.Random(3)
    started = time.thread_time()
    for _ in range(2000):
        builder.add(rng.randrange(1, 2_000_000))
        builder.snapshot()
    for number in range(3_000_000, 3_020_000):
        builder.add(number)
    assert time.thread_time() - started < 10  # a copy of the whole set each time takes minutes
