"""Files that survive a crash: written whole, synced, renamed into place, with the names in their directories."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

DATA_MODE: Final = 0o640
"""Permissions of files with rows or positions, before the umask: not for everybody on the machine."""

TEMPORARY: Final = ".tmp"
"""The suffix of files that are not in place yet."""
_LEFT_BEHIND: Final = re.compile(r"\..*\.[0-9a-f]{16}\.tmp", re.DOTALL)
_LEFT_SECONDS: Final = 3600
_MOST_SWEPT: Final = 10_000
_SWEPT: Final[set[str]] = set()

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
    """Sync a file that others wrote to disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(directory: Path) -> None:
    """Sync the names in a directory to disk, where the file system supports that."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
    finally:
        os.close(descriptor)


def create_temporary(path: Path, mode: int = DATA_MODE) -> tuple[int, Path]:
    """Create a temporary file in a file's directory, which is later renamed to that file.

    Its name cannot be guessed, and no existing file is opened: nobody who may write to the
    directory can put a link in its place. Temporary files that killed processes left an hour ago
    are removed.

    Args:
        path: the name that it will have.
        mode: before the umask.

    Returns:
        its descriptor, open for writing and reading, and its path.

    Raises:
        OSError: it cannot be created; names the file, not the temporary one.
    """
    _sweep(path.parent)
    end = f".{os.urandom(8).hex()}{TEMPORARY}"
    name = os.fsdecode(os.fsencode(path.name)[: 254 - len(end)])
    temporary = path.with_name(f".{name}{end}")
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(temporary, flags, mode), temporary
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None


def open_locked(path: Path, mode: int = DATA_MODE) -> int:
    """Open a lock file, create a missing one, and lock it until its descriptor is closed.

    The file is not open for writing where that is possible: a file system cannot become read-only while a
    file is. NFS gives an exclusive lock only on a file that is open for writing.

    Args:
        path: the lock file; not a link.
        mode: of a new file, before the umask.

    Raises:
        BlockingIOError: another process or descriptor holds the lock.
        OSError: the file cannot be opened, or its file system has no locks.
    """
    for access in (os.O_RDONLY, os.O_RDWR):
        flags = access | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags, mode)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if error.errno == errno.EBADF and access == os.O_RDONLY:
                continue
            if error.errno in (errno.EAGAIN, errno.EACCES):
                raise BlockingIOError(errno.EAGAIN, "locked", os.fspath(path)) from None
            raise
        return descriptor
    raise AssertionError  # the second turn returns or raises


def _sweep(directory: Path) -> None:
    """Remove old temporary files from a directory, once in the life of this process."""
    key = os.fspath(directory)
    if key in _SWEPT:
        return
    if len(_SWEPT) >= _MOST_SWEPT:
        _SWEPT.clear()
    _SWEPT.add(key)
    before = time.time() - _LEFT_SECONDS
    with contextlib.suppress(OSError), os.scandir(directory) as found:
        for one in found:
            if (
                _LEFT_BEHIND.fullmatch(one.name)
                and one.stat(follow_symlinks=False).st_mtime < before
            ):
                with contextlib.suppress(OSError):
                    os.unlink(one.path)


@contextlib.contextmanager
def new_file(path: Path, mode: int = DATA_MODE) -> Iterator[BinaryIO]:
    """Open a stream that becomes a file at the end; after an error no file appears.

    Raises:
        OSError: the file cannot be created, synced or renamed.
    """
    descriptor, temporary = create_temporary(path, mode)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
        publish_file(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def publish_file(temporary: Path, path: Path) -> None:
    """Give a file that was written under a temporary name its own, so that a crash leaves it whole or not at all.

    Raises:
        OSError: it cannot be synced or renamed.
    """
    sync_file(temporary)
    os.replace(temporary, path)
    sync_directory(path.parent)


def replace_file(path: Path, data: bytes, *, mode: int = DATA_MODE) -> os.stat_result:
    """Write a file so that after a crash it is the old or the new one, wholly.

    Args:
        path: the file; its directory must be there.
        data: all that is to be in it.
        mode: of a new file, before the umask.

    Returns:
        what the system says of the new file.

    Raises:
        OSError: it cannot be written; the old one is whole.
    """
    descriptor, temporary = create_temporary(path, mode)
    try:
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
