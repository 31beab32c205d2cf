"""Indexes of binlog files: made once, kept, never believed when the file is another one."""

import contextlib
import datetime
import os
import shutil
import sqlite3
from dataclasses import replace

import pytest

import replica_client as rc
from replica_client.archive.file_index import STEP, FileIndex, make_index
from replica_client.archive.file_list import list_files
from replica_client.archive.transaction_ranges import FileTransactionRanges
from replica_client.lake.source import file_catalog
from replica_client.lake.source.file_catalog import FileCatalog
from replica_client.lake.source.file_plan import FilePlanner
from replica_client.lake.source_options import SourceOptions
from replica_client.lake.spark.source.shape_batches import batches
from replica_client.protocol.position import Position
from replica_client.schema.history import SchemaHistory
from tests.spark.binlogs import FILES

DECODE = rc.DecodeOptions()


def repeated(path, times, ends=True):
    """A binlog whose first transactions come again and again."""
    data = FILES[1].read_bytes()
    ordinary = [t for t in rc.open_binlog(FILES[1]).transactions() if t.rows]
    begin, end = ordinary[0].start.offset, ordinary[-1].position.offset
    closing = data[end:] if ends else b""
    path.write_bytes(data[:end] + data[begin:end] * times + closing)
    return path


@pytest.fixture
def scans(monkeypatch):
    """Names of the files that are scanned."""
    found = []

    def counted(file, options, earlier=None):
        found.append(file.name)
        return make_index(file, options, earlier)

    monkeypatch.setattr(file_catalog, "make_index", counted)
    return found


def options_of(directory, **more):
    cache = directory.parent / "cache"
    return SourceOptions.parse({"path": str(directory), "indexDirectory": str(cache), **more})


@pytest.fixture
def directory(tmp_path):
    made = tmp_path / "in"
    made.mkdir()
    for file in FILES:
        shutil.copy(file, made)
    return made


def plan(directory, **more):
    planner = FilePlanner(options_of(directory, **more))
    return planner.ranges(planner.start(), planner.stop())


def test_index_is_what_the_transaction_ranges_are(tmp_path):
    path = repeated(tmp_path / "binlog.000001", 300)
    [file] = list_files([str(path)])
    index = make_index(file, DECODE)
    transaction_ranges = list(FileTransactionRanges(Position(file.name, 4), DECODE).scan(file))
    ends = {transaction_range.end.offset for transaction_range in transaction_ranges}
    assert set(index.cuts[::2]) <= ends
    assert index.cuts[-2] == transaction_ranges[-1].end.offset
    assert 2 <= len(index.cuts) // 2 <= file.size // STEP + 1
    assert (index.reached, index.ended) == (file.size, True)
    assert FileIndex.from_bytes(index.to_bytes()) == index


def test_files_are_scanned_once(directory, scans):
    first = [str(part) for part in plan(directory)]
    assert sorted(scans) == [file.name for file in FILES]
    assert [str(part) for part in plan(directory)] == first
    assert len(scans) == 2


@pytest.mark.parametrize("change", ["touched", "replaced", "first bytes"])
def test_another_file_of_the_name_is_scanned_again(directory, scans, change):
    plan(directory)
    path = directory / FILES[1].name
    before = path.stat()
    if change == "touched":
        os.utime(path)
    elif change == "replaced":
        path.write_bytes(path.read_bytes()[:5000])
    else:
        data = bytearray(path.read_bytes())
        data[60] ^= 1  # inside the server's version
        path.write_bytes(data)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    scans.clear()
    with contextlib.suppress(rc.BinlogDecodeError):
        FileCatalog(options_of(directory)).index(list_files([str(directory)])[1])
    assert scans == [FILES[1].name]


@pytest.mark.parametrize("kept", [True, False])
def test_touched_file_is_still_whole(directory, scans, kept):
    """Its closing event is behind what is scanned again."""
    if kept:
        plan(directory)
    [first, _] = list_files([str(directory)])
    os.utime(first.path)
    planner = FilePlanner(options_of(directory))
    assert planner.latest(planner.start()).file == FILES[1].name


def test_grown_file_is_scanned_on(tmp_path):
    path = repeated(tmp_path / "binlog.000001", 200, ends=False)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    [half] = list_files([str(path)])
    index = make_index(half, DECODE)
    path.write_bytes(whole)
    [file] = list_files([str(path)])
    grown = make_index(file, DECODE, index)
    fresh = make_index(file, DECODE)
    assert grown.reached == fresh.reached == len(whole)
    assert grown.events == fresh.events
    assert grown.cuts[: len(index.cuts) - 2] == index.cuts[:-2]
    # Other bytes before the end: it is another file, and nothing of its index is taken.
    marked = replace(index, first=7)
    assert make_index(file, DECODE, marked).first == 7
    other = bytearray(whole)
    other[index.reached - 30] ^= 1
    path.write_bytes(other)
    assert make_index(file, DECODE, marked).first == fresh.first


@pytest.mark.parametrize("damage", ["garbage", "other table", "locked away"])
def test_cache_that_does_not_work_is_done_without(directory, scans, damage):
    expected = [str(part) for part in plan(directory)]
    cache = directory.parent / "cache"
    database = cache / "binlog-index.sqlite3"
    if damage == "garbage":
        database.write_bytes(b"no database" * 1000)
    elif damage == "other table":
        with contextlib.closing(sqlite3.connect(database)) as connection, connection:
            connection.execute("update indexes set data = 'no index'")
    else:
        shutil.rmtree(cache)
        cache.write_text("a file")
    scans.clear()
    assert [str(part) for part in plan(directory)] == expected
    assert len(scans) == 2


def test_what_tables_look_like_outlives_the_files_that_reported_it(directory):
    """The CREATE TABLE statements stand in the first file."""
    before, after = plan(directory, partitionSize="24k")
    assert after.schema is not None
    (directory / FILES[0].name).unlink()
    [left] = plan(directory)
    assert left.schema == after.schema
    known = SchemaHistory.from_state(before.schema)
    known.rewind(before.start.file, before.start.offset)
    assert known.tables() == []


def test_what_changed_between_two_points(directory):
    transactions = list(rc.open_binlog(list(FILES)).transactions())
    begin, end = transactions[6], transactions[17]
    expected = {t.gtid for t in transactions[6:17]}
    uuid = begin.gtid.rpartition(":")[0]
    number, last = (int(t.gtid.rpartition(":")[2]) for t in (begin, end))
    ways = {
        "position": (
            f"{begin.start.file}:{begin.start.offset}",
            f"{end.start.file}:{end.start.offset}",
        ),
        "gtid": (f"{uuid}:1-{number - 1}", f"{uuid}:1-{last - 1}"),
    }
    for start, stop in ways.values():
        for size in ("1", "64m"):
            options = options_of(
                directory, startingPosition=start, endingPosition=stop, partitionSize=size
            )
            planner = FilePlanner(options)
            gtids = set()
            for part in planner.ranges(planner.start(), planner.stop()):
                for batch in batches(options, None, part):
                    gtids |= set(batch.column("_gtid").to_pylist())
            assert gtids == expected


def test_start_and_end_by_time(directory):
    transactions = list(rc.open_binlog(list(FILES)).transactions())
    stamps = sorted({t.timestamp for t in transactions})
    transaction_ranges = [
        transaction_range
        for file in list_files([str(directory)])
        for transaction_range in FileTransactionRanges(Position(file.name, 4), DECODE).scan(file)
    ]
    for stamp in stamps:
        text = datetime.datetime.fromtimestamp(stamp, datetime.UTC).isoformat()
        planner = FilePlanner(options_of(directory, startingPosition=text))
        assert planner.start() == next(s.start for s in transaction_ranges if s.timestamp >= stamp)
        planner = FilePlanner(options_of(directory, endingPosition=text))
        assert planner.stop() == next(s.start for s in transaction_ranges if s.timestamp >= stamp)
