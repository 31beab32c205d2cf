"""Columns in the types that they have in the lake: of the binlog's batches, and of copied texts."""

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from replica_client.lake.copied_columns import _cast, _decoded
from replica_client.lake.lake_columns import lake_column
from replica_client.lake.typed_columns import lake_array
from replica_client.schema.model import ColumnModel

BIG = pa.decimal128(20, 0)


@pytest.mark.parametrize(
    ("model", "found", "wanted", "expected"),
    [
        (ColumnModel("a", "int"), pa.array([1, None], pa.int32()), pa.int32(), [1, None]),
        (ColumnModel("a", "int"), pa.array([1, None], pa.int16()), pa.int64(), [1, None]),
        (
            ColumnModel("a", "json"),
            pa.array(["null", "[1]", None]),
            pa.string(),
            ["null", "[1]", None],
        ),
        (ColumnModel("a", "varchar", 9), pa.array(["null", "x"]), pa.string(), ["null", "x"]),
        (
            *(ColumnModel("a", "bigint", unsigned=True), pa.array([1 << 63, 0], pa.uint64()), BIG),
            [Decimal(1 << 63), Decimal(0)],
        ),
        (
            *(ColumnModel("a", "decimal", 30, 9), pa.array([Decimal("0.000000001")]), pa.string()),
            ["0.000000001"],
        ),
        (
            ColumnModel("a", "time", fraction_digits=2),
            pa.array([-datetime.timedelta(hours=838, minutes=59, seconds=59, milliseconds=500)]),
            pa.string(),
            ["-838:59:59.50"],
        ),
    ],
)
def test_columns_of_batches(model, found, wanted, expected):
    made = lake_array(None, model, pa.chunked_array([found]), wanted)
    assert made.type == wanted
    assert made.to_pylist() == expected


@pytest.mark.parametrize(
    ("kind", "wanted", "texts", "expected"),
    [
        ("int", pa.int32(), [b"-5", None], [-5, None]),
        ("bigint", BIG, [b"18446744073709551615"], [Decimal((1 << 64) - 1)]),
        ("double", pa.float64(), [b"1.5"], [1.5]),
        ("decimal", pa.decimal128(5, 2), [b"1.50"], [Decimal("1.50")]),
        # One that is text in the lake has more forms than the server's.
        ("decimal", pa.string(), [b"1.50"], None),
        ("json", pa.string(), [b"null", b"{}", None], ["null", "{}", None]),
        ("varchar", pa.string(), [b"null"], ["null"]),
        ("varbinary", pa.binary(), [b"\xff"], [b"\xff"]),
        ("geometry", pa.string(), [b"x"], None),
        ("date", pa.date32(), [b"2026-11-24"], [datetime.date(2026, 11, 24)]),
        ("date", pa.date32(), [b"0000-00-00"], None),
    ],
)
def test_columns_of_copied_texts(kind, wanted, texts, expected):
    column = lake_column(ColumnModel("a", "int"))
    column = type(column)("a", wanted, column.decoded, column.to_arrow)
    made = _cast(ColumnModel("a", kind), column, pa.array(texts, pa.binary()))
    assert (None if made is None else made.to_pylist()) == expected


def test_values_that_arrow_does_not_cast():
    assert _decoded(lake_column(ColumnModel("a", "int")), [b"1", None, b"5"], int) == [1, None, 5]
