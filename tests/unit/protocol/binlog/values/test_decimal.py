"""DECIMAL bytes."""

from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from replica_client.errors import EncodeError
from replica_client.protocol.binlog.values.decimal import (
    decimal_size,
    decode_decimal,
    decode_old_decimal,
    encode_decimal,
    encode_old_decimal,
)


@st.composite
def columns(draw: st.DrawFn) -> tuple[int, int]:
    precision = draw(st.integers(1, 65))
    return precision, draw(st.integers(0, min(precision, 38)))


@given(columns(), st.data())
def test_every_number_comes_back(column: tuple[int, int], data: st.DataObject) -> None:
    precision, scale = column
    number = data.draw(st.integers(-(10**precision) + 1, 10**precision - 1))
    value = Decimal(f"{number}E-{scale}")
    stored = encode_decimal(value, precision, scale)
    assert len(stored) == decimal_size(precision, scale)
    back = decode_decimal(stored, precision, scale)
    assert str(back) == str(value)
    assert encode_decimal(back, precision, scale) == stored


@given(columns(), st.data())
def test_bytes_sort_as_numbers_do(column: tuple[int, int], data: st.DataObject) -> None:
    precision, scale = column
    numbers = st.integers(-(10**precision) + 1, 10**precision - 1)
    one, other = (Decimal(f"{data.draw(numbers)}E-{scale}") for _ in range(2))
    in_bytes = encode_decimal(one, precision, scale) < encode_decimal(other, precision, scale)
    assert in_bytes == (one < other)


@given(columns(), st.data())
def test_any_bytes_are_a_number_or_an_error(column: tuple[int, int], data: st.DataObject) -> None:
    size = decimal_size(*column)
    stored = data.draw(st.binary(min_size=size, max_size=size))
    try:
        value = decode_decimal(stored, *column)
    except ValueError:
        return
    assert encode_decimal(value, *column) == stored


@pytest.mark.parametrize(
    ("data", "precision", "scale", "text"),
    [
        ("810dfb38d204d2", 14, 4, "1234567890.1234"),
        ("7ef204c72dfb2d", 14, 4, "-1234567890.1234"),
        ("80000000000000010a", 20, 2, "1.10"),
        ("8000000000", 10, 2, "0.00"),
        ("80", 1, 0, "0"),
        ("8000", 1, 1, None),
    ],
)
def test_known_bytes(data: str, precision: int, scale: int, text: str | None) -> None:
    if text is None:
        with pytest.raises(ValueError):
            decode_decimal(bytes.fromhex(data), precision, scale)
        return
    assert f"{decode_decimal(bytes.fromhex(data), precision, scale):f}" == text


def test_the_largest_decimal() -> None:
    text = "-" + "9" * 35 + "." + "9" * 30
    assert f"{decode_decimal(encode_decimal(Decimal(text), 65, 30), 65, 30):f}" == text


@pytest.mark.parametrize("column", [(0, 0), (66, 0), (10, 11), (65, 39), (5, -1)])
def test_impossible_columns(column: tuple[int, int]) -> None:
    with pytest.raises(ValueError):
        decimal_size(*column)


@pytest.mark.parametrize("value", ["100", "0.001", "NaN", "Infinity", "-12.345"])
def test_what_does_not_fit_is_not_written(value: str) -> None:
    with pytest.raises(EncodeError):
        encode_decimal(Decimal(value), 4, 2)


def test_old_decimal_is_text() -> None:
    assert decode_old_decimal(b"   -12.50") == Decimal("-12.50")
    assert str(decode_old_decimal(encode_old_decimal(Decimal("-0.10"), 12))) == "-0.10"
    for data in (b"", b"   ", b"1,5", b"\xff"):
        with pytest.raises(ValueError):
            decode_old_decimal(data)
    with pytest.raises(EncodeError):
        encode_old_decimal(Decimal("123456"), 3)
