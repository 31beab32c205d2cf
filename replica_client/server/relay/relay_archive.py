"""The relay's archive of binlog files.

Objects below the URL::

    relay.json              the server UUID of the relay that owns the archive
    1/binlog.000001 …       finished files of each epoch, byte for byte
    1/backup.json           the epoch's index, of finished files only
    1/ended.json            of an epoch that is over

All methods block.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import IO, Final

from replica_client.archive.backup.backup_catalog import INDEX_NAME, Catalog, is_binlog_name
from replica_client.errors import (
    BackupMismatchError,
    ObjectNotFoundError,
    ServerError,
    StorageConflictError,
)
from replica_client.server.relay.epochs import END_NAME, UUID_NAME, Epochs
from replica_client.server.served_files import ServedFile
from replica_client.server.served_library import fatal
from replica_client.storage.durable import new_file, replace_file
from replica_client.storage.location import ObjectUrl
from replica_client.storage.object_store import PART_SIZE, ObjectStore

_LOG = logging.getLogger("replica_client.server")

_OWNER: Final = "relay.json"
_NAME: Final = re.compile(r"([1-9][0-9]{0,8})/([^/]+)")


class RelayArchive:
    """The archive of one relay.

    Args:
        url: prefix of the objects.
        directory: of the relay.

    Attributes:
        sizes: of the archived files, by epoch and name.
        error: why the last upload failed; empty when it did not.
    """

    def __init__(self, url: ObjectUrl, directory: Path) -> None:
        self._store = ObjectStore(url)
        self._directory = directory
        self._indexed: dict[int, bytes] = {}
        self.sizes: dict[tuple[int, str], int] = {}
        self.error = ""

    def open(self) -> None:
        """List the archived files; restore an empty directory to the archive's end.

        Raises:
            BackupMismatchError: it is another relay's archive.
            StorageError: the store refuses, or cannot be reached.
            OSError: the directory cannot be written.
        """
        self._directory.mkdir(parents=True, exist_ok=True)
        self._store.require_conditional_put()
        ours = self._directory / UUID_NAME
        owner = self._owner()
        is_new = not ours.exists() and not any(
            e.name.isdecimal() for e in self._directory.iterdir()
        )
        if owner is None:
            mine = Epochs(self._directory).server_uuid()
            document = json.dumps({"server_uuid": mine})
            try:
                self._store.create(_OWNER, document.encode())
                owner = mine
            except StorageConflictError:
                owner = self._owner()
        elif is_new:
            replace_file(ours, f"{owner}\n".encode())
        if owner != Epochs(self._directory).server_uuid():
            raise BackupMismatchError(
                f"{self._store.url} is the archive of another relay ({owner}); choose another URL, or an empty "
                "directory to go on with that archive"
            )
        for one in self._store.objects():
            match = _NAME.fullmatch(one.name)
            if match is not None and is_binlog_name(match[2]):
                self.sizes[int(match[1]), match[2]] = one.size
        if is_new:
            self._restore()

    def _owner(self) -> str | None:
        try:
            document, _ = self._store.get(_OWNER)
        except ObjectNotFoundError:
            return None
        try:
            return str(uuid.UUID(json.loads(document)["server_uuid"]))
        except (ValueError, KeyError, TypeError):
            raise BackupMismatchError(
                f"{self._store.url / _OWNER} is damaged; restore it from a copy"
            ) from None

    def _restore(self) -> None:
        """Restore the indexes and the last file, after which the relay continues."""
        epochs = sorted({epoch for epoch, _ in self.sizes})
        for number in epochs:
            path = self._directory / str(number)
            path.mkdir()
            for name in (INDEX_NAME, END_NAME):
                try:
                    replace_file(path / name, self._store.get(f"{number}/{name}")[0])
                except ObjectNotFoundError:
                    if name == INDEX_NAME:
                        raise BackupMismatchError(
                            f"{self._store.url / f'{number}/{name}'} is missing; restore it from a copy"
                        ) from None
        for number in epochs[-1:]:
            path = self._directory / str(number)
            entries = json.loads((path / INDEX_NAME).read_bytes())["files"]
            if entries:
                name = str(entries[-1]["name"])
                with new_file(path / name) as target:
                    self._copy(number, name, target)
        if epochs:
            _LOG.info("went on with the archive %s: %d files", self._store.url, len(self.sizes))

    def keep(self, epochs: Epochs) -> int:
        """Upload finished files that are not archived yet; return their number.

        Raises:
            BackupMismatchError: the archive has another file of that name.
            StorageError: the store refuses, or cannot be reached.
            OSError: a file cannot be read.
        """
        count = 0
        for epoch in epochs.all:
            catalog = epoch.catalog()
            for record in catalog.files:
                path = epoch.path / record.name
                if not record.finished or (epoch.number, record.name) in self.sizes:
                    continue
                if not path.exists():
                    continue  # removed before there was an archive
                with path.open("rb") as file:
                    status = self._store.upload(f"{epoch.number}/{record.name}", file)
                if status.size != record.size:
                    raise BackupMismatchError(
                        f"{self._store.url / status.name} has {status.size} bytes, not {record.size}"
                    )
                self.sizes[epoch.number, record.name] = status.size
                count += 1
            self._keep_index(epoch.number, epoch.path, catalog)
        return count

    def _keep_index(self, number: int, path: Path, catalog: Catalog) -> None:
        """Upload an epoch's index, with archived files only, if it changed."""
        known = [f for f in catalog.files if (number, f.name) in self.sizes]
        if not known:
            return
        text = Catalog(catalog.directory, catalog.source, known).document()
        try:
            text_and_end = text + (ended := (path / END_NAME).read_bytes())
        except FileNotFoundError:
            text_and_end, ended = text, b""
        if self._indexed.get(number) == text_and_end:
            return
        self._store.put(f"{number}/{INDEX_NAME}", text)
        if ended:
            self._store.put(f"{number}/{END_NAME}", ended)
        self._indexed[number] = text_and_end

    def read(self, epoch: int, name: str, position: int, size: int) -> bytes:
        """Return bytes of an archived file.

        Raises:
            StorageError: the store refuses, or cannot be reached.
        """
        left = self.sizes[epoch, name] - position
        if left <= 0 or size <= 0:
            return b""
        return bytes(self._store.read(f"{epoch}/{name}", position, min(size, left)))

    def fetch(self, epoch: int, name: str) -> IO[bytes]:
        """Download a file to an unnamed temporary file, which is gone once closed.

        Raises:
            StorageError: the store refuses, or cannot be reached.
            OSError: there is no room for the copy.
        """
        target = tempfile.TemporaryFile(dir=self._directory)  # noqa: SIM115  it is returned
        try:
            self._copy(epoch, name, target)
        except BaseException:
            target.close()
            raise
        return target

    def _copy(self, epoch: int, name: str, target: IO[bytes]) -> None:
        for position in range(0, self.sizes[epoch, name], PART_SIZE):
            target.write(self.read(epoch, name, position, PART_SIZE))
        target.flush()


_HEAD_SIZE = 256 << 10


class StoredFile(ServedFile):
    """A finished file in an object store, fetched as a whole for readers beyond its head.

    The constructor blocks.

    Args:
        archive: the archive that holds the file.
        epoch: number of the file's epoch.
        stored_name: as the source called it.
        name: as clients know it.
        limit: see :class:`ServedFile`.
        rename: see :class:`ServedFile`.

    Raises:
        StorageError: the store refuses, or cannot be reached.
    """

    def __init__(
        self,
        archive: RelayArchive,
        epoch: int,
        stored_name: str,
        name: str,
        *,
        limit: int | None = None,
        rename: Callable[[str], str] = str,
    ) -> None:
        self._archive = archive
        self._stored_name = stored_name
        self._fetched: IO[bytes] | None = None
        self._users = 0
        self._lock = asyncio.Lock()
        self._head = b""
        self._making = True
        super().__init__(name, epoch=epoch, limit=limit, rename=rename)
        self._making = False

    @property
    def stored_name(self) -> str:
        """The file's name in the archive."""
        return self._stored_name

    def _size_on_disk(self) -> int:
        size = self._archive.sizes[self.epoch, self._stored_name]
        return size if self._limit is None else min(size, self._limit)

    def grow(self) -> bool:
        """Return False: a finished file never grows."""
        return False

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Do nothing: :meth:`present` fetches the file."""
        yield

    @contextlib.asynccontextmanager
    async def present(self) -> AsyncIterator[None]:
        """Fetch the file, and keep it until its last reader is done."""
        self._users += 1
        try:
            async with self._lock:
                if self._fetched is None:
                    self._fetched = await self._fetch()
            yield
        finally:
            self._users -= 1
            if not self._users and self._fetched is not None:
                self._fetched.close()
                self._fetched = None

    async def _fetch(self) -> IO[bytes]:
        fetching = asyncio.ensure_future(
            asyncio.to_thread(self._archive.fetch, self.epoch, self._stored_name)
        )
        try:
            return await asyncio.shield(fetching)
        except asyncio.CancelledError:
            fetching.add_done_callback(_close)
            raise

    def read(self, position: int, size: int) -> bytes:
        """Return up to ``size`` bytes from a position.

        Raises:
            ServerError: the bytes are after the head, and the file was not fetched.
        """
        size = min(size, self._base_size - position)
        if size <= 0:
            return b""
        if self._fetched is not None:
            return os.pread(self._fetched.fileno(), size, position)
        if position + size > len(self._head) and self._making:
            wanted = max(position + size, _HEAD_SIZE)
            more = self._archive.read(self.epoch, self._stored_name, len(self._head), wanted)
            self._head += more
        if position + size > len(self._head):
            raise self._not_here()
        return self._head[position : position + size]

    def _not_here(self) -> ServerError:
        return fatal(f"{self.name} is in the archive; a dump of it brings it here")


def _close(fetching: asyncio.Future[IO[bytes]]) -> None:
    if not fetching.cancelled() and fetching.exception() is None:
        fetching.result().close()
