"""Every form of start and stop, on every iterator of files, on the fast path and off it.

What is expected is a slice of what reading without start and stop gives.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

import replica_client as rc
from replica_client.rows.selection import Selection
from replica_client.stream.files import binlog_file, file_batches
from tests.unit.stream.transactions.test_fast_path import DEMO, GOLDEN, Without

pytest.importorskip("pyarrow")

SOURCES = [DEMO, *(path for path in GOLDEN if not path.stem.startswith("encrypted"))]
IDS = [f"{path.parent.name}-{path.stem}" for path in SOURCES]
OPTIONS = rc.AssemblyOptions(Selection(), on_statement="deliver")


def read(source: Any, **options: Any) -> rc.BinlogFileReader:
    return rc.open_binlog(source, assembly=OPTIONS, **options)


def moment(seconds: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)


def change_positions(reader: rc.BinlogFileReader) -> list[tuple[Any, ...]]:
    return sorted((c.file, c.offset, c.event_index, c.row_index) for c in reader.changes())


def batch_positions(reader: rc.BinlogFileReader) -> list[tuple[Any, ...]]:
    names = ("_file", "_offset", "_event_index", "_row_index")
    return sorted(
        {
            tuple(row[name] for name in names)
            for batch in reader.batches()
            for row in batch.select(names).to_pylist()
        }
    )


def event_positions(reader: rc.BinlogFileReader) -> list[tuple[str, int, int | None]]:
    """The events of transactions, but for those between them that tell of the file."""
    between = (
        "FORMAT_DESC",
        "PREVIOUS_",
        "GTID_LIST",
        "ROTATE",
        "STOP",
        "BINLOG_CHECK",
        "START_ENC",
    )
    return [
        (e.file, e.position, e.inner_index)
        for e in reader.events()
        if not e.header.type_name.startswith(between)
    ]


def check(
    source: Any, expected: list[rc.Transaction], *, exact: bool = True, **options: Any
) -> None:
    """All four iterators give these transactions; but for a start by file, what was before is known."""
    reader = read(source, **options)
    assert [t.start for t in reader.transactions()] == [t.start for t in expected]
    if exact:
        assert list(reader.transactions()) == expected
    if expected:
        assert reader.position.offset >= expected[-1].position.offset
    changes = [change for t in expected for change in t.changes]
    positions = sorted((c.file, c.offset, c.event_index, c.row_index) for c in changes)
    assert change_positions(reader) == positions
    assert batch_positions(reader) == positions
    ends = {(t.start.file, t.start.offset): t.position.offset for t in expected}
    found = event_positions(reader)
    for file, position, _ in found:
        assert any(file == f and at <= position < end for (f, at), end in ends.items())
    assert {(f, p) for f, p, _ in found} >= ends.keys()


def fast_paths(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """With the fast path, and without."""

    def off() -> None:
        monkeypatch.setattr(binlog_file, "RowFastPath", Without)
        monkeypatch.setattr(file_batches, "ColumnFastPath", Without)

    return [lambda: None, off]


@pytest.mark.parametrize("source", SOURCES, ids=IDS)
@pytest.mark.slow
@pytest.mark.both_forms
def test_starts_and_stops(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for choose in fast_paths(monkeypatch):
        choose()
        whole = list(read(source).transactions())
        some = whole[:: max(1, len(whole) // 6)]
        begun = {(e.file, e.position): e.header.timestamp for e in read(source).events()}
        for one in some:
            at = whole.index(one)
            check(source, whole[at:], start=one.start, exact=False)
            check(source, whole[at + 1 :], start=str(one.position), exact=False)
            check(source, whole[:at], stop=one.start)
            for seconds in (one.timestamp, one.timestamp + 1):
                first = next((i for i, t in enumerate(whole) if t.timestamp >= seconds), len(whole))
                check(source, whole[first:], start=moment(seconds))
                before = takewhile(lambda t: begun[t.start.file, t.start.offset] < seconds, whole)  # noqa: B023
                check(source, list(before), stop=moment(seconds))
            gtids = one.position.gtid_set
            if gtids and all(t.gtid for t in whole):
                check(source, whole[at + 1 :], start=gtids)
                check(source, whole[at + 1 :], start=gtids.compact())
                check(source, whole[: at + 1], stop=gtids.compact())
                check(source, [], start=gtids, stop=gtids)


def test_names_of_columns_come_from_before_the_start() -> None:
    whole = list(rc.open_binlog(DEMO).changes())
    later = whole[len(whole) // 2]
    found = next(rc.open_binlog(DEMO, start=later.gtid.rsplit(":", 1)[0] + ":1-8").changes())
    assert found.after is not None
    same = next(c for c in whole if (c.file, c.offset) == (found.file, found.offset))
    assert found.shape == same.shape


def test_a_stream_is_read_by_time_and_gtid() -> None:
    file = sorted(DEMO.glob("*.0*"))[0]
    whole = list(rc.open_binlog(file).transactions())
    gtids = whole[4].position.gtid_set
    for options in ({"start": gtids}, {"start": gtids, "stop": whole[7].position.gtid_set}):
        with file.open("rb") as stream:
            found = list(rc.open_binlog(stream, **options).transactions())  # type: ignore[arg-type]
        expected = whole[5:8] if "stop" in options else whole[5:]
        assert [t.gtid for t in found] == [t.gtid for t in expected]


def test_what_is_no_position_is_refused() -> None:
    whole = list(rc.open_binlog(DEMO).transactions())
    uuid = whole[0].gtid.rsplit(":", 1)[0]
    second = sorted(DEMO.glob("*.0*"))[1]
    with pytest.raises(rc.DataLossError, match="were not read"):
        list(rc.open_binlog(second, start=f"{uuid}:1-3").transactions())
    recorded = rc.open_binlog(second, start=f"{uuid}:1-3", record_losses="gtid_gap")
    assert [t.losses[0].kind for t in recorded.transactions() if t.losses] == ["gtid_gap"]
    with pytest.raises(rc.ConfigError, match="the other kind"):
        list(rc.open_binlog(DEMO, start="0-1-5").transactions())
    with pytest.raises(rc.ConfigError, match="do not hold"):
        list(rc.open_binlog(DEMO, stop=f"{uuid}:1-1000").transactions())
    # With a gap it is no place: 5 stands behind 3, which is wanted.
    holes = rc.open_binlog(DEMO, start=f"{uuid}:1-2:5")
    given = []
    with pytest.raises(rc.ConfigError, match="give FILE:OFFSET"):
        given.extend(t.gtid for t in holes.transactions())
    # What another server did is in nobody's way.
    other = "11111111-1111-1111-1111-111111111111"
    found = list(rc.open_binlog(DEMO, start=f"{uuid}:1-2,{other}:1-9").transactions())
    assert [t.gtid for t in found] == [t.gtid for t in whole[2:]]


def test_transactions_without_gtids_are_no_position(tmp_path: Path) -> None:
    data = bytearray(sorted(DEMO.glob("*.0*"))[0].read_bytes())
    path = tmp_path / "binlog.000001"
    first = next(rc.open_binlog(DEMO).transactions())
    data[first.start.offset + 4] = 34  # ANONYMOUS_GTID_LOG_EVENT
    path.write_bytes(data)
    options = rc.DecodeOptions(verify_checksum=False)
    with pytest.raises(rc.ConfigError, match="no GTID; give FILE:OFFSET"):
        list(rc.open_binlog(path, start=first.gtid, options=options).changes())


def test_a_start_is_a_position_and_no_filter(tmp_path: Path) -> None:
    """Clocks go back, and SET TIMESTAMP says what it likes: what comes after the start is given."""
    data = bytearray(sorted(DEMO.glob("*.0*"))[0].read_bytes())
    path = tmp_path / "binlog.000001"
    path.write_bytes(data)
    options = rc.DecodeOptions(verify_checksum=False)
    whole = list(rc.open_binlog(path, options=options).transactions())
    for number, one in enumerate(whole):
        # Ten seconds forward, but the last third a year back.
        back = number >= len(whole) * 2 // 3
        seconds = one.timestamp + (-31_536_000 if back else 10 * number)
        for event in rc.open_binlog(path, start=one.start, stop=one.position).events():
            data[event.position : event.position + 4] = seconds.to_bytes(4, "little")
            if event.header.type_code == 33:
                at = event.position + 19 + 42
                data[at : at + 7] = (seconds * 1_000_000).to_bytes(7, "little")
    path.write_bytes(data)
    start = moment(whole[0].timestamp + 15)
    found = list(rc.open_binlog(path, start=start, options=options).transactions())
    assert [t.start for t in found] == [t.start for t in whole[2:]]


def test_the_position_before_anything_was_read_is_a_start() -> None:
    """The one that a reader has in the body of a loop at the first transaction."""
    reader = read(DEMO)
    first = next(iter(reader.transactions()))
    again = next(iter(read(DEMO, start=reader.position).transactions()))
    assert again.position == first.position
