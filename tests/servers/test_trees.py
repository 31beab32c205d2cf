"""Roots are removed without touching what is mounted in them, and programs end with their children."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from local_servers import trees
from local_servers.commands import run
from local_servers.faults import ServersError


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """A directory in which another one is mounted twice, as debootstrap does with /proc and /sys."""
    precious, root = tmp_path / "precious", tmp_path / "a root\twith\\odd name"
    precious.mkdir()
    (precious / "file").write_text("kept")
    points = (root / "proc", root / "proc" / "deeper")
    points[0].mkdir(parents=True)
    (precious / "deeper").mkdir()
    if os.geteuid() != 0:
        pytest.skip("only root can mount")
    try:
        for point in points:
            subprocess.run(["mount", "--bind", precious, point], check=True, capture_output=True)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"this machine does not let mount: {error.stderr.decode().strip()}")
    yield root, precious
    for point in trees.mounted_below(root):
        subprocess.run(["umount", "--lazy", point], check=True)


def test_what_is_mounted_stays(mounted: tuple[Path, Path]) -> None:
    root, precious = mounted
    assert len(trees.mounted_below(root)) == 2
    trees.remove_tree(root)
    assert not root.exists()
    assert (precious / "file").read_text() == "kept"


def test_a_busy_mount_stops_it(mounted: tuple[Path, Path]) -> None:
    root, precious = mounted
    with (root / "proc" / "deeper" / "file").open() as busy:
        with pytest.raises(ServersError, match="unmounting"):
            trees.remove_tree(root)
        assert busy.read() == "kept"
    assert (precious / "file").read_text() == "kept"


def test_nothing_there(tmp_path: Path) -> None:
    trees.remove_tree(tmp_path / "missing")


def test_a_program_ends_with_what_it_started(tmp_path: Path) -> None:
    stated = tmp_path / "child"
    script = f"sleep 60 & echo $! > {stated}; wait"
    with pytest.raises(ServersError, match="did not finish in 1 s"):
        run(("sh", "-c", script), doing="waiting", timeout=1)
    child = Path(f"/proc/{int(stated.read_text())}")
    deadline = time.monotonic() + 10
    while child.exists() and "Z" not in (child / "stat").read_text().rpartition(")")[2][:3]:
        assert time.monotonic() < deadline, "the child goes on"
        time.sleep(0.05)
