"""Position: text, JSON, order."""

import itertools
import json

import pytest

from replica_client.errors import PositionFormatError, ReplicaClientError
from replica_client.protocol.gtid import GtidSet, MariadbGtidSet
from replica_client.schema.known_tables import LogPosition
from replica_client.stream.position import Position

U = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("binlog.000024:1472", Position("binlog.000024", 1472)),
        ("binlog.000024:1472/3", Position("binlog.000024", 1472, None, 3)),
        ("binlog.000024:1472/3.7", Position("binlog.000024", 1472, None, 3, 7)),
        ("binlog.000024:1472/0.7", Position("binlog.000024", 1472, None, 0, 7)),
        (f"binlog.000024:4@{U}:1-77", Position("binlog.000024", 4, GtidSet.parse(f"{U}:1-77"))),
        (
            f"b.1:4/2@{U}:1-7:tag:3,{U[:-1]}5:1",
            Position("b.1", 4, GtidSet.parse(f"{U}:1-7:tag:3,{U[:-1]}5:1"), 2),
        ),
        ("m.1:330@0-1-100,1-2-3", Position("m.1", 330, MariadbGtidSet.parse("0-1-100,1-2-3"))),
        (f"@{U}:1-77", Position("", 0, GtidSet.parse(f"{U}:1-77"))),
        ("@0-1-100", Position("", 0, MariadbGtidSet.parse("0-1-100"))),
        ("@", Position("", 0, GtidSet())),
        ("b.1:4@", Position("b.1", 4, GtidSet())),
        ("b.1:4@-", Position("b.1", 4, MariadbGtidSet())),
        ("a%3Ab%40c%25%20.000001:5", Position("a:b@c% .000001", 5)),
        ("\x85\u2003b.1:5", Position("\x85\u2003b.1", 5)),
        ("b.1:18446744073709551615", Position("b.1", 2**64 - 1)),
    ],
)  # fmt: skip
def test_text(text, position):
    assert Position.parse(text) == position
    assert str(position) == text
    assert Position.from_json(position.to_json()) == position
    assert Position.from_json(json.dumps(position.to_json())) == position


def test_text_may_have_spaces_around():
    assert Position.parse(f" b.1:4@ {U}:1 \n") == Position("b.1", 4, GtidSet.parse(f"{U}:1"))


@pytest.mark.parametrize(
    "text",
    ["", "   ", "binlog.000001", "binlog.000001:", ":", "b:x", "b:-1", "b:4/", "b:4/1.", "b:4/x",
     "b:4.1", "b:4@zz", "b:4@1-2", "a:b:4", "b:18446744073709551616", f"{U}:1-5:",
     "b:4/99999999999"],
)  # fmt: skip
def test_text_refused(text):
    with pytest.raises(PositionFormatError) as caught:
        Position.parse(text)
    assert isinstance(caught.value, (ReplicaClientError, ValueError))


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"version": None},
        {"file": None},
        {"file": 3},
        {"offset": "4"},
        {"offset": True},
        {"offset": -1},
        {"offset": 2**64},
        {"event_index": 1.5},
        {"gtid_flavor": None},
        {"gtid_flavor": "oracle"},
        {"gtid_set": 5},
        {"gtid_set": "nonsense"},
        {"gtid_flavor": "mariadb"},
    ],
)
def test_json_refused(change):
    value = {**Position("b.1", 4, GtidSet.parse(f"{U}:1")).to_json(), **change}
    with pytest.raises(PositionFormatError):
        Position.from_json(value)


@pytest.mark.parametrize("value", [None, [], "", "{", "5", 5, {}])
def test_json_of_another_kind_is_refused(value):
    with pytest.raises(PositionFormatError):
        Position.from_json(value)


def test_order_follows_rotation():
    ascending = [
        Position("binlog.000001", 4),
        Position("binlog.000001", 1000),
        Position("binlog.000001", 1000, None, 1),
        Position("binlog.000001", 1000, None, 1, 5),
        Position("binlog.000001", 1000, None, 2),
        Position("binlog.000001", 1001),
        Position("binlog.000009", 4),
        Position("binlog.000010", 4),
        Position("binlog.999999", 2**40),
        Position("binlog.1000000", 4),
        Position("binlog.2147483647", 4),
        Position("binlog-2.000001", 4),
        Position("binlog-2.000002", 4),
        Position("binlog-10.000001", 4),
    ]
    for left, right in itertools.combinations(ascending, 2):
        assert left < right and left <= right and right > left and right >= left
        assert not right < left and not right <= left
        assert left.sort_key() < right.sort_key()
        mine, other = (LogPosition.of(one.file, one.offset) for one in (left, right))
        assert mine <= other
        assert mine < other or left.file == right.file


def test_order_ignores_the_gtid_set_and_equality_does_not():
    a, b = Position("b.1", 4), Position("b.1", 4, GtidSet.parse(f"{U}:1"))
    assert a != b and a <= b and b <= a and not a < b
    assert len({a, b, Position("b.1", 4)}) == 2


def test_sort_key_has_a_fixed_form():
    assert (
        Position("binlog.000024", 1472, None, 3, 7).sort_key()
        == "binlog.00000000000000000024:00000000000000001472/0000000003.0000000007"
    )


def test_files_without_numbers_are_ordered_by_name():
    assert Position("a", 9) < Position("b", 4)
    assert Position("dir-a.7", 9) < Position("dir-b.6", 4)
