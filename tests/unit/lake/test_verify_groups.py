"""Groups and checksums of verify: alike on both sides, without a server or Java."""

import datetime
import random
import zlib
from decimal import Decimal

import pytest

from replica_client.lake.verify.row_groups import (
    Checksum,
    Grouping,
    differing,
    group_of,
    grouping_of,
    range_of,
)
from replica_client.lake.verify.sides import together
from replica_client.lake.verify.texts import lake_text, row_bytes, sql_row, sql_text
from replica_client.schema.model import ColumnModel, TableModel

TABLE = TableModel(
    "d", "t", (ColumnModel("id", "int"), ColumnModel("v", "varchar", 9, charset="utf8mb4")), (("id", 0),)
)  # fmt: skip


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_a_value_lies_in_the_range_of_its_group(size):
    for value in range(-3000, 3000):
        low, high = range_of(group_of(value, size), size)
        assert low <= value <= high
        assert int(value / size) == group_of(value, size)  # SQL's DIV


def test_lengths_tell_rows_apart():
    rows = [[b"a", b"b"], [b"ab", b""], [None, b"ab"], [b"-", b"ab"], [b"", b"ab"], [b"1:a", b"b"]]
    assert len({row_bytes(row) for row in rows}) == len(rows)
    assert row_bytes([b"ab", None]) == b"2:ab-"


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        (ColumnModel("x", "bigint"), Decimal(2**64 - 1), b"18446744073709551615"),
        (ColumnModel("x", "decimal", 9, 3), Decimal("-0.500"), b"-0.500"),
        (ColumnModel("x", "date"), datetime.date(1, 2, 3), b"0001-02-03"),
        (ColumnModel("x", "double"), 1e20, b"1e20"),
        (ColumnModel("x", "double"), 3.0, b"3"),
        (ColumnModel("x", "point"), {"srid": 1, "wkb": b"\xff"}, b"01000000FF"),
        (ColumnModel("x", "text", charset="utf8mb4"), "é", b"\xc3\xa9"),
        (ColumnModel("x", "vector"), [1.0, -0.0], b"0000803F00000080"),
        (ColumnModel("x", "double"), -0.0, b"-0"),
        (ColumnModel("x", "double"), 123456789012345.6, b"123456789012345.6"),
        (ColumnModel("x", "double"), -1.5e-300, b"-1.5e-300"),
        (ColumnModel("x", "decimal", 9, 3), Decimal("1.5"), b"1.500"),
        (ColumnModel("x", "json"), "null", b"null"),
    ],
)
def test_texts_of_values(column, value, text):
    assert lake_text(column)(value) == text


def test_a_moment_has_its_columns_digits():
    moment = datetime.datetime(12, 1, 2, 3, 4, 5, 120000, tzinfo=datetime.UTC)
    text = lake_text(ColumnModel("x", "datetime", fraction_digits=3))(moment)
    assert text == b"0012-01-02 03:04:05.120"


def test_one_changed_row_is_found_in_its_group_and_files_add_up():
    rows = [{"id": number, "v": f"v{number}"} for number in range(-500, 5000)]
    grouping = grouping_of(TABLE, -500, 4999)
    whole = grouping.lake_checksums(rows)
    random.Random(1).shuffle(rows)
    parts = [grouping.lake_checksums(rows[at::3]) for at in range(3)]
    assert together(parts) == whole
    assert sum(one.rows for one in whole.values()) == len(rows)
    changed = [dict(row, v="other") if row["id"] == 77 else row for row in rows]
    assert differing(whole, grouping.lake_checksums(changed)) == [group_of(77, grouping.size)]
    assert differing(whole, whole) == []
    assert differing(whole, {}) == sorted(whole)


def test_a_table_without_a_key_is_grouped_by_its_rows():
    table = TableModel("d", "t", TABLE.columns)
    found = Grouping(table).lake_checksums([{"id": 1, "v": None}] * 3)
    crc = zlib.crc32(b"1:1-")
    assert found == {crc % 1024: Checksum(3, 3 * crc, crc)}


@pytest.mark.parametrize(
    ("kind", "charset", "expected"),
    [
        ("varbinary", None, "`c`"),
        ("vector", None, "CAST(HEX(`c`) AS BINARY)"),
        ("varchar", "binary", "`c`"),
        ("varchar", "latin1", "CAST(CONVERT(`c` USING utf8mb4) AS BINARY)"),
        ("enum", "utf8mb4", "CAST(CONVERT(`c` USING utf8mb4) AS BINARY)"),
        ("json", None, "CAST(CONVERT(`c` USING utf8mb4) AS BINARY)"),
        ("bit", None, "CAST(CAST(`c` AS UNSIGNED) AS BINARY)"),
        ("float", None, "CAST(`c` * 1e0 AS BINARY)"),
        ("double", None, "CAST(`c` * 1e0 AS BINARY)"),
        ("year", None, "CAST(`c` + 0 AS BINARY)"),
        ("int", None, "CAST(CAST(`c` AS CHAR) AS BINARY)"),
        ("decimal", None, "CAST(CAST(`c` AS CHAR) AS BINARY)"),
        ("timestamp", None, "CAST(CAST(`c` AS CHAR) AS BINARY)"),
        ("point", None, "CAST(HEX(`c`) AS BINARY)"),
    ],
)
def test_expressions_of_values(kind, charset, expected):
    assert sql_text(ColumnModel("c", kind, charset=charset)) == expected
    assert sql_row([expected, "`d`"]) == (
        f"CONCAT(IFNULL(CONCAT(LENGTH({expected}), ':', {expected}), '-'), "
        "IFNULL(CONCAT(LENGTH(`d`), ':', `d`), '-'))"
    )


def test_groups_in_sql():
    """By ranges of the key; by its checksum; by that of the whole row where there is no key."""
    assert Grouping(TABLE, 50).sql_group() == "`id` DIV 50"
    keyed, whole = (
        Grouping(TABLE).sql_group(),
        Grouping(TableModel("d", "t", TABLE.columns)).sql_group(),
    )
    assert "`id`" in keyed and "`v`" not in keyed
    assert "`id`" in whole and "`v`" in whole
