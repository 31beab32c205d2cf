"""The catalogue of a backup directory.

``backup.json`` is one JSON object::

    {"format": "replica-client-backup", "version": 1,
     "source": {"flavor": …, "version": …, "server_uuid": …, "server_id": …},
     "files": [{"name": "binlog.000001", "size": 1234, "finished": true, "sha256": …,
                "gtid_set_before": …, "gtid_set_after": …,
                "first_timestamp": …, "last_timestamp": …, "next_file": …, "decrypted": false,
                "kept": null, "removed": false, "after_gap": false}, …]}

The entry of the newest file may be older than the file: the file is scanned on start. A finished file
is exactly as its entry says.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, field, fields
from pathlib import Path
from typing import Any, Final

from replica_client.errors import BackupError, BackupMismatchError
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.storage.durable import replace_file

INDEX_NAME: Final = "backup.json"
_FORMAT: Final = "replica-client-backup"
_VERSION: Final = 1
_NAME = re.compile(r"[^./\\][^/\\]*\.[0-9]{1,19}")
_MAX_NAME_SIZE = 255
_SERIES = re.compile(r"-([1-9][0-9]{0,8})\.[0-9]+\Z")


@dataclass(slots=True)
class FileRecord:
    """One file of a backup.

    Attributes:
        name: as the source calls it.
        size: bytes in it.
        finished: the source closed it, and the copy is whole.
        sha256: of a finished file, in hex.
        gtid_set_before: transactions before its first, as text; None where the file does not say.
        gtid_set_after: the same with those that ended in it.
        first_timestamp: when it was begun (seconds since 1970).
        last_timestamp: of its last event.
        next_file: the file that follows, when its last event says so.
        decrypted: the source keeps it encrypted (MariaDB), and sent the same events in clear.
        kept: its name in another form or place (:mod:`~replica_client.archive.backup.finished_files`).
        removed: it was older than the backup keeps files.
        after_gap: files before it are missing, because the source had purged them.
    """

    name: str
    size: int = 0
    finished: bool = False
    sha256: str | None = None
    gtid_set_before: str | None = None
    gtid_set_after: str | None = None
    first_timestamp: int = 0
    last_timestamp: int = 0
    next_file: str | None = None
    decrypted: bool = False
    kept: str | None = None
    removed: bool = False
    after_gap: bool = False

    @property
    def number(self) -> int:
        """The number at the end of its name."""
        return file_number(self.name)


@dataclass(slots=True)
class SourceIdentity:
    """The identity of the server that a backup is of; empty until the first connection."""

    flavor: str = ""
    version: str = ""
    server_uuid: str = ""
    server_id: int = 0


@dataclass(slots=True)
class Catalog:
    """The index of a backup directory.

    Attributes:
        directory: where the files are.
        source: which server they are of.
        files: in order; all but the last are finished.
    """

    directory: Path
    source: SourceIdentity = field(default_factory=SourceIdentity)
    files: list[FileRecord] = field(default_factory=list)
    _encoded: dict[str, str] = field(default_factory=dict, repr=False)
    _writing: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)
    _prepared: int = 0
    _written: int = 0

    @classmethod
    def load(cls, directory: Path) -> Catalog:
        """Read the index; a directory without one must not hold binlog files.

        Raises:
            BackupMismatchError: the directory is not a backup, or finished files are not as they were.
            OSError: it cannot be read.
        """
        path = directory / INDEX_NAME
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            strange = next((p.name for p in directory.iterdir() if is_binlog_name(p.name)), None)
            if strange is not None:
                raise BackupMismatchError(
                    f"{directory} holds {strange} but no {INDEX_NAME}: it is no backup that could be "
                    "continued; choose an empty directory"
                ) from None
            return cls(directory)
        try:
            catalog = cls(directory, *_decode(json.loads(text)))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise BackupMismatchError(
                f"{path} is damaged ({error}); restore it from a copy, or choose an empty directory"
            ) from None
        catalog._check_finished()
        return catalog

    @property
    def last(self) -> FileRecord | None:
        """The newest file."""
        return self.files[-1] if self.files else None

    def find(self, name: str) -> FileRecord | None:
        """Return a file by its name, or None."""
        return next((record for record in self.files if record.name == name), None)

    def forget(self, record: FileRecord) -> None:
        """Drop the encoded line of a finished file, because its entry changed."""
        self._encoded.pop(record.name, None)

    def save(self) -> None:
        """Write the index; when this returns it survives a crash.

        Raises:
            OSError: it could not be written; the old one is whole.
        """
        self.prepared()()

    def document(self) -> bytes:
        """Return the text of the index."""
        head = {"format": _FORMAT, "version": _VERSION, "source": asdict(self.source)}
        entries = ",\n  ".join(map(self._entry, self.files))
        return f'{json.dumps(head)[:-1]},\n "files": [\n  {entries}\n ]}}\n'.encode("ascii")

    def prepared(self) -> Callable[[], None]:
        """Return a function that writes the current index; another thread may call it.

        An older state never replaces a newer one.
        """
        data = self.document()
        self._prepared += 1
        number = self._prepared

        def write() -> None:
            with self._writing:
                if number < self._written:
                    return
                path = self.directory / INDEX_NAME
                with naming(path):
                    replace_file(path, data, mode=0o666)
                self._written = number

        return write

    def _entry(self, record: FileRecord) -> str:
        """Return a line of the index; the line of a finished file is cached until :meth:`forget`."""
        text = self._encoded.get(record.name)
        if text is None:
            text = json.dumps(asdict(record))
            if record.finished:
                self._encoded[record.name] = text
        return text

    def _check_finished(self) -> None:
        """Check that finished files did not change. They may have been moved to another place, except the last.

        Raises:
            BackupMismatchError: a file changed, or the last is missing.
        """
        for record in self.files:
            path = self.directory / record.name
            try:
                size = path.stat().st_size
            except FileNotFoundError:
                if record is self.last and record.finished:
                    raise BackupMismatchError(
                        f"{path} is missing, but the backup continues after it; restore it"
                    ) from None
                continue
            if record.finished and size != record.size:
                raise BackupMismatchError(
                    f"{path} has {size} bytes, {INDEX_NAME} says {record.size}: it was changed; "
                    "bring back the file as it was"
                )


def is_binlog_name(name: str) -> bool:
    """Return whether a name is one that a binlog file may have.

    That is a base name of printable characters (so UTF-8 can write it) without a path and without a
    dot at its start, and a number in ASCII digits.
    """
    if not name.isprintable() or not _NAME.fullmatch(name):
        return False
    return len(name.encode()) <= _MAX_NAME_SIZE


def series_of(name: str) -> int:
    """Return the number of a file's server among the servers that a relay followed: 2 for ``binlog-2.000001``.

    A server's own files are all of one series, whatever their base name.
    """
    match = _SERIES.search(name)
    return int(match[1]) if match else 1


def following_name(name: str, rotated_to: str) -> str:
    """Return how a source calls the file that a ROTATE event leads to.

    A relay serves ``binlog.000002`` of its second server as ``binlog-2.000002``; the events are that server's own.
    """
    series, (stem, _, number) = series_of(name), rotated_to.rpartition(".")
    return f"{stem}-{series}.{number}" if name.startswith(f"{stem}-{series}.") else rotated_to


def file_order(name: str) -> tuple[int, int]:
    """Return the sort key of a file among those of a source: series, then number."""
    return series_of(name), file_number(name)


def file_number(name: str) -> int:
    """Return the number at the end of a binlog file's name."""
    return int(name.rpartition(".")[2])


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keep other backup processes out of a directory; made when it is not there.

    Raises:
        BackupError: another process is in it.
        OSError: it cannot be made or read.
    """
    directory.mkdir(parents=True, exist_ok=True)
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BackupError(
                f"another process writes a backup to {directory}; choose another directory"
            ) from None
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add the file to errors of the operating system that do not name it."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def _decode(document: Any) -> tuple[SourceIdentity, list[FileRecord]]:
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise ValueError("it is not a backup index")
    if document.get("version") != _VERSION:
        raise ValueError(f"version {document.get('version')!r}, this release reads {_VERSION}")
    records = [FileRecord(**_known(FileRecord, entry)) for entry in document["files"]]
    for record in records:
        if not isinstance(record.name, str) or not is_binlog_name(record.name):
            raise ValueError(f"{record.name!r:.80} is not a binlog file name")
        if not isinstance(record.size, int):
            raise ValueError(f"the size of {record.name} is not a number")
        follows = record.next_file
        if follows is not None and not (isinstance(follows, str) and is_binlog_name(follows)):
            raise ValueError(f"{follows!r:.80} is not a binlog file name")
    if not all(record.finished for record in records[:-1]):
        raise ValueError("a file before the last is not finished")
    return SourceIdentity(**_known(SourceIdentity, document["source"])), records


def _known(kind: type[Any], entry: dict[str, Any]) -> dict[str, Any]:
    names = {one.name for one in fields(kind)}
    return {name: value for name, value in entry.items() if name in names}
