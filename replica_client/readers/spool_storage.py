"""Memory and temporary file in which pending rows wait."""

from __future__ import annotations

import weakref
from typing import IO, Final

from replica_client.errors import SpoolError

DEFAULT_MEMORY_LIMIT: Final = 16 << 20
"""Bytes of items that all spools of one :class:`SpoolStorage` together keep in memory."""

BLOCK_SIZE: Final = 1 << 16
"""Bytes of a block of the temporary file."""


class SpoolStorage:
    """Memory and temporary file that any number of spools share.

    The file is created when it is first needed, in the directory for temporary files (``TMPDIR``),
    readable by this user only and without a name, so that nothing stays when the process ends. It
    is divided into blocks of 64 KiB. Blocks of closed spools are reused, and the file is emptied
    when no block is used.

    Args:
        memory_limit: bytes of items that all spools together keep in memory; one item may exceed
            it.
        directory: where the file is created; None: the system's directory for temporary files.

    Attributes:
        memory_limit: see above.
        memory_used: bytes of items in memory, as estimated.
    """

    def __init__(
        self, memory_limit: int = DEFAULT_MEMORY_LIMIT, directory: str | None = None
    ) -> None:
        self.memory_limit = memory_limit
        self.memory_used = 0
        self._directory = directory
        self._file: IO[bytes] | None = None
        self._free: list[int] = []
        self._block_count = 0

    @property
    def file_size(self) -> int:
        """Bytes of the temporary file that are in use."""
        return (self._block_count - len(self._free)) * BLOCK_SIZE

    def take_block(self) -> int:
        """Return the number of an unused block."""
        if self._free:
            return self._free.pop()
        self._block_count += 1
        return self._block_count - 1

    def give_back(self, blocks: list[int]) -> None:
        """Release blocks that are not used any more.

        Raises:
            SpoolError: the file cannot be emptied.
        """
        self._free += blocks
        if self._file is None or len(self._free) < self._block_count:
            return
        try:
            self._file.truncate(0)
        except OSError as error:
            raise _spool_error(error) from error
        self._free, self._block_count = [], 0

    def write(self, block: int, offset: int, data: memoryview) -> None:
        """Write into a block.

        Raises:
            SpoolError: the file cannot be made or written.
        """
        try:
            if self._file is None:
                import tempfile  # few transactions wait in a file

                self._file = tempfile.TemporaryFile(dir=self._directory, buffering=0)  # noqa: SIM115
                # If nobody closes the file, it is closed with the last of its spools.
                weakref.finalize(self, self._file.close)
            self._file.seek(block * BLOCK_SIZE + offset)
            while data:
                data = data[self._file.write(data) :]
        except OSError as error:
            raise _spool_error(error) from error

    def read(self, block: int) -> bytes:
        """Read a block as far as it was written.

        Raises:
            SpoolError: the file cannot be read.
        """
        try:
            if self._file is None:
                return b""
            self._file.seek(block * BLOCK_SIZE)
            return self._file.read(BLOCK_SIZE)
        except OSError as error:
            raise _spool_error(error) from error

    def close(self) -> None:
        """Remove the file; no spool may be used any more."""
        if self._file is not None:
            self._file.close()
            self._file = None


class SpoolReader:
    """Sequential reader of a spool's bytes in the file, block by block."""

    def __init__(self, storage: SpoolStorage, blocks: list[int], offset: int = 0) -> None:
        self.offset = offset
        self._storage = storage
        self._blocks = blocks
        self._index = -1
        self._block = b""

    def take(self, size: int) -> bytes:
        """Read and return the next bytes."""
        parts = []
        while size:
            index, at = divmod(self.offset, BLOCK_SIZE)
            if index != self._index:
                self._block, self._index = self._storage.read(self._blocks[index]), index
            part = self._block[at : at + size]
            if not part:
                raise SpoolError("the temporary file of pending rows is shorter than it was")
            parts.append(part)
            size -= len(part)
            self.offset += len(part)
        return b"".join(parts)

    def skip(self, size: int) -> None:
        """Skip the next bytes."""
        self.offset += size


def _spool_error(error: OSError) -> SpoolError:
    import tempfile

    return SpoolError(
        f"pending rows cannot be kept in a temporary file in {tempfile.gettempdir()}: "
        f"{error.strerror or error}; make room there, or set TMPDIR to a directory that has it"
    )
