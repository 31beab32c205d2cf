"""Position stores: what they keep, and what a failure leaves."""

import errno
import json
import os
import subprocess
import sys

import pytest

from replica_client.errors import PositionStoreError
from replica_client.protocol.gtid import GtidSet, MariadbGtidSet
from replica_client.stream.position import Position
from replica_client.stream.position.stores import FilePositionStore, MemoryPositionStore

POSITIONS = [
    Position("binlog.000024", 1472),
    Position("b.1", 5 << 32, GtidSet.parse("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-7:t:3"), 3, 9),
    Position("", 0, MariadbGtidSet.parse("0-1-5")),
    Position("caf\udce9.000001", 4),
]


@pytest.fixture(params=["file", "memory"])
def store(request, tmp_path):
    return MemoryPositionStore() if request.param == "memory" else FilePositionStore(tmp_path / "p")


@pytest.mark.parametrize("position", POSITIONS)
def test_what_is_saved_is_loaded(store, position):
    assert store.load() is None and store.load_checkpoint() is None
    store.save(Position("old.1", 4), {"x": 1})
    store.save(position, {"schema": {"t": [1, "é"]}})
    assert store.load() == position
    assert store.load_checkpoint().state == {"schema": {"t": [1, "é"]}}
    store.save(position)
    assert store.load_checkpoint().state == {}


def test_file_is_json_for_people_too(tmp_path):
    path = tmp_path / "p.json"
    FilePositionStore(path).save(POSITIONS[0])
    document = json.loads(path.read_text())
    assert document["text"] == "binlog.000024:1472"
    assert document["version"] == 1
    assert os.listdir(tmp_path) == ["p.json"]


@pytest.mark.parametrize(
    "content",
    [b"", b"\0" * 200, b"{", b"[]", b"null", b"{}", b"\xff\xfe", b"[" * 100_000,
     b'{"format": "replica-client-position", "version": 9}',
     b'{"format": "replica-client-position", "version": 1}',
     b'{"format": "replica-client-position", "version": 1, "position": {"version": 1}}',
     b'{"format": "replica-client-position", "version": 1, "position": {"version": 1, "file": "b", '
     b'"offset": 4}, "state": 5}'],
)  # fmt: skip
def test_damaged_file_is_refused_by_name_with_a_remedy(tmp_path, content):
    path = tmp_path / "p"
    path.write_bytes(content)
    with pytest.raises(PositionStoreError) as caught:
        FilePositionStore(path).load()
    message = str(caught.value)
    assert str(path) in message and "delete" in message and "\n" not in message
    assert path.read_bytes() == content


def test_truncated_file_is_refused_at_every_length(tmp_path):
    path = tmp_path / "p"
    FilePositionStore(path).save(POSITIONS[1])
    whole = path.read_bytes()
    for size in range(len(whole) - 1):  # the last byte is the line end
        path.write_bytes(whole[:size])
        with pytest.raises(PositionStoreError):
            FilePositionStore(path).load()


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
def test_failure_leaves_the_old_file_whole(tmp_path, monkeypatch, call):
    path = tmp_path / "p"
    FilePositionStore(path).save(POSITIONS[0])
    before = path.read_bytes()
    store = FilePositionStore(path)  # the first save of a store writes the whole

    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, full)
    with pytest.raises(PositionStoreError, match="disk is full") as caught:
        store.save(POSITIONS[1])
    monkeypatch.undo()
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["p"]
    assert store.load() == POSITIONS[0]


def test_partial_writes_are_finished(tmp_path, monkeypatch):
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, bytes(data)[:7]))
    store = FilePositionStore(tmp_path / "p")
    store.save(POSITIONS[1])
    assert store.load() == POSITIONS[1]


LIMITED = """
import resource, sys
from replica_client.errors import PositionStoreError
from replica_client.stream.position import Position
from replica_client.stream.position.stores import FilePositionStore
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
try:
    FilePositionStore(sys.argv[1]).save(Position("binlog.000025", 4))
except PositionStoreError as error:
    print(error)
"""


def test_a_real_write_error_leaves_the_old_file_whole(tmp_path):
    path = tmp_path / "p"
    FilePositionStore(path).save(POSITIONS[0])
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(path)], capture_output=True, text=True, check=True
    )
    assert "size limit" in done.stdout and str(path) in done.stdout
    assert FilePositionStore(path).load() == POSITIONS[0]
    assert os.listdir(tmp_path) == ["p"]


@pytest.mark.parametrize("where", ["missing/p", "file/p", "directory"])
def test_impossible_paths_say_what_to_do(tmp_path, where):
    (tmp_path / "file").write_text("")
    (tmp_path / "directory").mkdir()
    store = FilePositionStore(tmp_path / where)
    with pytest.raises(PositionStoreError, match=r"position file .*; ") as caught:
        store.save(POSITIONS[0])
    assert str(tmp_path / where) in str(caught.value)


def test_symbolic_link_stays_and_its_target_is_replaced(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    link.symlink_to(target)
    FilePositionStore(link).save(POSITIONS[0])
    assert link.is_symlink()
    assert FilePositionStore(target).load() == POSITIONS[0]


def test_order_of_system_calls(tmp_path, monkeypatch):
    """Data is on the disk before the name, and the name before save returns."""
    calls = []
    for name in ("write", "fsync", "replace"):
        real = getattr(os, name)

        def spy(*args, name=name, real=real):
            calls.append(name)
            return real(*args)

        monkeypatch.setattr(os, name, spy)
    FilePositionStore(tmp_path / "p").save(POSITIONS[0])
    assert calls == ["write", "fsync", "replace", "fsync"]


def test_one_stream_at_a_time_holds_a_file_and_leaves_nothing(tmp_path):
    first, second = FilePositionStore(tmp_path / "p"), FilePositionStore(tmp_path / "p")
    first.hold()
    with pytest.raises(PositionStoreError, match="another stream uses it; stop that one"):
        second.hold()
    first.release()
    second.hold()
    first.release()  # twice: the lock is the second one's
    with pytest.raises(PositionStoreError, match="another stream uses it"):
        first.hold()
    second.release()
    assert list(tmp_path.iterdir()) == []


def test_the_lock_of_a_killed_process_does_not_stay(tmp_path):
    code = (
        "import sys, time; import replica_client as rc\n"
        "rc.FilePositionStore(sys.argv[1]).hold(); print('held', flush=True); time.sleep(60)"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "p")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(PositionStoreError, match="another stream uses it"):
            FilePositionStore(tmp_path / "p").hold()
        process.kill()
    store = FilePositionStore(tmp_path / "p")
    store.hold()
    store.release()


def test_many_that_take_turns_never_hold_a_file_together(tmp_path):
    """A lock file that its holder removes is made again: no two processes may hold two files of one name."""
    code = (
        "import os, sys, time; import replica_client as rc\n"
        "store, end = rc.FilePositionStore(sys.argv[1]), time.monotonic() + 1.5\n"
        "while time.monotonic() < end:\n"
        "    try: store.hold()\n"
        "    except rc.PositionError: continue\n"
        "    os.close(os.open(sys.argv[2], os.O_CREAT | os.O_EXCL)); os.unlink(sys.argv[2])\n"
        "    store.release()\n"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "p"), str(tmp_path / "inside")]
    processes = [subprocess.Popen(words) for _ in range(3)]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
