"""Finished files of a backup: their indexes, and their kept forms: compressed, encrypted, in an object store."""

from __future__ import annotations

import asyncio
import hashlib
import io
import logging
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import BinaryIO, Final

from replica_client.archive.backup.backup_catalog import INDEX_NAME, Catalog, FileRecord
from replica_client.archive.binlog_archive import SidecarFiles
from replica_client.archive.file_list import list_files
from replica_client.archive.index_format import SUFFIX, with_e_tag
from replica_client.errors import BackupMismatchError, ReplicaClientError
from replica_client.protocol.binlog.event import DecodeOptions
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.schema.history import SchemaHistory
from replica_client.storage.durable import new_file
from replica_client.storage.files import open_file, remove_files, write_file
from replica_client.storage.kept_file import ENCRYPTED_SUFFIX, Keeping, is_kept, keep
from replica_client.storage.location import Location, ObjectUrl
from replica_client.storage.object_store import ObjectStore

_LOG = logging.getLogger("replica_client.archive")
_DAY: Final = 86400
_PART: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class KeepOptions:
    """How a backup keeps its finished files.

    Attributes:
        form: compressed, encrypted, both; None: as they are.
        store: a directory or the URL of an object store; None: the backup's directory.
        days: how long files are kept after their last event; None: without end.
    """

    form: Keeping | None = None
    store: Location | None = None
    days: int | None = None

    @property
    def changes_files(self) -> bool:
        """Whether files get another form or place."""
        return self.form is not None or self.store is not None


class FileKeeper:
    """Keeps the finished files of a backup, and removes old ones.

    The newest finished file and the one that grows stay as they are: the backup goes on from them. A
    file is removed from the backup's directory only once its kept form was read back, has the SHA-256
    of the catalogue, and is in the catalogue on disk. A process that is killed in between leaves both, and
    the next run goes on.

    Args:
        directory: of the backup.
        options: how.

    Attributes:
        options: as given.
    """

    def __init__(self, directory: Path, options: KeepOptions) -> None:
        self._directory, self.options = directory, options

    @property
    def store(self) -> Location:
        """Where kept files are."""
        return self.options.store or self._directory

    def location(self, record: FileRecord) -> Location:
        """Return where a file is now."""
        plain = self._directory / record.name
        return plain if record.kept is None or plain.exists() else self.store / record.kept

    def keep(self, record: FileRecord) -> str | None:
        """Write the kept form of a file and of its index; the file itself stays.

        Returns:
            the name in the store; None if the file is no longer in the directory.

        Raises:
            BackupMismatchError: the file, or what was read back, has another SHA-256.
            OSError: a file cannot be read or written.
            StorageError: the store refuses, or cannot be reached.
        """
        plain = self._directory / record.name
        if not plain.exists():
            return None
        form = self.options.form
        name = record.name if form is None else f"{record.name}.{record.size}{form.suffix}"
        with plain.open("rb") as source:
            e_tag = self._write(source, record.size, name)
        with closing(open_file(self.store / name)) as stream:
            digest = _digest(stream)
        if record.sha256 is not None and digest != record.sha256:
            raise BackupMismatchError(
                f"{plain}: its kept form {self.store / name} has the SHA-256 {digest}, {INDEX_NAME} says "
                f"{record.sha256}; the file was not removed"
            )
        index = plain.with_name(record.name + SUFFIX)
        if index.exists() and index != self.store / self._index_name(record):
            data = index.read_bytes()
            if e_tag is not None:
                with suppress(ValueError):  # readers make a damaged index again
                    data = with_e_tag(index, e_tag)
            self._write(io.BytesIO(data), len(data), self._index_name(record))
        return name

    def release(self, record: FileRecord) -> None:
        """Remove the plain file of a kept one from the directory; the catalogue on disk says it is kept.

        Raises:
            OSError: it cannot be removed.
        """
        if record.kept is None:
            return
        index = self._directory / (record.name + SUFFIX)
        for plain, kept in (
            (self._directory / record.name, record.kept),
            (index, self._index_name(record)),
        ):
            if plain != self.store / kept:
                plain.unlink(missing_ok=True)

    def expired(self, records: Sequence[FileRecord]) -> list[FileRecord]:
        """Return the oldest of these files, up to the first whose last event is not too old."""
        if self.options.days is None:
            return []
        oldest = time.time() - self.options.days * _DAY
        found = []
        for record in records:
            if not record.last_timestamp or record.last_timestamp >= oldest:
                break
            if not record.removed:
                found.append(record)
        return found

    def remove(self, record: FileRecord) -> None:
        """Remove a file and its index, wherever they are.

        Raises:
            OSError: one cannot be removed.
            StorageError: likewise, in a store.
        """
        plain = self._directory / record.name
        kept = (
            [self.store / record.kept, self.store / self._index_name(record)] if record.kept else []
        )
        remove_files(*kept, plain, plain.with_name(record.name + SUFFIX))

    def save(self, document: bytes) -> None:
        """Write the catalogue next to the kept files, too.

        Raises:
            OSError: it cannot be written.
            StorageError: likewise, in a store.
        """
        if self.options.store is not None:
            write_file(self.store / INDEX_NAME, document)

    def _index_name(self, record: FileRecord) -> str:
        is_encrypted = (record.kept or "").endswith(ENCRYPTED_SUFFIX) or self._encrypts
        return record.name + SUFFIX + (ENCRYPTED_SUFFIX if is_encrypted else "")

    @property
    def _encrypts(self) -> bool:
        return self.options.form is not None and bool(self.options.form.key)

    def _write(self, source: BinaryIO, size: int, name: str) -> str | None:
        """Write a file to the store, in a kept form if its name has the suffix of one.

        Returns:
            what an object store calls the content.
        """
        form = self.options.form if is_kept(name) else None
        target = self.store / name
        if form is None and isinstance(target, ObjectUrl):
            return ObjectStore(target.parent).upload(target.name, source).version.e_tag
        made = self._directory / f"{name}.making" if isinstance(target, ObjectUrl) else target
        made.parent.mkdir(parents=True, exist_ok=True)
        with new_file(made) as stream:
            if form is not None:
                keep(source, size, stream, form)
            else:
                shutil.copyfileobj(source, stream, _PART)
        if not isinstance(target, ObjectUrl):
            return None
        with made.open("rb") as source:
            e_tag = ObjectStore(target.parent).upload(target.name, source).version.e_tag
        made.unlink()
        return e_tag


def _digest(stream: BinaryIO) -> str:
    found = hashlib.sha256()
    while part := stream.read(_PART):
        found.update(part)
    return found.hexdigest()


class FinishedFiles:
    """Writes the index of each finished file, and its kept form, in a thread, while the next file is copied.

    A file is read a second time, from the page cache where its pages are still there. An index appears under its name
    when it is whole, so that a process that is killed leaves none, and the next run makes it. What it makes is what
    ``replica-client index`` makes of the directory. Files before the newest finished one are kept.

    Args:
        catalog: of the backup.
        keeper: keeps files; None: they stay as they are.
        indexes: write indexes.
        make: makes or finds the index of one file; another one is for tests of the queue.

    Attributes:
        fault: why there are no more indexes; empty while there are.
        kept_fault: why files were not kept; empty while they are.
    """

    def __init__(
        self,
        catalog: Catalog,
        keeper: FileKeeper | None = None,
        *,
        indexes: bool = True,
        make: Callable[[Location], None] | None = None,
    ) -> None:
        self._catalog, self._keeper = catalog, keeper
        self._make = (make or _Sidecars().make) if indexes else None
        self._names: asyncio.Queue[FileRecord | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self.fault = self.kept_fault = ""
        self._is_stopped = False

    def start(self) -> None:
        """Start with the files that are finished already."""
        records: list[FileRecord] = []
        for record in self._catalog.files:
            if record.kept is None and not (self._catalog.directory / record.name).exists():
                records.clear()  # files may be moved elsewhere; later files are indexed without them
            elif record.finished:
                records.append(record)
        for record in records:
            self._names.put_nowait(record)
        self._task = asyncio.create_task(self._run(), name="replica_client backup indexes")

    def add(self, name: str) -> None:
        """Queue a file that was finished."""
        record = self._catalog.find(name)
        assert record is not None
        self._names.put_nowait(record)

    async def finish(self) -> None:
        """Wait until all files that were finished have their index, and are kept."""
        self._names.put_nowait(None)
        if self._task is not None:
            await self._task

    async def stop(self) -> None:
        """Stop after the file that is being read."""
        self._is_stopped = True
        while not self._names.empty():
            self._names.get_nowait()
        await self.finish()

    async def _run(self) -> None:
        newest: FileRecord | None = None
        while (record := await self._names.get()) is not None:
            await self._index(record)
            newest = record
            if self._names.empty():
                await self._keep(newest)
                newest = None
        if newest is not None and not self._is_stopped:
            await self._keep(newest)

    async def _index(self, record: FileRecord) -> None:
        if self.fault or self._make is None or record.removed:
            return
        where: Location = self._catalog.directory / record.name
        if self._keeper is not None:
            where = self._keeper.location(record)
        try:
            await asyncio.to_thread(self._make, where)
        except (ReplicaClientError, OSError) as error:
            # Later files would get indexes without its statements.
            self.fault = str(error)
            _LOG.warning("no more indexes are written next to the files in this run: %s", error)

    async def _keep(self, newest: FileRecord) -> None:
        """Keep the files before one, and remove those that are too old."""
        keeper = self._keeper
        if keeper is None:
            return
        files = self._catalog.files
        earlier = files[: files.index(newest)]
        try:
            for record in earlier:
                if keeper.options.changes_files and record.kept is None and not record.removed:
                    record.kept = await asyncio.to_thread(keeper.keep, record)
                    self._catalog.forget(record)
                    await self._save(keeper)
                if record.kept is not None:
                    await asyncio.to_thread(keeper.release, record)
            for record in keeper.expired(earlier):
                await asyncio.to_thread(keeper.remove, record)
                record.removed = True
                self._catalog.forget(record)
                await self._save(keeper)
        except (ReplicaClientError, OSError) as error:
            self.kept_fault = str(error)
            _LOG.warning("files stay as they are until the next file is finished: %s", error)
        else:
            self.kept_fault = ""

    async def _save(self, keeper: FileKeeper) -> None:
        document = self._catalog.document()
        await asyncio.to_thread(self._catalog.prepared())
        await asyncio.to_thread(keeper.save, document)


class _Sidecars:
    """Makes the indexes of files in their order."""

    def __init__(self) -> None:
        self._files = SidecarFiles(DecodeOptions(), SchemaHistory())

    def make(self, where: Location) -> None:
        """Make the index of the next file."""
        (listed,) = list_files([where])
        self._files.load(listed)
