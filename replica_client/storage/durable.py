"""Files that survive a crash: written whole, synced, renamed into place, with the names in their directories."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from typing import Final

DATA_MODE: Final = 0o640
"""Of files with rows or positions, before the umask: not for everybody on the machine."""

TEMPORARY: Final = ".tmp"
"""What names of files end with that are not in place yet."""

# What file systems say that cannot sync the names in a directory.
_UNSUPPORTED: Final = (errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES)


def write_all(descriptor: int, data: bytes | bytearray | memoryview) -> None:
    """Write all bytes, however often the system has to be asked."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def write_durably(descriptor: int, data: bytes | bytearray | memoryview) -> None:
    """Write all bytes; they are on disk when this returns."""
    write_all(descriptor, data)
    os.fsync(descriptor)


def sync_file(path: Path) -> None:
    """Let what others wrote into a file be on disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(directory: Path) -> None:
    """Let the names in a directory be on disk, where the file system can do that."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
    finally:
        os.close(descriptor)


def publish_file(temporary: Path, path: Path) -> None:
    """Give a file that was written under a temporary name its own, so that a crash leaves it whole or not at all.

    Raises:
        OSError: it cannot be synced or renamed.
    """
    sync_file(temporary)
    os.replace(temporary, path)
    sync_directory(path.parent)


def replace_file(
    path: Path, data: bytes, *, mode: int = DATA_MODE, temporary: Path | None = None
) -> os.stat_result:
    """Write a file so that after a crash it is the old or the new one, wholly.

    Args:
        path: the file; its directory must be there.
        data: all that is to be in it.
        mode: of a new file, before the umask.
        temporary: where it is written first, in the same directory; default: the name with ``.tmp``.

    Returns:
        what the system says of the new file.

    Raises:
        OSError: it cannot be written; the old one is whole.
    """
    temporary = temporary or path.with_name(path.name + TEMPORARY)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        descriptor = os.open(temporary, flags, mode)
        try:
            write_durably(descriptor, data)
            found = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    sync_directory(path.parent)
    return found
