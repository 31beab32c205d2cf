"""The journal of committed record batches, and its conversion to Parquet files.

A segment's files are written under temporary names, synced, and renamed into place; then
``_segments/NUMBER.json`` lists them. A reader that must see whole segments only reads the files of
these lists. After a crash while a segment is being published, the same files are published again
under the same names.

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

import contextlib
import datetime
import json
import os
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from replica_client.errors import SinkError
from replica_client.sinks.event_sink import SCHEMA_CHANGES
from replica_client.storage.durable import (
    DATA_MODE,
    create_temporary,
    file_name,
    replace_file,
    sync_directory,
    write_all,
)

_PLAIN: Final = " ,;=+@()[]{}!$&'^~"
_OWN: Final = frozenset(("_open", "_segments", SCHEMA_CHANGES))
_GROUP_ROWS = 131_072
_GROUP_BYTES = 64 << 20
_MOST_OPEN = 128
_LONG_VALUES = 4 << 20
"""Mean size in bytes from which a column's values are written without dictionary and statistics.

Both would hold further copies of a value, and are useless for such columns.
"""


class SegmentWriter:
    """Writes the files of one segment.

    Args:
        directory: directory of the sink.
        number: number of the segment.
        begun: when the segment was begun, in seconds since 1970; part of the file names.
        compression: compression of the files.
        file_rows: maximum rows of a file.
        ignores_case: whether the file system ignores case.
    """

    def __init__(
        self,
        directory: Path,
        number: int,
        begun: float,
        compression: str,
        file_rows: int,
        *,
        ignores_case: bool = False,
    ) -> None:
        self._directory = directory
        self._number = number
        moment = datetime.datetime.fromtimestamp(begun, datetime.UTC)
        self._day, self._time = f"{moment:%Y-%m-%d}", f"{moment:%H%M%S}"
        self._compression = compression
        self._file_rows = file_rows
        self._ignores_case = ignores_case
        self._open: OrderedDict[tuple[str, str], _File] = OrderedDict()
        self._made: list[_File] = []

    def publish(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Write all batches, move the files into place and list them."""
        try:
            for batch in batches:
                self._add(batch)
            for file in list(self._open.values()):
                self._finish(file)
        except BaseException:
            for file in self._open.values():
                file.abandon()
            raise
        for file in self._made:
            file.path.parent.mkdir(parents=True, exist_ok=True)
            os.replace(file.temporary, file.path)
        for directory in {
            one for file in self._made for one in _with_parents(file, self._directory)
        }:
            sync_directory(directory)
        listed = {"segment": self._number, "files": [self._listed(file) for file in self._made]}
        segments = self._directory / "_segments"
        segments.mkdir(exist_ok=True)
        replace_file(segments / f"{self._number:08d}.json", json.dumps(listed, indent=1).encode())

    def _listed(self, file: _File) -> dict[str, Any]:
        return {
            "path": str(file.path.relative_to(self._directory)),
            "database": file.name[0],
            "table": file.name[1],
            "rows": file.rows,
            "bytes": file.path.stat().st_size,
        }

    def _add(self, batch: pa.RecordBatch) -> None:
        metadata = batch.schema.metadata or {}
        name = (metadata[b"database"].decode(), metadata[b"table"].decode())
        file = self._open.get(name)
        long = _long_columns(batch)
        if file is not None and (
            not file.schema.equals(batch.schema, check_metadata=True)
            or file.rows + batch.num_rows > self._file_rows
            or not long <= file.long
        ):
            self._finish(file)
            file = None
        if file is None:
            if len(self._open) >= _MOST_OPEN:
                self._finish(next(iter(self._open.values())))
            file = self._open[name] = self._new_file(name, batch.schema, long)
        self._open.move_to_end(name)
        file.add(batch)

    def _new_file(self, name: tuple[str, str], schema: pa.Schema, long: frozenset[str]) -> _File:
        number = sum(1 for file in self._made if file.name == name) + 1
        directory = self._directory / table_directory(*name, ignores_case=self._ignores_case)
        path = directory / self._day / f"{self._time}-{self._number:08d}-{number:03d}.parquet"
        count = len(self._made) + len(self._open)
        waiting = self._directory / "_open" / f"{self._number:08d}-{count:05d}"
        return _File(name, path, waiting, schema, self._compression, long)

    def _finish(self, file: _File) -> None:
        file.finish()
        del self._open[file.name]
        self._made.append(file)


def table_directory(database: str, table: str, *, ignores_case: bool = False) -> Path:
    """Return the directory of a table's files, relative to the sink's directory.

    Args:
        database: its database; empty for the schema changes.
        table: its name.
        ignores_case: whether the file system ignores case.

    Raises:
        SchemaError: a name is invalid.
    """
    if not database and table == SCHEMA_CHANGES:
        return Path(SCHEMA_CHANGES)
    return Path(
        file_name(database, plain=_PLAIN, reserved=_is_reserved, ignores_case=ignores_case),
        file_name(table, plain=_PLAIN, ignores_case=ignores_case),
    )


def _long_columns(batch: pa.RecordBatch) -> frozenset[str]:
    """Return the columns of a batch whose values are very long."""
    if batch.nbytes < _LONG_VALUES:
        return frozenset()
    return frozenset(
        name
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
        if column.nbytes >= _LONG_VALUES * len(column)
    )


def _is_reserved(name: str) -> bool:
    # The checkpoint and its state files have these names.
    return name in _OWN or name.startswith("parquet.")


def _with_parents(file: _File, top: Path) -> list[Path]:
    found = []
    for directory in file.path.parents:
        found.append(directory)
        if directory == top:
            break
    return found


class _File:
    """A Parquet file that is being written."""

    def __init__(
        self,
        name: tuple[str, str],
        path: Path,
        waiting: Path,
        schema: pa.Schema,
        compression: str,
        long: frozenset[str],
    ) -> None:
        self.name, self.path, self.schema = name, path, schema
        self.long = long
        self.rows = 0
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = self._waiting_bytes = 0
        descriptor, self.temporary = create_temporary(waiting)
        self._stream = os.fdopen(descriptor, "wb")
        short: bool | list[str] = True
        if long:
            short = [column for column in schema.names if column not in long]
        self._writer = pq.ParquetWriter(
            self._stream,
            schema,
            compression=compression,
            use_dictionary=short,
            # The older version copies a page's values once more before it compresses them.
            data_page_version="2.0" if long else "1.0",
            write_statistics=short,
        )

    def add(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self.rows += batch.num_rows
        self._waiting_rows += batch.num_rows
        self._waiting_bytes += batch.nbytes
        if self._waiting_rows >= _GROUP_ROWS or self._waiting_bytes >= _GROUP_BYTES:
            self._write()

    def _write(self) -> None:
        table = pa.Table.from_batches(self._waiting, self.schema).unify_dictionaries()
        self._writer.write_table(table, row_group_size=_GROUP_ROWS)
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0

    def finish(self) -> None:
        if self._waiting:
            self._write()
        self._writer.close()
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._stream.close()

    def abandon(self) -> None:
        with contextlib.suppress(OSError, ValueError, pa.ArrowException):
            self._writer.close()
        with contextlib.suppress(OSError):
            self._stream.close()


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
                f"{path} has {size} bytes, of which {length} were committed: restore it, or start over "
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
