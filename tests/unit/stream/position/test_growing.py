"""Rows of a growing state: what is written, what counts, and when old ones are removed."""

from __future__ import annotations

import pytest

from replica_client.errors import PositionFormatError
from replica_client.stream.position.stores.growing import (
    INLINE_SIZE,
    GrowingKeys,
    GrowingRows,
    rows_of,
    split_growing,
    stored_before,
)


def texts(first: int, behind: int) -> tuple[str, ...]:
    return tuple(f"text {number}" for number in range(first, behind))


def test_only_what_is_new_is_written() -> None:
    rows = GrowingRows()
    plan = rows.plan(texts(0, 3))
    assert plan.rows == [(0, "text 0"), (1, "text 1"), (2, "text 2")]
    assert plan.to_json() == {"first": 0, "count": 3}
    assert rows.numbers == range(0)
    rows.saved(plan)
    assert rows.numbers == range(3)
    plan = rows.plan(texts(1, 5))
    assert plan.rows == [(3, "text 3"), (4, "text 4")]
    assert plan.to_json() == {"first": 1, "count": 4}
    rows.saved(plan)
    assert rows.numbers == range(1, 5)
    assert rows.plan(texts(1, 5)).rows == []


def test_texts_of_another_kind_are_written_behind_those_that_count() -> None:
    rows = GrowingRows()
    rows.loaded(7, texts(0, 3))
    plan = rows.plan(("other", "texts"))
    assert plan.rows == [(10, "other"), (11, "texts")]
    assert plan.to_json() == {"first": 10, "count": 2}
    rows.saved(plan)
    assert rows.numbers == range(10, 12)


@pytest.mark.parametrize(
    ("count", "gone", "wanted"),
    [(100, 63, False), (100, 64, True), (400, 99, False), (400, 100, True), (4, 0, False)],
)
def test_old_rows_are_removed_many_at_a_time(count: int, gone: int, wanted: bool) -> None:
    rows = GrowingRows()
    rows.saved(rows.plan(texts(0, count)))
    plan = rows.plan(texts(gone, gone + count))
    rows.saved(plan)
    assert rows.wants_removal(plan) is wanted
    if wanted:
        assert plan.gone == gone
        assert not rows.wants_removal(plan)


def test_the_last_rows_are_removed_at_once() -> None:
    rows = GrowingRows()
    rows.saved(rows.plan(texts(0, 1)))
    plan = rows.plan(())
    rows.saved(plan)
    assert rows.wants_removal(plan)


def test_what_was_there_before() -> None:
    assert stored_before(("a", "b", "c"), ("b", "c", "d")) == 1
    assert stored_before(("a", "b"), ("a", "b")) == 0
    assert stored_before(("a", "b"), ("x",)) is None


@pytest.mark.parametrize(
    "value",
    [
        None,
        {},
        {"first": 1},
        {"first": -1, "count": 1},
        {"first": 1, "count": -1},
        {"first": "1", "count": 1},
    ],
)
def test_numbers_that_are_none(value: object) -> None:
    assert rows_of({"first": 0, "count": 0}) == (0, 0)
    with pytest.raises(PositionFormatError):
        rows_of(value)


@pytest.mark.parametrize(
    "text", ["[]", "1", '{"$growing": {"x": {}}}', '{"$growing": {"x": {"first": 0, "count": 1}}}']
)
def test_states_that_are_damaged(text: str) -> None:
    with pytest.raises(PositionFormatError):
        GrowingKeys().read(text, {})


def test_states_by_key() -> None:
    keys = GrowingKeys()
    assert keys.read(None, {}) == {}
    assert keys.read(
        '{"a": 1, "$growing": {"x": {"first": 3, "count": 2}}}', {"state-3": "p", "state-4": "q"}
    ) == {
        "a": 1,
        "x": ("p", "q"),
    }


def test_a_short_value_stands_with_the_position() -> None:
    """Up to so many characters, and only texts of one line of ASCII go elsewhere."""
    most = INLINE_SIZE // 2
    short = {"a": 1, "history": ("x" * most, "y" * most)}
    assert split_growing(short) == (short, "", ())
    long = ("x" * most, "y" * most, "z")
    assert split_growing({"a": 1, "history": long}) == ({"a": 1}, "history", long)
    for other in ("é", "\n"):
        state = {"history": (*long, other)}
        assert split_growing(state) == (state, "", ())
    # The first long one: one file or table has one.
    assert split_growing({"b": long, "history": long}) == ({"history": long}, "b", long)
