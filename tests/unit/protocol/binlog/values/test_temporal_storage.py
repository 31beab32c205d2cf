"""DATE, TIME2, DATETIME2, TIMESTAMP2 and YEAR bytes."""

import pytest
from hypothesis import given, strategies as st

from replica_client.errors import EncodeError
from replica_client.protocol.binlog.values.temporal import Date, DateTime, Time, Timestamp
from replica_client.protocol.binlog.values.temporal_storage import (
    decode_date,
    decode_datetime2,
    decode_time2,
    decode_timestamp2,
    decode_year,
    encode_date,
    encode_datetime2,
    encode_time2,
    encode_timestamp2,
    encode_year,
)

digits = st.integers(0, 6)


@st.composite
def fractions(draw: st.DrawFn) -> tuple[int, int]:
    count = draw(digits)
    return draw(st.integers(0, 10**count - 1)) * 10 ** (6 - count), count


@given(st.booleans(), st.integers(0, 838), st.integers(0, 59), st.integers(0, 59), fractions())
def test_time_comes_back(
    negative: bool, hours: int, minutes: int, seconds: int, fraction: tuple[int, int]
) -> None:
    value = Time(negative, hours, minutes, seconds, *fraction)
    data = encode_time2(value, fraction[1])
    assert len(data) == 3 + (fraction[1] + 1) // 2
    back = decode_time2(data, fraction[1])
    assert back == value
    assert back.total_microseconds == 0 or str(back) == str(value)
    assert encode_time2(back, fraction[1]) == data


@given(
    st.tuples(st.integers(0, 9999), st.integers(0, 12), st.integers(0, 31)),
    st.tuples(st.integers(0, 23), st.integers(0, 59), st.integers(0, 59)),
    fractions(),
)
def test_datetime_and_date_come_back(
    date: tuple[int, int, int], clock: tuple[int, int, int], fraction: tuple[int, int]
) -> None:
    value = DateTime(*date, *clock, *fraction)
    back = decode_datetime2(encode_datetime2(value, fraction[1]), fraction[1])
    assert str(back) == str(value)
    assert decode_date(encode_date(Date(*date))) == Date(*date)


@given(st.integers(0, 2**32 - 1), fractions())
def test_timestamp_comes_back(seconds: int, fraction: tuple[int, int]) -> None:
    value = Timestamp(seconds if seconds or fraction[0] else None, *fraction)
    back = decode_timestamp2(encode_timestamp2(value, fraction[1]), fraction[1])
    assert str(back) == str(value)


@given(st.binary(min_size=3, max_size=8), digits)
def test_any_bytes_are_a_value_or_an_error(data: bytes, count: int) -> None:
    for decode, encode, size in (
        (decode_time2, encode_time2, 3),
        (decode_datetime2, encode_datetime2, 5),
        (decode_timestamp2, encode_timestamp2, 4),
    ):
        part = data[: size + (count + 1) // 2]
        try:
            value = decode(part, count)
        except ValueError:
            continue
        try:
            again = encode(value, count)
        except EncodeError:
            # A last digit that the column does not have.
            continue
        assert again == part


@pytest.mark.parametrize(
    ("data", "count", "text"),
    [
        ("7fffff", 0, "-00:00:01"),
        ("7fffffff", 2, "-00:00:00.01"),
        ("7fffff9d", 2, "-00:00:00.99"),
        ("7ffffeff", 2, "-00:00:01.01"),
        ("7ffffefffff6", 6, "-00:00:01.000010"),
        ("4b9105000000", 6, "-838:59:59.000000"),
    ],
)
def test_negative_times(data: str, count: int, text: str) -> None:
    value = decode_time2(bytes.fromhex(data), count)
    assert str(value) == text
    assert encode_time2(value, count).hex() == data


@pytest.mark.parametrize(
    ("decode", "data", "count"),
    [
        (decode_time2, "800fc0", 0),  # minute 63
        (decode_time2, "80003f", 0),  # second 63
        (decode_time2, "80000064", 2),  # 100 hundredths
        (decode_time2, "00000000", 0),  # four bytes
        (decode_datetime2, "7fffffffff", 0),  # negative
        (decode_datetime2, "998caafb5164", 1),
        (decode_datetime2, "ffffffffff", 0),
        (decode_timestamp2, "5fffffff64", 2),
        (decode_timestamp2, "5fffff", 0),
    ],
)
def test_impossible_bytes_are_refused(decode: object, data: str, count: int) -> None:
    with pytest.raises(ValueError):
        decode(bytes.fromhex(data), count)  # type: ignore[operator]


def test_dates_beyond_the_format_are_refused() -> None:
    with pytest.raises(ValueError):
        decode_date((13 << 5 | 2024 << 9).to_bytes(3, "little"))
    with pytest.raises(ValueError):
        decode_date((10000 << 9).to_bytes(3, "little"))


def test_year() -> None:
    assert decode_year(b"\0") == 0
    assert [decode_year(bytes((code,))) for code in (1, 255)] == [1901, 2155]
    assert all(decode_year(encode_year(year)) == year for year in (0, 1901, 2000, 2155))
    for year in (1, 1900, 2156):
        with pytest.raises(EncodeError):
            encode_year(year)


def test_a_fraction_that_the_column_has_not_is_not_written() -> None:
    with pytest.raises(EncodeError):
        encode_time2(Time(False, 0, 0, 0, 1, 6), 3)
    with pytest.raises(ValueError):
        encode_time2(Time(False, 0, 0, 0), 7)
