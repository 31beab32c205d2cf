"""Ranges of the binlog as change files, which the pipeline commits to the change log.

Files of a task that failed belong to no version of the change log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from replica_client.errors import SinkError
from replica_client.lake.change_files import ChangeFile, ChangeFileBuilder, ChangeFileWriter
from replica_client.lake.change_log_files import CHANGE_LOG_SCHEMA
from replica_client.lake.source.envelope import (
    MAX_ROWS,
    BatchColumns,
    loss_row,
    lost_batch,
    statement_row,
)
from replica_client.lake.source.read_ranges import BinlogRange, range_batches
from replica_client.lake.source_options import SourceOptions
from replica_client.options import options_of
from replica_client.protocol.binlog.context import DecodeOptions
from replica_client.rows.batching import BatchAssembler
from replica_client.schema.history import SchemaChange
from replica_client.storage.location import Location
from replica_client.stream.position.losses import Loss
from replica_client.stream.transactions.loss_watch import batches_of
from replica_client.stream.transactions.transaction import Transaction


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
        self._others = BatchColumns(CHANGE_LOG_SCHEMA)

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
                self._others.add(statement_row(transaction, item, index))
            elif isinstance(item, Loss):
                self._others.add(loss_row(transaction, item, index))
        self._add_others()
        return transaction.__replace__(rows=())

    def _add_others(self) -> None:
        if len(self._others):
            rows = self._part.filters.apply(self._others.finish())
            if rows.num_rows:
                self._writer.add_others(rows)

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
            writer.add_others(lost_batch(part.start, part.stop, part.schema))
        else:
            changes = FileChanges(source.decode, part, writer)
            with options_of("spark"):
                for _ in range_batches(source, part, None, changes):
                    pass
        return writer.finish()
    except OSError as error:
        reason = error.strerror or error
        raise SinkError(f"{log}: {reason}; what was committed before is whole") from None


@dataclass(frozen=True)
class RangeTask:
    """A range to be written into files of the change log; it can be sent to executors."""

    source: SourceOptions
    part: BinlogRange
    log: Location


def run_range(task: RangeTask) -> list[ChangeFile]:
    """Write the files of a range; see :func:`write_range`."""
    return write_range(task.source, task.part, task.log)
