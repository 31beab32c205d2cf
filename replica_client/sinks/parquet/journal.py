"""A journal of committed record batches that are not yet in Parquet files.

A Parquet file cannot be extended after its footer is written, and commits are more frequent than
files should be. Committed data therefore goes to a journal first, which is valid up to a committed
length.

======  =====================================================
size    field
======  =====================================================
8       payload length, little-endian
rest    an Arrow IPC stream: schema, dictionaries, one batch
======  =====================================================
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from replica_client.errors import SinkError
from replica_client.storage.durable import DATA_MODE, sync_directory, write_all

_HEADER = 8


class Journal:
    """A journal that is open for writing.

    Args:
        path: path of the file.
        length: number of committed bytes; the bytes after them are cut off.

    Attributes:
        path: path of the file.
        length: number of bytes in the file.
        rows: number of rows that were appended by this object.

    Raises:
        SinkError: committed bytes are missing.
    """

    def __init__(self, path: Path, length: int) -> None:
        self.path, self.length, self.rows = path, length, 0
        found = path.exists()
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, DATA_MODE)
        if not found:
            sync_directory(path.parent)
        size = os.fstat(self._descriptor).st_size
        if size < length:
            self.close()
            raise SinkError(
                f"{path} has {size} bytes, of which {length} were committed: bring it back, or start over "
                "in an empty directory"
            )
        if size > length:
            os.ftruncate(self._descriptor, length)
            os.fsync(self._descriptor)

    def append(self, batch: pa.RecordBatch) -> None:
        """Add a batch. It is valid once the journal is synced and the length committed."""
        # The size comes first. A batch may be a row of hundreds of megabytes: measure it instead of
        # keeping a copy.
        measured = pa.MockOutputStream()
        _write_stream(measured, batch)
        size = measured.size()
        write_all(self._descriptor, size.to_bytes(_HEADER, "little"))
        with pa.OSFile(str(self.path), "ab") as file:
            _write_stream(file, batch)
        self.length += _HEADER + size
        self.rows += batch.num_rows

    def sync(self) -> None:
        """Flush all added batches to disk."""
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the journal."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        if getattr(self, "_descriptor", -1) >= 0:
            self.close()


def _write_stream(sink: pa.NativeFile, batch: pa.RecordBatch) -> None:
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)


def read_journal(path: Path, length: int) -> Iterator[pa.RecordBatch]:
    """Yield the batches in the first ``length`` bytes of a journal.

    Raises:
        SinkError: the journal is damaged.
    """
    with path.open("rb") as file:
        at = 0
        while at < length:
            size = int.from_bytes(file.read(_HEADER), "little")
            at += _HEADER + size
            if not size or at > length:
                raise SinkError(f"{path} is damaged at byte {at - size - _HEADER}")
            try:
                with pa.ipc.open_stream(file.read(size)) as reader:
                    yield from reader
            except (pa.ArrowInvalid, OSError) as error:
                raise SinkError(f"{path} is damaged before byte {at}: {error}") from error
