"""Removing directory trees that may have other file systems mounted in them."""

import subprocess
from pathlib import Path

from local_servers.commands import run
from local_servers.faults import ServersError

REMOVE_TIMEOUT = 300.0
_MOUNTS = Path("/proc/self/mountinfo")


def mounted_below(directory: Path) -> list[Path]:
    """Where file systems are mounted in a directory or on it, the deepest first."""
    here = directory.resolve()
    points = []
    for line in _MOUNTS.read_bytes().splitlines():
        # Blanks in a path are octal escapes.
        escaped = line.split(b" ")[4].decode("latin-1")
        point = Path(escaped.encode("latin-1").decode("unicode_escape").encode("latin-1").decode())
        if point == here or here in point.parents:
            points.append(point)
    return sorted(points, key=lambda point: len(point.parts), reverse=True)


def remove_tree(directory: Path) -> None:
    """Remove a directory with all that is in it, on its own file system only.

    What is mounted in it is unmounted first: an interrupted debootstrap leaves /proc and /sys there.

    Raises:
        ServersError: something stays mounted, or cannot be removed; it is named.
    """
    if not directory.exists() and not directory.is_symlink():
        return
    doing = f"removing {directory}"
    for point in mounted_below(directory):
        run(("umount", point), doing=f"{doing}: unmounting {point}", timeout=60)
    if left := mounted_below(directory):
        raise ServersError(f"{doing}: {left[0]} is still mounted; unmount it")
    command = ("rm", "-r", "-f", "--one-file-system", "--", str(directory))
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=REMOVE_TIMEOUT, check=False, text=True
        )
    except subprocess.TimeoutExpired:
        raise ServersError(f"{doing}: rm did not finish in {REMOVE_TIMEOUT:.0f} s") from None
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise ServersError(f"{doing}: {said[-1] if said else 'rm failed'}")
