"""Date, Time, DateTime and Timestamp as values."""

import copy
import datetime
import pickle

import pytest

from replica_client.binlog.values.temporal import Date, DateTime, Time, Timestamp

VALUES = [
    Date(2024, 2, 29),
    Time(True, 838, 59, 59, 1, 6),
    DateTime(2024, 2, 29, 1, 2, 3, 450000, 2),
    Timestamp(1709168523, 450000, 2),
    Timestamp(None, 0, 3),
]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Date(0, 0, 0), "0000-00-00"),
        (Date(2024, 2, 0), "2024-02-00"),
        (Time(True, 838, 59, 59, 0, 6), "-838:59:59.000000"),
        (Time(True, 0, 0, 0, 10000, 2), "-00:00:00.01"),
        (Time(False, 1, 2, 3), "01:02:03"),
        (DateTime(0, 0, 0), "0000-00-00 00:00:00"),
        (DateTime(2024, 2, 29, 1, 2, 3, 4, 6), "2024-02-29 01:02:03.000004"),
        (Timestamp(None), "0000-00-00 00:00:00"),
        (Timestamp(None, 0, 2), "0000-00-00 00:00:00.00"),
        (Timestamp(4294967295, 120000, 2), "2106-02-07 06:28:15.12"),
        (Timestamp(0, 500000, 1), "1970-01-01 00:00:00.5"),
    ],
)
def test_text_is_mysqls_own(value: object, text: str) -> None:
    assert str(value) == text


def test_python_types() -> None:
    assert Date(2024, 2, 29).to_python() == datetime.date(2024, 2, 29)
    assert Time(True, 0, 0, 0, 10000, 2).to_python() == datetime.timedelta(microseconds=-10000)
    assert Time(False, 838, 59, 59).to_python() == datetime.timedelta(
        hours=838, minutes=59, seconds=59
    )
    naive = DateTime(2024, 2, 29, 1, 2, 3, 4, 6).to_python()
    assert naive == datetime.datetime.fromisoformat("2024-02-29 01:02:03.000004")
    aware = Timestamp(1, 5).to_python()
    assert aware == datetime.datetime(1970, 1, 1, 0, 0, 1, 5, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    "value",
    [Date(0, 0, 0), Date(2024, 2, 0), Date(2023, 2, 29), DateTime(2024, 0, 1), Timestamp(None)],
)
def test_what_python_cannot_hold_raises(value: Date | DateTime | Timestamp) -> None:
    with pytest.raises(ValueError):
        value.to_python()


def test_order() -> None:
    assert Time(True, 1, 0, 0) < Time(True, 0, 59, 59) < Time(False, 0, 0, 0) < Time(False, 0, 0, 1)
    assert Date(2024, 1, 31) < Date(2024, 2, 0) <= Date(2024, 2, 0)
    assert (
        DateTime(2024, 1, 1, 23) < DateTime(2024, 1, 2) > DateTime(2024, 1, 1, 23, 59, 59, 999999)
    )
    assert Timestamp(None) < Timestamp(0) < Timestamp(0, 1) < Timestamp(1)
    with pytest.raises(TypeError):
        sorted([Date(2024, 1, 1), Time(False, 0, 0, 0)])


def test_fraction_digits_do_not_count_for_equality() -> None:
    assert Time(False, 1, 0, 0, 0, 6) == Time(False, 1, 0, 0)
    assert hash(DateTime(2024, 1, 1, fraction_digits=6)) == hash(DateTime(2024, 1, 1))
    assert Date(2024, 1, 1) != DateTime(2024, 1, 1)
    assert Date(2024, 1, 1) != "2024-01-01"
    assert Time(True, 0, 0, 0) == Time(False, 0, 0, 0)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_copies_are_equal(value: object) -> None:
    for other in (pickle.loads(pickle.dumps(value)), copy.deepcopy(value), eval(repr(value))):
        assert other == value
        assert str(other) == str(value)
        assert hash(other) == hash(value)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_cannot_be_changed(value: object) -> None:
    with pytest.raises(AttributeError):
        value.fraction_digits = 3  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        value.year = 3  # type: ignore[attr-defined]


def test_zero_timestamp_has_no_seconds() -> None:
    assert Timestamp(None).seconds is None
    assert Timestamp(None).is_zero
    assert Timestamp(0, 1).seconds == 0
    assert not Timestamp(0, 1).is_zero
    assert Date(0, 0, 0).is_zero
    assert DateTime(0, 0, 0).is_zero
    assert not DateTime(0, 0, 0, 0, 0, 1).is_zero
