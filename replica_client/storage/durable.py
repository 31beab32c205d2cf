"""Files that survive a crash: written whole, synced, renamed into place, with the names in their directories."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Final
from urllib.parse import quote

from replica_client.errors import SchemaError

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


# Names of files for databases and tables, and single names for pairs; only this module makes them.
#
# Names come from a server, and may be anything: ``..``, ``a/b``, ``_delta_log``, 64 characters of
# four bytes. The names that are made of them
#
# * are never ``.``, ``..`` or hidden, have no separator, and are none of the names that their directory
#   keeps for itself;
# * fit into a directory (``NAME_MAX`` bytes);
# * are different for different names: an escape is ``%`` or ``%u`` and two digits, a digest follows
#   ``%~``, and a ``%`` in a name is escaped itself.
#
# Readers that take a path for part of a URL read ``%2E%2E`` as ``..``, and some (deltalake) look for
# a directory ``%C3%A9`` under the name ``é``. ``%u2E`` is no escape to them. It is used wherever a
# wrong reading would lead out of the directory, and for all characters where the caller says so.
#
# Ordinary names stay as they are. A reader that needs the original name takes it from the metadata
# next to the data (the lake's catalog, a segment's list, a mirror's own tables): a digest cannot be
# turned back.


NAME_MAX: Final = 255
"""Bytes of a name in a directory, on every file system that we know."""

_DIGEST: Final = 24
_MARK: Final = "%~"
_FIRM: Final = "%u"
_PLAIN: Final = "-_ $"
_CAPITAL: Final = re.compile(r"(%u?[0-9A-F]{2})|[A-Z]")
# Of Delta, Spark and Hive, which look for them or pass over them.
_RESERVED: Final = frozenset(
    (
        *("_delta_log", "_change_data", "_delta_index", "_temporary", "_metadata", "_success"),
        *("_common_metadata", "_symlink_format_manifest", "_spark_metadata"),
    )
)


def file_name(
    name: str,
    *,
    plain: str = _PLAIN,
    firm: bool = False,
    reserved: Callable[[str], bool] = lambda _: False,
    ignores_case: bool = False,
) -> str:
    """Return the name of a file or directory for a name.

    Args:
        name: of a database or table; not empty.
        plain: characters that stay as they are, in addition to ASCII letters, digits and ``_.-~``.
        firm: whether no reader of URLs may take an escape for one: ``%u20`` instead of ``%20``.
        reserved: whether the directory may have something else of a name, which is in small letters.
        ignores_case: whether the file system takes ``a`` and ``A`` for the same: capital letters are
            escaped then.

    Raises:
        SchemaError: the name is empty, or cannot be written as UTF-8.
    """
    if not name:
        raise SchemaError("a database or table without a name cannot be stored")
    try:
        made = quote(name, safe=plain)
    except UnicodeEncodeError:
        raise SchemaError(f"{name!a:.80} cannot be the name of a file") from None
    if firm:
        made = made.replace("%", _FIRM)
    if made[0] == "." or made.lower() in _RESERVED or reserved(made.lower()):
        made = _escaped(made[0]) + made[1:]
    if ignores_case:
        made = _without_capitals(made)
    if len(made) > NAME_MAX:
        made = shortened(made, NAME_MAX, name)
    return made


def shortened(text: str, length: int, *names: str) -> str:
    """Return the beginning of a text and a digest of the names that the text stands for."""
    digest = _MARK + _digest(names)
    kept = text[: length - len(digest)]
    # No half of an escape.
    at = kept.rfind("%", max(0, len(kept) - 3))
    return (kept if at < 0 else kept[:at]) + digest


def with_digest(text: str, *names: str) -> str:
    """Return a text with a digest of names, so that other names give another text."""
    return text + _MARK + _digest(names)


def joined_name(database: str, table: str) -> str:
    """``database.table`` such that no two tables have the same: a point in a database is escaped."""
    return database.replace("%", "%25").replace(".", "%2E") + "." + table.replace("%", "%25")


def ignores_case(directory: Path) -> bool:
    """Return whether a directory's file system takes ``a`` and ``A`` for the same name.

    Raises:
        OSError: nothing can be written there.
    """
    descriptor, name = tempfile.mkstemp(".tmp", ".case-probe-", directory)
    os.close(descriptor)
    path = Path(name)
    try:
        return path.with_name(path.name.swapcase()).exists()
    finally:
        path.unlink()


def _digest(names: tuple[str, ...]) -> str:
    data = b"".join(b"%d:%b" % (len(one), one) for one in (name.encode() for name in names))
    return sha256(data).hexdigest()[:_DIGEST]


def _escaped(char: str) -> str:
    return f"{_FIRM}{ord(char):02X}"


def _without_capitals(made: str) -> str:
    """Escapes of capital letters, but in the two digits of escapes."""
    return _CAPITAL.sub(lambda match: match[1] or _escaped(match[0]), made)
