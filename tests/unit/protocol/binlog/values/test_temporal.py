"""Date, Time, DateTime and Timestamp as values."""

import copy
import datetime
import pickle

import pytest
from hypothesis import given, strategies as st

from replica_client.protocol.binlog.values.temporal import Date, DateTime, Time, Timestamp

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


UTC = datetime.UTC
DATES = st.dates()
TIMES = st.timedeltas(datetime.timedelta(hours=-838), datetime.timedelta(hours=838))
NAIVE = st.datetimes()
AWARE = st.datetimes(
    datetime.datetime(1970, 1, 2),  # noqa: DTZ001
    datetime.datetime(2106, 2, 7),  # noqa: DTZ001
    timezones=st.sampled_from([UTC, datetime.timezone(datetime.timedelta(hours=-5))]),
)


def ours(value: object) -> Date | Time | DateTime | Timestamp:
    if isinstance(value, datetime.datetime):
        if value.tzinfo is None:
            return DateTime(*value.timetuple()[:6], value.microsecond, 6)
        whole = value.astimezone(UTC)
        return Timestamp(int(whole.replace(microsecond=0).timestamp()), whole.microsecond, 6)
    if isinstance(value, datetime.timedelta):
        total = abs(value)
        hours, rest = divmod(total.days * 86400 + total.seconds, 3600)
        negative = value < datetime.timedelta()
        return Time(negative, hours, rest // 60, rest % 60, total.microseconds, 6)
    assert isinstance(value, datetime.date)
    return Date(value.year, value.month, value.day)


@given(st.one_of(*(st.tuples(kind, kind) for kind in (DATES, TIMES, NAIVE, AWARE))))
def test_ours_and_pythons_compare_alike(pair: tuple[object, object]) -> None:
    left, right = pair
    assert ours(left) == left == ours(left).to_python()
    assert hash(ours(left)) == hash(left)
    for one, other in ((ours(left), right), (left, ours(right)), (ours(left), ours(right))):
        assert (one == other) is (left == right)
        assert (one != other) is (left != right)
        assert (one < other) is (left < right)
        assert (one <= other) is (left <= right)
        assert (one > other) is (left > right)
        assert (one >= other) is (left >= right)


MIDNIGHT = datetime.datetime(2024, 2, 29)  # noqa: DTZ001
STRANGERS = [
    (Date(2024, 2, 29), MIDNIGHT),
    (DateTime(2024, 2, 29), datetime.date(2024, 2, 29)),
    (DateTime(2024, 2, 29), MIDNIGHT.replace(tzinfo=UTC)),
    (DateTime(2024, 2, 0), MIDNIGHT.replace(tzinfo=UTC)),
    (Timestamp(1709168523), MIDNIGHT),
    (Timestamp(None), MIDNIGHT),
    (Time(False, 1, 2, 3), datetime.time(1, 2, 3)),
    (Date(2024, 2, 29), "2024-02-29"),
    (Date(2024, 2, 29), DateTime(2024, 2, 29)),
    (DateTime(2024, 2, 29), Timestamp(1709168523)),
]


@pytest.mark.parametrize(("one", "other"), STRANGERS)
def test_other_kinds_are_unequal_and_have_no_order(one: object, other: object) -> None:
    for left, right in ((one, other), (other, one)):
        assert left != right
        assert not left == right  # noqa: SIM201
        with pytest.raises(TypeError):
            left < right  # noqa: B015
        with pytest.raises(TypeError):
            left >= right  # noqa: B015


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        (Date(0, 0, 0), datetime.date(1, 1, 1)),
        (Date(2024, 2, 0), datetime.date(2024, 2, 1)),
        (DateTime(0, 0, 0), datetime.datetime(1, 1, 1)),  # noqa: DTZ001
        (DateTime(2024, 0, 5, 23, 59, 59, 999999, 6), datetime.datetime(2024, 1, 1)),  # noqa: DTZ001
        (Timestamp(None), datetime.datetime(1, 1, 1, tzinfo=UTC)),
        (Timestamp(None, 0, 6), datetime.datetime(1970, 1, 1, tzinfo=UTC)),
    ],
)
def test_what_python_cannot_hold_stands_before(before: object, behind: object) -> None:
    assert before < behind
    assert before <= behind
    assert behind > before
    assert not before > behind
    assert before != behind
    assert len({before, behind}) == 2


def test_days_that_a_month_has_not_stand_where_sql_has_them() -> None:
    assert datetime.date(2023, 2, 28) < Date(2023, 2, 31) < datetime.date(2023, 3, 1)
