"""Copies of a table to start from: Arrow, files, and servers into which a dump was loaded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from replica_client.archive.as_of.live_rows import LiveRows
from replica_client.archive.as_of.segment_images import LOSSLESS, LOSSLESS_FIELD, plain_type
from replica_client.archive.as_of.table_state import KEY, POSITION
from replica_client.binlog.options import DecodeOptions
from replica_client.errors import ConfigError
from replica_client.rows.arrow_types import arrow_column
from replica_client.schema.ddl.steps import TableName
from replica_client.transport.url import is_source_url


class CopiedRows:
    """The rows of a copy.

    Attributes:
        position: the position of the copy, as text; None where the copy does not record it.
        key: columns of the primary key; None where the copy does not record them.
        schema: the schema of the rows, with ``_lossless``; set by :meth:`open`.
    """

    schema: pa.Schema

    def __init__(self) -> None:
        self.position: str | None = None
        self.key: tuple[str, ...] | None = None

    def open(self, name: TableName) -> None:
        """Begin to read.

        Args:
            name: the table's name at the position of the copy.
        """

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows; call it once only."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the copy."""


def open_copy(copy: Any, decode: DecodeOptions) -> CopiedRows:
    """Open a copy of a table.

    Args:
        copy: an object with ``__arrow_c_stream__``, a Parquet or Arrow file, or the URL of a server
            that has the table.
        decode: how values are decoded.

    Raises:
        ConfigError: the copy is of another kind, or cannot be read.
    """
    if isinstance(copy, str) and is_source_url(copy):
        return _ServerRows(copy, decode)
    if isinstance(copy, (str, Path)):
        return _ArrowRows(_file_reader(Path(copy)))
    if hasattr(copy, "__arrow_c_stream__"):
        return _ArrowRows(pa.RecordBatchReader.from_stream(copy))
    raise ConfigError(f"a copy is Arrow, a file or a server's URL, not {type(copy).__name__}")


class _ArrowRows(CopiedRows):
    def __init__(self, reader: pa.RecordBatchReader) -> None:
        super().__init__()
        self._reader = reader
        metadata = reader.schema.metadata or {}
        if POSITION in metadata:
            self.position = metadata[POSITION].decode()
        if KEY in metadata:
            self.key = tuple(metadata[KEY].decode().splitlines())
        fields = [
            one.with_type(plain_type(one.type)) for one in reader.schema if one.name != LOSSLESS
        ]
        self.schema = pa.schema([*fields, LOSSLESS_FIELD])

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield from self._reader

    def close(self) -> None:
        self._reader.close()


class _ServerRows(CopiedRows):
    def __init__(self, url: str, decode: DecodeOptions) -> None:
        super().__init__()
        self._url, self._decode = url, decode
        self._rows: LiveRows | None = None

    def open(self, name: TableName) -> None:
        self._rows = LiveRows(self._url, name, self._decode)
        self._rows.open()
        shape = self._rows.shape
        self.key = tuple(shape.columns[at].name for at in shape.primary_key)
        types = [plain_type(arrow_column(one, self._decode).type) for one in shape.columns]
        fields = [pa.field(one.name, kind) for one, kind in zip(shape.columns, types, strict=True)]
        self.schema = pa.schema([*fields, LOSSLESS_FIELD])

    def batches(self) -> Iterator[pa.RecordBatch]:
        assert self._rows is not None
        return self._rows.batches()

    def close(self) -> None:
        if self._rows is not None:
            self._rows.close()


def _file_reader(path: Path) -> pa.RecordBatchReader:
    try:
        with path.open("rb") as stream:
            begin = stream.read(6)
        if begin.startswith(b"PAR1"):
            file = pq.ParquetFile(path)
            return pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches())
        if begin.startswith(b"ARROW1"):
            whole = pa.ipc.open_file(str(path))
            batches = (whole.get_batch(at) for at in range(whole.num_record_batches))
            return pa.RecordBatchReader.from_batches(whole.schema, batches)
        return pa.ipc.open_stream(str(path))
    except (OSError, pa.ArrowInvalid) as error:
        raise ConfigError(f"{path} is no Parquet or Arrow file that can be read: {error}") from None
