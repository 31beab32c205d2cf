"""What checksums are made of: the SQL expression of each kind, and the same bytes from the lake's value."""

from __future__ import annotations

import datetime
import struct
from decimal import Decimal
from typing import Any

import pytest

from replica_client.lake.verify.texts import lake_text, row_bytes, sql_row, sql_text
from replica_client.schema.model import ColumnModel

PLAIN = "CAST(CAST(`c` AS CHAR) AS BINARY)"
AS_TEXT = "CAST(CONVERT(`c` USING utf8mb4) AS BINARY)"
EXPRESSIONS = {
    "`c`": "binary varbinary tinyblob blob mediumblob longblob",
    AS_TEXT: "char varchar tinytext text mediumtext longtext enum set json",
    "CAST(CAST(`c` AS UNSIGNED) AS BINARY)": "bit",
    "CAST(`c` * 1e0 AS BINARY)": "float double",
    "CAST(`c` + 0 AS BINARY)": "year",
    PLAIN: "tinyint smallint mediumint int bigint decimal date time datetime timestamp uuid inet4 inet6",
    "CAST(HEX(`c`) AS BINARY)": "geometry vector",
}


def _at(year: int, microsecond: int) -> datetime.datetime:
    return datetime.datetime(year, 2, 3, 4, 5, 6, microsecond)  # noqa: DTZ001  as the lake has it


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions(expression: str) -> None:
    for kind in EXPRESSIONS[expression].split():
        assert sql_text(ColumnModel("c", kind)) == expression, kind
        quoted = expression.replace("`c`", "`a``b`")
        assert sql_text(ColumnModel("a`b", kind)) == quoted, kind


def test_binary_text_is_bytes() -> None:
    for kind in ("varchar", "text", "enum"):
        assert sql_text(ColumnModel("c", kind, charset="binary")) == "`c`"
        assert sql_text(ColumnModel("c", kind, charset="latin1")) == AS_TEXT
    assert sql_text(ColumnModel("c", "int", charset="binary")) == PLAIN


@pytest.mark.parametrize(
    ("kind", "digits", "value", "expected"),
    [
        ("int", 0, -5, b"-5"),
        ("bigint", 0, 2**64 - 1, b"18446744073709551615"),
        ("varchar", 0, "é", "é".encode()),
        ("varchar", 0, b"\xff", b"\xff"),
        ("blob", 0, b"\0a", b"\0a"),
        ("float", 0, 1.0, b"1"),
        ("double", 0, 0.1, b"0.1"),
        ("decimal", 0, Decimal("1E+3"), b"1000"),
        ("decimal", 0, Decimal("-0.10"), b"-0.10"),
        ("date", 0, datetime.date(2026, 2, 3), b"2026-02-03"),
        ("datetime", 0, _at(2026, 789), b"2026-02-03 04:05:06"),
        ("datetime", 1, _at(2026, 789000), b"2026-02-03 04:05:06.7"),
        ("timestamp", 6, _at(26, 7), b"0026-02-03 04:05:06.000007"),
        ("vector", 0, [1.0, -2.5], struct.pack("<2f", 1.0, -2.5).hex().upper().encode()),
        ("geometry", 0, {"srid": 4326, "wkb": b"\1\2"}, b"E61000000102"),
        ("time", 0, "-01:02:03", b"-01:02:03"),
        ("year", 0, 2026, b"2026"),
        ("bit", 0, 5, b"5"),
        ("uuid", 0, "0-1", b"0-1"),
    ],
)
def test_values_of_the_lake(kind: str, digits: int, value: Any, expected: bytes) -> None:
    assert lake_text(ColumnModel("c", kind, fraction_digits=digits))(value) == expected


def test_rows_are_lengths_and_texts() -> None:
    assert row_bytes([b"ab", None, b""]) == b"2:ab-0:"
    one = "IFNULL(CONCAT(LENGTH({0}), ':', {0}), '-')"
    assert sql_row(["a", "b"]) == f"CONCAT({one.format('a')}, {one.format('b')})"
