"""Ranges of the binlog between two transactions: what a partition reads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from replica_client.errors import DataLossError
from replica_client.gtid import Gtid, GtidSet, MariadbGtid, MariadbGtidSet
from replica_client.position.position import Position
from replica_client.readers.binlog_file import BinlogFileReader
from replica_client.readers.file_bytes import BinlogFile
from replica_client.readers.start import Start
from replica_client.readers.transaction import Transaction
from replica_client.schema.history import SchemaHistory
from replica_client.spark.envelope import EnvelopeBatches
from replica_client.spark.file_list import ListedFile
from replica_client.spark.live_range import live_transactions
from replica_client.spark.options import SourceOptions
from replica_client.spark.typed import TypedBatches, TypedTable


@dataclass(frozen=True)
class Filters:
    """What is passed over inside the ranges.

    Attributes:
        since: transactions before this time, in seconds since 1970, or None.
        done: transactions of this GTID set, or None.
    """

    since: int | None = None
    done: GtidSet | MariadbGtidSet | None = None

    def passes(self, transaction: Transaction) -> bool:
        """Whether a transaction is wanted."""
        if self.since is not None and transaction.timestamp < self.since:
            return False
        if self.done is None or not transaction.gtid:
            return True
        if isinstance(self.done, GtidSet):
            return Gtid.parse(transaction.gtid) not in self.done
        return MariadbGtid.parse(transaction.gtid) not in self.done


class BinlogRange(InputPartition):
    """A partition: from one point between transactions to another.

    Args:
        start: of the first transaction.
        stop: the first transaction that begins there or later is not read; None: all are.
        files: those that it touches, with the sizes that they had; empty for a live source.
        number: of the partition.
        schema: the schema history at the start, as ``SchemaHistory.to_state`` gives it.
    """

    def __init__(
        self,
        start: Position,
        stop: Position | None,
        files: tuple[ListedFile, ...] = (),
        number: int = 0,
        schema: str | None = None,
    ) -> None:
        super().__init__(None)
        self.start = start
        self.stop = stop
        self.files = files
        self.number = number
        self.schema = schema

    def __repr__(self) -> str:
        return f"BinlogRange({self.start} to {self.stop or 'end'})"


def transactions(source: SourceOptions, part: BinlogRange) -> Iterator[Transaction]:
    """The transactions of a range, in order, and no other.

    Raises:
        ReplicaClientError: the range cannot be read to its end.
    """
    if source.connect is not None:
        yield from live_transactions(source, part.start, part.stop, part.number)
        return
    for file in part.files:
        size = os.stat(file.path).st_size if os.path.exists(file.path) else -1
        if size < file.size:
            now = "is gone" if size < 0 else f"has {size} bytes"
            raise DataLossError(
                f"{file.path} had {file.size} bytes when the query was planned and {now} now; "
                "restore it, then start again"
            )
    files = [BinlogFile(file.name, Path(file.path)) for file in part.files]
    stop: Start = part.stop or "latest"
    history = None if part.schema is None else SchemaHistory.from_state(part.schema)
    reader = BinlogFileReader(files, source.assembly(), source.decode, part.start, stop, history)
    yield from reader.transactions()


def batches(
    source: SourceOptions, table: TypedTable | None, filters: Filters, part: BinlogRange
) -> Iterator[pa.RecordBatch]:
    """The record batches of a range."""
    builder: EnvelopeBatches | TypedBatches = (
        EnvelopeBatches() if table is None else TypedBatches(table, source.decode)
    )
    for transaction in transactions(source, part):
        if filters.passes(transaction):
            yield from builder.add(transaction)
    yield from builder.finish()
