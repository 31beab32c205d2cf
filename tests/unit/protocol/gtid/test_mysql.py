"""GTID sets of MySQL: text as the server reads and prints it, wire form, algebra.

The pairs of texts were answered by a MySQL 9.7.4 (`SELECT GTID_SUBTRACT(text, '')`);
tests/integration/test_gtid_server.py asks again.
"""

import pytest

from replica_client.errors import GtidFormatError
from replica_client.protocol.gtid import (
    Gtid,
    GtidSet,
    GtidSetBuilder,
    MariadbGtidSet,
    parse_gtid_set,
)
from tests.unit.protocol.gtid.texts import ACCEPTED, REFUSED, U, V

SID = bytes.fromhex(U.replace("-", ""))


@pytest.mark.parametrize(("text", "canonical"), ACCEPTED)
def test_parse_gives_the_servers_canonical_text(text, canonical):
    value = GtidSet.parse(text)
    assert str(value) == canonical
    assert GtidSet.parse(str(value)) == value
    assert GtidSet.parse(value.compact()) == value
    assert "\n" not in value.compact()
    assert GtidSet.from_json(value.to_json()) == value
    assert GtidSet.decode(value.encode()) == value
    assert bool(value) == bool(canonical)


@pytest.mark.parametrize("text", REFUSED)
def test_parse_refuses_what_the_server_refuses(text):
    with pytest.raises(GtidFormatError):
        GtidSet.parse(text)


def test_gtid_text():
    gtid = Gtid.parse(f" {U.upper()} : Tag : 007 ")
    assert gtid == Gtid(SID, 7, "tag")
    assert str(gtid) == f"{U}:tag:7"
    assert str(Gtid(SID, 3)) == f"{U}:3"
    for text in (
        "",
        U,
        f"{U}:",
        f"{U}:0",
        f"{U}:1-2",
        f"{U}:tag",
        f"{U}::1",
        f"{U}:a:b:1",
        "0-1-2",
    ):
        with pytest.raises(GtidFormatError):
            Gtid.parse(text)


@pytest.mark.parametrize("parts", [(b"x", 1), (SID, 0), (SID, 2**63 - 1), (SID, 1, "1a")])
def test_gtid_checks_its_parts(parts):
    with pytest.raises(GtidFormatError):
        Gtid(*parts)


def test_wire_form_without_tags():
    value = GtidSet.parse(f"{U}:1-9")
    expected = "0100000000000000" + SID.hex() + "01" + "00" * 7 + "01" + "00" * 7 + "0a" + "00" * 7
    assert value.encode().hex() == expected


def test_wire_form_with_tags():
    value = GtidSet.parse(f"{U}:1-2:mytag:1-10")
    expected = (
        "0102000000000001"
        + SID.hex()
        + "00"
        + "01" + "00" * 7 + "01" + "00" * 7 + "03" + "00" * 7
        + SID.hex()
        + "0a6d79746167"
        + "01" + "00" * 7 + "01" + "00" * 7 + "0b" + "00" * 7
    )  # fmt: skip
    assert value.encode().hex() == expected
    assert GtidSet.decode(bytes.fromhex(expected)) == value
    assert GtidSet.decode(value.encode(tags=False)) == GtidSet.parse(f"{U}:1-2")
    plain = GtidSet.parse(f"{U}:1")
    assert GtidSet.decode(plain.encode(tags=True)) == plain
    assert plain.encode(tags=True) != plain.encode()


@pytest.mark.parametrize("text", [f"{U}:1-9", f"{U}:1-2:mytag:1-10,{V}:x:7"])
def test_wire_form_cut_anywhere_or_with_more_bytes_is_refused(text):
    data = GtidSet.parse(text).encode()
    for size in range(len(data)):
        with pytest.raises(GtidFormatError):
            GtidSet.decode(data[:size])
    with pytest.raises(GtidFormatError):
        GtidSet.decode(data + b"\0")


@pytest.mark.parametrize(
    "data",
    [
        "ffffffffffffff00",  # more UUIDs than bytes
        "0000000000000002",  # unknown format
        "0002000000000001",  # two pairs announced
        "0100000000000000" + SID.hex() + "ffffffffffffffff",
        "0100000000000000" + SID.hex() + "0100000000000000" + "00" * 8 + "02" + "00" * 7,
        "0100000000000000" + SID.hex() + "0100000000000000" + "02" + "00" * 7 + "02" + "00" * 7,
        "0100000000000000" + SID.hex() + "0100000000000000" + "ff" * 8 + "02" + "00" * 7,
        "0101000000000001" + SID.hex() + "02" + "2d" + "00" * 8,  # tag "-"
        "0101000000000001" + SID.hex() + "03" + "61" + "00" * 8,  # two-byte length of 24
    ],
)
def test_hostile_wire_forms_are_refused(data):
    with pytest.raises(GtidFormatError):
        GtidSet.decode(bytes.fromhex(data))


def test_wire_forms_that_the_server_reads_though_it_never_writes_them():
    one = "01" + "00" * 7 + "01" + "00" * 7 + "0a" + "00" * 7
    head = "0101000000000001" + SID.hex()
    assert GtidSet.decode(bytes.fromhex("0100000000000000" + SID.hex() + "00" * 8)) == GtidSet()
    assert GtidSet.decode(bytes.fromhex(head + "050061" + one)).compact() == f"{U}:a:1-9"
    assert GtidSet.decode(bytes.fromhex(head + "0241" + one)).compact() == f"{U}:a:1-9"
    twice = "0200000000000000" + (SID.hex() + one) * 2
    assert GtidSet.decode(bytes.fromhex(twice)).compact() == f"{U}:1-9"
    with pytest.raises(GtidFormatError):  # intervals that touch: "Malformed GTID set encoding"
        GtidSet.decode(
            bytes.fromhex(
                "0100000000000000" + SID.hex() + "02" + one[2:] + "0a" + "00" * 7 + "0b" + "00" * 7
            )
        )


def test_algebra():
    a = GtidSet.parse(f"{U}:1-10:t:1-5")
    b = GtidSet.parse(f"{U}:5-15,{V}:1")
    assert (a | b).compact() == f"{V}:1,{U}:1-15:t:1-5"
    assert (a & b).compact() == f"{U}:5-10"
    assert (a - b).compact() == f"{U}:1-4:t:1-5"
    assert (a & b) <= a < (a | b) >= b
    assert (a | b) > b and not a <= b
    assert a.isdisjoint(GtidSet.parse(f"{V}:1")) and not a.isdisjoint(b)
    assert a.count == 15
    assert f"{U}:t:5" in a and f"{U}:t:6" not in a and Gtid(SID, 10) in a
    assert a.add(Gtid(SID, 11)).compact() == f"{U}:1-11:t:1-5"
    assert a.compact() == f"{U}:1-10:t:1-5"
    assert len({a, GtidSet.parse(str(a)), b}) == 2
    assert GtidSet(list(GtidSet.parse(f"{U}:2-3:x:4"))).compact() == f"{U}:2-3:x:4"
    assert a.has_tags and not b.has_tags
    with pytest.raises(TypeError):
        _ = a <= 3


def test_builder_shares_and_does_not_change_what_it_gave():
    builder = GtidSetBuilder(GtidSet.parse(f"{U}:1-10"))
    before = builder.snapshot()
    assert builder.add(Gtid(SID, 11))
    assert not builder.add(Gtid(SID, 11))
    assert builder.add_number(SID, 1, "x")
    builder.update(GtidSet.parse(f"{V}:4-6"))
    builder.update(GtidSet.parse(f"{U}:" + ":".join(str(n) for n in range(20, 400, 2))))
    builder.add(Gtid(SID, 12))
    assert before.compact() == f"{U}:1-10"
    after = builder.snapshot()
    assert builder.snapshot() is after
    assert after.count == 12 + 190 + 1 + 3
    assert Gtid(SID, 398) in builder and Gtid(SID, 399) not in builder


def test_flavor_by_text():
    assert isinstance(parse_gtid_set(f"{U}:1"), GtidSet)
    assert isinstance(parse_gtid_set(""), GtidSet)
    assert isinstance(parse_gtid_set(" 0-1-2,1-1-5"), MariadbGtidSet)
    with pytest.raises(GtidFormatError):
        parse_gtid_set("binlog.000001")


@pytest.mark.parametrize("value", [None, 3, ["x"], {}])
def test_json_refuses_other_types(value):
    with pytest.raises(GtidFormatError):
        GtidSet.from_json(value)
    with pytest.raises(GtidFormatError):
        MariadbGtidSet.from_json(value)
