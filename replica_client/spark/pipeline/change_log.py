"""The change log: a Delta table that takes each micro-batch once.

Executors write Parquet files; the driver adds all files of a batch to the table in one commit that
also records (pipeline, batch number), so that readers see whole batches and a batch that Spark
writes again is passed over. Files of a batch that was never committed belong to no version of the
table; a vacuum removes them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.transaction import AddAction
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from replica_client.errors import SinkError
from replica_client.lake.change_log_files import COMPRESSION, Statistics, commit_files
from replica_client.storage.durable import sync_directory, sync_file

FORMAT = "replica-client-change-log"


@dataclass
class WrittenFile(WriterCommitMessage):
    """A Parquet file of one task; no path when the task had no rows."""

    path: str = ""
    size: int = 0
    modified: int = 0
    statistics: str = ""


class ChangeLogSink(DataSource):
    """Spark's side of the change log: ``writeStream.format("replica-client-change-log")``."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FORMAT

    def streamWriter(self, schema: StructType, overwrite: bool) -> ChangeLogWriter:
        """Writes one query's batches."""
        return ChangeLogWriter(self.options["table"], self.options["pipeline"])


class ChangeLogWriter(DataSourceStreamArrowWriter):
    """Writes micro-batches to a change log.

    Args:
        table: directory of the Delta table, which must exist.
        pipeline: id under which batches are counted.
    """

    def __init__(self, table: str, pipeline: str) -> None:
        self._table = table
        self._pipeline = pipeline

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenFile:
        """Write a task's rows into a file; called by executors."""
        name = f"part-{uuid.uuid4().hex}.{COMPRESSION}.parquet"
        path = Path(self._table, name)
        writer: pq.ParquetWriter | None = None
        statistics = Statistics()
        try:
            for batch in iterator:
                if not batch.num_rows:
                    continue
                if writer is None:
                    writer = pq.ParquetWriter(path, batch.schema, compression=COMPRESSION)
                writer.write_batch(batch)
                statistics.add(batch)
            if writer is None:
                return WrittenFile()
            writer.close()
            sync_file(path)
            sync_directory(path.parent)
        except OSError as error:
            path.unlink(missing_ok=True)
            reason = error.strerror or error
            raise SinkError(f"{path}: {reason}; what was committed before is whole") from None
        found = path.stat()
        return WrittenFile(name, found.st_size, int(found.st_mtime * 1000), statistics.text())

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Add a batch's files to the table, all or none; called on the driver."""
        files = [m for m in messages if isinstance(m, WrittenFile) and m.path]
        actions = [
            AddAction(file.path, file.size, {}, file.modified, True, file.statistics)
            for file in files
        ]
        if not commit_files(self._table, self._pipeline, batchId, actions):
            self._remove(files)  # a batch that was written again after it was committed

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Remove what a failed batch has written."""
        self._remove([m for m in messages if isinstance(m, WrittenFile) and m.path])

    def _remove(self, files: list[WrittenFile]) -> None:
        for file in files:
            Path(self._table, file.path).unlink(missing_ok=True)
