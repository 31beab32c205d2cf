"""Which image counts for each key: compiled and plain give what a dictionary gives."""

from __future__ import annotations

import datetime
import math
import random
from decimal import Decimal
from itertools import pairwise

import pyarrow as pa
import pytest

from replica_client.archive import net_positions as module
from replica_client.archive.as_of.net_images import key_numbers

LOW, HIGH = -(1 << 63), (1 << 63) - 1
KEYS = {
    "none": [],
    "one": [HIGH],
    "in a row": list(range(-5, 500)) * 3,
    "far apart": [LOW, HIGH, LOW, 0, HIGH, -1, LOW],
    "steps of a power of two": [at << 40 for at in range(300)] * 2,
    "random": random.Random(1).choices(
        [random.Random(2).getrandbits(63) for _ in range(400)], k=3000
    ),
    "all the same": [7] * 1000,
    "few among many numbers": random.Random(3).choices(range(0, 1 << 34, 1 << 20), k=2000),
}


def wanted(keys: list[int], weights: list[int], first: bool) -> tuple[list[int], list[int]]:
    positions: dict[int, int] = {}
    sums: dict[int, int] = {}
    for at, (key, weight) in enumerate(zip(keys, weights, strict=True)):
        if key not in positions or not first:
            positions[key] = at
        sums[key] = sums.get(key, 0) + weight
    return list(positions.values()), list(sums.values())


def numbers(memory: bytearray) -> list[int]:
    return list(memoryview(memory).cast("q"))


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("name", KEYS)
def test_positions_and_sums(name, first) -> None:
    keys = KEYS[name]
    weights = random.Random(4).choices((-1, 0, 1), k=len(keys))
    left, right = (pa.py_buffer(pa.array(one, pa.int64()).buffers()[1]) for one in (keys, weights))
    found = module.net_positions(left, right, len(keys), first)
    assert tuple(map(numbers, found)) == wanted(keys, weights, first)


def test_too_many_are_refused() -> None:
    with pytest.raises(ValueError, match="too many"):
        module.net_positions(b"", b"", 1 << 31, True)


COLUMNS = {
    "unsigned": pa.array([1, (1 << 64) - 1, 1, 0], pa.uint64()),
    "integer with null": pa.array([1, None, 1, None], pa.int32()),
    "text": pa.array(["a", "", None, "a"]),
    "binary": pa.array([b"a", b"", None, b""]),
    "decimal": pa.array([Decimal("1.0"), Decimal("1.5"), None, Decimal("1.0")]),
    "date": pa.array([datetime.date(2026, 1, 1), None, datetime.date(2026, 1, 2), None]),
    "time": pa.array([datetime.timedelta(1), datetime.timedelta(2), None, datetime.timedelta(1)]),
    "boolean": pa.array([True, None, False, True]),
    "moment": pa.array([1, 2, 1, None], pa.timestamp("us", "UTC")),
}


@pytest.mark.parametrize("chunks", [1, 2, 4])
def test_numbers_of_keys_tell_them_apart_and_nothing_else(chunks) -> None:
    """Every pair of columns, in one piece and in several."""
    cuts = [*range(0, 4, 4 // chunks), 4]
    cut = {
        name: pa.chunked_array([column.slice(a, b - a) for a, b in pairwise(cuts)], column.type)
        for name, column in COLUMNS.items()
    }
    for one in cut.values():
        for columns in ([one], *([one, other] for other in cut.values())):
            values = list(zip(*(column.to_pylist() for column in columns), strict=True))
            found = key_numbers(columns).to_pylist()
            for at in range(4):
                for other_at in range(4):
                    assert (found[at] == found[other_at]) == (values[at] == values[other_at])


def test_many_columns_do_not_run_out_of_numbers() -> None:
    """The number of combinations is far beyond 64 bits."""
    count = 1000
    assert (count // 2) ** 12 > math.pow(2, 64)
    columns = [
        pa.chunked_array([pa.array([(at * (n + 1)) % (count // 2) for at in range(count)])]).cast(
            pa.string()
        )
        for n in range(12)
    ]
    found = key_numbers(columns).to_pylist()
    rows = list(zip(*(column.to_pylist() for column in columns), strict=True))
    assert len(set(found)) == len(set(rows)) == len(set(zip(found, rows, strict=True)))
