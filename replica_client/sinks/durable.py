"""Files that survive a crash: written whole, synced, renamed into place; directories with one owner."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

from replica_client.errors import SinkError

DATA_MODE = 0o640
"""Of files with rows, before the umask: not for everybody on the machine."""

TEMPORARY = ".tmp"
"""What names of files end with that are not in place yet."""


def check_writable(directory: Path) -> None:
    """Look whether files can be made in a directory, or it itself; nothing is made.

    Raises:
        SinkError: they cannot.
    """
    found = directory.absolute()
    while not found.exists() and found != found.parent:
        found = found.parent
    if not found.is_dir():
        raise SinkError(f"{directory}: {found} is no directory")
    if not os.access(found, os.W_OK | os.X_OK):
        raise SinkError(
            f"{directory}: files cannot be made in {found}; give this user the right to"
        )


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(path: Path, data: bytes) -> None:
    """Write a file so that after a crash it is the old or the new one, wholly."""
    temporary = path.with_name(path.name + TEMPORARY)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, DATA_MODE)
    try:
        write_all(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(temporary, path)
    sync_directory(path.parent)


def write_all(descriptor: int, data: bytes | bytearray | memoryview) -> None:
    """Write all bytes, however often the system has to be asked."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


class DirectoryLock:
    """Keeps a second writer out of a directory, for as long as this process lives or it is released.

    Args:
        directory: which one; there must be one.

    Raises:
        SinkError: another process writes there.
    """

    def __init__(self, directory: Path) -> None:
        self._descriptor = os.open(directory / ".lock", os.O_RDWR | os.O_CREAT, DATA_MODE)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.release()
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            raise SinkError(
                f"{directory}: another process writes there; stop it, or give each its own directory",
                retriable=True,
            ) from None

    def release(self) -> None:
        """Let others in."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        if getattr(self, "_descriptor", -1) >= 0:
            self.release()
