"""Integers, FLOAT, DOUBLE and BIT bytes."""

import math
import struct

import pytest
from hypothesis import given, strategies as st

from replica_client.errors import EncodeError
from replica_client.protocol.binlog.values.numbers import (
    decode_bit,
    decode_double,
    decode_float,
    decode_integer,
    encode_bit,
    encode_double,
    encode_float,
    encode_integer,
)


@given(st.sampled_from((1, 2, 3, 4, 8)), st.booleans(), st.data())
def test_integers_come_back(size: int, unsigned: bool, data: st.DataObject) -> None:
    bits = 8 * size
    low, high = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    value = data.draw(st.integers(low, high))
    assert decode_integer(encode_integer(value, size, unsigned), unsigned) == value
    with pytest.raises(EncodeError):
        encode_integer(high + 1, size, unsigned)
    with pytest.raises(EncodeError):
        encode_integer(low - 1, size, unsigned)


@given(st.floats(width=32, allow_nan=False))
def test_floats_keep_their_bytes(value: float) -> None:
    data = struct.pack("<f", value)
    assert encode_float(decode_float(data)) == data


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_floats_are_the_shortest(value: float) -> None:
    decoded = decode_float(struct.pack("<f", value))
    digits = _digits(decoded)
    assert digits <= 9
    for fewer in range(1, digits):
        shorter = float(f"{value:.{fewer}g}")
        try:
            assert encode_float(shorter) != encode_float(value) or _digits(shorter) >= digits
        except EncodeError:
            continue


def _digits(value: float) -> int:
    mantissa = repr(abs(value)).partition("e")[0]
    return len(mantissa.replace(".", "").strip("0"))


@pytest.mark.parametrize(
    "text",
    ["5.61", "-5.61", "0.1", "1.1", "3.4028235e+38", "1e-45", "16777216.0", "0.0", "-0.0", "1e-05"],
)
def test_floats_that_people_write(text: str) -> None:
    assert repr(decode_float(struct.pack("<f", float(text)))) == text


@given(st.floats(allow_nan=False))
def test_doubles_come_back(value: float) -> None:
    back = decode_double(encode_double(value))
    assert back == value
    assert math.copysign(1, back) == math.copysign(1, value)


@given(st.integers(1, 64), st.data())
def test_bits_come_back(size: int, data: st.DataObject) -> None:
    value = data.draw(st.integers(0, 2**size - 1))
    assert decode_bit(encode_bit(value, size)) == value
    with pytest.raises(EncodeError):
        encode_bit(2**size, size)


@pytest.mark.parametrize(
    ("decode", "data"),
    [
        (decode_float, b"123"),
        (decode_double, b"1234"),
        (decode_bit, b""),
        (decode_bit, b"123456789"),
        (decode_integer, b"12345"),
    ],
)
def test_wrong_sizes_are_refused(decode: object, data: bytes) -> None:
    with pytest.raises(ValueError):
        decode(data)  # type: ignore[operator]


def test_a_float_that_is_too_large_is_not_written() -> None:
    with pytest.raises(EncodeError):
        encode_float(1e39)
