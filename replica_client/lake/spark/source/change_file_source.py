"""The pipeline's side of the data source: tasks write change files, and Spark gets one row for each.

Rows of the source pass through no Java and no text: what a micro-batch has is the list of the files that its tasks
wrote, which the change log's writer commits. Files of a task that failed belong to no version of the change log.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from replica_client.errors import SinkError
from replica_client.lake.change_files import ChangeFile, ChangeFileBuilder, ChangeFileWriter
from replica_client.lake.source_options import SourceOptions
from replica_client.lake.spark.source.data_source import BinlogDataSource
from replica_client.lake.spark.source.lost_range import loss_row, lost_batch
from replica_client.lake.spark.source.read_ranges import BinlogRange, range_batches
from replica_client.lake.spark.source.readers import BinlogStreamReader, settle
from replica_client.lake.spark.source.shapes import (
    ENVELOPE_SCHEMA,
    BatchColumns,
    TypedTable,
    arrow_schema_of,
    statement_row,
)
from replica_client.options import options_of
from replica_client.protocol.binlog.context import DecodeOptions
from replica_client.rows.batching import BatchAssembler
from replica_client.schema.history import SchemaChange
from replica_client.storage.location import Location, location
from replica_client.stream.position.losses import Loss
from replica_client.stream.transactions.loss_watch import batches_of
from replica_client.stream.transactions.transaction import Transaction

FORMAT: Final = "replica-client-change-files"
LOG_OPTION: Final = "changeLog"
STORE_PREFIX: Final = "changeLog."
"""Begins the names of the options of the change log's store."""

FILES_SCHEMA: Final = StructType(
    [
        StructField("details", StringType(), False),
        StructField("changes", LongType(), False),
        StructField("_commit_timestamp", TimestampType(), False),
    ]
)
"""A file: what :class:`~replica_client.lake.change_files.ChangeFile` says as JSON, how many changes it has, and when
the last of them was committed."""

MAX_ROWS: Final = 16384


class FileChanges:
    """Takes the transactions of a range, and gives them to a writer of change files.

    Args:
        decode: how values are decoded.
        part: the range.
        writer: takes the decoded batches.

    Attributes:
        batches: takes the rows.
    """

    def __init__(self, decode: DecodeOptions, part: BinlogRange, writer: ChangeFileWriter) -> None:
        self.batches = BatchAssembler(MAX_ROWS, decode, ChangeFileBuilder)
        self._part = part
        self._writer = writer
        self._others = BatchColumns(ENVELOPE_SCHEMA)

    def keep_back(self, transaction: Transaction) -> Transaction:
        """Take a transaction with statements or losses, in its order; return the rest of it.

        Statements and losses are rows of the envelope, and lie between the change files of the rows around them.
        """
        if not (transaction.schema_changes or transaction.losses):
            return transaction
        statements: dict[int, int] = {}
        for item in batches_of(self.batches, transaction, notices=True):
            if isinstance(item, pa.RecordBatch):
                self._add_others()
                self._add((item,))
                continue
            index = statements.get(item.event_index, 0)
            statements[item.event_index] = index + 1
            if isinstance(item, SchemaChange):
                self._keep(statement_row(transaction, item, index))
            elif isinstance(item, Loss):
                self._keep(loss_row(transaction, item, index))
        self._add_others()
        return transaction.__replace__(rows=())

    def _add_others(self) -> None:
        if len(self._others):
            rows = self._part.filters.apply(self._others.finish())
            if rows.num_rows:
                self._writer.add_others(rows)

    def _keep(self, row: tuple[Any, ...]) -> None:
        for column, value in zip(self._others.values, row, strict=True):
            column.append(value)

    def _add(self, ready: Iterator[pa.RecordBatch] | Sequence[pa.RecordBatch]) -> None:
        for batch in ready:
            self._writer.add(self._part.filters.apply(batch))

    def take(self, ready: list[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
        """Take batches that became full; gives none."""
        self._add(ready)
        return iter(())

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Add the remaining batches to the files; yield none."""
        self._add(self.batches.flush())
        return iter(())


def write_range(source: SourceOptions, part: BinlogRange, log: Location) -> list[ChangeFile]:
    """Write the changes of a range into files.

    Raises:
        ReplicaClientError: the range cannot be read to its end, or a file not be written.
    """
    writer = ChangeFileWriter(log, part.number)
    try:
        if part.is_lost:
            assert part.stop is not None
            writer.add_others(lost_batch(part.start, part.stop, part.schema, None))
        else:
            changes = FileChanges(source.decode, part, writer)
            with options_of("spark"):
                for _ in range_batches(source, part, None, changes):
                    pass
        return writer.finish()
    except OSError as error:
        reason = error.strerror or error
        raise SinkError(f"{log}: {reason}; what was committed before is whole") from None


def described(files: Sequence[ChangeFile]) -> pa.RecordBatch:
    """Return change files as a batch of :data:`FILES_SCHEMA`."""
    schema = arrow_schema_of(FILES_SCHEMA)
    committed = pa.array([file.committed for file in files], pa.int64())
    return pa.RecordBatch.from_arrays(
        [
            pa.array([json.dumps(asdict(file)) for file in files], pa.string()),
            pa.array([file.changes for file in files], pa.int64()),
            committed.cast(schema.field(2).type),
        ],
        schema=schema,
    )


class ChangeFileReader(BinlogStreamReader):
    """Reads ranges into files.

    Args:
        options: of the query.
        log: directory of the change log.
    """

    def __init__(self, options: SourceOptions, log: Location) -> None:
        super().__init__(options, None)
        self._log = log

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Write the change files of a range and yield one batch that describes them."""
        assert isinstance(partition, BinlogRange)
        files = write_range(self._options, partition, self._log)
        if files:
            yield described(files)
        settle()


class ChangeFileSource(BinlogDataSource):
    """``spark.readStream.format("replica-client-change-files")``: the pipeline's own.

    Args:
        options: of the data source, with the directory of the change log and the options of its store.
    """

    def __init__(self, options: dict[str, str]) -> None:
        # Spark gives names of options in small letters, too.
        given = {name.lower(): value for name, value in options.items()}
        prefix = STORE_PREFIX.lower()
        stored = {k.removeprefix(prefix): v for k, v in given.items() if k.startswith(prefix)}
        self._log = location(given[LOG_OPTION.lower()], stored)
        rest = {
            name: value
            for name, value in options.items()
            if name.lower() != LOG_OPTION.lower() and not name.lower().startswith(prefix)
        }
        super().__init__(rest)

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """:data:`FILES_SCHEMA`."""
        return FILES_SCHEMA

    def _stream_reader(self, source: SourceOptions, table: TypedTable | None) -> BinlogStreamReader:
        return ChangeFileReader(source, self._log)
