"""MariaDB GTIDs and positions."""

import pytest

from replica_client.errors import GtidFormatError
from replica_client.protocol.gtid import MariadbGtid, MariadbGtidSet


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", ""),
        ("  ", ""),
        ("0-1-100", "0-1-100"),
        (" 1-2-3 , 0-1-0018446744073709551615", "0-1-18446744073709551615,1-2-3"),
        ("0-2-7,0-1-5", "0-2-7,0-1-5"),  # the order within a domain tells which is the last
    ],
)
def test_text(text, canonical):
    value = MariadbGtidSet.parse(text)
    assert str(value) == canonical
    assert MariadbGtidSet.parse(str(value)) == value
    assert MariadbGtidSet.decode(value.encode()) == value
    assert MariadbGtidSet.from_json(value.to_json()) == value


@pytest.mark.parametrize(
    "text",
    ["0", "0-1", "0-1-", "0-1-2-3", "0-1-2,", ",0-1-2", "0-1-2 3", "0 -1-2", "-1-1-2", "a-1-2",
     "4294967296-1-1", "0-4294967296-1", "0-1-18446744073709551616", "0-1-5,0-1-6"],
)  # fmt: skip
def test_text_refused(text):
    with pytest.raises(GtidFormatError):
        MariadbGtidSet.parse(text)


def test_wire_form():
    value = MariadbGtidSet.parse("0-1-5,3-2-9")
    expected = "02000000" + "00000000010000000500000000000000" + "030000000200000009" + "00" * 7
    data = value.encode()
    assert data.hex() == expected
    for size in range(len(data)):
        with pytest.raises(GtidFormatError):
            MariadbGtidSet.decode(data[:size])
    with pytest.raises(GtidFormatError):
        MariadbGtidSet.decode(bytes.fromhex("ffffff0f") + data[4:])
    flagged = data[:3] + b"\x10" + data[4:]  # flags of GTID_LIST are no part of the count
    assert MariadbGtidSet.decode(flagged) == value


def test_update_moves_one_domain():
    start = MariadbGtidSet.parse("0-1-5,1-1-3")
    after = start.add(MariadbGtid(0, 2, 6)).add(MariadbGtid(7, 1, 1))
    assert str(start) == "0-1-5,1-1-3"
    assert str(after) == "0-1-5,0-2-6,1-1-3,7-1-1"
    assert after.slave_connect_state() == "0-2-6,1-1-3,7-1-1"
    back = after.add(MariadbGtid(0, 1, 7))
    assert back.slave_connect_state() == "0-1-7,1-1-3,7-1-1"
    assert back.last_of(0) == MariadbGtid(0, 1, 7)
    assert back.last_of(9) is None
    assert back.domains == (0, 1, 7)


def test_position_goes_where_the_last_gtid_went_even_backwards():
    value = MariadbGtidSet.parse("0-1-50").add(MariadbGtid(0, 1, 40))
    assert str(value) == "0-1-40"


def test_contains_and_order():
    value = MariadbGtidSet.parse("0-1-5,0-2-7,1-1-3")
    assert "0-1-5" in value and "0-2-7" in value and "0-9-7" in value
    assert "0-1-6" not in value  # its own server is known, and has not reached it
    assert "0-1-8" not in value and "2-1-1" not in value
    earlier = MariadbGtidSet.parse("0-1-5")
    assert earlier <= value and earlier < value and value > earlier and value >= earlier
    other = MariadbGtidSet.parse("5-1-1")
    assert not other <= value and not value <= other
    assert MariadbGtidSet() <= other and not MariadbGtidSet()


def test_union_takes_the_later_of_each():
    a, b = MariadbGtidSet.parse("0-1-5,0-2-9"), MariadbGtidSet.parse("0-1-7,3-1-1")
    assert str(a | b) == "0-1-7,0-2-9,3-1-1"
    assert (a | b).slave_connect_state() == "0-2-9,3-1-1"
    assert a <= a | b and b <= a | b


def test_gtid_text_and_range():
    assert MariadbGtid.parse("0-1-2") == MariadbGtid(0, 1, 2)
    with pytest.raises(GtidFormatError):
        MariadbGtid(0, 1, 1 << 64)
    with pytest.raises(GtidFormatError):
        MariadbGtid(0, -1, 1)
