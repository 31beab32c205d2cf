"""Binlog files in memory: the same as from disk, without a copy."""

from __future__ import annotations

import json
import mmap
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import replica_client as rc
import replica_client.stream.files.file_bytes as file_bytes
from replica_client.errors import ConfigError, ReplicaClientError, TruncatedEventError
from replica_client.protocol.codec.event_queue import EventQueue

DATA = Path(rc.__file__).parent / "testing" / "data"
GOLDEN = Path(__file__).parents[3] / "golden"
FILES = sorted(DATA.glob("shop-bin.0*"))


def mapped(data: bytes) -> mmap.mmap:
    memory = mmap.mmap(-1, len(data))
    memory[:] = data
    return memory


def inside(data: bytes) -> memoryview:
    return memoryview(b"before" + data + b"behind")[6:-6]


@pytest.mark.parametrize("form", [bytes, bytearray, memoryview, mapped, inside])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
@pytest.mark.parametrize("chunk", [64, 1 << 20])
def test_same_as_from_disk(
    monkeypatch: pytest.MonkeyPatch, path: Path, form: Callable[[bytes], Any], chunk: int
) -> None:
    monkeypatch.setattr(file_bytes, "CHUNK_SIZE", chunk)
    from_disk, buffered = rc.open_binlog(path), rc.open_binlog(form(path.read_bytes()))
    for _ in range(2):
        assert [(e.position, e.header, e.body) for e in buffered.events()] == [
            (e.position, e.header, e.body) for e in from_disk.events()
        ]
    rows = [(c.kind, c.table, c.before, c.after, c.offset) for c in buffered.changes()]
    assert rows == [(c.kind, c.table, c.before, c.after, c.offset) for c in from_disk.changes()]
    assert rows
    batches = [
        (b.num_rows, b.schema, b.drop_columns(["_file", "_commit_version"]))
        for b in buffered.batches()
    ]
    assert batches == [
        (b.num_rows, b.schema, b.drop_columns(["_file", "_commit_version"]))
        for b in from_disk.batches()
    ]


@pytest.mark.parametrize("chunk", [64, 1 << 20])
def test_mapped_files_are_the_same(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(file_bytes, "CHUNK_SIZE", chunk)
    for source in (DATA, FILES, FILES[0]):
        read, pages = rc.open_binlog(source), rc.open_binlog(source, memory_map=True)
        assert list(pages.changes()) == list(read.changes())
        assert pages.position == read.position
        assert list(pages.batches()) == list(read.batches())


def test_encrypted_files_can_be_mapped() -> None:
    tried = 0
    for path in sorted(GOLDEN.glob("*/*.binlog")):
        expected = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        keys = {number: bytes.fromhex(key) for number, key in expected.get("keys", {}).items()}
        if keys:
            tried += 1
            read, pages = (rc.open_binlog(path, keys=keys, memory_map=m) for m in (False, True))
            assert [e.body for e in pages.events()] == [e.body for e in read.events()]
    assert tried


def test_mapped_files_leave_nothing_open(tmp_path: Path) -> None:
    path = tmp_path / "binlog.000001"
    path.write_bytes(FILES[0].read_bytes())
    assert list(rc.open_binlog(path, memory_map=True).changes())
    if sys.platform == "linux":
        maps = Path("/proc/self/maps").read_text(encoding="utf-8")
        links = [os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.exists()]
        assert str(path) not in maps
        assert str(path) not in links


def test_an_empty_file_says_the_same_when_it_is_mapped(tmp_path: Path) -> None:
    path = tmp_path / "binlog.000001"
    path.write_bytes(b"")
    errors = []
    for memory_map in (False, True):
        with pytest.raises(ReplicaClientError) as caught:
            list(rc.open_binlog(path, memory_map=memory_map).changes())
        errors.append((type(caught.value), str(caught.value)))
    assert errors[0] == errors[1]


def test_is_left_as_it_was_and_can_be_closed() -> None:
    data = bytearray(FILES[0].read_bytes())
    copy = bytes(data)
    assert list(rc.open_binlog(data).changes())
    assert data == copy
    data.clear()  # refused while somebody has a view of it


def test_position_names_the_file() -> None:
    buffered = rc.open_binlog(FILES[1].read_bytes())
    changes = list(buffered.changes())
    assert {change.file for change in changes} == {"memory"}
    middle = next(t.position for t in buffered.transactions() if list(t.changes))
    rest = list(rc.open_binlog(FILES[1].read_bytes(), start=middle).changes())
    assert 0 < len(rest) < len(changes)
    assert rest == changes[-len(rest) :]


def test_ends_inside_an_event() -> None:
    data = FILES[0].read_bytes()
    with pytest.raises(TruncatedEventError, match="memory"):
        list(rc.open_binlog(data[:-3]).changes())


def test_what_is_not_contiguous_is_refused() -> None:
    with pytest.raises(ConfigError, match="contiguous"):
        rc.open_binlog(memoryview(bytes(100))[::2])


def test_queue_goes_on_in_its_own_memory() -> None:
    lent = bytes(range(100))
    queue = EventQueue(16)
    queue.lend(memoryview(lent), 10)
    queue.received(40)
    queue.cut(20)
    assert queue.left == 50
    queue.put(b"abc")
    assert queue.event(0) == lent[10:30]
    assert queue.peek(0, queue.uncut) == lent[30:50] + b"abc"
    queue.drop(1)
    queue.cut(23)
    assert queue.take_all() == [lent[30:50] + b"abc"]
    assert lent == bytes(range(100))
