"""The temporal formats of MySQL before 5.6 and MariaDB before 10.1."""

import pytest
from hypothesis import given, strategies as st

from replica_client.protocol.binlog.values import temporal_legacy as legacy
from replica_client.protocol.binlog.values.temporal import DateTime, Time, Timestamp

# Captured from MariaDB 10.11.18 and 11.8.6 with mysql56_temporal_format=OFF: the same bytes.
GOLDEN = [
    (legacy.decode_old_time, (), "25d8ff", "-01:02:03"),
    (legacy.decode_hires_time, (3,), "00b3ced4c0", "-01:02:03.456"),
    (legacy.decode_hires_time, (6,), "057e7bbcf7ff", "838:59:59.999999"),
    (legacy.decode_old_datetime, (), "1b0ba98b68120000", "2024-02-29 01:02:03"),
    (legacy.decode_hires_datetime, (1,), "00a965a1a472", "2024-02-29 01:02:03.4"),
    (legacy.decode_hires_datetime, (6,), "01027364ee4f7115", "2024-00-00 01:02:03.456789"),
    (legacy.decode_old_timestamp, (), "8bd7df65", "2024-02-29 01:02:03"),
    (legacy.decode_hires_timestamp, (2,), "65dfd78b2d", "2024-02-29 01:02:03.45"),
    (legacy.decode_hires_timestamp, (6,), "65dfd78b06f855", "2024-02-29 01:02:03.456789"),
]


@pytest.mark.parametrize(("decode", "digits", "data", "text"), GOLDEN)
def test_captured_bytes(decode: object, digits: tuple[int, ...], data: str, text: str) -> None:
    assert str(decode(bytes.fromhex(data), *digits)) == text  # type: ignore[operator]


@given(st.booleans(), st.integers(0, 838), st.integers(0, 59), st.integers(0, 59))
def test_time_comes_back(negative: bool, hours: int, minutes: int, seconds: int) -> None:
    value = Time(negative, hours, minutes, seconds)
    assert legacy.decode_old_time(legacy.encode_old_time(value)) == value
    for digits in range(1, 7):
        fine = Time(negative, hours, minutes, seconds, 10 ** (6 - digits), digits)
        back = legacy.decode_hires_time(legacy.encode_hires_time(fine, digits), digits)
        assert str(back) == str(fine)


@given(
    st.tuples(st.integers(0, 9999), st.integers(0, 12), st.integers(0, 31)),
    st.tuples(st.integers(0, 23), st.integers(0, 59), st.integers(0, 59)),
)
def test_datetime_comes_back(date: tuple[int, int, int], clock: tuple[int, int, int]) -> None:
    value = DateTime(*date, *clock)
    assert legacy.decode_old_datetime(legacy.encode_old_datetime(value)) == value
    for digits in range(1, 7):
        fine = DateTime(*date, *clock, 10 ** (6 - digits), digits)
        data = legacy.encode_hires_datetime(fine, digits)
        assert str(legacy.decode_hires_datetime(data, digits)) == str(fine)


@given(st.integers(1, 2**32 - 1))
def test_timestamp_comes_back(seconds: int) -> None:
    value = Timestamp(seconds)
    assert legacy.decode_old_timestamp(legacy.encode_old_timestamp(value)) == value
    for digits in range(1, 7):
        fine = Timestamp(seconds, 10 ** (6 - digits), digits)
        data = legacy.encode_hires_timestamp(fine, digits)
        assert str(legacy.decode_hires_timestamp(data, digits)) == str(fine)


def test_zero_timestamps() -> None:
    assert legacy.decode_old_timestamp(bytes(4)).is_zero
    assert legacy.decode_hires_timestamp(bytes(7), 6).is_zero
    assert legacy.encode_old_timestamp(Timestamp(None)) == bytes(4)


@pytest.mark.parametrize(
    ("decode", "data"),
    [
        (legacy.decode_old_time, (9999).to_bytes(3, "little")),
        (legacy.decode_old_time, b""),
        (legacy.decode_old_datetime, b"\xff" * 8),
        (legacy.decode_old_datetime, (20241301000000).to_bytes(8, "little")),
        (legacy.decode_old_timestamp, b"123"),
        (lambda data: legacy.decode_hires_time(data, 6), b"\xff" * 6),
        (lambda data: legacy.decode_hires_time(data, 0), b"\xff" * 3),
        (lambda data: legacy.decode_hires_datetime(data, 6), b"\xff" * 8),
        (lambda data: legacy.decode_hires_timestamp(data, 1), b"\0\0\0\0\x0a"),
    ],
)
def test_impossible_bytes_are_refused(decode: object, data: bytes) -> None:
    with pytest.raises(ValueError):
        decode(data)  # type: ignore[operator]
