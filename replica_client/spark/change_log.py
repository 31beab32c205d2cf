"""The change log: a Delta table that takes each micro-batch once.

Executors write Parquet files; the driver adds all files of a batch to the table in one commit that
also records (pipeline, batch number), so that readers see whole batches and a batch that Spark
writes again is passed over. Files of a batch that was never committed belong to no version of the
table; a vacuum removes them.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, Transaction
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from replica_client.errors import SinkError

FORMAT = "replica-client-change-log"
_STATISTICS = ("_commit_version", "_file", "database", "table")
_MAX_STATISTIC = 160  # a _commit_version has 63 characters and the file's base name
COMPRESSION = "zstd"
_COMMIT_ATTEMPTS = 5


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
            _sync(path)
        except OSError as error:
            path.unlink(missing_ok=True)
            reason = error.strerror or error
            raise SinkError(f"{path}: {reason}; what was committed before is whole") from None
        found = path.stat()
        return WrittenFile(name, found.st_size, int(found.st_mtime * 1000), statistics.text())

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Add a batch's files to the table, all or none; called on the driver."""
        files = [m for m in messages if isinstance(m, WrittenFile) and m.path]
        for attempt in range(_COMMIT_ATTEMPTS):
            try:
                self._commit(files, batchId)
                return
            except CommitFailedError as error:
                # Somebody else committed meanwhile: look again whether the batch is done.
                if attempt + 1 == _COMMIT_ATTEMPTS:
                    raise self._failed(batchId, error) from None
            except (DeltaError, OSError) as error:
                raise self._failed(batchId, error) from None

    def _commit(self, files: list[WrittenFile], batch: int) -> None:
        table = DeltaTable(self._table)
        done = table.transaction_version(self._pipeline)
        if done is not None and done >= batch:
            self._remove(files)  # a batch that was written again after it was committed
            return
        actions: list[Any] = [
            AddAction(file.path, file.size, {}, file.modified, True, file.statistics)
            for file in files
        ]
        table.create_write_transaction(
            actions,
            mode="append",
            schema=table.schema(),
            commit_properties=CommitProperties(
                app_transactions=[Transaction(self._pipeline, batch)], max_commit_retries=0
            ),
        )

    def _failed(self, batch: int, error: Exception) -> SinkError:
        text = " ".join(str(error).split())
        return SinkError(
            f"batch {batch} could not be committed to {self._table}: {text[:300]}; nothing of it is "
            "visible: mend the cause, then start again"
        )

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Remove what a failed batch has written."""
        self._remove([m for m in messages if isinstance(m, WrittenFile) and m.path])

    def _remove(self, files: list[WrittenFile]) -> None:
        for file in files:
            Path(self._table, file.path).unlink(missing_ok=True)


class Statistics:
    """What a file's rows lie between, for readers that skip files."""

    def __init__(self) -> None:
        self._rows = 0
        self._least: dict[str, str] = {}
        self._most: dict[str, str] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows into account."""
        self._rows += batch.num_rows
        for name in _STATISTICS:
            found = pc.min_max(batch.column(name)).as_py()
            least, most = found["min"], found["max"]
            self._least[name] = min(self._least.get(name, least), least)
            self._most[name] = max(self._most.get(name, most), most)

    def text(self) -> str:
        """As Delta keeps it."""
        short = [name for name in self._most if len(self._most[name]) <= _MAX_STATISTIC]
        return json.dumps(
            {
                "numRecords": self._rows,
                "minValues": {name: self._least[name][:_MAX_STATISTIC] for name in short},
                "maxValues": {name: self._most[name] for name in short},
                "nullCount": dict.fromkeys(_STATISTICS, 0),
            }
        )


def commit_files(table: str, application: str, number: int, actions: Sequence[AddAction]) -> None:
    """Add files to a change log, all or none, unless (application, number) is there already.

    Raises:
        SinkError: it failed; nothing of it is visible.
    """
    for attempt in range(_COMMIT_ATTEMPTS):
        try:
            delta = DeltaTable(table)
            done = delta.transaction_version(application)
            if done is not None and done >= number:
                return
            delta.create_write_transaction(
                list(actions),
                mode="append",
                schema=delta.schema(),
                commit_properties=CommitProperties(
                    app_transactions=[Transaction(application, number)], max_commit_retries=0
                ),
            )
            return
        except (DeltaError, OSError) as error:
            if not isinstance(error, CommitFailedError) or attempt + 1 == _COMMIT_ATTEMPTS:
                text = " ".join(str(error).split())
                raise SinkError(f"{table}: the commit failed: {text[:300]}") from None


def _sync(path: Path) -> None:
    for target in (path, path.parent):
        number = os.open(target, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def open_change_log(directory: Path, schema: pa.Schema) -> DeltaTable:
    """The change log in a directory, created when there is none.

    Raises:
        SinkError: it cannot be made, or something else is there.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        return DeltaTable.create(
            str(directory),
            schema,
            mode="ignore",
            name="change_log",
            description="Row changes from a binlog, in the envelope of replica_client",
            configuration={"delta.dataSkippingStatsColumns": ",".join(_STATISTICS)},
        )
    except (DeltaError, OSError) as error:
        text = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise SinkError(f"{directory}: the change log cannot be made: {text}") from None
