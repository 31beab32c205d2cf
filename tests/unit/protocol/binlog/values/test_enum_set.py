"""ENUM and SET values."""

import copy
import json
import pickle

import pytest
from hypothesis import given, strategies as st

from replica_client.errors import EncodeError
from replica_client.protocol.binlog.values.value_types import (
    EnumValue,
    SetValue,
    decode_enum,
    decode_set,
    encode_enum,
    encode_set,
)

LABELS = ("red", "grün", "blue")


def test_enum_is_its_label() -> None:
    value = decode_enum(b"\x02", LABELS)
    assert (value.index, value.label) == (2, "grün")
    assert value == "grün" != "red"
    assert value == 2
    assert value.upper() == "GRÜN"
    assert json.dumps([value]) == json.dumps(["grün"])
    assert {value: 1}["grün"] == 1


def test_enum_index_0_is_the_empty_string() -> None:
    for value in (decode_enum(b"\0", LABELS), decode_enum(b"\0")):
        assert (value.index, value.label, str(value)) == (0, "", "")
        assert value == ""


def test_unresolved_enum_keeps_its_number_and_equals_no_text() -> None:
    value = decode_enum(b"\x03\x01")
    assert (value.index, value.label, f"{value}") == (0x103, None, "259")
    assert value != "259"
    assert value == 259
    assert EnumValue(3) != EnumValue(3, "blue")


def test_set_is_its_labels() -> None:
    value = decode_set(b"\x05", LABELS)
    assert (value.bits, value.labels, str(value)) == (5, ("red", "blue"), "red,blue")
    assert value == "red,blue"
    assert value == {"blue", "red"}
    assert value == 5
    assert "red" in value
    assert "grün" not in value
    assert "re" not in value
    assert list(value) == ["red", "blue"]
    assert len(value) == 2


def test_empty_and_unresolved_sets() -> None:
    empty = decode_set(b"\0", LABELS)
    assert (str(empty), len(empty), bool(empty)) == ("", 0, False)
    assert empty == decode_set(b"\0")
    value = decode_set(b"\x05")
    assert (value.bits, value.labels, str(value)) == (5, None, "5")
    assert value != "5"
    with pytest.raises(ValueError, match="not known"):
        list(value)


def test_numbers_beyond_the_labels_are_refused() -> None:
    with pytest.raises(ValueError, match="index 4"):
        decode_enum(b"\x04", LABELS)
    with pytest.raises(ValueError, match="0x8"):
        decode_set(b"\x08", LABELS)


@pytest.mark.parametrize(
    "value", [EnumValue(2, "grün"), EnumValue(7), SetValue(5, ("a", "c")), SetValue(5), SetValue(0)]
)
def test_values_are_immutable_and_copied(value: EnumValue | SetValue) -> None:
    for other in (pickle.loads(pickle.dumps(value)), copy.deepcopy(value)):
        assert other == value
        assert type(other) is type(value)
        assert repr(other) == repr(value)
        assert hash(other) == hash(value)
    with pytest.raises(AttributeError):
        value.label = "x"  # type: ignore[union-attr]


@given(st.integers(0, 3))
def test_enum_comes_back(index: int) -> None:
    assert encode_enum(decode_enum(bytes((index,)), LABELS), 1) == bytes((index,))
    with pytest.raises(EncodeError):
        encode_enum(EnumValue(256), 1)


@given(st.sampled_from((1, 2, 3, 4, 8)), st.data())
def test_set_comes_back(size: int, data: st.DataObject) -> None:
    stored = data.draw(st.binary(min_size=size, max_size=size))
    labels = [f"l{at}" for at in range(8 * size)]
    value = decode_set(stored, labels)
    assert encode_set(value, size) == stored
    bits = int.from_bytes(stored, "little")
    assert list(value) == [f"l{at}" for at in range(64) if bits >> at & 1]


def test_sizes() -> None:
    for data in (b"", b"123"):
        with pytest.raises(ValueError):
            decode_enum(data)
    for data in (b"", b"123456789"):
        with pytest.raises(ValueError):
            decode_set(data)


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        (("", "x"), "x"),
        (("x", ""), "x,"),
        (("a", "", "b"), "a,,b"),
        (("",), ""),
        ((), ""),
        (("a", "b"), "a,b"),
    ],
)
def test_a_set_with_an_empty_label_has_the_text_of_the_server(
    labels: tuple[str, ...], text: str
) -> None:
    # Seen with SELECT of SET('', 'x'), SET('x', '') and SET('a', '', 'b') on MySQL 9.7 and MariaDB 11.8.
    assert str(SetValue((1 << len(labels)) - 1, labels)) == text
