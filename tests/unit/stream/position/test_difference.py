"""What lies between two positions."""

from __future__ import annotations

import pytest

from replica_client.protocol.position import Position, difference

SIZES = {"b.000001": 1000, "b.000002": 500, "b.000003": 2000}
SID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


@pytest.mark.parametrize(
    ("first", "second", "ahead"),
    [
        ("b.000001:4", "b.000001:4", 0),
        ("b.000001:4", "b.000001:904", 900),
        ("b.000001:904", "b.000001:4", -900),
        ("b.000001:900", "b.000002:4", 104),
        ("b.000002:4", "b.000001:900", -104),
        ("b.000001:900", "b.000003:4", 604),
        ("b.000003:4", "b.000001:900", -604),
        ("b.000001:4", "b.000009:4", None),
        ("b.000000:4", "b.000003:4", None),
        ("b.000009:4", "b.000001:4", None),
    ],
)
def test_bytes(first: str, second: str, ahead: int | None) -> None:
    found = difference(Position.parse(first), Position.parse(second), SIZES)
    assert found.bytes_ahead == ahead
    assert found.only_first is None
    assert found.only_second is None
    assert found.is_none == (ahead == 0)


def test_bytes_without_sizes_or_files() -> None:
    one, other = Position("b.000001", 4), Position("b.000002", 4)
    assert difference(one, other).bytes_ahead is None
    assert difference(one, Position("b.000001", 5)).bytes_ahead == 1
    assert difference(Position("", 4), other, SIZES).bytes_ahead is None
    assert difference(one, Position("", 4), SIZES).bytes_ahead is None


def test_gtids_of_mysql() -> None:
    one = Position.parse(f"@{SID}:1-5:9")
    other = Position.parse(f"@{SID}:1-7")
    found = difference(one, other)
    assert (found.only_first, found.only_second) == (f"{SID}:9", f"{SID}:6-7")
    assert not found.is_none
    same = difference(one, one)
    assert (same.only_first, same.only_second, same.is_none) == ("", "", True)
    assert not difference(one, Position.parse(f"@{SID}:1-5")).is_none
    assert not difference(Position.parse(f"@{SID}:1-5"), one).is_none


def test_gtids_of_mariadb() -> None:
    one, other = Position.parse("@0-1-10,1-1-5,2-1-7"), Position.parse("@0-2-9,1-3-6")
    found = difference(one, other)
    assert (found.only_first, found.only_second) == ("0-1-10,2-1-7", "1-3-6")
    again = difference(Position.parse("@0-1-10"), Position.parse("@0-2-10"))
    assert (again.only_first, again.only_second, again.is_none) == ("", "", True)
    assert difference(one, Position.parse(f"@{SID}:1-5")).only_first is None
