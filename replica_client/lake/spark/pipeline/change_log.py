"""The change log: a Delta table that takes each micro-batch once.

The tasks that decode write Parquet files, and Spark's rows tell of these
(:mod:`replica_client.lake.spark.source.change_file_source`); the driver adds all files of a batch to the table in
one commit that also records (pipeline, batch number), so that readers see whole batches and a batch that Spark
writes again is passed over. Files of a batch that was never committed belong to no version of the
table; a vacuum removes them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from deltalake.transaction import AddAction
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from replica_client.lake.change_files import ChangeFile
from replica_client.lake.change_log_files import (
    commit_files,
    remove_uncommitted,
)
from replica_client.storage.location import Location, location

FORMAT = "replica-client-change-log"


@dataclass
class WrittenFiles(WriterCommitMessage):
    """The change files of one task."""

    files: tuple[ChangeFile, ...] = ()


class ChangeLogSink(DataSource):
    """Spark's side of the change log: ``writeStream.format("replica-client-change-log")``."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def streamWriter(self, schema: StructType, overwrite: bool) -> ChangeLogWriter:
        """Write one query's batches."""
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

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenFiles:
        """Take the files that a task wrote; called by executors."""
        files = []
        for batch in iterator:
            for text in batch.column("details").to_pylist():
                files.append(ChangeFile(**json.loads(text)))
        return WrittenFiles(tuple(files))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Add a batch's files to the table, all or none; called on the driver."""
        files = _files(messages)
        actions = [
            AddAction(file.path, file.size, {}, file.modified, True, file.statistics())
            for file in files
        ]
        if not commit_files(self._table, self._pipeline, batchId, actions):
            self._remove(files)  # a batch that was written again after it was committed

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Remove the files of a failed batch."""
        self._remove(_files(messages))

    def _remove(self, files: Sequence[ChangeFile]) -> None:
        # A commit whose answer was lost may be there.
        remove_uncommitted(self._table, [file.path for file in files])


def _files(messages: Sequence[WriterCommitMessage | None]) -> list[ChangeFile]:
    return [file for one in messages if isinstance(one, WrittenFiles) for file in one.files]
