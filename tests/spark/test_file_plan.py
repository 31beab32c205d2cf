"""Planning over files, without Spark's Java."""

import json
import os
import pickle
import shutil
from dataclasses import replace

import pytest

import replica_client as rc
from replica_client.archive.file_list import ListedFile, list_files
from replica_client.archive.transaction_ranges import FileTransactionRanges
from replica_client.errors import ConfigError, DataLossError
from replica_client.lake.source.file_plan import FilePlanner
from replica_client.lake.source.read_ranges import BinlogRange
from replica_client.lake.source_options import SourceOptions
from replica_client.lake.spark.source.shape_batches import batches
from replica_client.options import options_of
from replica_client.protocol.position import Position
from tests.spark.binlogs import DATA, ENVELOPE, FILES, ROW_OPERATIONS, envelope_of, write_half

GOLDEN = sorted(
    path
    for path in (DATA.parents[2] / "tests" / "golden").rglob("*")
    if path.is_file() and path.read_bytes()[:4] == b"\xfebin"
)


def planner(path, **options):
    return FilePlanner(SourceOptions.parse({"path": str(path), **options}))


def listed(path):
    return ListedFile(path.name, str(path), path.stat().st_size)


def read(options, parts, table=None):
    source = SourceOptions.parse(options)
    rows = []
    for part in parts:
        for batch in batches(source, table, part):
            rows += [
                tuple(row[name] for name in ENVELOPE)
                for row in batch.to_pylist()
                if row["operation"] in ROW_OPERATIONS
            ]
    return rows


def keys_of(path):
    described = path.with_suffix(".json")
    if path in FILES or not described.exists():
        return {}
    found = json.loads(described.read_text("utf-8")).get("keys", {})
    return {key_id: bytes.fromhex(key) for key_id, key in found.items()}


@pytest.mark.parametrize("path", [*FILES, *GOLDEN], ids=lambda path: path.name)
def test_transaction_ranges_are_the_transactions(path):
    options = rc.DecodeOptions(keys=keys_of(path))
    expected = [
        (t.start.offset, t.position.offset)
        for t in rc.open_binlog(path, options=options, assembly=_deliver()).transactions()
    ]
    transaction_ranges = FileTransactionRanges(Position(path.name, 4), options)
    assert [
        (s.start.offset, s.end.offset) for s in transaction_ranges.scan(listed(path))
    ] == expected


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.name)
def test_every_cut_of_every_golden_file(path):
    """Each transaction alone, as a partition of its own, gives what the whole file gives."""
    options = replace(
        SourceOptions.parse({"path": str(path), "partitionSize": "1"}),
        decode=rc.DecodeOptions(keys=keys_of(path)),
    )
    plan = FilePlanner(options)
    parts = plan.ranges(plan.start(), plan.stop())
    try:
        with options_of("spark"):
            expected = envelope_of(path, options=options.decode)
    except (rc.DataLossError, rc.BinlogDecodeError) as error:
        with pytest.raises(type(error)) as caught:
            all_rows(options, parts)
        assert str(caught.value) == str(error)
    else:
        assert all_rows(options, parts) == expected


def all_rows(options, parts):
    return [
        tuple(row[name] for name in ENVELOPE)
        for part in parts
        for batch in batches(options, None, pickle.loads(pickle.dumps(part)))
        for row in batch.to_pylist()
        if row["operation"] in ROW_OPERATIONS
    ]


def _deliver():
    return rc.AssemblyOptions(rc.Selection(), on_statement="deliver")


@pytest.mark.parametrize("size", [1, 700, 3000, 100_000])
def test_any_cut_gives_the_same_rows(size):
    options = {"path": str(DATA / "shop-bin.0*"), "partitionSize": str(size)}
    plan = FilePlanner(SourceOptions.parse(options))
    parts = plan.ranges(plan.start(), plan.stop())
    count = sum(1 for _ in rc.open_binlog(list(FILES)).transactions())
    assert (1 if size == 100_000 else 2) <= len(parts) <= count + 2
    if size == 100_000:
        assert [len(part.files) for part in parts] == [len(FILES)]  # small files are packed
    assert len(parts) > 10 or size > 1000
    assert read(options, parts) == envelope_of(list(FILES))


def test_transaction_ranges_of_a_file_that_grows_byte_by_byte(tmp_path):
    data = FILES[0].read_bytes()
    growing = tmp_path / FILES[0].name
    transaction_ranges = FileTransactionRanges(Position(growing.name, 4), rc.DecodeOptions())
    found = []
    for size in (*range(0, len(data), 97), len(data)):
        growing.write_bytes(data[:size])
        found += transaction_ranges.scan(listed(growing))
        assert all(transaction_range.end.offset <= size for transaction_range in found)
    whole = FileTransactionRanges(Position(growing.name, 4), rc.DecodeOptions())
    assert found == list(whole.scan(listed(growing)))
    assert transaction_ranges.closed
    assert transaction_ranges.reached.offset == len(data)


@pytest.mark.parametrize("limit", [1, 500, 3000])
def test_limit_in_bytes_takes_whole_transactions(limit):
    plan = planner(DATA / "shop-bin.0*")
    position, steps = plan.start(), 0
    expected = {t.position.offset for t in rc.open_binlog(list(FILES)).transactions()}
    while (end := plan.latest(position, max_bytes=limit)) != position:
        assert end > position
        ends = {file.stat().st_size for file in FILES}
        assert end.offset in expected | ends
        position, steps = end, steps + 1
    assert position == Position(FILES[1].name, FILES[1].stat().st_size)
    assert steps > 2


def test_limit_in_rows():
    options = {"path": str(DATA / "shop-bin.0*"), "maxRowsPerTrigger": "9"}
    plan = FilePlanner(SourceOptions.parse(options))
    position, rows, counts = plan.start(), [], []
    while (end := plan.latest(position, max_rows=9)) != position:
        got = read(options, plan.ranges(position, end))
        counts.append(len(got))
        rows += got
        position = end
    assert rows == envelope_of(list(FILES))
    # A transaction that has more rows on its own comes alone.
    assert len(counts) > 7
    assert sum(count > 9 for count in counts) < len(counts) / 2


def test_an_old_start_is_planned_again_to_the_same_end():
    plan = planner(DATA / "shop-bin.0*")
    start = plan.start()
    first = plan.latest(start, max_bytes=2000)
    assert plan.latest(start, max_bytes=2000) == first
    second = plan.latest(first, max_bytes=2000)
    assert plan.latest(start, max_bytes=2000) == first
    assert plan.latest(first, max_bytes=2000) == second
    assert plan.latest(start) > second
    assert plan.latest(first, max_bytes=2000) == second


def test_half_written_file_is_waited_for(tmp_path):
    directory = write_half(tmp_path / "in")
    whole = (directory / FILES[0].name).read_bytes()
    (directory / FILES[0].name).write_bytes(whole[:5000])
    shutil.copy(FILES[1], directory)
    plan = planner(directory)
    end = plan.latest(plan.start())
    assert end.file == FILES[0].name
    assert end.offset <= 5000
    (directory / FILES[0].name).write_bytes(whole)
    assert plan.latest(end) == Position(FILES[1].name, FILES[1].stat().st_size)


def test_next_file_after_a_restart_at_the_end_of_one(tmp_path):
    directory = write_half(tmp_path / "in")
    plan = planner(directory)
    end = plan.latest(plan.start())
    assert end.offset == FILES[0].stat().st_size
    shutil.copy(FILES[1], directory)
    assert planner(directory).latest(end).file == FILES[1].name
    assert plan.latest(end).file == FILES[1].name


def test_missing_file_in_between_is_named(tmp_path):
    directory = write_half(tmp_path / "in")
    shutil.copy(FILES[1], directory / "shop-bin.000003")
    plan = planner(directory)
    with pytest.raises(DataLossError, match=r"between shop-bin.000001 and shop-bin.000003"):
        plan.latest(plan.start())


def test_start_that_is_gone_is_named(tmp_path):
    directory = tmp_path / "in"
    directory.mkdir()
    shutil.copy(FILES[1], directory)
    with pytest.raises(DataLossError, match=r"shop-bin.000001 is not among the files"):
        planner(directory).latest(Position(FILES[0].name, 400))


def test_file_that_shrank_is_refused(tmp_path):
    directory = write_half(tmp_path / "in")
    options = SourceOptions.parse({"path": str(directory)})
    plan = FilePlanner(options)
    parts = plan.ranges(plan.start(), None)
    os.truncate(directory / FILES[0].name, 1000)
    with pytest.raises(DataLossError, match="had 10335 bytes when the query was planned"):
        list(batches(options, None, parts[0]))


def test_two_files_of_one_name(tmp_path):
    one, two = write_half(tmp_path / "a"), write_half(tmp_path / "b")
    with pytest.raises(ConfigError, match="same name"):
        list_files([str(one), str(two)])


def test_empty_directory_is_waited_for(tmp_path):
    plan = planner(tmp_path)
    start = plan.start(stream=True)
    assert start == Position("", 0)
    assert plan.latest(start) == start
    shutil.copy(FILES[0], tmp_path)
    end = plan.latest(start)
    assert end == Position(FILES[0].name, FILES[0].stat().st_size)
    options = {"path": str(tmp_path)}
    assert read(options, plan.ranges(start, end)) == envelope_of(FILES[0])


def test_start_by_gtid_passes_over_what_is_done():
    uuid = envelope_of(list(FILES))[0][4].partition(":")[0]
    options = {"path": str(DATA / "shop-bin.0*"), "startingPosition": f"{uuid}:1-8"}
    plan = FilePlanner(SourceOptions.parse(options))
    numbers = {
        int(row[4].rpartition(":")[2])
        for row in read(options, plan.ranges(plan.start(), plan.stop()))
    }
    assert min(numbers) == 9
    with pytest.raises(DataLossError, match="begin with .*, after"):
        planner(FILES[1], startingPosition=f"{uuid}:1-2").start()


def test_ranges_stop_at_the_end_that_was_asked():
    transactions_ = list(rc.open_binlog(list(FILES)).transactions())
    for cut in transactions_:
        options = {
            "path": str(DATA / "shop-bin.0*"),
            "endingPosition": f"{cut.start.file}:{cut.start.offset}",
            "partitionSize": "1k",
        }
        plan = FilePlanner(SourceOptions.parse(options))
        rows = read(options, plan.ranges(plan.start(), plan.stop()))
        assert rows == [r for r in envelope_of(list(FILES)) if r[5] < cut.commit_version]


def test_ranges_are_small_to_ship():
    plan = planner(DATA / "shop-bin.0*", partitionSize="1k")
    part = plan.ranges(plan.start(), plan.stop())[0]
    assert isinstance(part, BinlogRange)
    assert len(pickle.dumps(part)) < 3000


@pytest.mark.parametrize("name", ["nowhere", "nowhere/binlog.*", "empty/*.0*"])
def test_nothing_there_in_a_store(bucket, name):
    assert list_files([f"{bucket}/{name}"], may_be_empty=True) == []
    with pytest.raises(ConfigError, match="no such file|no file matches"):
        list_files([f"{bucket}/{name}"])
