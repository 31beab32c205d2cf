"""A binlog file in an archive, served like those on disk."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterator
from typing import IO

from replica_client.errors import ServerError
from replica_client.server.relay.relay_archive import RelayArchive
from replica_client.server.served_files import ServedFile
from replica_client.server.served_library import fatal

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
