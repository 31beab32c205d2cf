"""Full disks, damaged checkpoints, second writers: a clear error, nothing lost, and on again."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import replica_client
from replica_client.errors import SinkError
from replica_client.protocol.position import Position
from replica_client.sinks.column_models import table_model
from replica_client.sinks.formats.line_format import make_format
from replica_client.sinks.formats.message import delivered_columns
from replica_client.sinks.line_sinks import StdoutOptions, StdoutSink
from replica_client.sinks.mirror.collector import ApplyRows, Collector
from replica_client.sinks.mirror.sqlite_store import SqliteDatabase
from replica_client.sinks.registry import make_sink
from replica_client.stream.files.binlog_file import open_binlog
from replica_client.stream.position.stores.base import Checkpoint
from replica_client.stream.tables.net_changes import TableCopy
from replica_client.stream.transactions.transaction import Transaction
from tests.integration.sink_comparison import file_lines
from tests.servers.plugin import unavailable

DATA = Path(replica_client.__file__).parent / "testing" / "data"
STORED: dict[str, dict[str, Any]] = {
    "file": {},
    "parquet": {"roll_rows": 1},
    "sqlite": {"unknown_tables": "create"},
}


def transactions() -> list[Transaction]:
    return list(open_binlog(DATA).transactions())


def options(kind: str, directory: Path) -> dict[str, Any]:
    path = directory / "mirror.db" if kind == "sqlite" else directory / kind
    return {"path": str(path), **STORED[kind]}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB of its own."""
    directory = tmp_path / "disk"
    directory.mkdir()
    if shutil.which("mount") is None:
        unavailable("no small file system: there is no program mount")
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(directory)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode:
        unavailable(f"no small file system: {done.stderr.strip()}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", str(directory)], check=True)


async def write_all(kind: str, directory: Path, repeat: int = 1) -> None:
    sink = make_sink(kind, options(kind, directory))
    try:
        checkpoint = await sink.open()
        done = int(str(checkpoint.state["done"])) if checkpoint else 0
        for at, transaction in enumerate(transactions() * repeat):
            if at >= done:
                await sink.write(transaction)
                await sink.commit(Checkpoint(transaction.position, {"done": at + 1}))
    finally:
        await sink.close()


@pytest.mark.parametrize("kind", ["file", "parquet"])
async def test_a_full_disk_loses_nothing(kind: str, small_disk: Path, tmp_path: Path) -> None:
    filler = small_disk / "filler"
    filler.write_bytes(b"x" * (220 << 10))
    with pytest.raises(SinkError, match="No space left on device; free space there") as caught:
        await write_all(kind, small_disk, 3)
    assert caught.value.retriable
    filler.unlink()
    if kind == "file":
        await write_all(kind, small_disk, 3)
        await write_all(kind, tmp_path, 3)
        assert file_lines(small_disk / "file") == file_lines(tmp_path / "file")
    else:
        sink = make_sink(kind, options(kind, small_disk))
        assert await sink.open() is not None
        await sink.close()


async def test_a_full_disk_under_sqlite_can_be_tried_again(small_disk: Path) -> None:
    sink = make_sink("sqlite", options("sqlite", small_disk))
    await sink.open()
    free = os.statvfs(small_disk)
    (small_disk / "filler").write_bytes(b"x" * (free.f_bavail * free.f_frsize))
    with pytest.raises(SinkError) as caught:
        for transaction in transactions():
            await sink.write(transaction)
            await sink.commit(Checkpoint(transaction.position))
    assert caught.value.retriable
    await sink.close()


async def test_standard_output_that_is_full() -> None:
    descriptor = os.open("/dev/full", os.O_WRONLY)
    sink = StdoutSink(StdoutOptions(), make_format("native", {}), descriptor)
    first = next(one for one in transactions() if one.rows)
    try:
        await sink.write(first)
        with pytest.raises(SinkError, match="No space left") as caught:
            await sink.commit(Checkpoint(first.position))
        assert caught.value.retriable
    finally:
        await sink.close()
        os.close(descriptor)


async def test_standard_output_whose_reader_has_gone() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    sink = StdoutSink(StdoutOptions(), make_format("native", {}), writer)
    first = next(one for one in transactions() if one.rows)
    try:
        await sink.write(first)
        with pytest.raises(SinkError, match="the reader of standard output has gone") as caught:
            await sink.commit(Checkpoint(first.position))
        assert not caught.value.retriable
    finally:
        await sink.close()
        os.close(writer)


@pytest.mark.parametrize("kind", ["file", "parquet"])
async def test_two_writers_of_one_directory(kind: str, tmp_path: Path) -> None:
    first, second = (make_sink(kind, options(kind, tmp_path)) for _ in range(2))
    await first.open()
    with pytest.raises(SinkError, match="another process writes there"):
        await second.open()
    await second.close()
    await first.close()


async def test_two_writers_of_one_mirror(tmp_path: Path) -> None:
    first, second = (make_sink("sqlite", options("sqlite", tmp_path)) for _ in range(2))
    await first.open()
    await second.open()
    position = transactions()[0].position
    with pytest.raises(SinkError, match="another process writes this mirror"):
        await first.commit(Checkpoint(position))
    await second.commit(Checkpoint(position))
    await first.close()
    await second.close()


@pytest.mark.parametrize("kind", ["file", "parquet"])
async def test_a_damaged_checkpoint_is_an_error(kind: str, tmp_path: Path) -> None:
    await write_all(kind, tmp_path)
    (path,) = (tmp_path / kind).glob("*.checkpoint.json")
    whole = path.read_bytes()
    for damaged in (b"", whole[:-10], b"[]", whole.replace(b'"version": 1', b'"version": 9')):
        path.write_bytes(damaged)
        sink = make_sink(kind, options(kind, tmp_path))
        with pytest.raises(SinkError, match="is not a checkpoint of this release"):
            await sink.open()
        await sink.close()


async def test_committed_bytes_that_are_gone_are_an_error(tmp_path: Path) -> None:
    await write_all("file", tmp_path)
    (path,) = (tmp_path / "file").glob("*.jsonl")
    path.write_bytes(path.read_bytes()[:-1])
    sink = make_sink("file", options("file", tmp_path))
    with pytest.raises(SinkError, match="of which .* were committed"):
        await sink.open()
    await sink.close()


async def test_closed_files_are_never_touched_again(tmp_path: Path) -> None:
    table = {**options("file", tmp_path), "rotate_bytes": 400}
    sink = make_sink("file", table)
    await sink.open()
    seen: dict[str, tuple[int, bytes]] = {}
    for transaction in transactions():
        await sink.write(transaction)
        await sink.commit(Checkpoint(transaction.position))
        files = sorted((tmp_path / "file").glob("*.jsonl"))
        for path in files[:-1]:
            now = (path.stat().st_mtime_ns, path.read_bytes())
            assert seen.setdefault(path.name, now) == now
    await sink.close()
    assert len(seen) > 3


def test_another_connection_of_the_process_leaves_the_locks_of_a_sqlite_mirror(
    tmp_path: Path,
) -> None:
    """A process that reads and ends would else remove the log to which the mirror goes on writing."""
    path = tmp_path / "mirror.db"
    mirror = SqliteDatabase(path)
    mirror.prepare()
    SqliteDatabase(path).close()  # such as that of the beats
    read = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); "
        "c.execute('SELECT 1 FROM sqlite_master').fetchone(); c.close()"
    )
    subprocess.run([sys.executable, "-c", read, str(path)], check=True)
    mirror.begin()
    mirror.put(mirror.state_table, ("name", "value"), ("position", "1"))
    mirror.commit()
    with contextlib.closing(sqlite3.connect(path)) as reader:
        assert reader.execute(f"SELECT * FROM {mirror.state_table}").fetchall() == [
            ("position", "1")
        ]
    mirror.close()


@pytest.mark.parametrize("is_keyed", [True, False])
def test_a_table_without_a_key_that_changes_while_it_is_copied_is_refused(is_keyed: bool) -> None:
    """Rows of its changes may be in the copy already, and nothing tells which."""
    transaction = next(one for one in transactions() if one.rows)
    [rows, *_] = transaction.rows
    model = table_model(rows.shape, delivered_columns(rows))
    name = (model.database, model.name)
    if not is_keyed:
        model = replace(model, primary_key=())
    begin, end = Position("shop-bin.000001", 4), Position("shop-bin.000009", 4)
    copy = TableCopy(*name, begin=begin, low=begin, high=end, until=end, definition=model)
    collector = Collector(
        {name: model}, lambda _: None, strict=True, create=False, copies={name: copy}
    )
    if is_keyed:
        assert list(collector.take(transaction)) == []
        assert [type(step) for step in collector.flush()] == [ApplyRows]
        return
    with pytest.raises(SinkError, match="while it was copied"):
        list(collector.take(transaction))


def test_kafka_counts_what_its_topics_have_beyond_a_commit() -> None:
    """A commit inside a long transaction that comes again leaves the rest of what was written before."""
    pytest.importorskip("confluent_kafka")
    written: dict[str, str] = {}

    class Writer:
        def write(self, topic: str, key: str, value: str, *, partition: int) -> None:
            written[key] = value

        def commit(self) -> None:
            pass

    sink: Any = make_sink("kafka", {"bootstrap_servers": "nowhere:9092"})
    sink._writer = Writer()
    for ahead, seen, left in ((10, 4, 6), (10, 10, 0), (10, 12, 0), (0, 3, 0)):
        sink._ahead, sink._seen = ahead, seen
        sink._commit(Checkpoint(Position("b.1", 4), {}))
        record = json.loads(written["position"])
        assert (record["ahead"], sink._ahead, sink._seen) == (left, left, 0)
