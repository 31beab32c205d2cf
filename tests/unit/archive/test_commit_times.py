"""A time is a commit time: in ranges, moments, indexes and outputs, and a mistyped question is an error."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

import replica_client as rc
from replica_client.stream.live.skipped_events import TimeGate
from replica_client.stream.transactions.arguments import micros_of, parse_start, stop_of, time_text

DATA = Path(rc.__file__).parent / "testing" / "data"
DEMO = sorted(DATA.glob("shop-bin.0*"))
ZONES = ("+00:00", "+05:30", "-03:00")


@pytest.mark.parametrize(
    "text", ["2020-01-01", "2020-12-31", "2020-10-10", "2020-01-01T10:00:00.000001"]
)
def test_a_date_is_a_time_and_no_gtid(text: str) -> None:
    found = parse_start(text, "earliest")
    assert isinstance(found, datetime.datetime)
    assert time_text(micros_of(found)).startswith(text)


def test_a_number_of_an_output_is_a_time() -> None:
    found = parse_start("1795746433601438", "earliest")
    assert isinstance(found, datetime.datetime)
    assert micros_of(found) == 1795746433601438
    for seconds in ("1795746433", "1795746433601"):
        with pytest.raises(rc.ConfigError, match="not understood"):
            parse_start(seconds, "earliest")


@pytest.mark.parametrize("logged", [1_795_773_657_000_001, None])
def test_a_stop_is_never_rounded_and_a_live_start_has_its_second(logged: int | None) -> None:
    second = 1_795_773_657
    here = rc.Position("a.000001", 4)
    one = rc.Transaction(here, here, "", second, logged, (), ())
    committed = one.commit_us
    assert not one.is_before(committed)
    assert one.is_before(committed + 1)
    assert TimeGate(committed).gives(one)
    assert TimeGate(committed + 1).gives(one) == (logged is None)
    assert not TimeGate(committed + 1_000_000).gives(one)


@pytest.mark.parametrize("text", ["0-1-100", "02020-10-10", "12020-10-10", "1-2020-5"])
def test_a_gtid_stays_one(text: str) -> None:
    found = parse_start(text, "earliest")
    assert isinstance(found, rc.Position)
    assert found.gtid_set is not None


def test_micros_are_exact() -> None:
    for micros in (1, 1795746433601438, 4102444799999999, 253402300799999999):
        assert micros_of(datetime.datetime.fromisoformat(time_text(micros))) == micros


def test_a_range_from_a_time_to_the_same_time_is_that_time() -> None:
    moment = parse_start("2026-11-27 02:27:08.123456", "earliest")
    end = stop_of(moment, moment)
    assert isinstance(end, datetime.datetime)
    assert micros_of(end) == micros_of(moment) + 1
    with pytest.raises(rc.ConfigError, match="the range is empty"):
        stop_of(end, moment)


@pytest.fixture
def archive(tmp_path: Path) -> rc.Archive:
    return rc.open_archive(DEMO, index_directory=tmp_path)


def place(change: rc.Change) -> tuple[str, int, int]:
    return change.file, change.offset, change.row_index


def in_zone(moment: datetime.datetime, number: int) -> str:
    zone = datetime.datetime.fromisoformat(f"2020-01-01T00:00{ZONES[number % 3]}").tzinfo
    return moment.astimezone(zone).isoformat()


def test_each_time_selects_its_transaction_again(archive: rc.Archive) -> None:
    whole = list(archive.find())
    for number, one in enumerate(whole):
        time = in_zone(one.commit_time, number)
        wanted = [each.change for each in whole if each.commit_time == one.commit_time]
        assert [each.change for each in archive.find(since=time, until=time)] == wanted
        read = rc.open_binlog(DEMO, start=time, stop=time)
        assert [place(each) for each in read.changes()] == [place(each) for each in wanted]


def test_ranges_hold_what_was_committed_in_them(archive: rc.Archive) -> None:
    whole = list(archive.find())
    times = sorted({one.commit_time for one in whole})
    tick = datetime.timedelta(microseconds=1)
    for begin, end in zip(times[::3], times[2::3], strict=False):
        for since, until in ((begin, end), (begin + tick, end), (begin, end + tick)):
            wanted = [one.change for one in whole if since <= one.commit_time < until]
            found = archive.find(since=since, until=until)
            assert [one.change for one in found] == wanted
            read = rc.open_binlog(DEMO, start=since, stop=until).changes()
            assert [place(one) for one in read] == [place(one) for one in wanted]


def test_blocks_know_their_first_and_last_commit(archive: rc.Archive) -> None:
    for file in archive.index():
        for block in file.index.blocks:
            start = rc.Position(file.listed.name, block.start)
            stop = rc.Position(file.listed.name, block.end)
            read = rc.open_binlog(DEMO, start=start, stop=stop).transactions()
            times = [one.commit_us for one in read]
            assert (block.first_time, block.last_time) == (min(times), max(times))


def test_statistics_state_commit_times(archive: rc.Archive) -> None:
    found = archive.stats()
    committed = {one.start.offset: one.commit_us for one in rc.open_binlog(DEMO[:1]).transactions()}
    times = [one for one in found.largest if one.file == DEMO[0].name]
    assert times
    assert all(one.time == committed[one.position] for one in times)
    every = [one.commit_us for one in rc.open_binlog(DEMO).transactions()]
    assert (found.first_time, found.last_time) == (min(every), max(every))
    statements = {
        (each.file, each.position): one.commit_us
        for one in rc.open_binlog(DEMO).transactions()
        for each in one.statements
    }
    assert found.statements
    for one in found.statements:
        assert one.time == statements[one.file, one.position]


def test_an_older_index_is_made_again(tmp_path: Path) -> None:
    rc.open_archive(DEMO[0], index_directory=tmp_path).index()
    (path,) = tmp_path.iterdir()
    data = bytearray(path.read_bytes())
    data[4] = 2
    path.write_bytes(data)
    (file,) = rc.open_archive(DEMO[0], index_directory=tmp_path).index()
    assert file.made
