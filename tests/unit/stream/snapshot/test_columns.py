"""Values of a copy are those of the stream, from the texts that MySQL 9.7 and MariaDB 11.8 gave."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest

from replica_client import Date, DateTime, Time, Timestamp
from replica_client.errors import ColumnDecodeError, MalformedPacketError
from replica_client.rows.special_values import RawJson
from replica_client.schema.model import ColumnModel
from replica_client.stream.snapshot.column_selects import selected


def value(kind: str, given: Any, **more: Any) -> Any:
    convert = selected(ColumnModel("c", kind, **more)).convert
    return given if convert is None else convert(given)


@pytest.mark.parametrize(
    ("kind", "expression"),
    [
        ("int", "`c`"),
        ("year", "`c` + 0"),
        ("bit", "CAST(`c` AS UNSIGNED)"),
        ("double", "`c` * 1e0"),
        ("float", "`c` * 1e0"),
        ("decimal", "`c`"),
        ("date", "CAST(`c` AS CHAR)"),
        ("datetime", "CAST(`c` AS CHAR)"),
        ("timestamp", "CAST(`c` AS CHAR)"),
        ("time", "CAST(`c` AS CHAR)"),
        ("enum", "CAST(`c` AS UNSIGNED)"),
        ("set", "CAST(`c` AS UNSIGNED)"),
        ("json", "`c`"),
        ("point", "`c`"),
        ("vector", "`c`"),
        ("varchar", "`c`"),
    ],
)
def test_expressions(kind: str, expression: str) -> None:
    assert selected(ColumnModel("c", kind)).expression == expression
    assert selected(ColumnModel("a`b", kind)).expression == expression.replace("`c`", "`a``b`")


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        ("int", -5, -5),
        ("bigint", 2**64 - 1, 2**64 - 1),
        ("year", 2026.0, 2026),
        ("bit", 2**63 + 1, 2**63 + 1),
        ("double", 0.1, 0.1),
        ("double", "1e308", 1e308),
        ("float", 0.10000000149011612, 0.1),
        ("float", 16777217, 16777216.0),
        ("decimal", Decimal("1.50"), Decimal("1.50")),
        ("date", "2026-02-28", Date(2026, 2, 28)),
        ("date", b"0000-00-00", Date(0, 0, 0)),
        ("date", "2026-00-13", Date(2026, 0, 13)),
        ("json", '{"a": 1}', RawJson('{"a": 1}')),
        ("json", b'"\xc3\xa9"', RawJson('"é"')),
        ("varbinary", b"\x00\xff", b"\x00\xff"),
    ],
)
def test_values(kind: str, given: Any, expected: Any) -> None:
    found = value(kind, given)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("given", "digits", "expected"),
    [
        ("2026-01-02 03:04:05", 0, DateTime(2026, 1, 2, 3, 4, 5, 0, 0)),
        ("2026-01-02 03:04:05.1", 1, DateTime(2026, 1, 2, 3, 4, 5, 100000, 1)),
        (b"2026-12-31 23:59:59.123456", 6, DateTime(2026, 12, 31, 23, 59, 59, 123456, 6)),
        ("0000-00-00 00:00:00.000", 3, DateTime(0, 0, 0, 0, 0, 0, 0, 3)),
    ],
)
def test_datetimes(given: Any, digits: int, expected: DateTime) -> None:
    found = value("datetime", given, fraction_digits=digits)
    assert found == expected
    assert str(found) == (given.decode() if isinstance(given, bytes) else given)


@pytest.mark.parametrize(
    ("given", "digits", "seconds", "microseconds"),
    [
        ("1970-01-01 00:00:01", 0, 1, 0),
        ("2038-01-19 03:14:07.999999", 6, 2**31 - 1, 999999),
        ("2024-02-29 12:30:45.500", 3, 1709209845, 500000),
        ("2106-02-07 06:28:15", 0, 2**32 - 1, 0),
    ],
)
def test_timestamps(given: str, digits: int, seconds: int, microseconds: int) -> None:
    found = value("timestamp", given, fraction_digits=digits)
    assert found == Timestamp(seconds, microseconds, digits)
    assert str(found) == given


def test_the_timestamp_of_nothing() -> None:
    assert value("timestamp", "0000-00-00 00:00:00.00", fraction_digits=2) == Timestamp(None, 0, 2)


@pytest.mark.parametrize(
    ("given", "digits", "expected"),
    [
        ("00:00:00", 0, Time(False, 0, 0, 0, 0, 0)),
        ("-838:59:59", 0, Time(True, 838, 59, 59, 0, 0)),
        (b"12:34:56.7", 1, Time(False, 12, 34, 56, 700000, 1)),
        ("-00:00:00.000001", 6, Time(True, 0, 0, 0, 1, 6)),
    ],
)
def test_times(given: Any, digits: int, expected: Time) -> None:
    found = value("time", given, fraction_digits=digits)
    assert found == expected
    assert str(found) == (given.decode() if isinstance(given, bytes) else given)


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("date", "soon"),
        ("datetime", "2026-01-02"),
        ("timestamp", ""),
        ("time", "12:34"),
        ("time", "x:y:z"),
    ],
)
def test_texts_that_are_none_are_refused(kind: str, given: str) -> None:
    with pytest.raises(MalformedPacketError, match="the server gave"):
        value(kind, given)


def test_labels() -> None:
    assert value("enum", 2, labels=("x", "y'z")) == "y'z"
    assert value("enum", 0, labels=("x",)) == ""
    assert value("set", 5, labels=("p", "q", "r")) == {"p", "r"}
    assert value("set", 0, labels=("p",)) == set()
    with pytest.raises(ColumnDecodeError, match="label 1 of column c"):
        value("enum", 1, labels=("?", "y"), unknown_labels=(1,))
    with pytest.raises(ColumnDecodeError, match="label 1 of column c"):
        value("set", 3, labels=("?", "y"), unknown_labels=(1,))
    assert value("enum", 2, labels=("?", "y"), unknown_labels=(1,)) == "y"
    assert value("set", 2, labels=("?", "y"), unknown_labels=(1,)) == {"y"}


def test_numbers_that_are_none() -> None:
    assert math.isinf(value("double", "inf"))
