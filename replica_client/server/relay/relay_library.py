"""Files and variables that a relay serves."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from replica_client.archive.backup.backup_catalog import file_order
from replica_client.errors import BinlogFormatError, ReplicaClientError
from replica_client.protocol.gtid import GtidSet, MariadbGtidSet
from replica_client.protocol.wire.resultset import Value
from replica_client.server.dump_start import joined
from replica_client.server.relay.epochs import Epoch, Epochs
from replica_client.server.relay.relay_archive import RelayArchive, StoredFile
from replica_client.server.served_files import ServedFile
from replica_client.server.served_library import BinlogLibrary
from replica_client.storage.durable import replace_file
from replica_client.stream.transport.connect_options import ConnectOptions
from replica_client.stream.transport.connection import SourceConnection

_AT_ONCE: Final = 16
_LOOKED_BACK: Final = 100


class RelayLibrary(BinlogLibrary):
    """All files of all epochs, oldest first; empty until the first file has its head.

    Args:
        epochs: the directories.
        archive: holds files that were removed from disk; None: there is no archive.

    Attributes:
        series_ended: files of another server were added since this was last set to False.

    Raises:
        StorageError: the archive cannot be read.
    """

    def __init__(self, epochs: Epochs, archive: RelayArchive | None = None) -> None:
        self._epochs = epochs
        self._archive = archive
        self._uuids: dict[int, str] = {}
        self.series_ended = False
        super().__init__(())

    def _open(self) -> None:
        self.refresh()
        if self._archive is None:
            return
        here = {file.name for file in self.files}
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            stored = list(
                threads.map(
                    lambda one: self._stored(*one),
                    [
                        (epoch, name)
                        for epoch in self._epochs.all
                        for number, name in self._archive.sizes
                        if number == epoch.number and epoch.served_name(name) not in here
                    ],
                )
            )
        self.files = sorted([*stored, *self.files], key=_order)

    def _stored(self, epoch: Epoch, name: str) -> StoredFile:
        assert self._archive is not None
        ended = epoch.end is not None and epoch.end[0] == name
        return StoredFile(
            self._archive,
            epoch.number,
            name,
            epoch.served_name(name),
            limit=epoch.end[1] if ended and epoch.end is not None else None,
            rename=epoch.served_name,
        )

    def is_archived(self, file: ServedFile) -> bool:
        """Return whether a file on disk is also in the archive; True without an archive."""
        if self._archive is None or file.path is None:
            return True
        return (file.epoch, file.path.name) in self._archive.sizes

    def from_archive(self, file: ServedFile) -> ServedFile:
        """Return the same file, read from the archive. Blocks.

        Raises:
            StorageError: the archive cannot be read.
        """
        assert file.path is not None
        epoch = next(one for one in self._epochs.all if one.number == file.epoch)
        return self._stored(epoch, file.path.name)

    def replace(self, file: ServedFile, by: ServedFile) -> None:
        """Serve another copy of a file from now on; running dumps keep reading the old one."""
        self.files[self.files.index(file)] = by

    def server_uuid(self) -> str | None:
        """Return the source's UUID, from the index or from the first GTID; None if unknown."""
        epoch = self._epochs.current
        if epoch is None:
            return None
        if epoch.number not in self._uuids:
            found = epoch.catalog().source.server_uuid
            if not found:
                return super().server_uuid() if self._archive is None else None
            self._uuids[epoch.number] = found
        return self._uuids[epoch.number]

    def tell_gtid_mode(self, on: bool) -> None:
        """Set the source's GTID mode, which files without transactions do not show."""
        self.gtid_mode = on

    def executed(self) -> GtidSet | MariadbGtidSet:
        """Return all GTIDs up to the end, including those of earlier servers.

        After a failover, the new server's files may not have reached the end of the old one's yet.
        """
        last = self.files[-1]
        earlier = next(
            (file for file in reversed(self.files[-_LOOKED_BACK:]) if file.series != last.series),
            None,
        )
        if earlier is None or earlier.path is None:
            return super().executed()
        return joined(earlier.executed(), super().executed())

    @property
    def is_empty(self) -> bool:
        """Whether there is no file to serve yet."""
        return not self.files

    def grow(self, name: str) -> bool:
        """Update the newest file's size and wake the dumps that wait for it.

        Args:
            name: of the source's file that was appended to.

        Returns:
            Whether that is the newest file served; if not, call :meth:`refresh` for new files.
        """
        epoch = self._epochs.current
        if epoch is None or not self.files or self.files[-1].name != epoch.served_name(name):
            return False
        if self.files[-1].grow():
            self._wake()
        return True

    def refresh(self) -> bool:
        """Look for appended bytes and new files; return whether there are any."""
        changed = False
        if self.files:
            changed = self.files[-1].grow()
        newest = self.files[-1] if self.files else None
        for epoch in self._epochs.all:
            if newest is not None and epoch.number < newest.epoch:
                continue
            for name in epoch.file_names():
                if newest is not None and epoch.number == newest.epoch:
                    if file_order(name) <= file_order(newest.stored_name):
                        continue
                try:
                    file = epoch.served(name)
                except BinlogFormatError:
                    break  # its head is not written yet
                if self.files:
                    self.files[-1].grow()  # once a next file exists, this one is complete
                    self.files[-1].shrink()
                    self.series_ended |= self.files[-1].series != file.series
                self.files.append(file)
                changed = True
        if changed:
            self._wake()
        return changed

    def end_epoch(self) -> None:
        """Cut the last file of the finished epoch after its last whole transaction."""
        epoch = self._epochs.all[-2]
        last = self.files[-1] if self.files else None
        if last is not None and last.epoch == epoch.number and epoch.end is not None:
            last.cut(epoch.end[1])


def _order(file: ServedFile) -> tuple[int, int, int]:
    return file.epoch, *file_order(file.stored_name)


_LOG = logging.getLogger("replica_client.server")

_NAME: Final = "source_variables.json"
_FRESH_SECONDS: Final = 10.0
_PATIENCE: Final = 3.0
_MOST_ROWS: Final = 5000
_MAX_VALUE: Final = 64 << 10


class SourceVariables:
    """A cache of ``SHOW GLOBAL VARIABLES``, kept in a file for when the source is unavailable.

    Args:
        directory: of the relay.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / _NAME
        self._asked = -_FRESH_SECONDS
        self._asking = asyncio.Lock()
        self._known = self._load()

    def _load(self) -> dict[str, Value] | None:
        try:
            document = json.loads(self._path.read_text(encoding="utf-8"))
            return {str(name): value for name, value in document.items()}
        except FileNotFoundError:
            return None
        except (OSError, ValueError, AttributeError) as error:
            _LOG.warning("%s cannot be read, and is written again: %s", self._path, error)
            return None

    async def ask(self, connection: SourceConnection) -> None:
        """Ask a connected source.

        Raises:
            ServerError: it refuses.
            TransportError: the connection was lost.
        """
        rows = await connection.query("SHOW GLOBAL VARIABLES", columns=2)
        found: dict[str, Value] = {
            str(name).lower(): str(value)[:_MAX_VALUE] for name, value, *_ in rows[:_MOST_ROWS]
        }
        self._asked = time.monotonic()
        if found == self._known:
            return
        self._known = found
        text = json.dumps(found, ensure_ascii=False, indent=1)
        try:
            await asyncio.to_thread(replace_file, self._path, text.encode())
        except OSError as error:
            _LOG.warning("%s: %s", self._path, error.strerror or error)

    async def current(self, source: ConnectOptions | None) -> Mapping[str, Value] | None:
        """Return the variables, refreshed if they are older than ten seconds.

        Without a source, or if it does not answer in time, return the last known ones.
        """
        if source is None or time.monotonic() - self._asked < _FRESH_SECONDS:
            return self._known
        async with self._asking:
            if time.monotonic() - self._asked >= _FRESH_SECONDS:
                self._asked = time.monotonic()
                try:
                    async with asyncio.timeout(_PATIENCE):
                        connection = await SourceConnection.open(source)
                        async with connection:
                            await self.ask(connection)
                except (ReplicaClientError, TimeoutError) as error:
                    _LOG.warning("the source's variables could not be asked again: %s", error)
        return self._known
