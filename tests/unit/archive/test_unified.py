"""What type a column has whose type an ALTER changed: the smallest that holds every value of both."""

from __future__ import annotations

import datetime
from decimal import Decimal
from itertools import permutations
from typing import Any

import pyarrow as pa
import pytest

from replica_client.archive.arrow_tables import fitted, unified_schema
from replica_client.errors import SchemaMismatchError

TEXTS = pa.dictionary(pa.int32(), pa.string())
SAMPLES: list[tuple[pa.DataType, pa.DataType, pa.DataType, list[Any], list[Any]]] = [
    # one, other, both, values of one, what they become
    (pa.int8(), pa.int16(), pa.int16(), [-128, 127, None], [-128, 127, None]),
    (pa.int8(), pa.uint8(), pa.int16(), [-128, 127], [-128, 127]),
    (pa.uint16(), pa.int8(), pa.int32(), [0, 65535], [0, 65535]),
    (pa.uint32(), pa.uint64(), pa.uint64(), [(1 << 32) - 1], [(1 << 32) - 1]),
    (
        *(pa.uint64(), pa.int64(), pa.decimal128(20, 0)),
        *([(1 << 64) - 1, None], [Decimal((1 << 64) - 1), None]),
    ),
    (
        *(pa.int64(), pa.uint64(), pa.decimal128(20, 0)),
        *([-(1 << 63)], [Decimal(-(1 << 63))]),
    ),
    (
        *(pa.decimal128(12, 2), pa.decimal128(10, 4), pa.decimal128(14, 4)),
        *([Decimal("-1234567890.12")], [Decimal("-1234567890.1200")]),
    ),
    (
        *(pa.decimal128(38, 0), pa.decimal128(30, 20), pa.decimal256(58, 20)),
        *([Decimal(10**37)], [Decimal(10**37)]),
    ),
    (pa.int32(), pa.decimal128(5, 2), pa.decimal128(12, 2), [-(1 << 31)], [Decimal(-(1 << 31))]),
    (pa.float32(), pa.float64(), pa.float64(), [0.5, None], [0.5, None]),
    (pa.int32(), pa.float32(), pa.float64(), [(1 << 31) - 1], [float((1 << 31) - 1)]),
    (
        *(pa.date32(), pa.timestamp("us"), pa.timestamp("us")),
        *([datetime.date(2026, 5, 1)], [datetime.datetime.fromisoformat("2026-05-01")]),
    ),
    (TEXTS, pa.string(), pa.string(), ["new", None], ["new", None]),
    (pa.string(), pa.binary(), pa.binary(), ["é"], ["é".encode()]),
    (TEXTS, pa.binary(), pa.binary(), ["é"], ["é".encode()]),
    (pa.int32(), pa.string(), pa.string(), [-5, None], ["-5", None]),
    (
        *(pa.decimal128(12, 10), pa.string(), pa.string()),
        *([Decimal("0.0000000001")], ["0.0000000001"]),
    ),
]
STRANGERS = [
    (pa.timestamp("us"), pa.timestamp("us", "UTC")),
    (pa.int64(), pa.float64()),
    (pa.decimal128(10, 2), pa.float64()),
    (pa.duration("us"), pa.int64()),
    (pa.float64(), pa.string()),
    (pa.binary(), pa.int32()),
    (pa.decimal256(76, 0), pa.decimal256(76, 76)),
]


@pytest.mark.parametrize("one, other, both, values, become", SAMPLES, ids=str)
def test_types(
    one: pa.DataType, other: pa.DataType, both: pa.DataType, values: list[Any], become: list[Any]
) -> None:
    for kinds in permutations((one, other)):
        schemas = [pa.schema([("c", kind)]) for kind in kinds]
        assert unified_schema(schemas, "t").field("c").type == both
    schema = pa.schema([("c", both)])
    batch = pa.record_batch([pa.array(values, one)], schema=pa.schema([("c", one)]))
    assert fitted(batch, schema).column("c").to_pylist() == become


@pytest.mark.parametrize("one, other", STRANGERS, ids=str)
def test_types_without_a_common_one(one: pa.DataType, other: pa.DataType) -> None:
    for kinds in permutations((one, other)):
        schemas = [pa.schema([("c", kind)]) for kind in kinds]
        with pytest.raises(SchemaMismatchError, match=r"shop\.t: column c was .* since and until"):
            unified_schema(schemas, "shop.t")


def test_columns_are_joined_by_name() -> None:
    old = pa.schema([("id", pa.int32()), ("gone", pa.string()), ("a", pa.int8())])
    middle = pa.schema([("id", pa.int32()), ("a", pa.int16()), ("went", pa.int8())])
    new = pa.schema([("id", pa.int64()), ("new", pa.string()), ("a", pa.int8())])
    both = unified_schema([old, middle, new], "t")
    assert both.names == ["id", "new", "a", "went", "gone"]
    assert [str(kind) for kind in both.types] == ["int64", "string", "int16", "int8", "string"]
    batch = pa.record_batch([[1], ["x"], [2]], schema=old)
    assert fitted(batch, both).to_pylist() == [
        {"id": 1, "new": None, "a": 2, "went": None, "gone": "x"}
    ]
