"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from replica_client.storage import durable
from replica_client.storage.durable import (
    create_temporary,
    new_file,
    open_locked,
    replace_file,
    sync_directory,
    sync_file,
    write_all,
)


def test_a_file_is_replaced_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    before = os.umask(0o022)
    try:
        replace_file(path, b"one")
        assert path.stat().st_mode & 0o777 == 0o640
        replace_file(path, b"two", mode=0o666)
        assert path.stat().st_mode & 0o777 == 0o644
    finally:
        os.umask(before)
    assert path.read_bytes() == b"two"
    assert [one.name for one in tmp_path.iterdir()] == ["x.json"]


@pytest.mark.parametrize("name", ["write", "fsync", "replace"])
def test_what_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = tmp_path / "x.json"
    replace_file(path, b"old")

    def fail(*given: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(durable.os, name, fail)
    with pytest.raises(OSError, match="No space left"):
        replace_file(path, b"new")
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert [one.name for one in tmp_path.iterdir()] == ["x.json"]


def test_everything_is_synced_before_the_name_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def watch(name: str, most: int) -> None:
        real = getattr(os, name)

        def call(target: object, *given: bytes) -> object:
            done.append(name)
            return real(target, *(one[:most] if most else one for one in given))

        monkeypatch.setattr(durable.os, name, call)

    watch("write", 2)
    watch("fsync", 0)
    watch("replace", 0)
    replace_file(tmp_path / "x", b"abcde")
    assert done == ["write"] * 3 + ["fsync", "replace", "fsync"]
    assert (tmp_path / "x").read_bytes() == b"abcde"


def test_a_directory_that_cannot_be_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sync_directory(tmp_path)
    codes = iter((errno.EINVAL, errno.EIO))

    def fail(descriptor: int) -> None:
        raise OSError(next(codes), "said by the file system")

    monkeypatch.setattr(durable.os, "fsync", fail)
    sync_directory(tmp_path)
    with pytest.raises(OSError, match="said by the file system"):
        sync_directory(tmp_path)


def test_a_link_that_waits_is_neither_followed_nor_replaced(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    place = tmp_path / "outputs"
    place.mkdir()
    path = place / "binlog.000002.rcindex"
    for name in (".tmp", ".part"):
        (place / (path.name + name)).symlink_to(victim)
        (place / f".{path.name}{name}").symlink_to(victim)
        (place / f".{path.name}.{os.getpid()}{name}").symlink_to(victim)
    replace_file(path, b"index")
    with new_file(place / "other") as stream:
        stream.write(b"other")
    assert victim.read_bytes() == b"mine"
    assert (path.read_bytes(), (place / "other").read_bytes()) == (b"index", b"other")
    assert not path.is_symlink()


def test_a_name_that_was_guessed_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    monkeypatch.setattr(durable.os, "urandom", bytes)
    (tmp_path / ".x.0000000000000000.tmp").symlink_to(victim)
    with pytest.raises(FileExistsError):
        replace_file(tmp_path / "x", b"new")
    assert victim.read_bytes() == b"mine"


def test_a_stream_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), new_file(tmp_path / "x") as stream:
        stream.write(b"half" * (1 // 0))
    assert list(tmp_path.iterdir()) == []
    long = tmp_path / ("é" * 127)
    replace_file(long, b"whole")
    assert long.read_bytes() == b"whole"


def test_what_killed_processes_left_goes_after_an_hour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable, "_SWEPT", set())
    old, young = (create_temporary(tmp_path / "x")[1] for _ in range(2))
    mine = tmp_path / "notes.0123456789abcdef.tmp"
    mine.touch()
    for one in (old, mine):
        os.utime(one, (0, 0))
    durable._SWEPT.clear()
    replace_file(tmp_path / "y", b"")
    assert sorted(tmp_path.iterdir()) == sorted([young, mine, tmp_path / "y"])


def test_files_of_others(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with pytest.raises(FileNotFoundError):
        sync_file(path)
    with path.open("wb", buffering=0) as file:
        write_all(file.fileno(), memoryview(b"abc"))
    sync_file(path)
    assert path.read_bytes() == b"abc"


def test_a_lock_is_held_by_one(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = open_locked(path)
    assert fcntl.fcntl(first, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
    with pytest.raises(BlockingIOError):
        open_locked(path)
    os.close(first)
    os.close(open_locked(path))


def test_a_file_system_that_locks_only_what_is_open_for_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS turns an exclusive flock into a lock of a byte range, which needs a descriptor for writing."""
    real = fcntl.flock

    def flock(descriptor: int, operation: int) -> None:
        if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    first = open_locked(tmp_path / "lock")
    with pytest.raises(BlockingIOError):
        open_locked(tmp_path / "lock")
    os.close(first)


def test_a_lock_follows_no_link_and_says_what_the_file_system_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "other")
    with pytest.raises(OSError):
        open_locked(tmp_path / "link")
    assert not (tmp_path / "other").exists()

    def flock(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(OSError) as caught:
        open_locked(tmp_path / "lock")
    assert caught.value.errno == errno.ENOLCK


def test_a_file_that_cannot_be_made_is_named_as_it_was_given(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "rows.parquet"
    with pytest.raises(FileNotFoundError) as caught:
        create_temporary(path)
    assert caught.value.filename == str(path)
