"""The sidecar indexes of a backup's files, made after the copying."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from replica_client.archive.file_list import list_files
from replica_client.archive.sidecar_files import SidecarFiles
from replica_client.backup.backup_catalog import Catalog
from replica_client.binlog.options import DecodeOptions
from replica_client.errors import ReplicaClientError
from replica_client.schema.history import SchemaHistory

_LOG = logging.getLogger("replica_client")


class IndexWriter:
    """Writes the index of each finished file, one after the other, in a thread, while the next one is copied.

    A file is read a second time, from the page cache where its pages are still there. An index appears under its name
    when it is whole, so that a process that is killed leaves none, and the next run makes it. What it makes is what
    ``replica-client index`` makes of the directory.

    Args:
        catalog: of the backup.
        make: makes or finds the index of one file; another one is for tests of the queue.

    Attributes:
        fault: why there are no more indexes; empty while there are.
    """

    def __init__(self, catalog: Catalog, make: Callable[[Path], None] | None = None) -> None:
        self._catalog = catalog
        self._make = make or _Sidecars().make
        self._names: asyncio.Queue[str | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self.fault = ""

    def start(self) -> None:
        """Start with the files that are finished already."""
        names: list[str] = []
        for record in self._catalog.files:
            if not (self._catalog.directory / record.name).exists():
                names.clear()  # files may be moved elsewhere; later files are indexed without them
            elif record.finished:
                names.append(record.name)
        for name in names:
            self.add(name)
        self._task = asyncio.create_task(self._run(), name="replica_client backup indexes")

    def add(self, name: str) -> None:
        """Queue a file that was finished."""
        self._names.put_nowait(name)

    async def finish(self) -> None:
        """Wait until all files that were finished have their index."""
        self._names.put_nowait(None)
        if self._task is not None:
            await self._task

    async def stop(self) -> None:
        """Stop after the file that is being indexed."""
        while not self._names.empty():
            self._names.get_nowait()
        await self.finish()

    async def _run(self) -> None:
        while (name := await self._names.get()) is not None:
            if self.fault:
                continue
            try:
                await asyncio.to_thread(self._make, self._catalog.directory / name)
            except (ReplicaClientError, OSError) as error:
                # Later files would get indexes without its statements.
                self.fault = str(error)
                _LOG.warning("no more indexes beside the files are made in this run: %s", error)


class _Sidecars:
    """Makes the indexes of files in their order."""

    def __init__(self) -> None:
        self._files = SidecarFiles(DecodeOptions(), SchemaHistory())

    def make(self, path: Path) -> None:
        """Make the index of the next file."""
        (listed,) = list_files([path])
        self._files.load(listed)
