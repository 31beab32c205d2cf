"""Conditions on columns: their text, and what they take, with SQLite's SELECT as the judge."""

import math
import sqlite3
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import replica_client as rc
from replica_client.protocol.binlog.values.json_binary import JsonDocument
from replica_client.protocol.binlog.values.numbers import decode_float
from replica_client.protocol.binlog.values.temporal import Date, DateTime, Time, Timestamp
from replica_client.protocol.binlog.values.value_types import EnumValue, SetValue
from replica_client.rows.conditions import as_double, matches, value_outcome
from replica_client.rows.row import row_class
from replica_client.rows.where import (
    And,
    Comparison,
    IsNull,
    Not,
    OneOf,
    Or,
    columns_of,
    parse_where,
    where_text,
)

NAMES = st.one_of(st.sampled_from(["id", "name", "größe", "a$1", "AND", "is null", "`", "x`y'z"]))
LITERALS = st.one_of(
    st.integers(-(10**30), 10**30),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.text(max_size=6),
    st.booleans(),
)
TESTS = st.one_of(
    st.builds(Comparison, NAMES, st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), LITERALS),
    st.builds(OneOf, NAMES, st.lists(LITERALS, min_size=1, max_size=4).map(tuple)),
    st.builds(IsNull, NAMES),
)


def conditions(tests: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Conditions as the parser makes them: no OR inside OR, no AND inside AND."""
    return st.recursive(
        tests,
        lambda inner: st.one_of(
            st.builds(Not, inner),
            st.lists(inner, min_size=2, max_size=4).map(lambda parts: And(tuple(parts))),
            st.lists(inner, min_size=2, max_size=4).map(lambda parts: Or(tuple(parts))),
        ),
        max_leaves=12,
    )


def flat(condition: Any) -> Any:
    """Parts of the same kind inside each other as one: parentheses that say nothing are not kept."""
    if isinstance(condition, Not):
        return Not(flat(condition.part))
    for kind in (And, Or):
        if isinstance(condition, kind):
            parts: list[Any] = []
            for part in map(flat, condition.parts):
                parts += part.parts if isinstance(part, kind) else [part]
            return kind(tuple(parts))
    return condition


@given(conditions(TESTS))
def test_the_text_of_a_condition_says_it(condition: Any) -> None:
    parsed = parse_where(where_text(flat(condition)))
    assert parsed == flat(condition)
    assert [type(v) for v in _values(parsed)] == [type(v) for v in _values(flat(condition))]


def _values(condition: Any) -> list[Any]:
    if isinstance(condition, (And, Or)):
        return [value for part in condition.parts for value in _values(part)]
    if isinstance(condition, Not):
        return _values(condition.part)
    if isinstance(condition, OneOf):
        return list(condition.values)
    return [condition.value] if isinstance(condition, Comparison) else []


@given(st.text(alphabet="ab01.'`(),=<>! \tANDORNOTISINLL+-eE%\0é", max_size=40))
def test_any_other_text_is_refused_in_one_line(text: str) -> None:
    try:
        condition = parse_where(text)
    except rc.ConfigError as error:
        assert str(error).startswith("where: ")
        assert len(str(error).splitlines()) == 1
    else:
        assert parse_where(where_text(condition)) == condition


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("", "character 1: expected a column's name, found the end"),
        ("id", "expected =, !="),
        ("id = NULL", "write IS NULL"),
        ("id = 1 2", "expected AND, OR or the end, found '2'"),
        ("id = 'a", "cannot read"),
        ("id = 1x", "cannot read"),
        ("id IN ()", "expected a number"),
        ("(id = 1", "expected ), found the end"),
        ("__import__('os')", "expected =, !="),
        ("id == 1", "expected a number"),
        ("NOT " * 200 + "id = 1", "inside each other"),
        ("(" * 5000, "inside each other"),
        ("id = 1 OR " * 10000, "more than 65536"),
    ],
)
def test_messages(text: str, stated: str) -> None:
    with pytest.raises(rc.ConfigError) as caught:
        parse_where(text)
    assert stated in str(caught.value)


# SQLite has integers, reals and text that compare as here when columns have no affinity.
COLUMNS = ("a", "b", "c")
VALUES = {
    "a": st.one_of(st.none(), st.integers(-3, 3)),
    "b": st.one_of(st.none(), st.sampled_from(["", "x", "y", "Ä", "X"])),
    "c": st.one_of(st.none(), st.sampled_from([-1.5, 0.0, 0.1, 2.5])),
}
OF_COLUMN = {
    "a": st.integers(-3, 3),
    "b": st.sampled_from(["", "x", "y", "Ä", "z"]),
    "c": st.sampled_from([Decimal("-1.5"), Decimal("0.1"), 0, Decimal("2.5")]),
}
SQL_TESTS = st.sampled_from(COLUMNS).flatmap(
    lambda name: st.one_of(
        st.builds(
            Comparison,
            st.just(name),
            st.sampled_from(["=", "!=", "<", "<=", ">", ">="]),
            OF_COLUMN[name],
        ),
        st.builds(OneOf, st.just(name), st.lists(OF_COLUMN[name], min_size=1).map(tuple)),
        st.builds(IsNull, st.just(name)),
    )
)
DATABASE = sqlite3.connect(":memory:", check_same_thread=False)


def insert(row: rc.Row | None, before: rc.Row | None = None) -> rc.Change:
    kind = "insert" if before is None else "delete" if row is None else "update"
    shape: Any = None
    return rc.Change(kind, "shop", "things", before, row, "b.000001", 4, 1, 0, "", 0, shape)


@settings(max_examples=100)
@given(conditions(SQL_TESTS), st.fixed_dictionaries(VALUES))
def test_it_takes_what_sql_takes(condition: Any, values: dict[str, Any]) -> None:
    ordered = tuple(values[name] for name in COLUMNS)
    row = row_class(COLUMNS)(ordered)
    sql = f"SELECT count(*) FROM (SELECT ? AS a, ? AS b, ? AS c) WHERE {where_text(condition)}"
    (taken,) = DATABASE.execute(sql, ordered).fetchone()
    assert matches(parse_where(where_text(condition)), insert(row)) is bool(taken)


WIDE = row_class(
    (
        "number",
        "price",
        "name",
        "raw",
        "kind",
        "flags",
        "day",
        "at",
        "moment",
        "span",
        "doc",
        "nothing",
    )
)(
    (
        2**64 - 1,
        Decimal("1.10"),
        "O'Hara",
        b"\xc3\xa4",
        EnumValue(2, "big"),
        SetValue(3, ("a", "b")),
        Date(2024, 2, 29),
        DateTime(2024, 2, 29, 8, 0, 0, 500000, 3),
        Timestamp(1709193600),
        Time(True, 100, 0, 1),
        JsonDocument.of("new"),
        None,
    )
)


@pytest.mark.parametrize(
    "text",
    [
        "number = 18446744073709551615",
        "number > 18446744073709551614.5",
        "price = 1.1 AND price IN (2, 1.100)",
        "name = 'O''Hara' and name > 'O'",
        "raw = 'ä'",
        "kind = 'big' AND NOT kind = 'small' AND kind IN ('big')",
        "flags = 'a,b'",
        "day = '2024-02-29' AND day > '2024-02-00' AND day < '2024-03-01'",
        "at = '2024-02-29 08:00:00.5' AND at >= '2024-02-29' AND at < '2024-02-29T08:00:01'",
        "moment = '2024-02-29 08:00:00' AND moment > '1970-01-01'",
        "span = '-100:00:01' AND span < '00:00:00'",
        "doc = 'new' AND doc != 'old' AND doc != 1 AND NOT doc = TRUE",
        "nothing IS NULL",
        "nothing = 1 OR `name` IS NOT NULL",
    ],
)
def test_every_kind_of_column(text: str) -> None:
    assert matches(parse_where(text), insert(WIDE))
    assert not matches(parse_where(f"NOT ({text})"), insert(WIDE))


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("colour = 1", "no column 'colour', only number, price"),
        ("name = 1", "column 'name' is str, which = does not compare with a number"),
        ("number = '1'", "column 'number' is int"),
        ("kind < 'big'", "column 'kind' is EnumValue, which <"),
        ("doc > 1", "column 'doc' is a JSON document"),
        ("day = 'today'", "is not of the form YYYY-MM-DD"),
        ("day = '2024-02-29 01:00:00'", "has a time of day"),
        ("span = '1 day'", "is not of the form -hh:mm:ss"),
        ("moment = '1960-01-01'", "before 1970"),
        ("moment = '2024-02-31'", "is not a date or time"),
    ],
)
def test_what_does_not_compare_is_reported(text: str, stated: str) -> None:
    with pytest.raises(rc.ConfigError) as caught:
        matches(parse_where(text), insert(WIDE))
    assert "where, table shop.things: " in str(caught.value)
    assert stated in str(caught.value)


def test_either_image_of_an_update() -> None:
    make = row_class(("id", "status"))
    update = insert(make((1, "paid")), make((1, "new")))
    for text, taken in {"status = 'new'": 1, "status = 'paid'": 1, "status = 'sent'": 0}.items():
        assert matches(parse_where(text), update) is bool(taken)
    assert matches(parse_where("status = 'new'"), insert(None, make((1, "new"))))


def test_a_column_that_the_image_left_out_is_no_null() -> None:
    make = row_class(("id", "status"))
    for row in (insert(make((1, rc.ABSENT))), insert(None, make((1, rc.ABSENT)))):
        for text in ("status = 'new'", "NOT status IS NULL", "id = 1 AND status IN ('x')"):
            with pytest.raises(
                rc.DataLossError, match=r"left out column 'status'.*binlog_row_image"
            ):
                matches(parse_where(text), row)
        assert matches(parse_where("id = 1 OR status = 'new'"), row)
        assert not matches(parse_where("id = 2 AND status = 'new'"), row)
    update = insert(make((rc.ABSENT, "paid")), make((1, rc.ABSENT)))
    assert matches(parse_where("status = 'paid'"), update)


def test_columns_are_reported() -> None:
    text = "a = 1 OR NOT (b IN (1) AND c IS NULL) OR a > 2"
    assert list(columns_of(parse_where(text))) == ["a", "b", "c", "a"]


@pytest.mark.parametrize("size", [4, 8])
@pytest.mark.parametrize(
    ("literal", "signs"), [("1" + "0" * 400, {"<", "<=", "!="}), ("-1e999", {">", ">=", "!="})]
)
def test_a_number_that_no_double_reaches(size: int, literal: str, signs: set[str]) -> None:
    """It is infinite, for FLOAT and DOUBLE as for JSON."""
    assert as_double(-(10**400)) == -as_double(10**400) == -math.inf
    value = decode_float(bytes(4)) if size == 4 else JsonDocument.of(0.5)
    for sign in ("=", "!=", "<", "<=", ">", ">=") if size == 4 else ("=", "!="):
        condition = parse_where(f"a {sign} {literal}")
        assert isinstance(condition, Comparison)
        assert value_outcome(condition, value) is (sign in signs)
