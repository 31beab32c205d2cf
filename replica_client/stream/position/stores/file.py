"""Positions in a file.

The position's file gives the name of this file and how many of its bytes count. Bytes that a crash
left after them are cut off at the next save. Each line is a CRC-32 in eight hexadecimal digits and
a text. A new file is written when more than half of the file is outdated; the old one is removed
when no position names it any more.

The file holds the JSON object of :mod:`~replica_client.stream.position.stores.base`, followed by later
saves (:mod:`~replica_client.stream.position.stores.growing`), each with its CRC: a save is one write and
one sync of some hundred bytes. After many saves the whole file is written again: to a temporary
file in the same directory, which is synced and renamed over the old one, and the directory is
synced. A crash, a kill or a full disk leaves the old position or the new one.

A long schema history is kept in another file, ``NAME.state-1``
(:mod:`~replica_client.stream.position.stores.file`): a save writes only its new part. To copy a
position, copy both files.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import zlib
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

from replica_client.errors import PositionFormatError, PositionStoreError
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.position import Position
from replica_client.storage.durable import open_locked, replace_file, write_all, write_durably
from replica_client.storage.location import local_path
from replica_client.stream.position.stores.base import (
    Checkpoint,
    StoreInUseError,
    encode_checkpoint,
)
from replica_client.stream.position.stores.growing import (
    END,
    SavedState,
    append_of,
    decode_saves,
    split_growing,
    stored_before,
)

_SPARE_SIZE: Final = 1 << 20


class StateFile:
    """Texts of a state in a file that a position refers to.

    Args:
        directory: where.
        prefix: of the files' names; a number follows.
        mode: of the files, before the umask.
    """

    def __init__(self, directory: Path, prefix: str, mode: int = 0o640) -> None:
        self._directory, self._prefix, self._mode = directory, prefix, mode
        self._name = ""
        self._texts: tuple[str, ...] = ()
        # Offsets after each text, and of the first one.
        self._begin = 0
        self._ends: list[int] = []
        self._kept: str | None = None

    def load(self, saved: Any) -> tuple[str, ...]:
        """Return the texts that a saved position refers to.

        Args:
            saved: the result of :meth:`save`.

        Raises:
            PositionFormatError: the texts are missing or damaged.
        """
        try:
            name, begin, end = saved["file"], saved["begin"], saved["end"]
            if not isinstance(name, str) or os.sep in name or not name.startswith(self._prefix):
                raise TypeError
            if not (isinstance(begin, int) and isinstance(end, int) and 0 <= begin <= end):
                raise TypeError
        except (KeyError, TypeError):
            raise PositionFormatError("what it says about its state is damaged") from None
        path = self._directory / name
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise PositionFormatError(
                f"the file {path} that belongs to it is not there (the two are copied together)"
            ) from None
        if len(data) < end:
            raise PositionFormatError(
                f"{path} has {len(data)} bytes, and {end} of them belong to it"
            )
        texts, ends, at = [], [], begin
        while at < end:
            stop = data.find(b"\n", at, end) + 1
            text = data[at + 9 : stop - 1]
            if not stop or data[at : at + 9] != b"%08x " % zlib.crc32(text):
                raise PositionFormatError(f"{path} is damaged at byte {at}")
            texts.append(text.decode("latin-1"))
            ends.append(stop)
            at = stop
        self._name, self._texts, self._begin, self._ends = name, tuple(texts), begin, ends
        return self._texts

    def save(self, texts: tuple[str, ...]) -> dict[str, object]:
        """Write the new texts durably.

        Returns:
            the entry for the position's file; call :meth:`saved` when that file is durable.

        Raises:
            OSError: they cannot be written; the earlier texts are intact.
        """
        gone = stored_before(self._texts, texts)
        if gone is not None and self._append(texts, gone):
            return self._description()
        lines = [_line(text) for text in texts]
        name = f"{self._prefix}{self._next_number()}"
        path = self._directory / name
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, self._mode)
        try:
            write_durably(descriptor, b"".join(lines))
        except BaseException:
            with contextlib.suppress(OSError):
                path.unlink()
            raise
        finally:
            os.close(descriptor)
        self._name, self._texts, self._begin = name, texts, 0
        self._ends = list(accumulate(map(len, lines)))
        return self._description()

    def _append(self, texts: tuple[str, ...], gone: int) -> bool:
        """Append the new texts; return False where a new file is needed."""
        end, begin = self._ends[-1], self._ends[gone - 1] if gone else self._begin
        if begin > _SPARE_SIZE and begin > end // 2:
            return False
        lines = [_line(text) for text in texts[len(self._texts) - gone :]]
        if lines:
            try:
                descriptor = os.open(self._directory / self._name, os.O_WRONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return False
            try:
                size = os.fstat(descriptor).st_size
                if size < end:
                    return False
                if size > end:
                    os.ftruncate(descriptor, end)
                os.lseek(descriptor, end, os.SEEK_SET)
                write_durably(descriptor, b"".join(lines))
            finally:
                os.close(descriptor)
        del self._ends[:gone]
        for line in lines:
            end += len(line)
            self._ends.append(end)
        self._begin, self._texts = begin, texts
        return True

    def _description(self) -> dict[str, object]:
        return {"file": self._name, "begin": self._begin, "end": self._ends[-1]}

    def _next_number(self) -> int:
        numbers = (self._number(path) for path in self._directory.iterdir())
        return max((int(one) for one in numbers if one), default=0) + 1

    def _number(self, path: Path) -> str:
        """Return the number in the name of such a file, or ``""`` for another file."""
        found = re.fullmatch(r"([0-9]{1,18})(?:\.json)?", path.name.removeprefix(self._prefix))
        return found[1] if found and path.name.startswith(self._prefix) else ""

    def saved(self, saved: Mapping[str, object] | None) -> None:
        """Remove the files that the position's file, which is durable now, does not refer to.

        Args:
            saved: the result of :meth:`save`; None: no texts are in a file.
        """
        if saved is None:
            self._name, self._texts, self._begin, self._ends = "", (), 0, []
        if self._kept == self._name:
            return
        self._kept = self._name
        for path in [one for one in self._directory.iterdir() if self._number(one)]:
            if path.name != self._name:
                with contextlib.suppress(OSError):
                    path.unlink()


def _line(text: str) -> bytes:
    data = text.encode("latin-1")
    return b"%08x %s\n" % (zlib.crc32(data), data)


_APPENDED_SIZE = 128 << 10
"""Bytes of saves behind a checkpoint, beyond which the whole is written anew."""

_REMEDIES = {
    errno.ENOSPC: "the disk is full: free space, then start again",
    errno.EDQUOT: "the disk quota is used up: free space, then start again",
    errno.EFBIG: "the file size limit is reached: raise it, then start again",
    errno.EACCES: "make it readable and its directory writable for this user",
    errno.EPERM: "make it readable and its directory writable for this user",
    errno.EROFS: "the file system is read-only: choose another path",
    errno.ENOENT: "its directory does not exist: create it",
    errno.ENOTDIR: "a part of its path is not a directory: choose another path",
    errno.EISDIR: "it is a directory: choose the path of a file",
}


@dataclass(slots=True)
class _Written:
    """The file as it was written.

    Attributes:
        path: of the file.
        identity: device and number of the file.
        first_size: bytes of the checkpoint.
        size: bytes of the checkpoint and the saves after it.
        saves: number of the saves.
    """

    path: Path
    identity: tuple[int, int]
    first_size: int
    size: int
    saves: int = 0


class FilePositionStore:
    """Keeps a checkpoint in one file, atomically.

    One process at a time may use a file. A symbolic link is followed, so that the file that it
    names is replaced.

    Args:
        path: the file; its directory must exist, it need not.

    Examples:
        >>> store = rc.FilePositionStore("shop.position")
        >>> store.load() is None
        True
        >>> store.save(rc.Position("binlog.000024", 1472))
        >>> str(store.load())
        'binlog.000024:1472'
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = local_path(path, "position file")
        self._state: StateFile | None = None
        self._saved = SavedState({}, {})
        self._written: _Written | None = None
        self._lock = -1

    def hold(self) -> None:
        """Keep other processes from the file, until :meth:`release` or the end of this process.

        Raises:
            PositionStoreError: another stream or process uses it.
        """
        if self._lock >= 0:
            return
        path = self._lock_path()
        while True:
            try:
                descriptor = open_locked(path)
            except BlockingIOError:
                raise StoreInUseError(
                    f"position file {self._path}: another stream uses it; stop that one, or give each its own file"
                ) from None
            except OSError as error:
                if error.errno in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
                    return  # a file system without locks
                raise self._failed("use", error) from error
            # Whoever held the lock may have removed the file between the two calls: then it locks nothing.
            if _is_file(descriptor, path):
                self._lock = descriptor
                return
            os.close(descriptor)

    def release(self) -> None:
        """Release the lock, and remove its file."""
        descriptor, self._lock = self._lock, -1
        if descriptor >= 0:
            path = self._lock_path()
            if _is_file(descriptor, path):
                with contextlib.suppress(OSError):
                    path.unlink()
            os.close(descriptor)

    def _lock_path(self) -> Path:
        target = self._target()
        return target.with_name(f".{target.name}.lock")

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    def load(self) -> Position | None:
        """Return the saved position, or None when there is no file yet.

        Raises:
            PositionStoreError: the file cannot be read, or is no position file.
        """
        checkpoint = self.load_checkpoint()
        return None if checkpoint is None else checkpoint.position

    def load_checkpoint(self) -> Checkpoint | None:
        """Return the saved position with its state, or None when there is no file yet.

        Raises:
            PositionStoreError: the file cannot be read, or is no position file.
        """
        try:
            data = self._path.read_bytes()
        except FileNotFoundError as error:
            if not self._path.parent.is_dir():
                raise self._failed("use", error) from error
            return None
        except OSError as error:
            raise self._failed("read", error) from error
        try:
            return decode_saves(data, self._state_file().load)
        except OSError as error:
            raise self._failed("read", error) from error
        except PositionFormatError as error:
            raise PositionStoreError(
                f"position file {self._path} is damaged: {error}; restore it from a copy, set the"
                f" position again, or delete the file to start without one"
            ) from error

    def save(self, position: Position, state: Mapping[str, object] | None = None) -> None:
        """Save a position and its state; when this returns, both survive a crash.

        Raises:
            PositionStoreError: they could not be saved; the file is as it was.
        """
        wanted = SavedState.of(state or {})
        try:
            if not self._append(position, wanted):
                self._replace(position, state or {})
            self._saved = wanted
        except OSError as error:
            raise self._failed("save", error) from error

    def _replace(self, position: Position, state: Mapping[str, object]) -> None:
        """Write the whole."""
        self._written = None
        target = self._target()
        short, name, texts = split_growing(state)
        file, stored = self._state_file(), None
        if name:
            stored = file.save(texts)
        data = encode_checkpoint(position, short, {name: stored} if stored else None)
        found = replace_file(target, data)
        file.saved(stored)
        identity = found.st_dev, found.st_ino
        self._written = _Written(target, identity, len(data), len(data))

    def _append(self, position: Position, state: SavedState) -> bool:
        """Append the changes since the last save; return False where the whole file must be written."""
        written = self._written
        if written is None:
            return False
        line = append_of(written.saves + 1, position, self._saved, state)
        if line is None or len(line) + written.size - written.first_size > _APPENDED_SIZE:
            return False
        try:
            descriptor = os.open(written.path, os.O_WRONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            found = os.fstat(descriptor)
            if (found.st_dev, found.st_ino) != written.identity or found.st_size != written.size:
                return False
            at = written.size - len(END)
            try:
                _write_at(descriptor, line + END, at)
                _sync_data(descriptor)
            except BaseException:
                self._written = None
                with contextlib.suppress(OSError):
                    _write_at(descriptor, END, at)
                    os.ftruncate(descriptor, written.size)
                raise
        finally:
            os.close(descriptor)
        written.size += len(line)
        written.saves += 1
        return True

    def _target(self) -> Path:
        return Path(os.path.realpath(self._path))

    def _state_file(self) -> StateFile:
        if self._state is None:
            target = self._target()
            self._state = StateFile(target.parent, f"{target.name}.state-")
        return self._state

    def _failed(self, what: str, error: OSError) -> PositionStoreError:
        reason = error.strerror or str(error)
        remedy = _REMEDIES.get(error.errno or 0)
        return PositionStoreError(
            f"cannot {what} position file {self._path}: {reason}"
            + (f"; {remedy}" if remedy else "")
        )


def _is_file(descriptor: int, path: Path) -> bool:
    """Return whether an open file is the one that has a name now."""
    try:
        found = path.stat()
    except OSError:
        return False
    opened = os.fstat(descriptor)
    return (found.st_dev, found.st_ino) == (opened.st_dev, opened.st_ino)


def _write_at(descriptor: int, data: bytes, offset: int) -> None:
    os.lseek(descriptor, offset, os.SEEK_SET)
    write_all(descriptor, data)


def _sync_data(descriptor: int) -> None:
    getattr(os, "fdatasync", os.fsync)(descriptor)  # macOS has no fdatasync
