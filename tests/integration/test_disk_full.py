"""A disk that is full when the position is written: one line, status 1, and nothing lost."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import replica_client as rc

DATA = Path(rc.__file__).parent / "testing" / "data"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 KiB of its own."""
    directory = tmp_path / "disk"
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(directory)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode:
        reason = f"no small file system: {done.stderr.strip()}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    try:
        yield directory
    finally:
        subprocess.run(["umount", str(directory)], check=True)


def _changes(position_file: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "replica_client", "changes", str(DATA), "--json"]
    return subprocess.run(
        [*command, "--position-file", str(position_file)],
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_full_disk_keeps_the_old_position(small_disk: Path) -> None:
    position_file, filler = small_disk / "position.json", small_disk / "filler"
    transactions = list(rc.open_binlog(DATA).transactions())
    old = transactions[7].position
    rc.FilePositionStore(position_file).save(old)
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"x" * 512):
            pass
    result = _changes(position_file)
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert "No space left on device" in result.stderr
    assert rc.FilePositionStore(position_file).load() == old
    filler.unlink()
    again = _changes(position_file)
    assert again.returncode == 0, again.stderr
    rest = sum(sum(1 for _ in t.changes) for t in transactions[8:])
    assert len(again.stdout.splitlines()) == rest
    assert json.loads(again.stdout.splitlines()[0])["gtid"] == transactions[8].gtid
    assert rc.FilePositionStore(position_file).load() == transactions[-1].position
