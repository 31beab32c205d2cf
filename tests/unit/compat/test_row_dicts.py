"""Values of rows as builtin types, and why those are None that are."""

import datetime

import pytest

from replica_client.binlog.values.enum_set import EnumValue, SetValue
from replica_client.binlog.values.geometry import Geometry
from replica_client.binlog.values.json_binary import JsonDocument
from replica_client.binlog.values.temporal import Date, DateTime, Time, Timestamp
from replica_client.compat import row_dicts as ops
from replica_client.rows.absent import ABSENT

CASES = [
    (ops.KEEP, None, 5, 5, None),
    (ops.KEEP, None, None, None, "null"),
    (ops.KEEP, None, ABSENT, None, "cols bitmap"),
    (ops.DATE, "why", Date(2026, 1, 2), datetime.date(2026, 1, 2), None),
    (ops.DATE, "why", Date(2026, 0, 2), None, "why"),
    (ops.DATE, "why", Date(2026, 2, 30), None, "why"),
    (ops.DATETIME, "why", DateTime(2026, 1, 2, 3), datetime.datetime(2026, 1, 2, 3), None),  # noqa: DTZ001
    (ops.DATETIME, "why", DateTime(0, 0, 0), None, "why"),
    (ops.TIMESTAMP, "why", Timestamp(1, 5), datetime.datetime(1970, 1, 1, 0, 0, 1, 5), None),  # noqa: DTZ001
    (ops.TIMESTAMP, "why", Timestamp(None), None, "why"),
    (ops.TIMESTAMP, "why", Timestamp(4294967295), datetime.datetime(2106, 2, 7, 6, 28, 15), None),  # noqa: DTZ001
    (ops.TIME, None, Time(True, 0, 0, 0, 1), -datetime.timedelta(microseconds=1), None),
    (ops.TIME, None, Time(False, 838, 59, 59), datetime.timedelta(seconds=3020399), None),
    (ops.ENUM, None, EnumValue(2, "b"), "b", None),
    (ops.ENUM, None, EnumValue(0), "", None),
    (ops.ENUM, None, EnumValue(2), 2, None),
    (ops.SET, None, SetValue(5, ("x", "z")), {"x", "z"}, None),
    (ops.SET, None, SetValue(0), None, "empty set"),
    (ops.SET, None, SetValue(5), 5, None),
    (ops.BIT, "010b", 11, "0000001011", None),
    (ops.JSON, None, JsonDocument.of({"a": ["ü", 1, None]}), {b"a": ["ü".encode(), 1, None]}, None),
    (ops.GEOMETRY, None, Geometry(4326, b"wkb"), b"\xe6\x10\0\0wkb", None),
]


@pytest.mark.parametrize(("op", "argument", "value", "expected", "source"), CASES)
def test_values(op, argument, value, expected, source):
    dicts = ops.RowDicts(("c",), (op,), (argument,))
    values, sources = dicts.values((value,))
    assert values == {"c": expected}
    assert type(values["c"]) is type(expected)
    assert sources == ({} if source is None else {"c": source})
    (row,) = dicts.of_one([(None, (value,))], 1)
    assert row == {"values": values, "none_sources": sources}
    (row,) = dicts.of_two([((value,), (7 if op == ops.KEEP else value,))])
    assert row["before_values"] == values
    assert list(row) == [
        "before_values",
        "before_none_sources",
        "after_values",
        "after_none_sources",
    ]
