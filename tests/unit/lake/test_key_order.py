"""Rows that are in the order of their keys are found so, and merges give the same whether they are or not."""

import datetime
import random
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from replica_client.lake.key_order import order_of
from replica_client.lake.parquet_files import repeating_columns

DAY = datetime.date(2026, 11, 26)
TIME = datetime.datetime.fromisoformat("2026-11-26T12:00:00")
VALUES = {
    "integer": (pa.int64(), [-3, 0, 7]),
    "unsigned": (pa.uint64(), [0, 1, 2**64 - 1]),
    "decimal": (pa.decimal128(10, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("2.25")]),
    "float": (pa.float64(), [-1.5, 0.0, 2.5]),
    "text": (pa.string(), ["", "Z", "a", "ä", "\U0001f600"]),
    "binary": (pa.binary(), [b"", b"\x00", b"a\x00", b"\xff"]),
    "date": (pa.date32(), [DAY, DAY + datetime.timedelta(1)]),
    "moment": (pa.timestamp("us"), [TIME, TIME + datetime.timedelta(microseconds=1)]),
    "time": (pa.duration("us"), [datetime.timedelta(hours=-1), datetime.timedelta(0)]),
}


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("chunks", (1, 3))
def test_rows_are_in_order_exactly_when_a_stable_sort_leaves_them(kind, chunks):
    rng = random.Random(kind)
    arrow, values = VALUES[kind]
    found = set()
    for case in range(60):
        rows = [(rng.choice(values), rng.randrange(3)) for _ in range(rng.randrange(0, 7))]
        if case % 2:
            rows.sort(key=lambda row: (values.index(row[0]), row[1]))
        table = pa.table(
            {"a": pa.array([a for a, _ in rows], arrow), "b": pa.array([b for _, b in rows])},
            schema=pa.schema({"a": arrow, "b": pa.int64()}),
        )
        if chunks > 1:
            table = pa.concat_tables([table.slice(at, 2) for at in range(0, len(rows) + 1, 2)])
        for names in (["a"], ["a", "b"], ["b", "a"]):
            order = order_of(table, names)
            wanted = pc.sort_indices(table, [(name, "ascending") for name in names]).to_pylist()
            stays = wanted == list(range(len(rows)))
            assert (order is None) == stays, (names, rows)
            assert order is None or order.to_pylist() == wanted
            found.add(stays)
    assert found == {True, False}


def test_keys_that_have_no_value_are_sorted():
    assert order_of(pa.table({"a": pa.array([1, None, 2])}), ["a"]) is not None


def test_dictionaries_are_for_columns_whose_values_come_again():
    count = 100_000
    rng = random.Random(1)
    rows = pa.table(
        {
            "id": pa.array(range(count)),
            "constant": pa.array(["x"] * count),
            "few": pa.array([rng.randrange(200) for _ in range(count)]),
            "noise": pa.array([rng.random() for _ in range(count)]),
            "empty": pa.nulls(count, pa.string()),
            "text": pa.array([f"note of {number}" for number in range(count)]),
            "part": pa.array([[1]] * count),
            "flag": pa.array([True] * count),
            "bytes": pa.array([b"\x00"] * count),
        }
    )
    assert repeating_columns(rows) == ["constant", "few", "empty", "bytes"]
    for size in (0, 1, 5, 9, 4095):
        assert "id" not in repeating_columns(rows.slice(0, size)) or not size
