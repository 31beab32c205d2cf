"""Files to be read, wherever they are: opened, looked at, and found by directory or pattern."""

from __future__ import annotations

import fnmatch
import glob
import io
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from replica_client.errors import ObjectNotFoundError, StorageConflictError
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.storage.durable import replace_file
from replica_client.storage.kept_file import KeptReader, is_kept, plain_name, plain_of
from replica_client.storage.location import Location, ObjectUrl
from replica_client.storage.object_store import Data, ObjectStatus, ObjectStore

READ_AHEAD: Final = 8 << 20
"""Bytes of an object that one request asks for at most: it takes some 30 to 100 ms before its first byte."""

_FIRST_READ: Final = 256 << 10
_GROWTH: Final = 4


@dataclass(frozen=True, slots=True)
class FileStatus:
    """The place, size and time of a file.

    Attributes:
        where: its place.
        size: in bytes; of a kept file, those of the plain file.
        modified: time of its last change, in nanoseconds since 1970; -1 for a kept file, which does
            not change.
        e_tag: what its object store calls this content; empty elsewhere.
    """

    where: Location
    size: int
    modified: int
    e_tag: str = ""

    @property
    def name(self) -> str:
        """The file's name; that of the plain file for a kept one."""
        return plain_name(self.where.name)


def _status(where: Location, size: int, modified: int, e_tag: str | None = None) -> FileStatus:
    plain = plain_of(where.name)
    if plain is not None:
        size, modified = plain.size, -1
    return FileStatus(where, size, modified, e_tag or "")


def _of_object(where: Location, found: ObjectStatus) -> FileStatus:
    return _status(where, found.size, found.modified, found.version.e_tag)


class ObjectReader(io.RawIOBase):
    """Reads an object of a store like a file that does not change.

    It ends where the object ended when it was opened. If the object is replaced meanwhile, reading
    raises an error and never mixes two versions.

    Args:
        url: of the object.

    Attributes:
        status: of the object when it was opened.

    Raises:
        ObjectNotFoundError: there is none.
        StorageError: the store refuses, or cannot be reached.
    """

    def __init__(self, url: ObjectUrl) -> None:
        super().__init__()
        self._store = ObjectStore(url.parent)
        self._at, self._begin = 0, 0
        self._next_read = _FIRST_READ
        self.name = str(url)
        self.status: ObjectStatus
        self._ahead, self.status = self._store.begin(url.name, min(_FIRST_READ, READ_AHEAD))

    def readable(self) -> bool:
        """Return True: the stream is readable."""
        return True

    def seekable(self) -> bool:
        """Return True: the stream is seekable."""
        return True

    def tell(self) -> int:
        """Offset of the byte that is read next."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go elsewhere; nothing is read."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.status.size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Read up to the size of a buffer.

        Raises:
            StorageConflictError: the object was replaced since it was opened.
            StorageError: the store refuses, or cannot be reached.
        """
        target = memoryview(buffer).cast("B")
        done = 0
        while done < len(target) and (part := self._part(self._at, len(target) - done)):
            target[done : done + len(part)] = part
            done += len(part)
            self._at += len(part)
        return done

    def read_at(self, offset: int, size: int) -> bytes:
        """Read bytes from an offset on, fewer at the end, as ``os.pread`` does.

        Raises:
            StorageError: as of :meth:`readinto`.
        """
        found = bytearray()
        while len(found) < size and (part := self._part(offset + len(found), size - len(found))):
            found += part
        return bytes(found)

    def _part(self, at: int, size: int) -> memoryview:
        """Return at most ``size`` bytes from an offset on; none at the end."""
        inside = at - self._begin
        if not 0 <= inside < len(self._ahead):
            left = self.status.size - at
            if left <= 0:
                return memoryview(b"")
            follows = inside == len(self._ahead) > 0
            self._next_read = self._next_read * _GROWTH if follows else _FIRST_READ
            wanted = min(max(size, self._next_read), READ_AHEAD, left)
            self._ahead, self._begin, inside = self._read(at, wanted), at, 0
        return self._ahead[inside : inside + size]

    def _read(self, start: int, size: int) -> memoryview:
        try:
            found = self._store.read(self.status.name, start, size, self.status.version)
        except (StorageConflictError, ObjectNotFoundError):
            raise StorageConflictError(
                f"{self.name} was replaced or deleted while it was read; start again"
            ) from None
        if len(found) != size:
            raise StorageConflictError(
                f"{self.name}: {len(found)} bytes were read instead of {size}"
            )
        return found


def open_file(where: Location) -> BinaryIO:
    """Open a file to be read; of a kept file, the plain file.

    Raises:
        OSError: it is not there, or cannot be read.
        StorageError: likewise, in a store.
        BinlogFormatError: a kept file is damaged.
        ConfigError: the key of a kept file is not given.
    """
    if isinstance(where, ObjectUrl):
        reader = ObjectReader(where)
        stream, size = cast(BinaryIO, reader), reader.status.size
    else:
        stream = where.open("rb")
        size = os.fstat(stream.fileno()).st_size
    if not is_kept(where.name):
        return stream
    try:
        return cast(BinaryIO, KeptReader(stream, size, str(where)))
    except BaseException:
        stream.close()
        raise


def read_at(stream: BinaryIO, offset: int, size: int) -> bytes:
    """Read bytes of an :func:`open_file` stream from an offset on; fewer at its end."""
    if isinstance(stream, (ObjectReader, KeptReader)):
        return stream.read_at(offset, size)
    return os.pread(stream.fileno(), size, offset)


def read_ahead(stream: BinaryIO, offset: int, size: int) -> None:
    """Start to read bytes ahead that will be needed soon; do nothing for a store's object."""
    if not isinstance(stream, (ObjectReader, KeptReader)) and hasattr(os, "posix_fadvise"):
        with suppress(OSError):  # of a file that is no ordinary one
            os.posix_fadvise(stream.fileno(), offset, size, os.POSIX_FADV_WILLNEED)


def file_status(where: Location) -> FileStatus:
    """Size and time of a file.

    Raises:
        OSError: it is not there, or cannot be looked at.
        StorageError: likewise, in a store.
    """
    if isinstance(where, ObjectUrl):
        found = ObjectStore(where).status()
        return _of_object(where, found)
    there = where.stat()
    return _status(where, there.st_size, there.st_mtime_ns)


def files_in(where: Location) -> list[FileStatus] | None:
    """Return the files directly in a directory, unordered, or None if it is not a directory.

    In a store a directory is a name with objects below it.

    Raises:
        OSError: it cannot be listed.
        StorageError: likewise, in a store.
    """
    if isinstance(where, ObjectUrl):
        objects, below = ObjectStore(where).children()
        if not objects and not below:
            return None
        return [_of_object(where / one.name, one) for one in objects]
    if not where.is_dir():
        return None
    return [file_status(path) for path in where.iterdir() if path.is_file()]


def matching_files(where: Location) -> list[FileStatus]:
    """Return the files that match a pattern with ``*``, ``?`` and ``[…]``, unordered.

    Raises:
        OSError: a directory cannot be listed.
        StorageError: likewise, in a store.
    """
    if isinstance(where, Path):
        found = [Path(path) for path in glob.glob(str(where))]
        return [file_status(path) for path in found if path.is_file()]
    parts = where.key.split("/")
    first = next((at for at, part in enumerate(parts) if glob.has_magic(part)), len(parts) - 1)
    root = ObjectUrl(where.scheme, where.authority, "/".join(parts[:first]), where.options)
    names = [""]
    for part in parts[first:-1]:
        below = [one for name in names for one in ObjectStore(root).children(name)[1]]
        names = [one for one in below if fnmatch.fnmatchcase(one.rpartition("/")[2], part)]
    return [
        _of_object(root / one.name, one)
        for name in names
        for one in ObjectStore(root).children(name)[0]
        if fnmatch.fnmatchcase(one.name.rpartition("/")[2], parts[-1])
    ]


def has_pattern(where: Location) -> bool:
    """Return whether a path or URL has characters of a pattern."""
    return glob.has_magic(where.key if isinstance(where, ObjectUrl) else str(where))


def file_or_none(where: Location) -> FileStatus | None:
    """Return the status of a file that is not a directory, or None where there is none.

    Raises:
        OSError: its status cannot be read.
        StorageError: likewise, in a store.
    """
    if isinstance(where, Path):
        return file_status(where) if where.exists() and not where.is_dir() else None
    try:
        return file_status(where) if where.key else None
    except ObjectNotFoundError:
        return None


def write_file(where: Location, data: Data) -> None:
    """Write a file that readers see as a whole; its directory is made.

    Raises:
        OSError: it cannot be written.
        StorageError: likewise, in a store.
    """
    if isinstance(where, ObjectUrl):
        ObjectStore(where).put("", data)
        return
    where.parent.mkdir(parents=True, exist_ok=True)
    replace_file(where, bytes(data), mode=0o666)


def read_file(where: Location) -> bytes | None:
    """Return all bytes of a small file, or None where there is none.

    Raises:
        OSError: it cannot be read.
        StorageError: likewise, in a store.
    """
    try:
        return ObjectStore(where).get()[0] if isinstance(where, ObjectUrl) else where.read_bytes()
    except (FileNotFoundError, ObjectNotFoundError):
        return None


def remove_files(*where: Location) -> None:
    """Remove files; one that is not there is none.

    Raises:
        OSError: one cannot be removed.
        StorageError: likewise, in a store.
    """
    for one in where:
        if isinstance(one, ObjectUrl):
            ObjectStore(one.parent).delete(one.name)
        else:
            one.unlink(missing_ok=True)


def remove_tree(where: Location) -> None:
    """Remove a directory with all that is in it, as far as that can be done.

    Raises:
        StorageError: the store refuses, or cannot be reached.
    """
    if isinstance(where, ObjectUrl):
        store = ObjectStore(where)
        store.delete(*[one.name for one in store.objects()])
    else:
        import shutil  # takes long to import

        shutil.rmtree(where, ignore_errors=True)


def names_in(where: Location) -> list[str]:
    """Return the sorted names of the files and directories directly in a directory; none if it does not exist.

    Raises:
        OSError: it cannot be listed.
        StorageError: likewise, in a store.
    """
    if isinstance(where, ObjectUrl):
        objects, below = ObjectStore(where).children()
        return sorted([one.name for one in objects] + [name.rstrip("/") for name in below])
    return sorted(path.name for path in where.iterdir()) if where.is_dir() else []
