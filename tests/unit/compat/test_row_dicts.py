"""Values of rows as builtin types, and why those are None that are."""

import datetime
import random
from types import SimpleNamespace
from zoneinfo import ZoneInfo

import pytest

from replica_client.compat import row_dicts as ops
from replica_client.compat.pymysqlreplication.stream_tables import TableFacts, TableFilter
from replica_client.errors import ColumnDecodeError
from replica_client.protocol.binlog.event import DecodeOptions
from replica_client.protocol.binlog.values.json_binary import JsonDocument
from replica_client.protocol.binlog.values.temporal import Date, DateTime, Time, Timestamp
from replica_client.protocol.binlog.values.value_types import EnumValue, Geometry, SetValue
from replica_client.protocol.constants.column_types import ColumnType
from replica_client.rows.image import RowImageDecoder
from replica_client.rows.special_values import ABSENT
from replica_client.schema.shape import ColumnShape, TableShape
from tests.unit.rows.images import SAMPLES, bitmap, encode_image, shape_of

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


TABLE = TableShape("shop", "t", (ColumnShape("c", ColumnType.MYSQL_TYPE_LONG, length=4),))


def _dicts(op, argument, **options):
    return ops.RowDicts(RowImageDecoder(TABLE), ("c",), (op,), (argument,), **options)


@pytest.mark.parametrize(("op", "argument", "value", "expected", "source"), CASES)
def test_values(op, argument, value, expected, source):
    pair = ((value,), (7 if op == ops.KEEP else value,))
    (row,) = _dicts(op, argument).of_two([pair])
    assert row["before_values"] == {"c": expected}
    assert type(row["before_values"]["c"]) is type(expected)
    assert row["before_none_sources"] == ({} if source is None else {"c": source})
    assert list(row) == [
        "before_values",
        "before_none_sources",
        "after_values",
        "after_none_sources",
    ]
    (bare,) = _dicts(op, argument, sources=False).of_two([pair])
    assert bare == {"before_values": row["before_values"], "after_values": row["after_values"]}


def test_values_of_bytes_at_once_are_those_of_the_decoders_objects():
    """Columns of all types with random values, some not there, some NULL."""
    rng = random.Random(20)
    seen = set()
    for _ in range(60):
        samples = [rng.choice(SAMPLES) for _ in range(rng.randint(1, 12))]
        shape = shape_of(samples)
        present = [rng.random() < 0.9 for _ in samples]
        present[0] = True
        rows = [
            [None if rng.random() < 0.1 else sample.value(rng) for sample in samples]
            for _ in range(6)
        ]
        images = b"".join(encode_image(samples, present, row) for row in rows)
        names = SimpleNamespace(schema="shop", table="things")
        facts = TableFacts(names, shape, True, True, DecodeOptions(), False, False, "mysql", None)
        decoder, dicts = facts._whole()
        seen.update(column.type_code for column in shape.columns)
        marks = bitmap(present)
        pairs = decoder.decode_rows("update", marks, marks, images)
        junk = b"x" * rng.randint(0, 3)
        found = dicts.rows(
            "update", marks, marks, junk + images + junk, len(junk), len(junk + images)
        )
        assert found == dicts.of_two(pairs)
        assert [[*map(type, row["before_values"].values())] for row in found] == [
            [*map(type, row["before_values"].values())] for row in dicts.of_two(pairs)
        ]
        befores = dicts.rows("delete", marks, None, images, 0, len(images))
        assert [row["values"] for row in befores[::2]] == [row["before_values"] for row in found]
        inserted = dicts.rows("insert", marks, None, images, 0, len(images))
        assert inserted == befores
        for size in range(0, len(images), 1 + len(images) // 20):
            _same_end(decoder, dicts, marks, images[:size])
    assert seen == {sample.column.type_code for sample in SAMPLES}


def _same_end(decoder, dicts, marks, cut):
    try:
        decoder.decode_rows("insert", marks, None, cut)
    except ColumnDecodeError as error:
        with pytest.raises(ColumnDecodeError) as found:
            dicts.rows("insert", marks, None, cut, 0, len(cut))
        assert str(found.value) == str(error)
    else:
        dicts.rows("insert", marks, None, cut, 0, len(cut))


def test_asyncmys_filters_name_tables_with_their_database():
    for given, wanted in ((["shop.t"], True), (["t"], False)):
        assert TableFilter(only_tables=given, qualified=True).wants("shop", "t") is wanted
        assert TableFilter(ignored_tables=given, qualified=True).wants("shop", "t") is not wanted
        assert TableFilter(only_tables=given).wants("shop", "t") is not wanted


def test_timestamps_in_a_time_zone_are_aware():
    (sample,) = (
        one
        for one in SAMPLES
        if one.column.type_code == ColumnType.MYSQL_TYPE_TIMESTAMP2
        and one.column.fraction_digits == 3
    )
    zone = ZoneInfo("Asia/Tokyo")
    names = SimpleNamespace(schema="shop", table="things")
    shape, options = shape_of([sample]), DecodeOptions()
    facts = TableFacts(
        names, shape, True, True, options, False, False, "mysql", None, time_zone=zone
    )
    values = (Timestamp(1793524200, 25000, 3), Timestamp(None), None)
    images = b"".join(encode_image([sample], [True], [value]) for value in values)
    rows = facts.rows_at("insert", b"\1", None, images, 0, len(images))
    moment, *rest = (row["values"]["c1"] for row in rows)
    assert moment == datetime.datetime(2026, 11, 1, 18, 10, 0, 25000, zone)
    assert moment.tzinfo is zone
    assert rest == [None, None]
    assert [row["none_sources"] for row in rows[1:]] == [
        {"c1": "out of datetime2 range"},
        {"c1": "null"},
    ]
