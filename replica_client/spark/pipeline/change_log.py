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
from itertools import chain

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
from replica_client.lake.change_log_files import (
    COMPRESSION,
    Statistics,
    commit_files,
    remove_uncommitted,
)
from replica_client.lake.parquet_files import new_file
from replica_client.storage.location import Location, location

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
        options = {
            name.removeprefix("storage."): value
            for name, value in self.options.items()
            if name.startswith("storage.")
        }
        return ChangeLogWriter(location(self.options["table"], options), self.options["pipeline"])


class ChangeLogWriter(DataSourceStreamArrowWriter):
    """Writes micro-batches to a change log.

    Args:
        table: directory of the Delta table, which must exist.
        pipeline: id under which batches are counted.
    """

    def __init__(self, table: Location, pipeline: str) -> None:
        self._table = table
        self._pipeline = pipeline

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenFile:
        """Write a task's rows into a file; called by executors."""
        name = f"part-{uuid.uuid4().hex}.{COMPRESSION}.parquet"
        path = self._table / name
        rows = (batch for batch in iterator if batch.num_rows)
        first = next(rows, None)
        if first is None:
            return WrittenFile()
        statistics = Statistics()
        try:
            with new_file(path) as made:
                with pq.ParquetWriter(made.stream, first.schema, compression=COMPRESSION) as writer:
                    for batch in chain((first,), rows):
                        writer.write_batch(batch)
                        statistics.add(batch)
        except OSError as error:
            reason = error.strerror or error
            raise SinkError(f"{path}: {reason}; what was committed before is whole") from None
        return WrittenFile(name, made.size, made.modified, statistics.text())

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
        # A commit whose answer was lost may be there.
        remove_uncommitted(self._table, [file.path for file in files])
